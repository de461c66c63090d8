"""The manual, made from the program: docs/commands.md, docs/api.md, the table of
docs/configuration.md, and the pages for man(1).

python scripts/manual.py          writes them
python scripts/manual.py --check  says which are not what they should be, by the exit status
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from enum import Enum
from itertools import chain
from pathlib import Path

import stet
from stet import errors
from stet.cli.arguments import COMMANDS, GROUPS
from stet.cli.parser import Parser
from stet.session.blocking import Session  # before stetd: its methods get no signatures after it
from stet.version import __version__
from stetd.cli import parser as daemon_parser
from stetd.config.settings import OPTIONS, unit_of

Parsers = dict[str, argparse.ArgumentParser]

CHECKOUT = Path(__file__).resolve().parents[1]
_STATUS = (
    ("0", "done"),
    ("1", "refused: the reason is on standard error"),
    ("2", "wrong usage"),
    ("3", "no daemon could be reached or started"),
    ("4", "a conflict: nothing was changed"),
)
_FILES = (
    ("$XDG_RUNTIME_DIR/stet/", "agent.sock for agents, control.sock for the person"),
    ("~/.local/state/stet/", "journal, shadow repositories, log"),
    ("~/.config/stet/config.toml", "configuration"),
)
#: Options of every command, which the reference says once.
_COMMON = {"-h", "--json", "--no-pager", "--dates", "-C"}
_STETD = (
    "The daemon in the foreground. Every stet command starts it when none runs; as a service it is "
    "started by systemd (stet service install). Agents send edits to agent.sock. Each call is one "
    "commit in a Git repository beside the workspace. SIGTERM finishes the calls in work, SIGHUP "
    "reads the configuration again."
)


def pages() -> dict[Path, str]:
    """Every file, and what it should be."""
    parsers, shown = Parser().parsers, Parser().parsers
    docs, man = CHECKOUT / "docs", CHECKOUT / "man"
    made = {docs / "commands.md": "".join(_reference(shown)), docs / "api.md": "".join(_api())}
    made[docs / "configuration.md"] = _configuration((docs / "configuration.md").read_text())
    made[man / "stet.1"] = _overview()
    made[man / "stetd.1"] = _page(
        "stetd", "edit files for coding agents", {"stetd": daemon_parser()}
    )
    for name in chain(*GROUPS.values()):
        what = COMMANDS[name].what
        made[man / f"stet-{name}.1"] = _page(f"stet-{name}", what, _family(name, parsers))
    return made


def _family(name: str, parsers: Parsers) -> Parsers:
    """The command's own parser, and those of the commands that it has."""
    return {each: of for each, of in parsers.items() if each.split()[0] == name}


def _reference(parsers: Parsers) -> Iterator[str]:
    yield "# Commands\n\nMade from the program by `scripts/manual.py`. "
    yield "[In short](command-line.md). Every command takes these options:\n"
    options = parsers["status"].format_help().partition("options:\n")[2].partition("\n\n")[0]
    yield f"\n```text\n{options}\n```\n"
    for action in chain(
        *(each._actions for each in parsers.values())
    ):  # no public way to list them
        if not _COMMON.isdisjoint(action.option_strings):
            action.help = argparse.SUPPRESS
    for title, names in GROUPS.items():
        yield f"\n## {title}\n"
        for parser in chain(*(_family(name, parsers).values() for name in names)):
            yield _usage(parser)
    yield "\n## The daemon\n" + _usage(daemon_parser())


def _usage(parser: argparse.ArgumentParser) -> str:
    return f"\n### {parser.prog}\n\n```text\n{parser.format_help().rstrip()}\n```\n"


def _configuration(page: str) -> str:
    rows = ["| key | default | unit | |", "|---|---|---|---|"]
    for name, option in OPTIONS.items():
        default = json.dumps(option.default)  # which is TOML, too
        rows.append(f"| `{name}` | `{default}` | {unit_of(name)} | {option.description} |")
    table = "\n".join(rows)
    return re.sub(r"(^\|.*\n)+", lambda _: table + "\n", page, flags=re.MULTILINE)


def _api() -> Iterator[str]:
    yield "# Python API\n\nMade from the program by `scripts/manual.py`. "
    yield "[With examples](python.md). `stet.aio` has the same `connect` and session, awaited, "
    yield "but for `perform_all`.\n"
    yield "\n## Functions\n"
    for name in ("connect", "replace", "append_eof", "prepend_bof", "overwrite", "change"):
        yield from _documented(f"stet.{name}", getattr(stet, name))
    yield "\n## Session\n"
    for name, method in inspect.getmembers(Session, callable):
        if not name.startswith("_"):
            yield from _documented(name, method)
    yield "\n## Errors\n\n| class | kind | of |\n|---|---|---|\n"
    for name in errors.__all__:
        error = getattr(errors, name)
        yield f"| `stet.{name}` | `{error.KIND}` | `{error.__base__.__name__}` |\n"


