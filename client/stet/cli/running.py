"""Carrying out one ``stet`` command: its exit status, and errors as words and exit status.

:mod:`stet.cli.arguments` says which commands there are and which function carries each
one out. This module runs it and turns errors into exit status; nothing else does. What the exit
status says: :mod:`stet.cli`.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from stet import quick_start  # noqa: F401 - before anything loads msgspec
from stet.cli.arguments import parse
from stet.cli.output import Output
from stet.cli.usage import Arguments, UsageError
from stet.errors import Conflict, StetError, TransportError
from stet.terminal.spans import visible, visible_lines

DONE, REFUSED, USAGE, UNREACHABLE, CONFLICT = range(5)


def run(argv: Sequence[str]) -> int:
    """Carry out one command; the exit status."""
    _open_what_is_closed()
    arguments = parse(argv)
    output = Output(as_json=arguments.json, pager=not arguments.no_pager, dates=arguments.dates)
    try:
        if not os.path.isdir(arguments.directory):
            raise UsageError(f"-C: {arguments.directory} is not a directory")
        module, _, function = arguments.run.partition(".")
        # Only now, and only this one: all together take longer than most commands.
        command = getattr(import_module(f"stet.cli.{module}"), function)
        gc.enable()  # see stet.cli
        status: int = command(arguments, output) or DONE
        sys.stdout.flush()
    except StetError as error:
        if output.as_json:
            output.value(
                {"error": {"code": error.code, "message": error.message, "data": error.data}}
            )
        _complain(error, arguments)
        if isinstance(error, TransportError):
            return UNREACHABLE
        return CONFLICT if isinstance(error, Conflict) else REFUSED
    except UsageError as error:
        print(f"stet: {visible_lines(str(error))}", file=sys.stderr)
        if "stet " not in str(error):
            print(f"Try: {arguments.prog} --help", file=sys.stderr)
        return USAGE
    except BrokenPipeError:
        # Whoever read the output has seen enough. Python would complain at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except OSError as error:
        print(f"stet: {visible(_own_trouble(error))}", file=sys.stderr)
        return REFUSED
    except KeyboardInterrupt:
        return 130
    return status


def _open_what_is_closed() -> None:
    """Give this process the standard streams that it was started without."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115


def _own_trouble(error: OSError) -> str:
    """What this process itself has met; what the daemon meets is a StetError."""
    try:
        os.getcwd()
    except OSError:
        return "the directory that you are in is not there any more; name another one with -C"
    return f"{error.filename or 'standard output'}: {error.strerror}"


def _complain(error: StetError, arguments: Arguments) -> None:
    from stet.terminal.refusals import as_typed, helping

    print(f"stet: {visible_lines(as_typed(error.message))}", file=sys.stderr)
    if isinstance(error, Conflict):
        for conflict in error.conflicts:
            for hunk in conflict.get("hunks", []):
                text = f"{conflict.get('path', '')}:\n{str(hunk).rstrip(chr(10))}"
                print(visible_lines(text), file=sys.stderr)
    help_ = None if arguments.json else helping(error, arguments.prog)
    if help_ is not None:
        print(f"Try: {visible(help_)}", file=sys.stderr)
