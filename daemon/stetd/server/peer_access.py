"""Whether a peer can itself see a directory: what a sandbox was given is what it may ask for.

``agent.sock`` serves every workspace that the person allowed. A sandbox that was handed the socket
and one workspace must not reach the others through the daemon, which would be its deputy. So the
directory has to be the same one in the peer's view and in the daemon's, at the same path. A process
that is not confined sees what the daemon sees.

The views are compared by their tables of mounts (:mod:`stetd.server.mount_table`), which may be
read of any process. ``/proc/<pid>/root`` may not: that takes the rights of a debugger, which the
daemon does not have over a peer with more capabilities than its own, over one that is not
dumpable, nor, from within a user namespace, over anyone outside.

**Why a peer can't pretend.** It may make its view as it likes: mounts, a root directory and links
of its own, in a user namespace of its own. It is believed if the last mount on its way to the path
is of the same file system, and what is mounted there, joined with the rest of the path, is the very
place that the daemon finds.

- A directory has one place in its file system, and the kernel says which is mounted. To bind a
  directory, the peer must have reached it. Any other directory, and any file system of its own, is
  another place under whatever name it is put.
- So the peer holds a mount of that directory or of one above. The rest of the way is there and free
  of links: the daemon has just gone it, in the same file system. What else is mounted on it in
  the peer's view is in the table, and is where the walk goes on; so a workspace that is hidden by
  a mount over it is not seen. Who made a sandbox by namespaces has locked such mounts for those
  inside (mount_namespaces(7)).
- No link in the peer's own part of the way counts: mount points are told without.
- The table is read again if a mount was made or removed meanwhile.
- A file system that does not tell what of it is mounted (NFS says "/" for anything) proves nothing
  by its places; there it must be the same mount, as it is for all that share a namespace.

What it takes on trust: that nobody inside can rename a directory *above* a workspace that is hidden
by a mount alone. The mount's name would move with it, away from the path, for as long as the table
is read; but there another directory could be put in the workspace's place as well.

What is no part of a table holds the peer elsewhere, not here: see docs/security.md.
"""

from __future__ import annotations

import os
import select
from contextlib import suppress

from stetd.server.mount_table import MOST_BYTES, Place, mounts, place
from stetd.storage.real_directories import open_real

_CHUNK = 1 << 20
#: How often a table is read that changes while it is; then nobody can tell.
_READINGS = 20
#: Types of file systems whose tables have the same root for whatever part of them is mounted.
_NO_ROOT_TOLD = (b"nfs", b"nfs4", b"cgroup", b"cgroup2")


def sees(pid: int, directory: str) -> bool:
    """Whether the process sees this directory (absolute, without links) at the same path.

    False also where that can't be told: the process has ended, or has a root directory that is
    no mount (chroot(2)), or more mounts than are looked at. Not to be asked on the event loop or
    the writer: a table may be large, and who is asked about can make it so.
    """
    if pid <= 0:
        return False
    with suppress(OSError, ValueError):
        os.close(open_real(directory))
        here, there = _place("self", directory), _place(str(pid), directory)
        if here is None or there is None or here[:2] != there[:2]:
            return False
        return here.mount.kind not in _NO_ROOT_TOLD or here.mount.number == there.mount.number
    return False


def _place(process: str, directory: str) -> Place | None:
    return place(mounts(_table(process)), os.fsencode(directory))


def _table(process: str) -> bytes:
    """A process's table as it was at one moment; of one that is too large, more than is taken.

    Raises OSError.
    It comes in pieces; that mounts have changed since the opening is told as an exception to
    who polls (proc(5)).
    """
    for _ in range(_READINGS):
        fd = os.open(f"/proc/{process}/mountinfo", os.O_RDONLY | os.O_CLOEXEC)
        try:
            pieces, size = [], 0
            while size <= MOST_BYTES and (piece := os.read(fd, _CHUNK)):
                pieces.append(piece)
                size += len(piece)
            poll = select.poll()
            poll.register(fd, select.POLLPRI)
            if not poll.poll(0):
                return b"".join(pieces)
        finally:
            os.close(fd)
    raise OSError("the mounts keep changing")
