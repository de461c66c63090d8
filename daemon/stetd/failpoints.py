"""Named crash points for tests; off unless the environment turns them on.

``STET_FAILPOINT=name`` kills the daemon (SIGKILL) when the point ``name`` is reached; ``name:3`` at
the third time. A point in the historian kills the engine as well; with ``name@alone`` only the
historian. ``name@sleep`` waits a second instead, ``name@sleep=600`` ten minutes, ``name@until=f``
until there is a file ``f``; ``name:*`` every time. ``STET_FAILPOINT_TRACE=file`` gets every name.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable

#: In the historian: the process id of the engine.
engine: int | None = None


def _ignore(name: str) -> None:
    """The failpoint in production; does nothing."""


def _armed(target: str, trace: str | None) -> Callable[[str], None]:
    name_and_count, _, action = target.partition("@")
    wanted, _, count = name_and_count.partition(":")
    action, _, value = action.partition("=")
    times = 0

    def failpoint_armed(name: str) -> None:
        nonlocal times
        if trace:
            with open(trace, "a", encoding="ascii") as out:
                out.write(name + "\n")
        times += name == wanted
        if name == wanted and (count or "1") in ("*", str(times)):
            if action == "sleep":
                time.sleep(float(value or 1))
            elif action == "until":
                while not os.path.exists(value):
                    time.sleep(0.01)
            else:
                if engine is not None and action != "alone":
                    os.kill(engine, signal.SIGKILL)
                os.kill(os.getpid(), signal.SIGKILL)

    return failpoint_armed


def from_environment() -> Callable[[str], None]:
    """The failpoint function that the environment asks for."""
    target = os.environ.get("STET_FAILPOINT", "")
    trace = os.environ.get("STET_FAILPOINT_TRACE")
    return _armed(target, trace) if target or trace else _ignore


#: Called at every named point: ``failpoint("after_journal_sync")``.
failpoint: Callable[[str], None] = from_environment()


async def reached(name: str) -> None:
    """As :func:`failpoint`, without blocking the event loop."""
    if failpoint is not _ignore:
        await asyncio.get_running_loop().run_in_executor(None, failpoint, name)
