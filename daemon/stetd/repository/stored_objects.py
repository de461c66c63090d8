"""Reads commits, trees and blobs of a shadow repository, without libgit2.

Objects come from the repository's files (:mod:`stetd.repository.object_files`); packs that are
added or removed meanwhile are noticed. Ids are 40 hex digits. An instance belongs to one thread.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import msgspec

from stetd.history.commits import StoredCommit, parse_commit
from stetd.history.objects import EMPTY_TREE, TREE, Change, Entry, file_of
from stetd.history.tree_bytes import differing_entries, entries_of, find_in
from stetd.repository.object_files import (
    Damaged,
    Missing,
    ObjectFiles,
    all_loose_ids,
    as_damage,
    loose_name,
    pack_names,
)
from stetd.repository.recent import Recent
from stetd.repository.references import (
    HISTORY,
    PINS,
    DamagedReference,
    read_reference,
    read_shallow,
    why_no_pin_name,
)

#: Tree entries in a handle's cache (some 200 bytes each); each tree counts for 200 more.
_TREE_ENTRIES, _TREE = 60_000, 200
#: Commits in a handle's cache (some 1 KB each).
_COMMITS = 2_000
#: Histories in a pool, and handles of each.
_HISTORIES, _HANDLES = 4, 2
#: Bytes of raw trees in the cache, and the overhead that is counted for each: a small directory
#: takes less than that.
_KEPT_BYTES, _TO_KEEP_ONE = 4 << 20, 320


class MissingObject(Exception):
    """The repository lacks an object that it should have, or has only a damaged copy."""


class BrokenRepository(Exception):
    """The directory is no repository, or its files are damaged."""


class StoredObjects(ObjectFiles):
    """A handle for reading a shadow repository. Raises BrokenRepository if there is none.

    It has no reference cycles: with cycles only the garbage collector would free it, minutes later,
    and every question opens a handle.
    """

    def __init__(self, path: str) -> None:
        for name in ("HEAD", "objects", "refs"):
            if not os.path.exists(os.path.join(path, name)):
                raise BrokenRepository(f"{path} is no repository: it has no {name}")
        super().__init__(path)
        self._shallow = read_shallow(path)
        self._commits: Recent[str, StoredCommit] = Recent(_COMMITS)
        self._trees: Recent[str, Mapping[str, Entry]] = Recent(_TREE_ENTRIES)
        self._tree_bytes: Recent[str, bytes] = Recent(_KEPT_BYTES, least=2)

    def reopen(self) -> None:
        """Close packs that were removed, and list the present ones."""
        self.close()
        self._shallow = read_shallow(self.path)
        # A cached commit may be the first now, or gone.
        self._commits = Recent(_COMMITS)

    def head(self) -> str | None:
        """The commit that ``refs/heads/history`` names; MissingObject if it is damaged."""
        return self._reference(HISTORY)

    def pinned(self, name: str) -> str | None:
        """The commit that a pin names; None if there is no such pin."""
        return None if why_no_pin_name(name) else self._reference(f"{PINS}/{name}")

    def _reference(self, name: str) -> str | None:
        try:
            return read_reference(self.path, name)
        except DamagedReference as error:
            raise MissingObject(name) from error
        except OSError as error:
            raise MissingObject(name) from as_damage(error, name)

    def commit(self, oid: str) -> StoredCommit:
        """A commit with its metadata. Raises MissingObject."""
        known = self._commits.get(oid)
        if known is None:
            known = parse_commit(oid, self.blob(oid))
            if oid in self._shallow:
                known = msgspec.structs.replace(known, parent=None)
            self._commits.keep(oid, known)
        return known

    def blob(self, oid: str) -> bytes:
        """The content of a blob or another object. Raises MissingObject, OSError."""
        try:
            return self.read(oid)[1]
        except (Missing, Damaged) as error:
            raise MissingObject(oid) from error

    def load_tree(self, oid: str) -> Mapping[str, Entry]:
        """A tree's entries by name. Raises MissingObject."""
        known = self._trees.get(oid)
        if known is None:
            known = entries_of(self.blob(oid))
            self._trees.keep(oid, known, len(known) + _TREE)
        return known

    def walk(self, start: str | None) -> Iterator[StoredCommit]:
        """The commits from ``start`` back to the first."""
        while start is not None:
            stored = self.commit(start)
            yield stored
            start = stored.parent

    def is_commit(self, oid: str) -> bool:
        """Whether there is a commit with this full id."""
        try:
            return self.read(oid)[0] == "commit"
        except (Missing, Damaged):
            return False

    def is_empty(self) -> bool:
        """Whether the repository has no history reference and no object."""
        try:
            has_objects = pack_names(self.path) or all_loose_ids(self.path)
            return self.head() is None and not has_objects
        except MissingObject:
            return False

    def loose_path(self, oid: str) -> str:
        """The path of an object, if it is loose."""
        return os.path.join(self.path, loose_name(oid))

    @property
    def reference_path(self) -> str:
        """The file of ``refs/heads/history``."""
        return os.path.join(self.path, HISTORY)

    # -- looking into trees and comparing them as bytes. :mod:`stetd.history.objects` does the same
    # with values, which have to be made for all of perhaps 50,000 entries

    def file_in(self, tree: str, path: str) -> tuple[int, str] | None:
        """(git mode, id) of the blob or link at a path; None if there is none."""
        return file_of(self._entry(tree, path))

    def files_below(self, tree: str, path: str) -> Iterator[str]:
        """The files in a directory at a path, and in those below it."""
        directory = _tree(self._entry(tree, path))
        return (name for name, _ in self.files(directory, f"{path}/")) if directory else iter(())

    def files(self, tree: str, prefix: str = "") -> Iterator[tuple[str, tuple[int, str]]]:
        """Every (path, (git mode, id)) below a tree, in name order."""
        return ((path, file) for path, _, file in self.changed(None, tree, prefix) if file)

    def _entry(self, tree: str, path: str) -> Entry | None:
        *parents, name = path.split("/")
        for parent in parents:
            child = _tree(find_in(self._content(tree), parent))
            if child is None:
                return None
            tree = child
        return find_in(self._content(tree), name)

    def changed(
        self, old: str | None, new: str | None, prefix: str = ""
    ) -> Iterator[tuple[str, Change, Change]]:
        """Every (path, before, after) that differs between two trees, ordered by path.

        None is no tree.
        """
        if old == new:
            return
        before, after = differing_entries(self._content(old), self._content(new))
        names = {*before, *after}
        folders = [f"{n}/" for n in names if _tree(before.get(n)) or _tree(after.get(n))]
        for name in sorted([*names, *folders]):
            one, two = (side.get(name.rstrip("/")) for side in (before, after))
            if name.endswith("/"):
                yield from self.changed(_tree(one), _tree(two), prefix + name)
            elif (was := file_of(one)) or file_of(two):
                yield prefix + name, was, file_of(two)

    def _content(self, oid: str | None) -> bytes:
        if oid is None or oid == EMPTY_TREE:
            return b""
        content = self._tree_bytes.get(oid)
        if content is None:
            content = self.blob(oid)
            self._tree_bytes.keep(oid, content, len(content) + _TO_KEEP_ONE)
        return content


