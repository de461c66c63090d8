"""Long work in slices, on the reading threads, so that calls go on beside it.

The work is a generator that yields between small steps. A slice of it runs for some
milliseconds; then its thread is free for others. The interpreter runs one thread at a time, and
a call changes between waiting and running some dozen times, so while calls come in the pauses
are longer than the slices.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator
from concurrent.futures import Executor
from typing import TypeVar

T = TypeVar("T")
_SLICE_S = 0.004
_PAUSE_S = 0.012
#: Seconds: a daemon that has been asked for nothing for so long is not kept from working.
QUIET_S = 0.25


async def in_slices(
    work: Generator[None, None, T], executor: Executor, quiet_s: Callable[[], float]
) -> T:
    """The generator's result. ``quiet_s``: seconds since somebody asked for something."""
    loop = asyncio.get_running_loop()
    running: asyncio.Future[tuple[T] | None] | None = None
    try:
        while True:
            running = loop.run_in_executor(executor, run_slice, work)
            done = await asyncio.shield(running)
            if done is not None:
                return done[0]
            await asyncio.sleep(_PAUSE_S if quiet_s() < QUIET_S else 0)
    finally:
        if running is not None and not running.done():  # the caller gave up: a slice is short
            await asyncio.wait([running])
        work.close()


def run_slice(work: Generator[None, None, T]) -> tuple[T] | None:
    """Run for a while; the result, if it has come."""
    until = time.monotonic() + _SLICE_S
    try:
        while time.monotonic() < until:
            next(work)
    except StopIteration as end:
        return (end.value,)
    return None