def _documented(name: str, what: Callable[..., object]) -> Iterator[str]:
    signature = inspect.signature(what)
    given, keyword = [], False
    for each in signature.parameters.values():
        if each.kind is each.KEYWORD_ONLY and not keyword:
            given.append("*")
            keyword = True
        if each.name != "self":
            given.append(_parameter(each))
    text = re.sub(r":\w+:`(.+?)`", r"`\1`", inspect.getdoc(what) or "").replace("``", "`")
    lines = "".join(f"    {each},\n" for each in given)
    call = f"{name}(\n{lines})" if given else f"{name}()"
    result = str(signature.return_annotation).replace("'", "")
    yield f"\n### {name.removeprefix('stet.')}\n\n```python\n{call} -> {result}\n```\n\n{text}\n"


def _parameter(given: inspect.Parameter) -> str:
    stars = str(given).partition(given.name)[0]
    default = given.default
    if default is given.empty:
        return f"{stars}{given.name}: {given.annotation}"
    value = default.value if isinstance(default, Enum) else default
    return f"{given.name}: {given.annotation} = {value!r}"


def _overview() -> str:
    lines = [
        f'.TH STET 1 "" "stet {__version__}" "stet"',
        ".SH NAME",
        "stet \\- see what agents did to your files, and take any of it back",
        ".SH SYNOPSIS",
        ".B stet",
        "[COMMAND] [OPTION ...]",
        ".SH DESCRIPTION",
        "Without a command: where you are, in five lines. Each command has a page of its own.",
    ]
    for title, names in GROUPS.items():
        lines.append(f".SS {_roff(title)}")
        for name in names:
            lines += [".TP", f".BR stet\\-{_roff(name)} (1)", _roff(COMMANDS[name].what)]
    lines += [".SH EXIT STATUS"]
    for number, what in _STATUS:
        lines += [".TP", f".B {number}", _roff(what)]
    lines += [".SH FILES"]
    for path, what in _FILES:
        lines += [".TP", f".I {_roff(path)}", _roff(what)]
    return "\n".join([*lines, ".SH SEE ALSO", ".BR stetd (1)", ""])


def _page(title: str, what: str, parsers: Parsers) -> str:
    """A page for the command that comes first; the others are its own commands."""
    name, *own = parsers
    lines = [f'.TH {_roff(title.upper())} 1 "" "stet {__version__}" "stet"']
    lines += [".SH NAME", f"{_roff(title)} \\- {_roff(what)}", ".SH SYNOPSIS", ".nh", ".ad l"]
    for each in own or [name]:
        usage = re.sub(r"\s+", " ", parsers[each].format_usage().removeprefix("usage: ")).strip()
        # A line ends between two options, not within one.
        unbroken = re.sub(r"\[.*?\]", lambda found: found[0].replace(" ", r"\ "), _roff(usage))
        lines += [".PP", unbroken]
    described = parsers[name].description or ""
    lines += [".SH DESCRIPTION", _roff(_STETD if name == "stetd" else described)]
    for each in own or [name]:
        if own:
            lines += [f".SS {_roff(parsers[each].prog)}", _roff(parsers[each].description or "")]
        options = parsers[each].format_help().split("\n\n", 2)[2].partition("examples:")[0]
        lines += [".PP", ".nf", *map(_roff, options.rstrip().split("\n")), ".fi"]
    if name in COMMANDS and COMMANDS[name].examples:
        examples = (_roff(f"stet {each}") for each in COMMANDS[name].examples)
        lines += [".SH EXAMPLES", ".nf", *examples, ".fi"]
    return "\n".join([*lines, ".SH SEE ALSO", ".BR stet (1)", ""])


def _roff(text: str) -> str:
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace('"', "\\(dq")
    return "\\&" + escaped if escaped[:1] in (".", "'") else escaped


def main() -> int:
    """Write the pages, or compare them; the exit status."""
    os.environ["COLUMNS"] = "80"
    made = pages()
    wrong = [path for path, text in made.items() if not path.is_file() or path.read_text() != text]
    stale = [path for path in (CHECKOUT / "man").glob("*.1") if path not in made]
    if "--check" in sys.argv[1:]:
        for path in [*wrong, *stale]:
            print(f"{path.relative_to(CHECKOUT)}: run python scripts/manual.py")
        return 1 if wrong or stale else 0
    for path in wrong:
        path.parent.mkdir(exist_ok=True)
        path.write_text(made[path])
    for path in stale:
        path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
