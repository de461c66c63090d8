"""The shadow repository: an ordinary bare Git repository with the history of a workspace.

It has no index, no work tree and no hooks; neither the user's Git configuration nor any ``GIT_*``
variable is read. :mod:`stetd.repository.stored_objects` reads it.

An instance belongs to one thread. Objects may be written again at any time, because their names
are hashes of their content. A handle syncs nothing; checkpoints do.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable
from contextlib import suppress

from stetd.history.objects import NewObject
from stetd.repository.object_files import Damaged, read_loose
from stetd.repository.packing import UNFINISHED, clear_half_packs
from stetd.repository.references import HISTORY, PINS
from stetd.repository.stored_objects import StoredObjects
from stetd.storage.disk import Disk, NotRegular, read_if_exists, replace_file

#: The files of a bare Git repository.
_HEAD = b"ref: " + HISTORY.encode() + b"\n"
_CONFIG = b"""[core]
\trepositoryformatversion = 0
\tfilemode = true
\tbare = true
\tlogAllRefUpdates = false
\thooksPath = /dev/null
[gc]
\tauto = 0
"""
_DIRECTORIES = (
    "", "objects", "objects/info", "objects/pack", "refs", "refs/heads", PINS, "refs/tags",
)  # fmt: skip
#: Compression level: low; garbage collection compresses more.
_FAST = 1


def create_repository(path: str, disk: Disk, *, clear_leftovers: bool = True) -> None:
    """Create an empty shadow repository (0700) durably, or complete one after a crash.

    ``clear_leftovers``: remove a killed process's locks and temporary files; nobody may be
    writing there.

    Each file is synced: with an empty ``HEAD`` after a power cut it would be no repository.
    """
    for folder in _DIRECTORIES:
        os.makedirs(os.path.join(path, folder), mode=0o700, exist_ok=True)
    if clear_leftovers:  # locks would block later commits
        clear_half_packs(path)
        for folder in ("", "refs/heads", PINS, "objects", "objects/pack"):
            for name in os.listdir(os.path.join(path, folder)):
                if name.endswith((".lock", ".tmp")) or name.startswith("tmp_"):
                    os.unlink(os.path.join(path, folder, name))
    head = os.path.join(path, "HEAD")
    if read_if_exists(head) != _HEAD:
        replace_file(head, _HEAD, disk)
    config = read_if_exists(os.path.join(path, "config"))
    if b"[core]" not in config or b"\0" in config:
        replace_file(os.path.join(path, "config"), _CONFIG, disk)
    for folder in _DIRECTORIES:
        disk.sync_path(os.path.join(path, folder))


class ShadowRepository(StoredObjects):
    """A handle that also writes. Raises BrokenRepository if there is no repository."""

    def write(self, objects: Iterable[NewObject]) -> None:
        """Add loose objects, except existing ones. Raises OSError."""
        for kind, oid, content in objects:
            path = self.loose_path(oid)
            if os.path.exists(path):
                continue
            folder = os.path.dirname(path)
            os.makedirs(folder, mode=0o700, exist_ok=True)
            stored = zlib.compress(b"%s %d\0" % (kind.encode(), len(content)) + content, _FAST)
            _replace(os.path.join(folder, UNFINISHED), path, stored, 0o444)

    def clear_damaged(self, oids: Iterable[str]) -> None:
        """Remove damaged loose objects, so that they can be written again.

        :meth:`write` skips existing files, and a power cut may leave an empty file of an object
        that was not synced.
        """
        for oid in oids:
            with suppress(FileNotFoundError):  # not loose, or packed meanwhile
                try:
                    read_loose(self.path, oid)
                except (Damaged, NotRegular):
                    os.unlink(self.loose_path(oid))

    def set_head(self, oid: str) -> None:
        """Move ``refs/heads/history``. Raises OSError."""
        path = self.reference_path
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        _replace(path + ".lock", path, oid.encode() + b"\n", 0o644)


def _replace(unfinished: str, path: str, content: bytes, mode: int) -> None:
    """Write a file under a temporary name, then rename it."""
    with suppress(FileNotFoundError):
        os.unlink(unfinished)
    fd = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with os.fdopen(fd, "wb") as file:
        file.write(content)
    os.replace(unfinished, path)
