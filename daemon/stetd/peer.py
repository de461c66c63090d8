"""Who is at the other end of a Unix socket, as the kernel says it."""

from __future__ import annotations

import select
import socket
import struct
from dataclasses import dataclass
from typing import Protocol

_UCRED = struct.Struct("3i")  # struct ucred of unix(7): pid, uid, gid


class _HasOptions(Protocol):
    def getsockopt(self, level: int, optname: int, buflen: int, /) -> bytes: ...


class _HasDescriptor(Protocol):
    def fileno(self) -> int: ...


@dataclass(frozen=True, slots=True)
class PeerProcess:
    """The process that connected; ``pid`` 0 and an empty ``command`` when unknown."""

    uid: int
    pid: int
    command: str


def peer_of(connected: _HasOptions) -> PeerProcess:
    """The peer of a connected Unix socket, from SO_PEERCRED and /proc/<pid>/comm.

    The ids are those at the time of connect(2). The command is a hint for people: by now the
    process may have ended, or be another one that got the same id.
    """
    credentials = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
    pid, uid, _gid = _UCRED.unpack(credentials)
    return PeerProcess(uid, pid, _command(pid))


def hung_up(connected: _HasDescriptor) -> bool:
    """Whether the peer has closed its socket, not only the half of it that it sends on."""
    poll = select.poll()
    poll.register(connected.fileno(), 0)  # POLLHUP is told unasked
    return any(events & select.POLLHUP for _, events in poll.poll(0))


def _command(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/comm", "rb") as comm:
            name = comm.read(64).decode("utf-8", "replace").removesuffix("\n")
    except OSError:
        return ""
    # A process chooses its own name; it goes into commits and log lines, one line each.
    return "".join(char if char.isprintable() else "?" for char in name)
