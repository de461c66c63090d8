"""What systemd hands to the daemon, and what that reports (sd_listen_fds(3), sd_notify(3)).

- Socket activation: LISTEN_PID, LISTEN_FDS and LISTEN_FDNAMES say which descriptors, from 3 on, are
  listening sockets for this very process. One is known by its name, ``agent`` or ``control``, else
  by the file name of its address: all sockets of one .socket unit carry the same name.
- Heartbeats (``WATCHDOG=1``) are sent three times in each WATCHDOG_USEC, by the event loop. What
  holds it for longer is a hang. WatchdogSec= of the unit is several times the longest call.
- Start and stop have no bound: as long as the process computes, reads or writes, more time is
  asked for. Without NOTIFY_SOCKET nothing is sent.
"""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from stet.service.socket_path import AGENT_SOCKET, CONTROL_SOCKET
from stetd.config.logs import one_line

if TYPE_CHECKING:
    from stetd.engine.writer import Writer

_BY_FILE_NAME = {AGENT_SOCKET: "agent", CONTROL_SOCKET: "control"}
#: A manager with a full queue must not hold the event loop up; all but READY=1 comes again.
_PATIENCE_S = 0.2
#: Seconds between two looks at what the status line should say.
_STATUS_EVERY_S = 2.0
#: Seconds between two looks at whether a start or stop gets on, and what is asked for then.
_LOOK_S = 5.0
_EXTENSION_S = 60.0
#: Part of one processor, and bytes, that this looking itself does not use up.
_COMPUTING = 0.01
_BYTES = 4096


class ActivationError(Exception):
    """systemd handed over sockets that are not the daemon's two; the message says which."""


def inherited_sockets(environ: MutableMapping[str, str] = os.environ) -> dict[str, socket.socket]:
    """The listening sockets that systemd opened, by name: ``agent``, ``control``, or neither.

    Takes the variables out of ``environ``, so that no child uses them. Raises ActivationError.
    """
    variables = ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES")
    pid, count, names = (environ.pop(name, "") for name in variables)
    if pid != str(os.getpid()) or not count.isascii() or not count.isdigit():
        return {}
    labels = [*names.split(":"), *[""] * int(count)][: int(count)]
    found: dict[str, socket.socket] = {}
    for descriptor, label in enumerate(labels, start=3):
        try:
            os.set_inheritable(descriptor, False)
            listening = socket.socket(fileno=descriptor)
        except OSError as error:
            raise ActivationError(f"descriptor {descriptor} ({label}) is not a socket") from error
        name = _name_of(listening, label)
        if name in found:
            raise ActivationError(f"systemd passed two sockets for {name}")
        found[name] = listening
    return found


def _name_of(listening: socket.socket, label: str) -> str:
    kind = (listening.family, listening.type)
    accepts = listening.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    if kind != (socket.AF_UNIX, socket.SOCK_STREAM) or not accepts:
        raise ActivationError(f"the socket {label!r} that systemd passed is no listening Unix one")
    address = listening.getsockname()
    file_name = os.path.basename(os.fsdecode(address))
    name = label if label in _BY_FILE_NAME.values() else _BY_FILE_NAME.get(file_name)
    if name is None:
        raise ActivationError(
            f"systemd passed a socket named {label!r} at {address!r}; name it agent or control "
            "(FileDescriptorName=), or its file agent.sock or control.sock"
        )
    return name


def notify(*states: str, patience_s: float = _PATIENCE_S) -> bool:
    """Send systemd ``READY=1``, ``STATUS=text`` ..; whether it was sent in time."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return False
    if address.startswith("@"):
        address = "\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as datagram:
            datagram.settimeout(patience_s)
            datagram.sendto("\n".join(states).encode(), address)
    except OSError:
        return False
    return True


def heartbeat_interval(environ: Mapping[str, str] = os.environ) -> float | None:
    """Seconds between two heartbeats; None if none are wanted of this process."""
    period = environ.get("WATCHDOG_USEC", "")
    if not (period.isascii() and period.isdigit()) or int(period) == 0:
        return None
    if environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    return int(period) / 1e6 / 3


async def beat(interval_s: float) -> None:
    """Send heartbeats; ends only when cancelled."""
    while True:
        notify("WATCHDOG=1")
        await asyncio.sleep(interval_s)


def tell_status(text: str) -> None:
    """Set the line that ``systemctl --user status`` shows."""
    notify(f"STATUS={one_line(text)}")


async def keep_status(line: Callable[[], str]) -> None:
    """Send the status line whenever it has changed; ends only when cancelled."""
    sent = None
    while True:
        text = line()
        if text != sent:
            sent = text
            tell_status(text)
        await asyncio.sleep(_STATUS_EVERY_S)


def status_line(writer: Writer) -> str:
    """How a daemon that serves is, in one line."""
    workspaces, sessions = len(writer.state.open), len(writer.state.sessions)
    if writer.state.read_only is not None:
        return f"Read-only until it is restarted: {writer.state.read_only}"
    trouble = writer.historian.trouble
    if trouble is not None:
        return f"Serving; the history can't be written at present: {trouble}"
    return (
        f"Serving {workspaces} workspace{'' if workspaces == 1 else 's'}, "
        f"{sessions} session{'' if sessions == 1 else 's'}"
    )


@contextmanager
def more_time(look_s: float = _LOOK_S) -> Iterator[None]:
    """Ask for more time while a start or a stop gets on; ``look_s``: seconds between two looks."""
    over = threading.Event()

    def ask() -> None:
        before = _used()
        while not over.wait(look_s):
            now = _used()
            if now[0] - before[0] > _COMPUTING * look_s or now[1] - before[1] > _BYTES:
                notify(f"EXTEND_TIMEOUT_USEC={int(_EXTENSION_S * 1e6)}", "WATCHDOG=1")
            before = now

    if "NOTIFY_SOCKET" not in os.environ:
        yield
        return
    thread = threading.Thread(target=ask, name="stet-more-time", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _used() -> tuple[float, int]:
    """Seconds of computing and bytes read and written by this process so far."""
    moved = 0
    # Not there in some containers; the processor time is known anyway.
    with suppress(OSError), open("/proc/self/io", "rb") as file:
        counts = (line.split() for line in file)
        moved = sum(int(count) for name, count in counts if name in (b"rchar:", b"wchar:"))
    return time.process_time(), moved