def _tree(entry: Entry | None) -> str | None:
    return entry.oid if entry is not None and entry.mode == TREE else None


class KeptHandles(msgspec.Struct):
    """A pool of handles, kept between questions with the commits in their caches.

    Several threads use it; each handle is used by one at a time.
    """

    _changing: threading.Lock = msgspec.field(default_factory=threading.Lock)
    _kept: OrderedDict[str, list[StoredObjects]] = msgspec.field(default_factory=OrderedDict)

    @contextmanager
    def opened(self, path: str) -> Iterator[StoredObjects]:
        """A context with a handle on this history. Raises BrokenRepository."""
        with self._changing:
            home = self._kept.setdefault(path, [])
            kept = home.pop() if home else None
        handle = kept or StoredObjects(path)
        try:
            yield handle
        except BaseException:
            handle.close()
            raise
        with self._changing:
            if self._kept.get(path) is not home or len(home) == _HANDLES:
                home = [handle]  # dropped meanwhile: close it
            else:
                home.append(handle)
                self._kept.move_to_end(path)
                home = self._kept.popitem(last=False)[1] if len(self._kept) > _HISTORIES else []
        for left in home:
            left.close()

    def drop(self, path: str) -> None:
        """Close all handles on a history, because its commits or packs have changed."""
        with self._changing:
            left = self._kept.pop(path, [])
        for handle in left:
            handle.close()
