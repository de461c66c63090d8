"""The ``stet`` command (docs/command-line.md).

Exit status: 0 done; 1 refused, the error on standard error and with ``--json`` on standard
output too, as ``{"error": {"code", "message", "data"}}``; 2 usage; 3 no daemon could be
reached or started; 4 conflict.

This module is only the entry point; :mod:`stet.cli.running` runs the commands. ``stet hook`` does
not go through it, because an agent waits for the hook twice per tool call. So this module imports
nothing that the hook does not need (tests/hooks/test_hook_start.py).
"""

from __future__ import annotations

import gc
import os
import signal
import sys

from stet import own_process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit status. If ``argv`` is None, run sys.argv, then exit."""
    if argv is not None:
        return _run(argv)
    own_process.prepare()
    # Garbage collection during imports, and the interpreter's cleanup at exit, take a fifth of the
    # time of most commands.
    gc.disable()
    # Until the command begins, Ctrl-C just ends the process: a module that is interrupted while it
    # is loaded prints a traceback, or crashes (msgspec).
    if sys.argv[1:2] != ["hook"] and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    status = _run(sys.argv[1:])
    for stream in filter(None, (sys.stdout, sys.stderr)):
        try:
            stream.flush()
        except OSError:  # the reader has closed the pipe
            status = status or 1
    os._exit(status)


def _run(words: Sequence[str]) -> int:
    if words[:1] == ["hook"]:
        from stet.agents.hook import main as hook

        return hook(words[1:])
    if "_ARGCOMPLETE" in os.environ:
        from stet.cli.completion import complete

        complete()
    from stet.cli.running import run

    return run(words)
