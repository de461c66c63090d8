"""Reachability: which objects of a repository can be reached from its references.

Marks are kept per object in the order of ids, 21 bytes each, so a history of any length fits. The
walk stops at the commits that the file ``shallow`` names (:mod:`stetd.repository.references`).

A reachable object that is missing raises BrokenHistory: garbage collection must not go on in a
damaged repository.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from stetd.history.objects import TREE_MODE, NewObject
from stetd.repository.object_files import Damaged, Missing, ObjectFiles
from stetd.repository.references import read_shallow
from stetd.repository.stored_ids import SortedIds

_SUBMODULE = b"160000"
#: The ids in the header of a commit or tag.
LINKS = re.compile(rb"^(tree|parent|object) ([0-9a-f]{40})$", re.MULTILINE)
#: Matches (mode and name, id) of each entry of a tree.
named_entries = re.compile(rb"([^\0]+)\0(.{20})", re.DOTALL).findall
#: Directories whose last entries are cached: those of the next commit differ in few.
_REMEMBERED = 512


class BrokenHistory(Exception):
    """An object that the history needs is missing or damaged."""


class Marks(SortedIds):
    """A mark for each object of a repository. Walks from references and marks what it reaches."""

    def __init__(self, files: ObjectFiles, ids: bytes) -> None:
        super().__init__(ids)
        self._files = files
        self._shallow = frozenset(map(bytes.fromhex, read_shallow(files.path)))
        #: Marked objects that came after the ids were listed.
        self._late: set[bytes] = set()
        #: The entries of the trees that were read last, by path.
        self._last: dict[bytes, frozenset[tuple[bytes, bytes]]] = {}
        #: Called with the index of each object when it is marked.
        self.on_mark: Callable[[int], object] = lambda _: None

    def mark(self, oid: bytes) -> bool:
        """Mark an object; returns whether it was unmarked."""
        number = self.find(oid)
        if number is None:
            new = oid not in self._late
            self._late.add(oid)
            return new
        new = not self.known[number]
        self.known[number] = 1
        if new:
            self.on_mark(number)
        return new

    def has(self, oid: bytes) -> bool:
        """Whether an object is marked."""
        number = self.find(oid)
        return oid in self._late if number is None else bool(self.known[number])

    def mark_from(self, roots: Iterable[str], *, parents: bool = True) -> None:
        """Mark all that these objects lead to; perhaps not by ``parents``. Raises BrokenHistory."""
        waiting = [(b"", bytes.fromhex(oid)) for oid in roots]  # each with the path of a tree
        while waiting:
            path, oid = waiting.pop()
            if not self.mark(oid):
                continue
            kind, _, content = self.read(oid)
            if kind == "tree":
                waiting += self._new_trees(path, content)
            elif kind in ("commit", "tag"):
                links = LINKS.findall(content.partition(b"\n\n")[0])
                for what, name in reversed(links):  # the tree comes first, and is taken first
                    if what != b"parent" or (parents and oid not in self._shallow):
                        waiting.append((b"", bytes.fromhex(name.decode())))

    def _new_trees(self, path: bytes, content: bytes) -> list[tuple[bytes, bytes]]:
        """Mark the files in a directory, and return its subdirectories, each with its path."""
        entries = frozenset(named_entries(content))
        # What the version read before had, too, is marked, or waits to be.
        new = entries - self._last.get(path, frozenset())
        if len(self._last) >= _REMEMBERED:
            self._last.clear()
        self._last[path] = entries
        trees = []
        for head, child in new:
            mode, _, name = head.partition(b" ")
            if mode == TREE_MODE:
                trees.append((path + b"/" + name, child))
            elif mode != _SUBMODULE and self.mark(child) and self.find(child) is None:
                self.read(child)  # it came after the listing, or it is missing
        return trees

    def read(self, oid: bytes) -> NewObject:
        """An object. Raises BrokenHistory."""
        try:
            kind, content = self._files.read(oid.hex())
        except (Missing, Damaged) as error:
            raise BrokenHistory(f"{oid.hex()} is missing or damaged: {error}") from error
        return NewObject(kind, oid.hex(), content)
