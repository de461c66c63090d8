"""Commands that make agents' calls: the edit dialects, ``read`` and ``clip``; and ``stet mcp``."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from stet import calls
from stet.calls import Call
from stet.cli import asking
from stet.cli.output import Output
from stet.cli.usage import Arguments, UsageError
from stet.errors import StetError, ToolDisabled
from stet.terminal import render
from stet.terminal.spans import Line, visible
from stet.wire.results import EditResult

#: The list in a call's params, and an element of it, by methods.
_LISTED = {
    "patch": ("patches", '{"operation": "replace", ..}'),
    "patch_file": ("changes", '{"search": "..", "replace": ".."}'),
}


def send_json(arguments: Arguments, output: Output) -> None:
    """Send the JSON of a patch or patch_file call: its params, or with --path the list in them."""
    method = arguments.prog.removeprefix("stet ").replace("-", "_")
    listed, example = _LISTED[method]
    where = "standard input" if arguments.file == "-" else arguments.file
    try:
        source = json.loads(_text(arguments))
    except ValueError as error:
        raise UsageError(f"{where} is not JSON: {error}") from error
    except RecursionError as error:
        raise UsageError(f"{where} nests too deep") from error
    if arguments.path is not None:
        params: dict[str, Any] = {"path": arguments.path, listed: source}
    elif isinstance(source, dict):
        params = source
    else:
        raise UsageError(
            f"without --path the input must be the params of {method}: "
            f'{{"path": "src/a.py", "{listed}": [{example}]}}. '
            f"To send the list alone, name the file: {arguments.prog} --path src/a.py"
        )
    _edit(arguments, output, Call(method, params, EditResult), render.edited)


def patch_block(arguments: Arguments, output: Output) -> None:
    """Send a text with FIND/REPLACE blocks."""
    call = calls.patch_block(_text(arguments), arguments.path)
    _edit(arguments, output, call, render.edited)


def apply_patch(arguments: Arguments, output: Output) -> None:
    """Send a patch in Codex's format, from a file or from the argument itself.

    Standard output gets the text that Codex's apply_patch prints, standard error the warnings.
    """
    given: str = arguments.file
    patch = given if "*** Begin Patch" in given else _text(arguments)
    call = calls.apply_patch(patch, overwrite=arguments.overwrite, ambiguous=arguments.ambiguous)
    result = _edit(arguments, output, call, render.answered)
    if result is not None:
        for warning in result.warnings:
            print(f"warning: {visible(warning)}", file=sys.stderr)


def _edit(
    arguments: Arguments,
    output: Output,
    call: Call[EditResult],
    lines: Callable[..., Iterator[Line]],
) -> EditResult | None:
    """Perform an edit and print its result; return the result unless it was printed as JSON."""
    params = call.params
    if arguments.message is not None:
        params["message"] = arguments.message
    if arguments.preview:
        params["preview"] = True
    if params.get("request_id") is None:
        params["request_id"] = calls.new_id()
    with asking.agent(arguments) as session:
        try:
            result = asking.ask(session, call, output)
        except ToolDisabled:
            # The command that helps: if the workspace is restricted, it is about that.
            with suppress(StetError):  # what is told is the refusal
                alone = session.mode_get().workspace_mode == "unrestricted"
                arguments.session = session.session if alone else None
            raise
    if result is not None:
        # By the params: JSON input may ask for a preview, too.
        preview = True in (params.get("preview"), params.get("dry_run"))
        output.lines(lines(result, preview=preview, show_diff=output.diff))
    return result


def read(arguments: Arguments, output: Output) -> None:
    """Print a file, or some lines of it, as the daemon sees it."""
    with asking.agent(arguments) as session:
        at = arguments.at and asking.commit_named(session, arguments.at)
        call = calls.read(arguments.path, at=at, start=arguments.start, end=arguments.end)
        result = asking.ask(session, call, output)
    if result is not None:
        output.content(result.text)


def clip_list(arguments: Arguments, output: Output) -> None:
    """Print the names and sizes of the session's clipboards."""
    session = asking.agent(arguments)
    call = calls.clipboard_list()
    asking.show(session, call, output, lambda found: render.clipboards(found.clipboards))


def clip_show(arguments: Arguments, output: Output) -> None:
    """Print a clipboard's text."""
    with asking.agent(arguments) as session:
        result = asking.ask(session, calls.clipboard_get(arguments.name), output)
    if result is not None:
        output.content(result.text)


def clip_set(arguments: Arguments, output: Output) -> None:
    """Put a file's text, or standard input, into a clipboard."""
    call = calls.clipboard_set(arguments.name, _text(arguments))
    asking.show(asking.agent(arguments), call, output, lambda _: ())


def clip_rm(arguments: Arguments, output: Output) -> None:
    """Remove a clipboard."""
    call = calls.clipboard_delete(arguments.name)
    asking.show(asking.agent(arguments), call, output, lambda _: ())


def _text(arguments: Arguments) -> str:
    """Read FILE, or standard input for "-"; line ends are kept. Raises UsageError."""
    name: str = arguments.file
    try:
        if name == "-":
            data = sys.stdin.buffer.read()
        else:
            with open(os.path.join(arguments.directory, name), "rb") as file:
                data = file.read()
        return data.decode()
    except OSError as error:
        raise UsageError(f"cannot read {name}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        said = "standard input" if name == "-" else name
        raise UsageError(f"{said} is not UTF-8 (line {line})") from error


def mcp(arguments: Arguments, _output: Output) -> None:
    """Serve one client until it disconnects. All its calls are made as an agent."""
    # Imported here: no other command needs them.
    from stet.mcp import catalogue, server
    from stet.mcp.tool_calls import Options

    directory, tools = os.path.join(arguments.directory, arguments.workspace), arguments.tools
    options = Options(
        workspace=os.path.abspath(directory),
        session=arguments.session or os.environ.get("STET_SESSION") or None,
        own_session=f"mcp-{os.urandom(6).hex()}",
        agent=arguments.agent or os.environ.get("STET_AGENT") or None,
        dialects=catalogue.named_dialects(tools) if tools else catalogue.DIALECTS,
        secret=os.environ.get("STET_SECRET") or None,
        structured=arguments.structured,
    )
    server.run(options)
