"""``stet config show|path|check|reload``: the daemon's options, and where each one comes from.

Only the daemon knows its options, and a client never imports the daemon's modules. So this module
runs ``stetd --show-config`` as a child process. That works without a running daemon, and
tells why a daemon does not start. The output describes a daemon that is started from this
environment; a service has the environment of its unit.

Exit status: 1 when the configuration can't be used. ``--json`` prints the JSON of stetd
(``stetd.config.settings``): ``{"path", "exists", "options"}`` or ``{"path", "ok", "faults"}``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from stet import calls
from stet.cli import asking
from stet.cli.output import Output
from stet.cli.usage import Arguments
from stet.errors import StetError
from stet.service.socket_path import config_path
from stet.service.spawn import STETD
from stet.terminal.spans import Line, Span, visible, visible_lines
from stet.wire.results import ReloadResult

_MISSING = "not there: every default holds"


def path(_arguments: Arguments, output: Output) -> None:
    """Print where the daemon looks for its configuration file."""
    found = os.path.abspath(config_path())
    output.tell({"path": found, "exists": os.path.exists(found)}, [(Span(visible(found)),)])


def show(_arguments: Arguments, output: Output) -> int:
    """Print every option with its value, its source and its meaning."""
    return _tell(ask_stetd("--show-config"), output, _option_lines)


def check(arguments: Arguments, output: Output) -> int:
    """Print the faults of a configuration file, by default the person's own."""
    file = arguments.file
    given = [] if file is None else [os.path.join(arguments.directory, file)]
    said = ask_stetd("--check-config", *given)
    found = "ok" if os.path.exists(said["path"]) else _MISSING
    return _tell(said, output, lambda _: [(Span(f"{visible(said['path'])}: {found}"),)])


def reload(arguments: Arguments, output: Output) -> int:
    """Let the running daemon read its configuration again."""
    with asking.person(arguments, workspace=False, start=False) as session:
        result = session.perform(calls.reload())
    output.tell(result, _reload_lines(result) if result.error is None else ())
    if result.error is not None:
        print(f"stet: nothing was taken over:\n{visible_lines(result.error)}", file=sys.stderr)
    return 0 if result.error is None else 1


def ask_stetd(*arguments: str) -> dict[str, Any]:
    """Run this installation's ``stetd`` and return its JSON. Raises StetError if that fails."""
    try:
        done = subprocess.run([*STETD, *arguments], stdin=subprocess.DEVNULL, capture_output=True)
    except OSError as error:
        raise StetError(f"stetd can't be run: {error.strerror}") from error
    try:
        return msgspec.json.decode(done.stdout, type=dict[str, Any])
    except msgspec.DecodeError as error:
        words = done.stderr.decode(errors="replace").strip()
        raise StetError(f"stetd can't say what its options are: {words}") from error


def _tell(
    said: dict[str, Any], output: Output, lines: Callable[[dict[str, Any]], Iterable[Line]]
) -> int:
    """Print stetd's output, or the faults of the configuration; return the exit status."""
    faults = said.get("faults", [])
    output.tell(said, () if faults else lines(said))
    for fault in faults:
        print(f"stet: {visible_lines(fault['message'])}", file=sys.stderr)
    return 1 if faults else 0


def _option_lines(said: dict[str, Any]) -> Iterator[Line]:
    there = "" if said["exists"] else f" ({_MISSING})"
    yield (Span(f"# {visible(said['path'])}{there}", "dim"),)
    for option in said["options"]:
        source, own = "default", option["source"] != "default"
        if own:
            is_variable = option["source"] == "environment"
            where = option["variable"] if is_variable else f"line {option['line']}"
            source = f"{where}; default {_toml(option['default'])}"
        value = _toml(option["value"])
        unit = f" {option['unit']}" if option["unit"] else ""
        yield (
            Span(f"{option['name']} = {visible(value)}", "bold" if own else ""),
            Span(unit),
            Span(f"  ({source})", "dim"),
        )
        restart = " Needs a restart." if option["restart"] else ""
        yield (Span(f"    {option['description']}{restart}", "dim"),)


def _toml(value: Any) -> str:
    """A value in the syntax of the file, except for the escapes of a TOML string."""
    return f"{value:.15g}" if isinstance(value, float) else msgspec.json.encode(value).decode()


def _reload_lines(result: ReloadResult) -> Iterator[Line]:
    yield (Span(f"read again: {visible(result.path)}"),)
    for each in result.changed:
        before, after = (_toml(value) for value in (each.before, each.after))
        yield (Span(f"  {visible(each.option)}: {visible(before)} -> {visible(after)}"),)
    for name in result.restart:
        yield (Span(f"  {visible(name)} needs a restart", "yellow"),)
    if not (result.changed or result.restart):
        yield (Span("  nothing has changed"),)
