"""The file ``rewritten`` of a shadow repository: new ids of commits since a path was forgotten.

A line for each commit that has another id now, in the order of the old ids:

    <old id> <id that it has now>

An id that somebody noted is found there when no commit has it. ``rewritten.next`` is the same
while a path is being forgotten; it is durable before the history is another one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from stetd.storage.disk import Disk, read_if_exists, replace_file

_LINE = re.compile(rb"^([0-9a-f]{40}) ([0-9a-f]{40})$", re.MULTILINE)
_NAME, _NEXT = "rewritten", "rewritten.next"


def successors(repository: str, prefix: str) -> list[str]:
    """What the commits whose id began so are called now, in order."""
    content = read_if_exists(os.path.join(repository, _NAME))
    pattern = rb"^%s[0-9a-f]{%d} ([0-9a-f]{40})$" % (prefix.encode(), 40 - len(prefix))
    found = re.findall(pattern, content, re.MULTILINE) if content else []
    return sorted({oid.decode() for oid in found})


def read_pending(repository: str) -> dict[str, str]:
    """The ids of the commits that are being rewritten, or were the last time."""
    return _names(repository, _NEXT) or _names(repository, _NAME)


def _names(repository: str, name: str) -> dict[str, str]:
    content = read_if_exists(os.path.join(repository, name))
    return {old.decode(): new.decode() for old, new in _LINE.findall(content)}


def write_next(repository: str, changed: Mapping[str, str], disk: Disk) -> None:
    """Prepare the file with these commits renamed as well, durably."""
    known = _names(repository, _NAME)
    names = {old: changed.get(new, new) for old, new in known.items()} | dict(changed)
    content = "".join(f"{old} {names[old]}\n" for old in sorted(names)).encode()
    replace_file(os.path.join(repository, _NEXT), content, disk)


def take_next(repository: str, disk: Disk) -> None:
    """Let the prepared file take its place, if there is one."""
    path = os.path.join(repository, _NEXT)
    if os.path.exists(path):
        os.replace(path, os.path.join(repository, _NAME))
        disk.sync_directory(repository)
