"""The file ``shallow`` of a repository: where its history was cut off.

Git's own format (gitformat-shallow): the ids of the commits whose parents are not there, one a
line. Plain git then takes them for commits without parents, and ``git fsck`` accepts it.
"""

from __future__ import annotations

import os
import re

from stetd.storage.disk import Disk

_ID = re.compile(rb"^[0-9a-f]{40}$", re.MULTILINE)


def read_shallow(repository: str) -> frozenset[str]:
    """The commits whose parents were dropped."""
    try:
        with open(os.path.join(repository, "shallow"), "rb") as file:
            return frozenset(oid.decode() for oid in _ID.findall(file.read()))
    except FileNotFoundError:
        return frozenset()


def write_shallow(repository: str, oldest: str, disk: Disk, *others: str) -> None:
    """Cut the history off before this commit, and these, durably."""
    path = os.path.join(repository, "shallow")
    fd = disk.open(path + ".tmp", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        disk.write_all(fd, "".join(f"{oid}\n" for oid in (oldest, *others)).encode())
        disk.fsync(fd)
    finally:
        os.close(fd)
    os.replace(path + ".tmp", path)
    disk.sync_directory(repository)
