"""The raw entries of packs, to copy them into another pack without unpacking."""

from __future__ import annotations

import heapq
import os
import zlib
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, suppress
from functools import cached_property
from itertools import count, repeat

from stetd.repository.object_files import (
    DISTANCE_DELTA,
    ID_DELTA,
    INDEX_HEAD,
    Damaged,
    Pack,
    loose_name,
    pack_names,
)
from stetd.repository.stored_ids import SortedIds, all_loose_ids, each_id, pack_ids, union

#: Instead of a pack's number: the object is loose.
_LOOSE = 0xFFFF


class PackEntries:
    """The entries of a pack, by index in the order of ids. Raises Damaged."""

    def __init__(self, pack: Pack) -> None:
        self.pack = pack
        self.ids = SortedIds(pack_ids(pack))
        self.starts = array("Q", (pack.offset(number) for number in range(pack.count)))
        #: Where entries begin, by offset, and where the last one ends.
        self._bounds = array("Q", sorted([*self.starts, pack.size - 20]))
        self.kinds = {os.pread(pack.fd, 1, start)[0] >> 4 & 7 for start in self.starts}
        #: Whether the pack has deltas; then its whole objects may be their bases.
        self.has_deltas = not self.kinds.isdisjoint((DISTANCE_DELTA, ID_DELTA))

    def size(self, number: int) -> int:
        """The size of an entry in bytes."""
        start = self.starts[number]
        return self._bounds[bisect_right(self._bounds, start)] - start

    def raw(self, number: int) -> bytes:
        """An entry's bytes, unchecked."""
        return os.pread(self.pack.fd, self.size(number), self.starts[number])

    def checked(self, number: int) -> bytes:
        """An entry's bytes, after a check of the checksum."""
        data = self.raw(number)
        place = INDEX_HEAD + 20 * self.pack.count + 4 * number
        if zlib.crc32(data) != int.from_bytes(self.pack.index_bytes(place, 4)):
            start = self.starts[number]
            raise Damaged(self.pack.pack_name, f"the entry at offset {start} was changed")
        return data

    @cached_property
    def _by_offset(self) -> array[int]:
        return array("I", sorted(range(self.pack.count), key=self.starts.__getitem__))

    def id_at_offset(self, offset: int) -> bytes:
        """The id of the object whose entry begins at an offset."""
        at = bisect_left(self._bounds, offset)
        if at >= self.pack.count or self._bounds[at] != offset:
            raise Damaged(self.pack.pack_name, f"no entry begins at offset {offset}")
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
            PackEntries(opened.enter_context(closing(Pack(repository, name))))
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
            in_index = (pack.pack.index_size - INDEX_HEAD) // max(len(pack.ids), 1)
            for number, oid in enumerate(each_id(pack.ids.ids)):
                measure(oid, pack.size(number) + in_index)
        for oid in each_id(loose):
            with suppress(FileNotFoundError):  # packed meanwhile
                measure(oid, os.path.getsize(os.path.join(repository, loose_name(oid.hex()))))
        return ids.ids, sizes
