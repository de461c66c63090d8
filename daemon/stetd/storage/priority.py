"""Lower priority for threads whose work can wait.

The scheduler's lowest class (SCHED_IDLE) would be better for others, but a thread of it may hold
the interpreter lock when other programs use all processors, and all questions would wait for it.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from contextlib import suppress

#: Niceness of work for which questions may wait, but no edit; and of work for which nothing waits.
BEHIND_EDITS, BEHIND_ALL = 5, 10
#: Seconds between yields. If other programs use all processors, each yield costs milliseconds, for
#: which checkpoints and questions wait.
_YIELD_INTERVAL_S = 0.001
#: By ctypes, which releases the interpreter lock; os.sched_yield does not in Python 3.11.
_libc = ctypes.CDLL(None)
_own = threading.local()


def lower_priority(niceness: int) -> None:
    """Raise this thread's niceness. On Linux each thread has its own."""
    with suppress(OSError):  # a hardened unit may forbid it
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), niceness)


def yield_processor() -> None:
    """Yield the processor, at most once per _YIELD_INTERVAL_S. Call it for each piece of work.

    The engine or an edit's client may wait for the processor: otherwise until the end of this
    thread's slice of 3 ms.
    """
    if time.monotonic() - getattr(_own, "since", 0.0) > _YIELD_INTERVAL_S:
        _libc.sched_yield()
        _own.since = time.monotonic()
