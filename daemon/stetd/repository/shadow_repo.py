"""The shadow repository: an ordinary bare Git repository that holds what agents did.

It has no index, no work tree and no hooks; neither the user's Git configuration nor any ``GIT_*``
variable is read. Reading is :mod:`stetd.repository.stored_objects`.

An instance belongs to one thread. Objects may be written again at any time: they are
named by their content. Nothing here syncs; checkpoints do (:meth:`loose_path`).
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable
from contextlib import suppress

from stetd.history.objects import NewObject
from stetd.repository.object_files import Damaged, read_loose
from stetd.repository.stored_objects import StoredObjects

#: Effort of deflating: garbage collection does it thoroughly.
_FAST = 1
#: Git takes a file that is called so for the leftover of a process that was killed.
_UNFINISHED = "tmp_obj_stet"


class ShadowRepository(StoredObjects):
    """A handle that also writes. Raises BrokenRepository where there is no repository."""

    def write(self, objects: Iterable[NewObject]) -> None:
        """Add loose objects; one that is there already is left alone. Raises OSError."""
        for kind, oid, content in objects:
            path = self.loose_path(oid)
            if os.path.exists(path):
                continue
            folder = os.path.dirname(path)
            os.makedirs(folder, mode=0o700, exist_ok=True)
            stored = zlib.compress(b"%s %d\0" % (kind.encode(), len(content)) + content, _FAST)
            _replace(os.path.join(folder, _UNFINISHED), path, stored, 0o444)

    def clear_damaged(self, oids: Iterable[str]) -> None:
        """Remove loose objects that are damaged, so that they can be written again.

        "Write if missing" is fooled by an empty loose object, which is what a power cut
        leaves of one that was not synced.
        """
        for oid in oids:
            with suppress(FileNotFoundError):  # there is none, or it was packed meanwhile
                try:
                    read_loose(self.path, oid)
                except Damaged:
                    os.unlink(self.loose_path(oid))

    def set_head(self, oid: str | None) -> None:
        """Move ``refs/heads/history``. None: no commit yet. Raises OSError."""
        path = self.reference_path
        if oid is None:
            with suppress(FileNotFoundError):
                os.unlink(path)
            return
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        _replace(path + ".lock", path, oid.encode() + b"\n", 0o644)


def _replace(unfinished: str, path: str, content: bytes, mode: int) -> None:
    """Write a file under another name, then give it its own."""
    with suppress(FileNotFoundError):
        os.unlink(unfinished)
    fd = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with os.fdopen(fd, "wb") as file:
        file.write(content)
    os.replace(unfinished, path)
