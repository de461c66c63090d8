"""Socket activation and status reports under systemd (sd_listen_fds(3), sd_notify(3)).

- Socket activation: LISTEN_PID and LISTEN_FDS say which descriptors, from 3 on, are listening
  sockets for this process. A socket is ``agent`` or ``control`` by the file name of its address:
  both are of one .socket unit, which has one name for all its descriptors (LISTEN_FDNAMES).
- The event loop sends a heartbeat (``WATCHDOG=1``) three times in each WATCHDOG_USEC. A loop that
  is blocked for longer hangs: WatchdogSec= of the unit is several times the longest call.
- Start and stop may take any time: while the process computes, reads or writes, it asks for more.
  Without NOTIFY_SOCKET nothing is sent.
"""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from stet.service.socket_path import AGENT_SOCKET, CONTROL_SOCKET
from stetd.config.logs import one_line
from stetd.editing.refusals import counted

if TYPE_CHECKING:
    from stetd.engine.writer import Writer

_BY_FILE_NAME = {AGENT_SOCKET: "agent", CONTROL_SOCKET: "control"}
#: A full queue of the manager must not block the event loop. All but READY=1 is sent again later.
_SEND_TIMEOUT_S = 0.2
#: Seconds between two updates of the status line.
_STATUS_INTERVAL_S = 2.0
#: Seconds between two checks whether a start or stop makes progress, and seconds then asked for.
_PROGRESS_INTERVAL_S = 5.0
_EXTENSION_S = 60.0
#: Progress: a larger share of one CPU, or more bytes of I/O, than the checks themselves use.
_CPU_SHARE = 0.01
_IO_BYTES = 4096


class ActivationError(Exception):
    """systemd passed a socket that is not one of the daemon's two, or one twice."""


def inherited_sockets() -> dict[str, socket.socket]:
    """The listening sockets that systemd passed, by name (``agent``, ``control``); may be empty.

    Removes the variables from the environment, so that no child uses them. Raises ActivationError,
    OSError.
    """
    variables = ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES")
    pid, count, _ = (os.environ.pop(name, "") for name in variables)
    found: dict[str, socket.socket] = {}
    for descriptor in range(3, 3 + int(count)) if pid == str(os.getpid()) else ():
        os.set_inheritable(descriptor, False)
        listening = socket.socket(fileno=descriptor)
        address = listening.getsockname()
        file_name = os.path.basename(address) if listening.family == socket.AF_UNIX else ""
        name = _BY_FILE_NAME.get(file_name)
        if name is None or name in found:
            raise ActivationError(
                f"systemd passed a socket at {address!r}; it may pass one {AGENT_SOCKET} and one "
                f"{CONTROL_SOCKET} (ListenStream=)"
            )
        found[name] = listening
    return found


def notify(*states: str, timeout_s: float = _SEND_TIMEOUT_S) -> None:
    """Send ``READY=1``, ``STATUS=text`` .. to systemd, if there is one that takes it in time."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if address.startswith("@"):
        address = "\0" + address[1:]
    kind = socket.SOCK_DGRAM | socket.SOCK_CLOEXEC
    with suppress(OSError), socket.socket(socket.AF_UNIX, kind) as datagram:
        datagram.settimeout(timeout_s)
        datagram.sendto("\n".join(states).encode(), address)


def heartbeat_interval() -> float | None:
    """Seconds between two heartbeats; None if systemd expects none from this process."""
    period = os.environ.get("WATCHDOG_USEC")
    if period is None or os.environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    return int(period) / 1e6 / 3


async def send_heartbeats(interval_s: float) -> None:
    """Send heartbeats; ends only when cancelled."""
    while True:
        notify("WATCHDOG=1")
        await asyncio.sleep(interval_s)


def set_status(text: str) -> None:
    """Set the line that ``systemctl --user status`` shows."""
    notify(f"STATUS={one_line(text)}")


async def update_status(line: Callable[[], str]) -> None:
    """Send the status line whenever it has changed; ends only when cancelled."""
    sent = None
    while True:
        text = line()
        if text != sent:
            sent = text
            set_status(text)
        await asyncio.sleep(_STATUS_INTERVAL_S)


def status_line(writer: Writer) -> str:
    """The state of a serving daemon in one line."""
    if writer.state.read_only is not None:
        return f"Read-only until it is restarted: {writer.state.read_only}"
    trouble = writer.historian.trouble
    if trouble is not None:
        return f"Serving; the history can't be written at present: {trouble}"
    workspaces = counted(len(writer.state.open), "workspace")
    return f"Serving {workspaces}, {counted(len(writer.state.sessions), 'session')}"


@contextmanager
def extend_timeout() -> Iterator[None]:
    """Ask systemd for more time while a start or stop makes progress."""
    over = threading.Event()

    def extend() -> None:
        before = _cpu_and_io()
        while not over.wait(_PROGRESS_INTERVAL_S):
            now = _cpu_and_io()
            cpu_s, moved = now[0] - before[0], now[1] - before[1]
            if cpu_s > _CPU_SHARE * _PROGRESS_INTERVAL_S or moved > _IO_BYTES:
                notify(f"EXTEND_TIMEOUT_USEC={int(_EXTENSION_S * 1e6)}", "WATCHDOG=1")
            before = now

    if "NOTIFY_SOCKET" not in os.environ:
        yield
        return
    thread = threading.Thread(target=extend, name="stet-more-time", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _cpu_and_io() -> tuple[float, int]:
    """CPU seconds, and calls and bytes of I/O (proc_pid_io(5)), of this process so far."""
    moved = 0
    # Some containers have no /proc/self/io; then CPU time alone must do.
    with suppress(OSError), open("/proc/self/io", "rb") as file:
        moved = sum(int(line.split()[1]) for line in file)
    return time.process_time(), moved
