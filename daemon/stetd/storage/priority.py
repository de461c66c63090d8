"""Threads whose work can wait.

The scheduler's lowest class (SCHED_IDLE) would do more, but such a thread may hold the
interpreter's lock when other programs take both processors, and all questions would wait for it.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress

#: As nice(1): for what edits are not to wait for, but questions may; and for what nobody waits for.
BEHIND_EDITS, BEHIND_ALL = 5, 10


def give_way(niceness: int) -> None:
    """Let others go first on this thread's processor. On Linux each thread has its own niceness."""
    with suppress(OSError):  # a hardened unit may forbid it
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), niceness)


def let_others_run() -> None:
    """Give up the rest of this thread's time, if anybody waits for its processor.

    An edit's client or the engine may be that: without, it waits until a slice of 3 ms is over.
    To be called once for each small piece of work.
    """
    os.sched_yield()
