"""Three-way merges of files, by libgit2: the one module that knows it.

It takes 17 MiB and is loaded with the first merge.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, NamedTuple

#: The marker has no label where that side is empty.
_CONFLICT = re.compile(r"^<<<<<<<[^\n]*\n.*?^>>>>>>>[^\n]*\n?", re.MULTILINE | re.DOTALL)


class Merge(NamedTuple):
    """A three-way merge of one file: the result, or the hunks that conflict."""

    content: bytes | None
    hunks: list[str]


def merge_file(base: bytes, ours: bytes, theirs: bytes) -> Merge:
    """Three-way merge of one file's content, as ``git merge-file`` does it.

    Bytes go through libgit2 as Latin-1 in UTF-8, because pygit2 decodes the result:
    lines end at ``\\n`` either way, and any byte comes back as it was.
    """
    if b"\0" in base or b"\0" in ours or b"\0" in theirs:
        return Merge(None, ["binary files differ"])
    import pygit2

    repository = pygit2.Repository()
    try:
        merged = _merged(repository, base, ours, theirs)
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


def _merged(repository: Any, base: bytes, ours: bytes, theirs: bytes) -> Any:
    import pygit2

    scratch = _scratch()()
    store = pygit2.Odb()
    store.add_backend(scratch, 1)
    repository.set_odb(store)
    base_entry, our_entry, their_entry = [
        pygit2.IndexEntry(
            "file", scratch.add(side.decode("latin-1").encode()), pygit2.enums.FileMode.BLOB
        )
        for side in (base, ours, theirs)
    ]
    return repository.merge_file_from_index(
        base_entry, our_entry, their_entry, use_deprecated=False
    )


@cache
def _scratch() -> Any:
    import pygit2
    from pygit2.enums import ObjectType

    class Scratch(pygit2.OdbBackend):
        """Blobs in memory: merging needs a repository, and must leave nothing in ours."""

        def __init__(self) -> None:
            super().__init__()
            self._blobs: dict[pygit2.Oid, bytes] = {}

        def add(self, content: bytes) -> pygit2.Oid:
            oid = pygit2.hash(content)
            self._blobs[oid] = content
            return oid

        def exists_cb(self, oid: pygit2.Oid) -> bool:
            return oid in self._blobs

        def read_cb(self, oid: pygit2.Oid) -> tuple[ObjectType, bytes]:
            return ObjectType.BLOB, self._blobs[oid]

        def read_header_cb(self, oid: pygit2.Oid) -> tuple[ObjectType, int]:
            return ObjectType.BLOB, len(self._blobs[oid])

    return Scratch
