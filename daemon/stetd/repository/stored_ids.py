"""The ids of the objects that a repository holds: many of them, at 20 bytes each, in order."""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Iterable, Iterator

from stetd.repository.object_files import INDEX_HEAD, Pack, loose_ids


class SortedIds:
    """Ids one after the other, in order; each has its place as a number."""

    def __init__(self, ids: bytes) -> None:
        self.ids = ids

    def __len__(self) -> int:
        return len(self.ids) // 20

    def at(self, number: int) -> bytes:
        """The id with this number, 20 bytes."""
        return self.ids[20 * number : 20 * number + 20]

    def find(self, oid: bytes) -> int | None:
        """The number of an id; None if it is not among these."""
        number = bisect_left(range(len(self)), oid, key=self.at)
        return number if number < len(self) and self.at(number) == oid else None


def each_id(ids: bytes) -> Iterator[bytes]:
    """One id after the other."""
    return (ids[at : at + 20] for at in range(0, len(ids), 20))


def union(sources: Iterable[bytes]) -> bytes:
    """Several ordered lists of ids as one, each id once."""
    merged = bytearray()
    for oid in heapq.merge(*map(each_id, sources)):
        if oid != merged[-20:]:
            merged += oid
    return bytes(merged)


def pack_ids(pack: Pack) -> bytes:
    """The ids of a pack, in order."""
    return pack.index_bytes(INDEX_HEAD, 20 * pack.count)


def all_loose_ids(repository: str) -> bytes:
    """The ids of all loose objects, in order."""
    return bytes.fromhex(
        "".join(oid for first in range(256) for oid in loose_ids(repository, f"{first:02x}"))
    )
