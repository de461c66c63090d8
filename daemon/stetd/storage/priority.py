"""Threads whose work can wait.

The scheduler's lowest class (SCHED_IDLE) would do more, but such a thread may hold the
interpreter's lock when other programs take both processors, and all questions would wait for it.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from contextlib import suppress

#: As nice(1): for what edits are not to wait for, but questions may; and for what nobody waits for.
BEHIND_EDITS, BEHIND_ALL = 5, 10
#: Seconds for which a thread goes on. Where other programs take all processors it waits for
#: milliseconds each time that it gives up its own, and checkpoints and questions wait for it.
_PIECE_S = 0.001
#: By ctypes, which lets go of the interpreter's lock; os.sched_yield does not in Python 3.11.
_libc = ctypes.CDLL(None)
_own = threading.local()


def give_way(niceness: int) -> None:
    """Let others go first on this thread's processor. On Linux each thread has its own niceness."""
    with suppress(OSError):  # a hardened unit may forbid it
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), niceness)


def let_others_run() -> None:
    """Give up this thread's processor now and then, if anybody waits for it.

    An edit's client or the engine may be waiting: without, it waits until a slice of 3 ms is over.
    To be called once for each small piece of work.
    """
    if time.monotonic() - getattr(_own, "since", 0.0) > _PIECE_S:
        _libc.sched_yield()
        _own.since = time.monotonic()
