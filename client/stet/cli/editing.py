"""``stet patch``, ``read`` and ``clip``: what agents do, from the command line."""

from __future__ import annotations

import argparse
import json
import sys
import uuid
from typing import Any

from stet import calls, render
from stet.calls import Call
from stet.cli import asking
from stet.cli.output import Output
from stet.cli.usage import UsageError
from stet.wire.results import EditResult


def patch(arguments: argparse.Namespace, output: Output) -> None:
    """Send the JSON of a patch call: its params, or with --path the list of patches."""
    source = _json(arguments.file)
    if arguments.path is not None:
        params: dict[str, Any] = {"path": arguments.path, "patches": source}
    elif isinstance(source, dict):
        params = source
    else:
        raise UsageError(
            "without --path the input must be the params of patch: "
            '{"path": "src/a.py", "patches": [{"operation": "replace", ..}]}. '
            "To send the list alone, name the file: stet patch --path src/a.py"
        )
    if arguments.message is not None:
        params["message"] = arguments.message
    if arguments.preview:
        params["preview"] = True
    params.setdefault("request_id", uuid.uuid4().hex)
    with asking.agent(arguments) as session:
        result = asking.ask(session, Call("patch", params, EditResult), output)
    if result is not None:
        output.lines(render.edited(result, preview=params.get("preview") is True))


def read(arguments: argparse.Namespace, output: Output) -> None:
    """Print a file, or some lines of it, as the daemon sees it."""
    call = calls.read(arguments.path, at=arguments.at, start=arguments.start, end=arguments.end)
    with asking.agent(arguments) as session:
        result = asking.ask(session, call, output)
    if result is not None:
        output.content(result.text)


def clip_list(arguments: argparse.Namespace, output: Output) -> None:
    """Print the names and sizes of the session's clipboards."""
    with asking.agent(arguments) as session:
        result = asking.ask(session, calls.clipboard_list(), output)
    if result is not None:
        output.lines(render.clipboards(result.clipboards))


def clip_show(arguments: argparse.Namespace, output: Output) -> None:
    """Print a clipboard's text."""
    with asking.agent(arguments) as session:
        result = asking.ask(session, calls.clipboard_get(arguments.name), output)
    if result is not None:
        output.content(result.text)


def clip_set(arguments: argparse.Namespace, output: Output) -> None:
    """Put a file's text, or standard input, into a clipboard."""
    text = _text(arguments.file)
    with asking.agent(arguments) as session:
        asking.ask(session, calls.clipboard_set(arguments.name, text), output)


def clip_rm(arguments: argparse.Namespace, output: Output) -> None:
    """Remove a clipboard."""
    with asking.agent(arguments) as session:
        asking.ask(session, calls.clipboard_delete(arguments.name), output)


def _text(name: str) -> str:
    """A file's text, or with "-" that of standard input; line ends are kept."""
    try:
        if name == "-":
            data = sys.stdin.buffer.read()
        else:
            with open(name, "rb") as file:
                data = file.read()
        return data.decode()
    except OSError as error:
        raise UsageError(f"cannot read {name}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} is not UTF-8: {error}") from error


def _json(name: str) -> Any:
    where = "standard input" if name == "-" else name
    try:
        return json.loads(_text(name))
    except ValueError as error:
        raise UsageError(f"{where} is not JSON: {error}") from error
    except RecursionError as error:
        raise UsageError(f"{where} nests too deep") from error
