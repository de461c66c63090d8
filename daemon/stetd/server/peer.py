"""Who is at the other end of a Unix socket, as the kernel says it, and what it can see.

``agent.sock`` serves every workspace that the person allowed. A sandbox that was given the socket
and one workspace must not reach the others through the daemon. So a directory has to be the same
one in the peer's view and in the daemon's, at the same path.

The two tables of mounts are compared (``/proc/<pid>/mountinfo``, proc(5)). A peer may have mounts,
a root directory and links of its own making, in a user namespace of its own. It is believed if the
last mount on its way is of the same file system, and leads to the same place as the daemon's:

- A directory has one place in its file system, and the kernel says which is mounted. Whoever binds
  a directory must have reached it. Any other directory is another place, whatever its name.
- So the peer holds a mount of the directory or of one above. The daemon has just gone the rest of
  the way, in the same file system, and without links. What the peer has mounted on it is in its
  table, so a workspace that is hidden by a mount is not seen.
- The table has mount points without links. A table that changed while it was read is read again.
- Some file systems (NFS) do not say what of them is mounted. There it must be the same mount.

Limits are in docs/security.md: confinement that is not made of mounts; who can rename a directory
*above* a workspace that a mount hides.
"""

from __future__ import annotations

import errno
import os
import re
import select
import socket
import struct
import sys
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec

from stetd.storage.real_directories import open_real

_UCRED = struct.Struct("3i")  # struct ucred of unix(7): pid, uid, gid
_SO_PEERPIDFD = 77  # since Linux 6.5; Python has no name for it
#: Larger tables are refused: whoever makes a namespace writes its table, and reading one costs.
MOST_BYTES = 4 << 20
MOST_MOUNTS = 4_096

_CHUNK = 1 << 20
#: How often a table that changes meanwhile is read; after that the answer is unknown.
_READINGS = 20
#: Types of file systems whose tables have the same root for whatever part of them is mounted.
_NO_ROOT_GIVEN = (b"nfs", b"nfs4", b"cgroup", b"cgroup2")
_ESCAPED = re.compile(rb"\\([0-7]{3})")
#: What follows the root of a mount whose directory was removed. No name has a slash in it.
_REMOVED = b"//"


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
    answer = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
    pid, uid, _gid = _UCRED.unpack(answer)
    return Credentials(uid, pid)


def peer_of(connected: socket.socket) -> PeerProcess:
    """The process at the other end of a connected Unix socket, and what /proc says of it.

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
        answer = connected.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD, 4)
    except OSError as error:
        return error.errno == errno.ENOPROTOOPT
    process = int.from_bytes(answer, sys.byteorder)
    try:
        poll = select.poll()
        poll.register(process, select.POLLIN)
        return not poll.poll(0)
    finally:
        os.close(process)


def hung_up(connected: socket.socket) -> bool:
    """Whether the peer has closed its socket, not only the half of it that it sends on."""
    poll = select.poll()
    poll.register(connected, 0)  # POLLHUP is reported unasked
    return any(events & select.POLLHUP for _, events in poll.poll(0))


def _command(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/comm", "rb") as comm:
            name = comm.read(64).decode("utf-8", "replace").removesuffix("\n")
    except OSError:
        return ""
    # A process chooses its own name; it goes into commits and log lines, one line each.
    return "".join(char if char.isprintable() else "?" for char in name)


class Mount(NamedTuple):
    """One line of the table: ``root``, a directory of the file system ``device``, is at ``point``.

    ``number`` is the same in all namespaces while the mount is there.
    """

    number: int
    parent: int
    device: bytes
    root: bytes
    point: bytes
    kind: bytes


class Place(NamedTuple):
    """A directory of a file system, by its path in that, and the mount that leads there."""

    device: bytes
    path: bytes
    mount: Mount


def sees(pid: int, directory: str) -> bool:
    """Whether the process sees this directory (absolute, without links) at the same path.

    False also where that can't be known. Not for the event loop: the peer makes the table large.
    """
    if pid <= 0:
        return False
    with suppress(OSError, ValueError):
        os.close(open_real(directory))
        path = os.fsencode(directory)
        here, there = (place(mounts(_table(who)), path) for who in ("self", str(pid)))
        if here is None or there is None or here[:2] != there[:2]:
            return False
        return here.mount.kind not in _NO_ROOT_GIVEN or here.mount.number == there.mount.number
    return False


def _table(process: str) -> bytes:
    """A process's table as it was at one moment; one that is too large is cut. Raises OSError.

    It comes in pieces. A change since the opening is reported as an exception to whoever polls.
    """
    for _ in range(_READINGS):
        with open(f"/proc/{process}/mountinfo", "rb", buffering=0) as file:
            pieces, size = [], 0
            while size <= MOST_BYTES and (piece := file.read(_CHUNK)):
                pieces.append(piece)
                size += len(piece)
            poll = select.poll()
            poll.register(file, select.POLLPRI)
            if not poll.poll(0):
                return b"".join(pieces)
    raise OSError("the mounts keep changing")


def mounts(table: bytes) -> list[Mount]:
    """The mounts of a table. Raises ValueError, also for one that is too large.

    A line is ``ID PARENT MAJOR:MINOR ROOT POINT OPTIONS [TAG..] - TYPE SOURCE OPTIONS``. Spaces,
    tabs, newlines and backslashes in it are written as three octal digits.
    """
    if len(table) > MOST_BYTES or table.count(b"\n") > MOST_MOUNTS:
        raise ValueError("too many mounts")
    # A carriage return in a name is written as it is, so that it must not end a line.
    found = [_mount(line) for line in table.removesuffix(b"\n").split(b"\n")]
    if len({mount.number for mount in found}) != len(found):
        raise ValueError("two mounts of one number")
    return found


def _mount(line: bytes) -> Mount:
    fields = line.split(b" ")
    kind = fields[fields.index(b"-", 6) + 1]
    root, point = (
        _ESCAPED.sub(lambda code: bytes([int(code[1], 8) & 0xFF]), field) for field in fields[3:5]
    )
    return Mount(int(fields[0]), int(fields[1]), fields[2], root, point, kind)


def place(table: Sequence[Mount], path: bytes) -> Place | None:
    """Where an absolute path without links leads, None if the table does not say.

    It is walked as the kernel does: from the root directory on, and whenever something is
    mounted at what has been reached, on in the last that was mounted there. A mount has one
    parent, so none is met twice.
    """
    numbers = {mount.number for mount in table}
    mounted_on: defaultdict[int, list[Mount]] = defaultdict(list)
    roots = []
    for mount in table:
        is_top = mount.parent == mount.number or mount.parent not in numbers
        if not is_top:
            mounted_on[mount.parent].append(mount)
        elif mount.point == b"/":
            roots.append(mount)
    if len(roots) != 1:
        return None  # a root that is no mount, as after chroot(2)
    [here] = roots
    # A mount at "/" is where the walk begins, and not met on it.
    while met := [m for m in mounted_on[here.number] if (path + b"/").startswith(m.point + b"/")]:
        here = min(met, key=lambda mount: len(mount.point))
        if sum(mount.point == here.point for mount in met) > 1:
            return None
    if not here.root.startswith(b"/") or _REMOVED in here.root:
        return None
    inside = path if here.point == b"/" else path[len(here.point) :]
    joined = here.root.rstrip(b"/") + b"/" + inside.strip(b"/")
    return Place(here.device, joined.rstrip(b"/") or b"/", here)
