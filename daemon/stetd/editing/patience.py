"""How long a call may be planned where everybody else waits for it.

The writer thread plans most calls itself, which takes a millisecond or two. It does so ``with
limited(SECONDS):``, and whatever may take long asks meanwhile whether it may go on. A call that may
not is left as if it had never been begun (planning changes nothing) and planned anew where nobody
waits (:mod:`stetd.planning_beside`). The limit never changes what a call does, only where.

Seconds are those that this thread has computed: a machine that has other things to do is no
reason to give up. Without a limit :func:`go_on` does nothing.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

#: Each thread has its own.
_ends: ContextVar[float] = ContextVar("ends", default=math.inf)


class TakesLong(Exception):
    """Planning would take longer than it may here. Nothing is wrong with the call."""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Let planning go on for so long only: then :func:`go_on` raises TakesLong."""
    token = _ends.set(time.thread_time() + seconds)
    try:
        yield
    finally:
        _ends.reset(token)


def is_limited() -> bool:
    """Whether planning must be quick here."""
    return _ends.get() < math.inf


def left() -> float:
    """The seconds that are left, infinite without a limit. Raises TakesLong if there are none."""
    ends = _ends.get()
    if ends == math.inf:
        return ends
    seconds = ends - time.thread_time()
    if seconds <= 0:
        raise TakesLong
    return seconds


def go_on() -> None:
    """Raise TakesLong if the time is over."""
    left()
