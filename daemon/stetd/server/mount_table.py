"""Where a path lies, by a table of mounts: in which file system, and where in that.

Pure functions over the text of ``/proc/<pid>/mountinfo`` (proc(5)). A line of it is

    ID PARENT MAJOR:MINOR ROOT POINT OPTIONS [TAG..] - TYPE SOURCE OPTIONS

ROOT is the directory of the file system that is mounted, POINT where, as seen from the root
directory of the process; mounts that can't be reached from there are left out. Spaces, tabs,
newlines and backslashes in both are written as three octal digits. Who compares what is
:mod:`stetd.server.peer_access`'s affair.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

#: Larger tables are refused: whoever makes a namespace writes its table, and reading one costs.
MOST_BYTES = 4 << 20
MOST_MOUNTS = 4_096

_ESCAPED = re.compile(rb"\\([0-7]{3})")
#: What follows the root of a mount whose directory was removed. No name has a slash in it.
_REMOVED = b"//"


class Mount(NamedTuple):
    """One line of the table; a mount is known by ``number`` in all namespaces while it is there."""

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


def mounts(table: bytes) -> list[Mount]:
    """The mounts of a table. Raises ValueError, also for one that is too large."""
    if len(table) > MOST_BYTES or table.count(b"\n") > MOST_MOUNTS:
        raise ValueError("too many mounts")
    # A carriage return in a name is written as it is, so that it must not end a line.
    found = [_mount(line) for line in table.removesuffix(b"\n").split(b"\n")]
    if len({mount.number for mount in found}) != len(found):
        raise ValueError("two mounts of one number")
    return found


def _mount(line: bytes) -> Mount:
    fields = line.split(b" ")
    dash = fields.index(b"-", 6)
    number, parent, device, root, point = fields[:5]
    return Mount(int(number), int(parent), device, _plain(root), _plain(point), fields[dash + 1])


def _plain(field: bytes) -> bytes:
    return _ESCAPED.sub(lambda code: bytes([int(code[1], 8) & 0xFF]), field)


def place(table: Sequence[Mount], path: bytes) -> Place | None:
    """Where an absolute path without links leads, None if the table can't tell.

    It is walked as the kernel does: from the root directory on, and whenever something is
    mounted at what has been reached, on in the last that was mounted there. A mount has one
    parent, so none is met twice, and the walk takes no more steps than there are mounts.
    """
    here = _root(table)
    if here is None:
        return None
    mounted_on = _by_parent(table)
    while over := _next(mounted_on.get(here.number, ()), path):
        if len(over) > 1:
            return None
        here = over[0]
    return _in_file_system(here, path)


def _by_parent(table: Sequence[Mount]) -> Mapping[int, list[Mount]]:
    """What is mounted on each mount. A root that is its own parent is not mounted on anything."""
    mounted_on: defaultdict[int, list[Mount]] = defaultdict(list)
    for mount in table:
        if mount.parent != mount.number:
            mounted_on[mount.parent].append(mount)
    return mounted_on


def _root(table: Sequence[Mount]) -> Mount | None:
    """The mount of the root directory; None for a root that is no mount, as after chroot(2).

    What was mounted over it later has it for parent, and is not met on the way from it.
    """
    numbers = {mount.number for mount in table}
    found = [
        mount
        for mount in table
        if mount.point == b"/" and (mount.parent == mount.number or mount.parent not in numbers)
    ]
    return found[0] if len(found) == 1 else None


def _next(mounted_here: Sequence[Mount], path: bytes) -> list[Mount]:
    """Where the path comes first, of what is mounted here; more than one is ambiguous."""
    met = [mount for mount in mounted_here if _leads_through(path, mount.point)]
    nearest = min((len(mount.point) for mount in met), default=0)
    return [mount for mount in met if len(mount.point) == nearest]


def _in_file_system(mount: Mount, path: bytes) -> Place | None:
    if not mount.root.startswith(b"/") or _REMOVED in mount.root:
        return None
    inside = path if mount.point == b"/" else path[len(mount.point) :]
    joined = mount.root.rstrip(b"/") + b"/" + inside.strip(b"/")
    return Place(mount.device, joined.rstrip(b"/") or b"/", mount)


def _leads_through(path: bytes, point: bytes) -> bool:
    """Whether a path comes by a mount point. Not by "/", where the walk begins."""
    return path == point or path.startswith(point + b"/")
