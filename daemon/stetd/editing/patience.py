"""How long a call may be planned where everybody else waits for it.

The writer plans calls ``with limited(SECONDS):``, and whatever may take long asks whether it may go
on. A call that may not is planned again where nobody waits (:mod:`stetd.engine.long_planning`).

Half of the seconds are by the clock; where those are over, the other half are what this thread
computes from then on, since the machine may have had other things to do.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(slots=True)
class _Limit:
    half: float
    clock_ends: float
    computing_ends: float | None = None


#: Each thread has its own.
_limit: ContextVar[_Limit | None] = ContextVar("limit", default=None)


class TakesLong(Exception):
    """Planning would take longer than it may here. Nothing is wrong with the call."""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Let planning go on for so long only: then :func:`go_on` raises TakesLong."""
    half = seconds / 2
    token = _limit.set(_Limit(half, time.perf_counter() + half))
    try:
        yield
    finally:
        _limit.reset(token)


def is_limited() -> bool:
    """Whether planning must be quick here."""
    return _limit.get() is not None


def left() -> float:
    """The seconds that are left, infinite without a limit. Raises TakesLong if there are none."""
    limit = _limit.get()
    if limit is None:
        return math.inf
    if limit.computing_ends is None:
        seconds = limit.clock_ends - time.perf_counter()
        if seconds > 0:
            return seconds + limit.half
        limit.computing_ends = time.thread_time() + limit.half
    seconds = limit.computing_ends - time.thread_time()
    if seconds <= 0:
        raise TakesLong
    return seconds


def go_on() -> None:
    """Raise TakesLong if the time is over."""
    left()
