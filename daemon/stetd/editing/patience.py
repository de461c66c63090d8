"""How long a call may be planned where everybody else waits for it.

The writer plans calls ``with limited(SECONDS):``, and whatever may take long asks whether it may go
on. A call that may not is planned again where nobody waits (:mod:`stetd.engine.long_planning`).

Half of the seconds are by the clock; where those are over, the other half are what this thread
computes from then on, since the machine may have had other things to do.
"""

from __future__ import annotations

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


def go_on() -> None:
    """Raise TakesLong if the time is over, which without a limit it never is."""
    limit = _limit.get()
    if limit is None:
        return
    if limit.computing_ends is None:
        if time.perf_counter() < limit.clock_ends:
            return
        limit.computing_ends = time.thread_time() + limit.half
    if time.thread_time() >= limit.computing_ends:
        raise TakesLong
