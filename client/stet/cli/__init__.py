"""The ``stet`` command (CONTRACT.md 6).

Exit status: 0 done; 1 refused, the error on standard error and with ``--json`` on standard
output too, as ``{"error": {"code", "message", "data"}}``; 2 usage; 3 no daemon could be
reached or started; 4 conflict.

Only the way in: :mod:`stet.cli.running` carries commands out. ``stet hook`` is beside it,
because an agent waits for it twice at each of its tools; so nothing is imported here that it
does not need (tests/hooks/test_hook_start.py).
"""

from __future__ import annotations

import gc
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Carry out one command; the exit status. ``argv`` None: this process's words, and its end."""
    if argv is not None:
        return _carry_out(argv)
    # Collecting garbage while modules are loaded, and taking the interpreter apart at the end,
    # takes a fifth of the time of most commands.
    gc.disable()
    status = _carry_out(sys.argv[1:])
    for stream in filter(None, (sys.stdout, sys.stderr)):
        try:
            stream.flush()
        except OSError:  # nobody reads it any more
            status = status or 1
    os._exit(status)


def _carry_out(words: Sequence[str]) -> int:
    if words[:1] == ["hook"]:
        from stet.agents.hook import main as hook

        return hook(words[1:])
    if "_ARGCOMPLETE" in os.environ:
        from stet.cli.completion import complete

        complete()
    from stet.cli.running import run

    return run(words)
