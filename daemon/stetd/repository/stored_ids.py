"""Ordered ids of a repository's objects, in 20 bytes each."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator


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
