"""Reading a shadow repository: commits, trees and blobs, without libgit2.

What is read comes from the repository's own files (:mod:`stetd.repository.object_files`); packs
that came or went meanwhile are noticed. Ids are 40 hex digits everywhere. An instance belongs to
one thread.
"""

from __future__ import annotations

import os
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache

import msgspec

from stetd.history.commits import StoredCommit, parse_commit
from stetd.history.objects import Entry
from stetd.repository.object_files import Damaged, Missing, ObjectFiles
from stetd.repository.references import HISTORY, PINS, DamagedReference, pinned, read_reference
from stetd.repository.shallow import read_shallow
from stetd.repository.stored_trees import StoredTrees

_TREE_ENTRY = re.compile(rb"([0-7]+) ([^\0]+)\0(.{20})", re.DOTALL)
#: Trees that one handle remembers, and their entries together (some 200 bytes each).
_MOST_TREES, _TREE_ENTRIES = 256, 60_000
#: Commits that one handle remembers (some 1 KB each): more than the query index may lack. A call
#: about a commit far back reads all of those, on the writer; the next such call should not again.
_COMMITS = 6_000


class MissingObject(Exception):
    """The repository does not hold an object that it should, or only a damaged one."""


class BrokenRepository(Exception):
    """The files that make a directory a repository are not what they should be."""


class _Trees:
    """The trees that were read last, by id; so many that their entries don't fill the memory."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Mapping[str, Entry]] = OrderedDict()
        self._entries = 0

    def find(self, oid: str) -> Mapping[str, Entry] | None:
        """The entries of a tree, if they are remembered."""
        found = self._known.get(oid)
        if found is not None:
            self._known.move_to_end(oid)
        return found

    def keep(self, oid: str, entries: Mapping[str, Entry]) -> None:
        """Remember a tree, and forget what was not asked for the longest."""
        self._known[oid] = entries
        self._entries += len(entries)
        while len(self._known) > 1 and (
            self._entries > _TREE_ENTRIES or len(self._known) > _MOST_TREES
        ):
            _, forgotten = self._known.popitem(last=False)
            self._entries -= len(forgotten)


class _Stored:
    """What a handle reads, and remembers none of.

    It is not the handle itself because the handle's caches call it: an object that a cache of
    its own leads back to is freed only by the garbage collector, which is minutes away, and
    every question to the history has a handle.
    """

    def __init__(self, path: str) -> None:
        self.files = ObjectFiles(path)
        self.shallow = read_shallow(path)

    def read(self, oid: str) -> bytes:
        """An object's content; MissingObject if it is not there."""
        try:
            return self.files.read(oid)[1]
        except (Missing, Damaged) as error:
            raise MissingObject(oid) from error

    def commit(self, oid: str) -> StoredCommit:
        """A commit with its metadata; MissingObject if it is not there."""
        commit = parse_commit(oid, self.read(oid))
        return commit if oid not in self.shallow else msgspec.structs.replace(commit, parent=None)


class StoredObjects:
    """One handle on a shadow repository, to read it. Raises BrokenRepository where it is none.

    ``commits``: how many it remembers.
    """

    def __init__(self, path: str, commits: int = _COMMITS) -> None:
        self.path = path
        for name in ("HEAD", "objects", "refs"):
            if not os.path.exists(os.path.join(path, name)):
                raise BrokenRepository(f"{path} is no repository: it has no {name}")
        self._stored = _Stored(path)
        self._trees = _Trees()
        self.trees = StoredTrees(self._stored.read)
        self.commit = lru_cache(maxsize=commits)(self._stored.commit)

    def reopen(self) -> None:
        """Let go of packs that are gone, and see what came in their place."""
        self._stored.files.close()
        self._stored.shallow = read_shallow(self.path)
        self.commit.cache_clear()  # a commit may have become the oldest, or be gone

    def close(self) -> None:
        """Release the files. What is remembered goes with the handle."""
        self._stored.files.close()

    def head(self) -> str | None:
        """The commit that ``refs/heads/history`` names; MissingObject if it is damaged."""
        return self._reference(HISTORY, lambda: read_reference(self.path, HISTORY))

    def pinned(self, name: str) -> str | None:
        """The commit that a pin names; None if no pin is called so."""
        return self._reference(f"{PINS}/{name}", lambda: pinned(self.path, name))

    @staticmethod
    def _reference(name: str, read: Callable[[], str | None]) -> str | None:
        try:
            return read()
        except (DamagedReference, OSError) as error:
            raise MissingObject(name) from error

    def blob(self, oid: str) -> bytes:
        """A blob's content; MissingObject if it is not there."""
        return self._stored.read(oid)

    def load_tree(self, oid: str) -> Mapping[str, Entry]:
        """A tree's entries by name; MissingObject if it is not there."""
        known = self._trees.find(oid)
        if known is None:
            content = self._stored.read(oid)
            known = {
                name.decode(): Entry(int(mode, 8), entry.hex())
                for mode, name, entry in _TREE_ENTRY.findall(content)
            }
            self._trees.keep(oid, known)
        return known

    def raw_commit(self, oid: str) -> bytes:
        """A commit object's content; MissingObject if it is not there."""
        return self._stored.read(oid)

    def raw_parent(self, oid: str) -> str | None:
        """The parent that a commit names, whether or not it is there."""
        return parse_commit(oid, self._stored.read(oid)).parent

    def walk(self, start: str | None) -> Iterator[StoredCommit]:
        """The history from ``start`` back to its beginning."""
        while start is not None:
            stored = self.commit(start)
            yield stored
            start = stored.parent

    def is_commit(self, oid: str) -> bool:
        """Whether a full id names a commit."""
        try:
            return self._stored.files.read(oid)[0] == "commit"
        except (Missing, Damaged):
            return False

    def is_empty(self) -> bool:
        """Whether there is nothing in it: no reference of a history, and no object."""
        try:
            return self.head() is None and self._stored.files.is_empty()
        except MissingObject:
            return False

    def loose_path(self, oid: str) -> str:
        """Where the object lies if it is loose."""
        return os.path.join(self.path, "objects", oid[:2], oid[2:])

    @property
    def reference_path(self) -> str:
        """The file of ``refs/heads/history``."""
        return os.path.join(self.path, *HISTORY.split("/"))
