"""The file ``rewritten`` of a shadow repository: new ids of commits after ``forget``.

A line for each commit that has a new id, ordered by old id:

    <old id> <present id>

It is searched for an id that no commit has. ``rewritten.next`` is the file's next version while a
path is being forgotten; it is durable before the history is switched.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from stetd.storage.disk import Disk, read_if_exists, replace_file

_LINE = re.compile(rb"^([0-9a-f]{40}) ([0-9a-f]{40})$", re.MULTILINE)
_NAME, _NEXT = "rewritten", "rewritten.next"


def successors(repository: str, prefix: str) -> list[str]:
    """The ordered present ids of the commits whose old id has this prefix."""
    names = _names(repository, _NAME)
    return sorted({new for old, new in names.items() if old.startswith(prefix)})


def read_pending(repository: str) -> dict[str, str]:
    """The new ids by old ones of the forget that is under way, or of the last one."""
    return _names(repository, _NEXT) or _names(repository, _NAME)


def _names(repository: str, name: str) -> dict[str, str]:
    content = read_if_exists(os.path.join(repository, name))
    return {old.decode(): new.decode() for old, new in _LINE.findall(content)}


def write_next(repository: str, changed: Mapping[str, str], disk: Disk) -> None:
    """Write the next version of the file, with these new ids added, durably."""
    known = _names(repository, _NAME)
    names = {old: changed.get(new, new) for old, new in known.items()} | dict(changed)
    content = "".join(f"{old} {names[old]}\n" for old in sorted(names)).encode()
    replace_file(os.path.join(repository, _NEXT), content, disk)


def take_next(repository: str, disk: Disk) -> None:
    """Replace the file by its next version, if there is one."""
    path = os.path.join(repository, _NEXT)
    if os.path.exists(path):
        os.replace(path, os.path.join(repository, _NAME))
        disk.sync_path(repository)
