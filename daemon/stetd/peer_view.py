"""Whether a peer can itself see a directory: what a sandbox was given is what it may ask for.

``agent.sock`` serves every workspace that the person allowed. A sandbox that was handed the socket
and one workspace must not reach the others through the daemon, which would be its deputy. So the
directory is looked for in the peer's own view of the file system, below ``/proc/<pid>/root``, and
has to be the same one. A process that is not confined sees what the daemon sees.

The peer makes that view as it likes, so no link in it is followed: an absolute one would lead
into the daemon's own view.
"""

from __future__ import annotations

import os
from contextlib import suppress

from stetd.storage.real_directories import open_real


def sees(pid: int, directory: str) -> bool:
    """Whether the process sees this directory (absolute, without links) at the same path.

    False also where that can't be told: the process has ended, or may not be looked into.
    """
    if pid <= 0:
        return False
    with suppress(OSError):
        here = os.stat(directory)
        fd = open_real(directory, below=f"/proc/{pid}/root")
        try:
            there = os.fstat(fd)
        finally:
            os.close(fd)
        return (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)
    return False
