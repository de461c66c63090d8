"""Carrying out one ``stet`` command: its exit status, and errors as words and exit status.

:mod:`stet.cli.arguments` says which commands there are and which function carries each
one out. This module runs it and turns errors into exit status; nothing else does. What the exit
status says: :mod:`stet.cli`.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from importlib import import_module

from stet import quick_start  # noqa: F401 - before anything loads msgspec
from stet.cli.arguments import parse
from stet.cli.output import Output
from stet.cli.usage import UsageError
from stet.errors import Conflict, StetError, TransportError, WorkspaceNotAllowed
from stet.terminal.render import visible

DONE, REFUSED, USAGE, UNREACHABLE, CONFLICT = range(5)


def run(argv: Sequence[str] | None = None) -> int:
    """Carry out one command; the exit status. ``argv`` None: this process's own words."""
    arguments = parse(sys.argv[1:] if argv is None else argv)
    output = Output(
        as_json=arguments.json,
        pager=not arguments.no_pager,
        dates=getattr(arguments, "dates", None),
    )
    try:
        module, _, function = arguments.run.partition(".")
        # Only now, and only this one: all together take longer than most commands.
        command = getattr(import_module(f"stet.cli.{module}"), function)
        status: int = command(arguments, output) or DONE
        sys.stdout.flush()
    except StetError as error:
        if output.as_json:
            output.value(
                {"error": {"code": error.code, "message": error.message, "data": error.data}}
            )
        _complain(error)
        return exit_status(error)
    except UsageError as error:
        print(f"stet: {visible_lines(str(error))}", file=sys.stderr)
        return USAGE
    except BrokenPipeError:
        # Whoever read the output has seen enough. Python would complain at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except KeyboardInterrupt:
        return 130
    return status


def exit_status(error: StetError) -> int:
    """The exit status for an error."""
    if isinstance(error, TransportError):
        return UNREACHABLE
    return CONFLICT if isinstance(error, Conflict) else REFUSED


#: What the daemon's messages call by the method's name, as a person types it.
_AS_TYPED = {
    "upgrade_decide": "stet approve, stet deny",
    "upgrade_list": "stet requests",
    "mode_set": "stet mode",
    "session_list": "stet sessions",
    "session_end": "stet sessions --end",
    "workspace_list": "stet workspaces",
    "workspace_allow": "stet init",
    "workspace_forget": "stet workspaces --forget",
    "pin_set": "stet pin",
    "pin_delete": "stet pin --delete",
    "pin_list": "stet pin --list",
}
_METHOD = re.compile(rf"`?\b({'|'.join(_AS_TYPED)})\b`?")


def _complain(error: StetError) -> None:
    message = _METHOD.sub(lambda found: _AS_TYPED[found[1]], error.message)
    print(f"stet: {visible_lines(message)}", file=sys.stderr)
    if isinstance(error, WorkspaceNotAllowed) and "stet init" not in error.message:
        print("To allow edits here, run: stet init", file=sys.stderr)
    if isinstance(error, Conflict):
        for conflict in error.conflicts:
            for hunk in conflict.get("hunks", []):
                text = f"{conflict.get('path', '')}:\n{str(hunk).rstrip(chr(10))}"
                print(visible_lines(text), file=sys.stderr)


def visible_lines(text: str) -> str:
    """A message of several lines with its control characters spelled out."""
    return "\n".join(visible(line) for line in text.split("\n"))
