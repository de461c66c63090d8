"""Runs one ``stet`` command, and turns its errors into messages and the exit status.

:mod:`stet.cli.arguments` finds the command's function. Only this module turns errors into exit
statuses; :mod:`stet.cli` lists them.
"""

from __future__ import annotations

import gc
import os
import signal
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
    """Run one command; return its exit status."""
    arguments = parse(argv)
    if arguments.run == "hook":  # options precede it; otherwise stet.cli runs it
        from stet.agents.hook import main

        return main(argv[[*argv].index("hook") + 1 :])
    output = Output(as_json=arguments.json, pager=not arguments.no_pager, dates=arguments.dates)
    try:
        if not os.path.isdir(arguments.directory):
            raise UsageError(f"-C: {arguments.directory} is not a directory")
        module, _, function = arguments.run.partition(".")
        # Only this module, and only now: importing all takes longer than most commands.
        command = getattr(import_module(f"stet.cli.{module}"), function)
        gc.enable()  # see stet.cli
        if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        status: int = command(arguments, output) or DONE
        sys.stdout.flush()
    except StetError as error:
        if output.as_json:
            output.value(
                {"error": {"code": error.code, "message": error.message, "data": error.data}}
            )
        _print_error(error, arguments)
        if isinstance(error, TransportError):
            return UNREACHABLE
        return CONFLICT if isinstance(error, Conflict) else REFUSED
    except UsageError as error:
        print(f"stet: {visible_lines(str(error))}", file=sys.stderr)
        if "stet " not in str(error):
            print(f"Try: {arguments.prog} --help", file=sys.stderr)
        return USAGE
    except BrokenPipeError:
        # The reader has closed the pipe. Without /dev/null Python would print an error at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except OSError as error:
        print(f"stet: {visible(_local_error(error))}", file=sys.stderr)
        return REFUSED
    except KeyboardInterrupt:
        return 130
    return status


def _local_error(error: OSError) -> str:
    """Describe an error of this process itself; errors of the daemon are StetErrors."""
    try:
        os.getcwd()
    except OSError:
        return "the directory that you are in is not there any more; name another one with -C"
    return f"{error.filename or 'standard output'}: {error.strerror}"


def _print_error(error: StetError, arguments: Arguments) -> None:
    from stet.terminal.refusals import as_typed, helpful_command

    print(f"stet: {visible_lines(as_typed(error.message))}", file=sys.stderr)
    if isinstance(error, Conflict):
        for conflict in error.conflicts:
            for hunk in conflict.get("hunks", []):
                text = f"{conflict.get('path', '')}:\n{str(hunk).rstrip(chr(10))}"
                print(visible_lines(text), file=sys.stderr)
    if arguments.json:
        return
    root = getattr(arguments, "root", None)
    session = getattr(arguments, "session", None)
    help_ = helpful_command(error, arguments.prog, arguments.directory, root, session)
    if help_ is not None:
        print(f"Try: {visible(help_)}", file=sys.stderr)
