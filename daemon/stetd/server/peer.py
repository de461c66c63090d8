"""Who is at the other end of a Unix socket, as the kernel says it."""

from __future__ import annotations

import errno
import os
import select
import socket
import struct
import sys

import msgspec

_UCRED = struct.Struct("3i")  # struct ucred of unix(7): pid, uid, gid
_SO_PEERPIDFD = 77  # since Linux 6.5; Python has no name for it


class Credentials(msgspec.Struct, frozen=True):
    """Whose process connected, and its id, at the time of connect(2); ``pid`` 0 if unknown."""

    uid: int
    pid: int


class PeerProcess(msgspec.Struct, frozen=True):
    """The process that connected; ``pid`` 0 and an empty ``command`` when unknown.

    ``start`` tells it from a later process with the same id (:func:`start_of`); 0 if it has ended.
    """

    pid: int
    command: str
    start: int


def credentials_of(connected: socket.socket) -> Credentials:
    """Whose a connected Unix socket's other end is, from SO_PEERCRED."""
    told = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
    pid, uid, _gid = _UCRED.unpack(told)
    return Credentials(uid, pid)


def peer_of(connected: socket.socket) -> PeerProcess:
    """The process at the other end of a connected Unix socket, and what /proc tells of it.

    The command is a hint for people: by now another process may have the same id.
    """
    pid = credentials_of(connected).pid
    start = start_of(pid)
    return PeerProcess(pid, _command(pid), start if _is_there(connected) else 0)


def start_of(pid: int) -> int:
    """When a process began, in clock ticks since the boot; 0 if there is none of this id."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # proc(5): the 22nd field. The second is its name, in brackets, with anything in it.
            return int(file.read().rpartition(b")")[2].split()[19])
    except OSError:
        return 0


def _is_there(connected: socket.socket) -> bool:
    """Whether the very process that connected still runs; True where that can't be asked."""
    try:
        told = connected.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD, 4)
    except OSError as error:
        return error.errno == errno.ENOPROTOOPT
    process = int.from_bytes(told, sys.byteorder)
    try:
        poll = select.poll()
        poll.register(process, select.POLLIN)
        return not poll.poll(0)
    finally:
        os.close(process)


def hung_up(connected: socket.socket) -> bool:
    """Whether the peer has closed its socket, not only the half of it that it sends on."""
    poll = select.poll()
    poll.register(connected, 0)  # POLLHUP is told unasked
    return any(events & select.POLLHUP for _, events in poll.poll(0))


def _command(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/comm", "rb") as comm:
            name = comm.read(64).decode("utf-8", "replace").removesuffix("\n")
    except OSError:
        return ""
    # A process chooses its own name; it goes into commits and log lines, one line each.
    return "".join(char if char.isprintable() else "?" for char in name)
