"""Which objects of a repository its references need: everything that can be walked to from them.

Marks are kept per object in the order of ids, 21 bytes each, so a history of any length fits.
Reading stops at the commits that the file ``shallow`` names (:mod:`stetd.repository.shallow`).

An object that is needed and not there raises MissingObject: whoever collects garbage must not
go on in a damaged repository.
"""

from __future__ import annotations

import heapq
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator

from stetd.repository.object_files import (
    INDEX_HEAD,
    Damaged,
    Missing,
    ObjectFiles,
    Pack,
    loose_ids,
)

_TREE, _SUBMODULE = b"40000", b"160000"
_LINKS = re.compile(rb"(tree|parent|object) ([0-9a-f]{40})")
#: Directories whose last entries are remembered: the next commit's differ in few.
_REMEMBERED = 512


class BrokenHistory(Exception):
    """An object that the history needs is missing or damaged."""


class Marks:
    """A mark for each of the objects that a repository holds at present."""

    def __init__(self, ids: bytes) -> None:
        self.ids = ids
        self._marked = bytearray(len(ids) // 20)
        #: Objects that came after the ids had been listed.
        self.late: set[bytes] = set()
        #: Called with the number of each object when it gets its mark.
        self.on_mark: Callable[[int], None] | None = None

    def __len__(self) -> int:
        return len(self._marked)

    def id_at(self, number: int) -> bytes:
        """The id with this number, 20 bytes."""
        return self.ids[20 * number : 20 * number + 20]

    def number_of(self, oid: bytes) -> int | None:
        """The number of an object; None if it was not listed."""
        at = bisect_left(range(len(self._marked)), oid, key=self.id_at)
        return at if at < len(self._marked) and self.id_at(at) == oid else None

    def mark(self, oid: bytes) -> bool:
        """Mark an object; whether it had no mark."""
        number = self.number_of(oid)
        if number is None:
            new = oid not in self.late
            self.late.add(oid)
            return new
        new = not self._marked[number]
        self._marked[number] = 1
        if new and self.on_mark is not None:
            self.on_mark(number)
        return new

    def has(self, oid: bytes) -> bool:
        """Whether an object is marked."""
        number = self.number_of(oid)
        return oid in self.late if number is None else bool(self._marked[number])

    @property
    def unmarked(self) -> int:
        """How many objects have no mark."""
        return self._marked.count(0)

    def copy(self) -> bytes:
        """The marks as they are, to be compared with :meth:`since`."""
        return bytes(self._marked)

    def since(self, before: bytes) -> list[bytes]:
        """The ids of the listed objects that have been marked since ``before``."""
        return [
            self.id_at(number)
            for number, (now, then) in enumerate(zip(self._marked, before, strict=True))
            if now and not then
        ]


def union(sources: Iterable[bytes]) -> bytes:
    """Several ordered lists of ids as one, each id once."""
    merged = bytearray()
    for oid in heapq.merge(*(_each(ids) for ids in sources)):
        if oid != merged[-20:]:
            merged += oid
    return bytes(merged)


def _each(ids: bytes) -> Iterator[bytes]:
    return (ids[at : at + 20] for at in range(0, len(ids), 20))


def pack_ids(pack: Pack) -> bytes:
    """The ids of a pack, in order."""
    return pack.index_bytes(INDEX_HEAD, 20 * pack.count)


def all_loose_ids(repository: str) -> bytes:
    """The ids of all loose objects, in order."""
    return bytes.fromhex(
        "".join(oid for n in range(256) for oid in loose_ids(repository, f"{n:02x}"))
    )


class Marking:
    """Walks from references; the marks of what has been walked to are set."""

    def __init__(self, files: ObjectFiles, marks: Marks, shallow: Iterable[str]) -> None:
        self._files = files
        self.marks = marks
        self._shallow = frozenset(bytes.fromhex(oid) for oid in shallow)
        self._last: dict[bytes, frozenset[tuple[bytes, bytes]]] = {}
        #: Called for every object that was walked to from a reference or a commit.
        self.on_object: Callable[[], None] = lambda: None

    def mark_from(self, roots: Iterable[str]) -> None:
        """Mark what these objects need. Raises BrokenHistory."""
        waiting = [bytes.fromhex(oid) for oid in roots]
        while waiting:
            self._mark(waiting.pop(), waiting)

    def mark_one_commit(self, oid: bytes) -> None:
        """Mark a commit and what is in it, but not its parents. Raises BrokenHistory."""
        self._mark(oid, [])

    def _mark(self, oid: bytes, waiting: list[bytes]) -> None:
        if not self.marks.mark(oid):
            return
        self.on_object()
        kind, content = self._read(oid)
        if kind == "tree":
            self._mark_tree(b"", oid, content)
        elif kind in ("commit", "tag"):
            header = content.partition(b"\n\n")[0]
            for what, name in _LINKS.findall(header):
                link = bytes.fromhex(name.decode())
                if what == b"tree":
                    self._mark_tree(b"", link)
                elif what != b"parent" or oid not in self._shallow:
                    waiting.append(link)

    def _mark_tree(self, path: bytes, oid: bytes, content: bytes | None = None) -> None:
        if content is None:
            if not self.marks.mark(oid):
                return
            content = self._read(oid)[1]
        entries = frozenset(_named_entries(content))
        # What the last one seen of this directory had is marked already.
        new = entries - self._last.get(path, frozenset())
        if len(self._last) >= _REMEMBERED:
            self._last.clear()
        self._last[path] = entries
        for head, child in new:
            mode, _, name = head.partition(b" ")
            if mode == _TREE:
                self._mark_tree(path + b"/" + name, child)
            elif mode == _SUBMODULE or not self.marks.mark(child):
                continue
            elif self.marks.number_of(child) is None:
                self._read(child)  # it came later, or it is missing

    def _read(self, oid: bytes) -> tuple[str, bytes]:
        try:
            return self._files.read(oid.hex())
        except (Missing, Damaged) as error:
            raise BrokenHistory(f"{oid.hex()} is missing or damaged: {error}") from error


def _named_entries(tree: bytes) -> Iterator[tuple[bytes, bytes]]:
    """(mode and name, id) of each entry of a tree."""
    at = 0
    while at < len(tree):
        zero = tree.index(b"\0", at)
        yield tree[at:zero], tree[zero + 1 : zero + 21]
        at = zero + 21
