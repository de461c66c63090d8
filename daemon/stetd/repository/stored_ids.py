"""Ordered ids of a repository's objects, in 20 bytes each, and the raw entries of its packs."""

from __future__ import annotations

import heapq
import os
import zlib
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from functools import cached_property
from itertools import count, repeat

from stetd.repository.object_files import (
    DISTANCE_DELTA,
    ID_DELTA,
    INDEX_HEAD,
    Damaged,
    Pack,
    all_loose_ids,
    loose_name,
    pack_names,
)

#: Instead of a pack's number: the object is loose.
_LOOSE = 0xFFFF


class SortedIds:
    """Ordered ids in one byte string; an id's index is its number."""

    def __init__(self, ids: bytes) -> None:
        self.ids = ids
        #: A byte for each id, for what its user finds out about the object; 0 at first.
        self.known = bytearray(len(self))

    def __len__(self) -> int:
        return len(self.ids) // 20

    def at(self, number: int) -> bytes:
        """The id with this number (20 bytes)."""
        return self.ids[20 * number : 20 * number + 20]

    def find(self, oid: bytes) -> int | None:
        """The number of an id; None if it is not there."""
        number = bisect_left(range(len(self)), oid, key=self.at)
        return number if self.at(number) == oid else None


def each_id(ids: bytes) -> Iterator[bytes]:
    """The ids one by one, as 20 bytes each."""
    return (ids[at : at + 20] for at in range(0, len(ids), 20))


def union(sources: Iterable[bytes]) -> bytes:
    """Merge several ordered lists of ids, without duplicates."""
    merged = bytearray()
    for oid in heapq.merge(*map(each_id, sources)):
        if oid != merged[-20:]:
            merged += oid
    return bytes(merged)


class PackEntries(Pack):
    """A pack with its raw entries, to copy them into another pack without unpacking.

    Entries are known by their index in the order of ids. All properties are read when first needed;
    raises Damaged.
    """

    @cached_property
    def ids(self) -> SortedIds:
        """The ids."""
        return SortedIds(self.all_ids())

    @cached_property
    def starts(self) -> array[int]:
        """Where the entries begin."""
        return array("Q", map(self.offset, range(self.count)))

    @cached_property
    def _bounds(self) -> array[int]:
        """Where entries begin, by offset, and where the last one ends."""
        return array("Q", sorted([*self.starts, self.size - 20]))

    @cached_property
    def kinds(self) -> set[int]:
        """The types of the entries."""
        return {os.pread(self.fd, 1, start)[0] >> 4 & 7 for start in self.starts}

    @cached_property
    def has_deltas(self) -> bool:
        """Whether the pack has deltas; then its whole objects may be their bases."""
        return not self.kinds.isdisjoint((DISTANCE_DELTA, ID_DELTA))

    def entry_size(self, number: int) -> int:
        """The size of an entry in bytes."""
        start = self.starts[number]
        return self._bounds[bisect_right(self._bounds, start)] - start

    def raw(self, number: int) -> bytes:
        """An entry's bytes, unchecked."""
        return os.pread(self.fd, self.entry_size(number), self.starts[number])

    def checked(self, number: int) -> bytes:
        """An entry's bytes, after a check of the checksum."""
        data = self.raw(number)
        place = INDEX_HEAD + 20 * self.count + 4 * number
        if zlib.crc32(data) != int.from_bytes(self.index_bytes(place, 4)):
            start = self.starts[number]
            raise Damaged(self.pack_name, f"the entry at offset {start} was changed")
        return data

    @cached_property
    def _by_offset(self) -> array[int]:
        return array("I", sorted(range(self.count), key=self.starts.__getitem__))

    def id_at_offset(self, offset: int) -> bytes:
        """The id of the object whose entry begins at an offset."""
        at = bisect_left(self._bounds, offset)
        if at >= self.count or self._bounds[at] != offset:
            raise Damaged(self.pack_name, f"no entry begins at offset {offset}")
        return self.ids.at(self._by_offset[at])


class Chosen(SortedIds):
    """The objects of a new pack: by id, the pack to take it from, and its index there.

    Kept as numbers in arrays: Python objects, made again and again, would enlarge and fragment the
    heap.
    """

    def __init__(
        self,
        packs: Sequence[PackEntries],
        loose: bytes = b"",
        wanted: Callable[[bytes], bool] = lambda _: True,
    ) -> None:
        """Choose all ``wanted`` objects, each from the first pack that has it."""
        ids = bytearray()
        self._packs = packs
        self._sources, self._numbers = array("H"), array("I")
        lists = [*enumerate(pack.ids.ids for pack in packs), (_LOOSE, loose)]
        copies = [zip(each_id(ids), repeat(source), count()) for source, ids in lists]
        for oid, source, number in heapq.merge(*copies):
            if ids[-20:] != oid and wanted(oid):
                ids += oid
                self._sources.append(source)
                self._numbers.append(number)
        super().__init__(bytes(ids))

    def source(self, place: int) -> tuple[PackEntries, int] | None:
        """The pack of the object with this index, and its index there; None: it is loose."""
        source = self._sources[place]
        return None if source == _LOOSE else (self._packs[source], self._numbers[place])


def stored_sizes(repository: str) -> tuple[bytes, array[int]]:
    """The ordered ids of all objects, and the size of each with its entry in an index.

    Of several copies of an object the largest counts.
    """
    with ExitStack() as opened:
        packs = [
            opened.enter_context(closing(PackEntries(repository, name)))
            for name in pack_names(repository)
        ]
        loose = all_loose_ids(repository)
        ids = SortedIds(union([*(pack.ids.ids for pack in packs), loose]))
        sizes = array("Q", bytes(8 * len(ids)))

        def measure(oid: bytes, size: int) -> None:
            number = ids.find(oid)
            assert number is not None, "BUG: an id that is not in the union"
            sizes[number] = max(sizes[number], size)

        for pack in packs:
            in_index = (pack.index_size - INDEX_HEAD) // max(pack.count, 1)
            for number, oid in enumerate(each_id(pack.ids.ids)):
                measure(oid, pack.entry_size(number) + in_index)
        for oid in each_id(loose):
            with suppress(FileNotFoundError):  # packed meanwhile
                measure(oid, os.path.getsize(os.path.join(repository, loose_name(oid.hex()))))
        return ids.ids, sizes
