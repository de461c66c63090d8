"""The file ``shallow`` of a repository: where retention has cut its history.

Git's format (gitformat-shallow): the ids of the commits whose parents are missing, one per line.
Plain git then treats them as commits without parents, and ``git fsck`` accepts it.
"""

from __future__ import annotations

import os
import re

from stetd.storage.disk import Disk, read_if_exists, replace_file

_ID = re.compile(rb"^[0-9a-f]{40}$", re.MULTILINE)


def read_shallow(repository: str) -> frozenset[str]:
    """The commits whose parents were dropped."""
    content = read_if_exists(os.path.join(repository, "shallow"))
    return frozenset(oid.decode() for oid in _ID.findall(content))


def write_shallow(repository: str, oldest: str, disk: Disk, *others: str) -> None:
    """Cut the history before this commit, and these others, durably."""
    content = "".join(f"{oid}\n" for oid in (oldest, *others)).encode()
    replace_file(os.path.join(repository, "shallow"), content, disk)
