"""The process at the other end of a Unix socket, as the kernel describes it, and what it can see.

``agent.sock`` serves every workspace that the person allowed. A sandbox that was given the socket
and one workspace must not reach the others through the daemon. So at the workspace's path the peer
must see the same directory as the daemon.

The mount tables of both are compared (``/proc/<pid>/mountinfo``, proc(5)). In a user namespace the
peer can make its own mounts, root directory and links. It sees the directory if in both tables the
last mount on the path is of the same file system and leads to the same path inside it:

- A directory has one path inside its file system, and the kernel reports which one is mounted.
  A process can bind mount only what it can reach. Any other directory has another path inside.
- So the peer has a mount of the directory or of one above it. The daemon has just walked the rest
  of the path, in the same file system and without links. A mount of the peer below that is in its
  table, so a workspace that is hidden by a mount is not seen.
- Mount points in the table contain no links. A table that changes while it is read is read again.
- NFS and some others do not report which directory is mounted. There the mount must be the same.

Limits are in docs/security.md: confinement without mounts; a process that can rename a directory
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

from stetd.storage.paths_on_disk import open_real

_UCRED = struct.Struct("3i")  # struct ucred of unix(7): pid, uid, gid
_SO_PEERPIDFD = 77  # since Linux 6.5; Python has no name for it
#: Larger tables are refused: the peer can make its own table as large as it likes.
MAX_TABLE_BYTES = 4 << 20
MAX_MOUNTS = 4_096

_CHUNK = 1 << 20
#: How often a table is read that changes while it is read; after that it counts as unknown.
_MAX_READS = 20
#: File systems whose mounts all have the same root in the table, whichever directory is mounted.
_SAME_ROOT_FOR_ALL = (b"nfs", b"nfs4", b"cgroup", b"cgroup2")
_ESCAPED = re.compile(rb"\\([0-7]{3})")
#: The kernel appends ``//deleted`` to the root of a mount whose directory was removed.
_DELETED_SUFFIX = b"//"


class PeerProcess(msgspec.Struct, frozen=True):
    """The process that connected; ``pid`` 0 and an empty ``command`` when unknown.

    ``start`` (:func:`start_of`) tells it from a later process with the same id; 0 if it has ended.
    """

    pid: int
    command: str
    start: int


def credentials_of(connected: socket.socket) -> tuple[int, int]:
    """User id and process id of the peer of a connected Unix socket at the time of connect(2).

    The process id is 0 if it is unknown.
    """
    answer = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
    pid, uid, _gid = _UCRED.unpack(answer)
    return uid, pid


def peer_of(connected: socket.socket) -> PeerProcess:
    """The process at the other end of a connected Unix socket, with its command from /proc.

    The command is only a hint for people: another process may have the same id by now.
    """
    _, pid = credentials_of(connected)
    start = start_of(pid)
    return PeerProcess(pid, _command(pid), start if _still_runs(connected) else 0)


def start_of(pid: int) -> int:
    """When a process started, in clock ticks since boot; 0 if no process has this id."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # proc(5): the 22nd field. The second is the name in parentheses, with any characters.
            return int(file.read().rpartition(b")")[2].split()[19])
    except OSError:
        return 0


def _still_runs(connected: socket.socket) -> bool:
    """Whether the process that connected still runs; True if the kernel can't tell."""
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
    """Whether the peer has closed its socket in both directions."""
    poll = select.poll()
    poll.register(connected, 0)  # POLLHUP is always reported
    return any(events & select.POLLHUP for _, events in poll.poll(0))


def _command(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/comm", "rb") as comm:
            name = comm.read(64).decode("utf-8", "replace").removesuffix("\n")
    except OSError:
        return ""
    # A process can choose its name; in commits and in the log it must stay on one line.
    return "".join(char if char.isprintable() else "?" for char in name)


class Mount(NamedTuple):
    """One line of the table: the directory ``root`` of file system ``device`` is mounted at
    ``point``. A mount has the same ``number`` in all namespaces.
    """

    number: int
    parent: int
    device: bytes
    root: bytes
    point: bytes
    kind: bytes


def sees(pid: int, directory: str) -> bool:
    """Whether the process sees this directory (absolute, without links) at the same path.

    False also if that can't be found out. Call it in a thread: a peer can make its table large.
    """
    with suppress(OSError, ValueError):
        os.close(open_real(directory))
        path = os.fsencode(directory)
        tables = (parse_mounts(_read_mountinfo(process)) for process in ("self", str(pid)))
        here, there = (locate(table, path) for table in tables)
        if here is None or there is None:
            return False
        (inside, mount), (inside_there, mount_there) = here, there
        if (mount.device, inside) != (mount_there.device, inside_there):
            return False
        return mount.number == mount_there.number or mount.kind not in _SAME_ROOT_FOR_ALL
    return False


def _read_mountinfo(process: str) -> bytes:
    """A consistent copy of a process's mount table, cut off if it is too large. Raises OSError.

    It is read in pieces. poll(2) reports POLLPRI if the table changed since it was opened.
    """
    for _ in range(_MAX_READS):
        with open(f"/proc/{process}/mountinfo", "rb", buffering=0) as file:
            pieces, size = [], 0
            while size <= MAX_TABLE_BYTES and (piece := file.read(_CHUNK)):
                pieces.append(piece)
                size += len(piece)
            poll = select.poll()
            poll.register(file, select.POLLPRI)
            if not poll.poll(0):
                return b"".join(pieces)
    raise OSError("the mounts keep changing")


def parse_mounts(table: bytes) -> list[Mount]:
    """The mounts of a table. Raises ValueError if it is malformed or too large.

    A line is ``ID PARENT MAJOR:MINOR ROOT POINT OPTIONS [TAG..] - TYPE SOURCE OPTIONS``. Spaces,
    tabs, newlines and backslashes in a field are written as a backslash and three octal digits.
    """
    if len(table) > MAX_TABLE_BYTES or table.count(b"\n") > MAX_MOUNTS:
        raise ValueError("too many mounts")
    # Not splitlines(): a carriage return in a name is not escaped.
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


def locate(table: Sequence[Mount], path: bytes) -> tuple[bytes, Mount] | None:
    """Where an absolute path without links leads: the path inside its file system, and the mount.
    None if the table does not say.

    As in the kernel, the walk goes from the root mount into each mount that is mounted on the path,
    topmost first where several are stacked. A mount has one parent, so none is passed twice.
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
        return None  # the root directory is not a mount, as after chroot(2)
    [current] = roots
    # A mount at "/" never matches: the walk begins there.
    whole = path + b"/"
    while on_path := [m for m in mounted_on[current.number] if whole.startswith(m.point + b"/")]:
        current = min(on_path, key=lambda mount: len(mount.point))
        if sum(mount.point == current.point for mount in on_path) > 1:
            return None
    if not current.root.startswith(b"/") or _DELETED_SUFFIX in current.root:
        return None
    inside = path if current.point == b"/" else path[len(current.point) :]
    joined = current.root.rstrip(b"/") + b"/" + inside.strip(b"/")
    return joined.rstrip(b"/") or b"/", current
