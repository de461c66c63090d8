"""A time limit for planning on the writer, where all other calls wait.

The writer plans calls ``with limited(SECONDS):``, and code that may take long calls
:func:`check_time`. A call over the limit is planned again in another process
(:mod:`stetd.engine.long_planning`).

The first half of the seconds is measured by the clock. After it, the second half counts only the
thread's own processor time, because the machine may have been busy with other work.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import msgspec


class _Limit(msgspec.Struct):
    half: float
    clock_ends: float
    computing_ends: float | None = None


#: Characters of the longest text that is made within a time limit.
_MOST_TEXT = 10_000_000
#: Each thread has its own.
_limit: ContextVar[_Limit | None] = ContextVar("limit", default=None)


class TakesLong(Exception):
    """Planning takes too long for the writer. The call itself is valid."""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """A context with a time limit, after which :func:`check_time` raises TakesLong."""
    half = seconds / 2
    token = _limit.set(_Limit(half, time.perf_counter() + half))
    try:
        yield
    finally:
        _limit.reset(token)


def is_limited() -> bool:
    """Whether there is a time limit."""
    return _limit.get() is not None


def check_time() -> None:
    """Raise TakesLong if the time limit is over."""
    limit = _limit.get()
    if limit is None:
        return
    if limit.computing_ends is None:
        if time.perf_counter() < limit.clock_ends:
            return
        limit.computing_ends = time.thread_time() + limit.half
    if time.thread_time() >= limit.computing_ends:
        raise TakesLong


def check_size(characters: int) -> None:
    """Raise TakesLong if a text is too long to be made here: only a planner's memory is limited."""
    if is_limited() and characters > _MOST_TEXT:
        raise TakesLong
