"""Three-way merges of files by libgit2, which only this module uses.

libgit2 takes 17 MiB of memory, so this module is imported when there is something to merge.
"""

from __future__ import annotations

import re

import pygit2
from pygit2.enums import FileMode, ObjectType

#: A conflict marker; it has no label if that side is empty.
_CONFLICT = re.compile(r"^<<<<<<<[^\n]*\n.*?^>>>>>>>[^\n]*\n?", re.MULTILINE | re.DOTALL)


class _Scratch(pygit2.OdbBackend):
    """An object database in memory: a merge must leave nothing in the shadow repository."""

    def __init__(self, *blobs: bytes) -> None:
        super().__init__()
        self._blobs = {pygit2.hash(blob): blob for blob in blobs}

    def exists_cb(self, oid: pygit2.Oid) -> bool:
        return oid in self._blobs

    def read_cb(self, oid: pygit2.Oid) -> tuple[ObjectType, bytes]:
        return ObjectType.BLOB, self._blobs[oid]

    def read_header_cb(self, oid: pygit2.Oid) -> tuple[ObjectType, int]:
        return ObjectType.BLOB, len(self._blobs[oid])


def merge_file(base: bytes, ours: bytes, theirs: bytes) -> tuple[bytes | None, list[str]]:
    """Merge one file's content three ways, as ``git merge-file``: the result, or the hunks that
    conflict.

    Bytes pass through libgit2 as Latin-1 encoded in UTF-8, because pygit2 decodes the result. Lines
    end at ``\\n`` in both, and every byte comes back unchanged.
    """
    if b"\0" in base or b"\0" in ours or b"\0" in theirs:
        return None, ["this is a binary file; it was changed since"]
    sides = [side.decode("latin-1").encode() for side in (base, ours, theirs)]
    one, two, three = (
        pygit2.IndexEntry("file", pygit2.hash(side), FileMode.BLOB) for side in sides
    )
    store = pygit2.Odb()
    store.add_backend(_Scratch(*sides), 1)
    repository = pygit2.Repository()
    repository.set_odb(store)
    try:
        merged = repository.merge_file_from_index(one, two, three)
    except RuntimeError:  # pygit2's error for an empty result, which is no conflict
        return b"", []
    finally:
        # pygit2's collections refer back to its object: without this, the three files would stay in
        # memory until the garbage collector runs.
        repository.free()
        vars(repository).clear()
    if merged.automergeable:
        return merged.contents.encode("latin-1"), []
    text = merged.contents.encode("latin-1").decode("utf-8", "replace")
    return None, _CONFLICT.findall(text) or [text]
