"""Three-way merges of files, by libgit2: the one module that knows it.

It takes 17 MiB: who merges imports this when there is something to merge.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import pygit2
from pygit2.enums import FileMode, ObjectType

#: The marker has no label where that side is empty.
_CONFLICT = re.compile(r"^<<<<<<<[^\n]*\n.*?^>>>>>>>[^\n]*\n?", re.MULTILINE | re.DOTALL)


class Merge(NamedTuple):
    """A three-way merge of one file: the result, or the hunks that conflict."""

    content: bytes | None
    hunks: list[str]


class _Scratch(pygit2.OdbBackend):
    """Blobs in memory: merging needs a repository, and must leave nothing in ours."""

    def __init__(self, *blobs: bytes) -> None:
        super().__init__()
        self._blobs = {pygit2.hash(blob): blob for blob in blobs}

    def exists_cb(self, oid: pygit2.Oid) -> bool:
        return oid in self._blobs

    def read_cb(self, oid: pygit2.Oid) -> tuple[ObjectType, bytes]:
        return ObjectType.BLOB, self._blobs[oid]

    def read_header_cb(self, oid: pygit2.Oid) -> tuple[ObjectType, int]:
        return ObjectType.BLOB, len(self._blobs[oid])


def merge_file(base: bytes, ours: bytes, theirs: bytes) -> Merge:
    """Three-way merge of one file's content, as ``git merge-file`` does it.

    Bytes go through libgit2 as Latin-1 in UTF-8, because pygit2 decodes the result:
    lines end at ``\\n`` either way, and any byte comes back as it was.
    """
    if b"\0" in base or b"\0" in ours or b"\0" in theirs:
        return Merge(None, ["binary files differ"])
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
    except RuntimeError:  # pygit2 stumbles over a result without content: no conflict is that
        return Merge(b"", [])
    finally:
        # The collections that belong to pygit2's object lead back to it: left so, a merge would
        # keep its three files until the garbage collector comes.
        repository.free()
        vars(repository).clear()
    if merged.automergeable:
        return Merge(merged.contents.encode("latin-1"), [])
    text = merged.contents.encode("latin-1").decode("utf-8", "replace")
    return Merge(None, _CONFLICT.findall(text) or [text])
