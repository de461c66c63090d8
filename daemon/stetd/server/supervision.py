"""What the service manager is told while the daemon starts, runs and stops (sd_notify(3)).

**Heartbeats.** With WATCHDOG_USEC (and WATCHDOG_PID absent or our own) ``WATCHDOG=1`` is due three
times in each such period, and is sent only if the writer got on: a task that does nothing came
back from its queue, or calls were planned or answered since the last one. So a flood is no hang,
and neither is one long call, as long as it takes less than two thirds of the period; a lock, a
disk or a loop that holds the writer for longer is, and so is an event loop that does not turn.
WatchdogSec= of the unit is several times the longest call that was measured.

**Start and stop** have no bound: recovery depends on what a crash left, the last checkpoint on
the disk. As long as the process computes, reads or writes, the manager is asked for more time
(``EXTEND_TIMEOUT_USEC``); a process that does none of it is given up when the unit says so.

**Status** is one line for ``systemctl --user status``: what is being done, or for whom.

Without NOTIFY_SOCKET nothing of this runs.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self

from stetd.config.logs import one_line
from stetd.engine.writer import Writer
from stetd.server.systemd_socket import notify

_log = logging.getLogger(__name__)

#: Seconds between two looks at what the status line should say.
STATUS_EVERY_S = 2.0
#: Seconds between two looks at whether a start or stop gets on, and what is asked for then.
_LOOK_S = 5.0
_EXTENSION_S = 60.0
#: Part of one processor, and bytes, that this looking itself does not use up.
_COMPUTING = 0.01
_BYTES = 4096
_HEARTBEATS_PER_PERIOD = 3


def heartbeat_interval(environ: Mapping[str, str] = os.environ) -> float | None:
    """Seconds between two heartbeats; None if none are wanted of this process."""
    period = environ.get("WATCHDOG_USEC", "")
    if not (period.isascii() and period.isdigit()) or int(period) == 0:
        return None
    if environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    return int(period) / 1e6 / _HEARTBEATS_PER_PERIOD


def tell_status(text: str) -> None:
    """Set the status line."""
    notify(f"STATUS={one_line(text)}")


async def beat(interval_s: float) -> None:
    """Send heartbeats for as long as the event loop gets on; ends only when cancelled."""
    while True:
        notify("WATCHDOG=1")
        await asyncio.sleep(interval_s)


async def keep_status(line: Callable[[], str]) -> None:
    """Tell the status line whenever it is another one; ends only when cancelled."""
    told = None
    while True:
        text = line()
        if text != told:
            told = text
            tell_status(text)
        await asyncio.sleep(STATUS_EVERY_S)


def status_line(writer: Writer) -> str:
    """How a daemon that serves is, in one line."""
    workspaces, sessions = len(writer.state.open), len(writer.state.sessions)
    if writer.read_only is not None:
        return f"Read-only until it is restarted: {writer.read_only}"
    trouble = writer.historian.trouble
    if trouble is not None:
        return f"Serving; the history can't be written at present: {trouble}"
    return (
        f"Serving {workspaces} workspace{'' if workspaces == 1 else 's'}, "
        f"{sessions} session{'' if sessions == 1 else 's'}"
    )


class MoreTime:
    """Asks for more time, with a heartbeat, while a start or a stop gets on; a context manager.

    ``look_s``: seconds between two looks at whether it does.
    """

    def __init__(self, look_s: float = _LOOK_S) -> None:
        self._look_s = look_s
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        if "NOTIFY_SOCKET" in os.environ:
            self._thread = threading.Thread(target=self._run, name="stet-more-time", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        before = _used()
        while not self._over.wait(self._look_s):
            now = _used()
            if now[0] - before[0] > _COMPUTING * self._look_s or now[1] - before[1] > _BYTES:
                notify(f"EXTEND_TIMEOUT_USEC={int(_EXTENSION_S * 1e6)}", "WATCHDOG=1")
            before = now


def _used() -> tuple[float, int]:
    """Seconds of computing and bytes read and written by this process so far."""
    moved = 0
    try:
        with open("/proc/self/io", "rb") as file:
            for line in file:
                if line.startswith((b"rchar:", b"wchar:")):
                    moved += int(line.split()[1])
    except OSError:
        pass  # not there in some containers; the computing is told all the same
    return time.process_time(), moved
