"""Answered calls that the engine remembers: records of the newest, Bloom filters of all ids.

The historian keeps the replies (:mod:`stetd.historian.index.request_store`). To ask it at each call
would take longer than most calls. The filter has false positives, but no false negatives.
"""

from __future__ import annotations

import hashlib
import struct
from collections import OrderedDict
from collections.abc import Iterable

from stetd.storage.request_record import RequestRecord

Key = tuple[str, str, str]
#: Ids and bytes of one Bloom filter: 32 bits and seven places an id. One in 90,000 ids is a false
#: positive, and its edit waits for the historian.
_IDS, _BYTES = 1 << 14, 1 << 16
_PLACES = struct.Struct(">7I")
#: Answered calls that are kept in memory.
_RECENT = 2_000


class IdFilter:
    """A growing Bloom filter of ids: a new filter is added when the last one is full.

    Its bytes, for the historian's message, are those of the filters in order.
    """

    def __init__(self, filters: bytes = b"") -> None:
        self._filters = [
            bytearray(filters[start : start + _BYTES]) for start in range(0, len(filters), _BYTES)
        ]
        self._room = 0

    @classmethod
    def of(cls, keys: Iterable[Key]) -> IdFilter:
        """A filter with these ids."""
        made = cls()
        for key in keys:
            made.add(key)
        return made

    def add(self, key: Key) -> None:
        """Add an id."""
        if not self._room:
            self._filters.append(bytearray(_BYTES))
            self._room = _IDS
        self._room -= 1
        newest = self._filters[-1]
        for place in _places(key):
            newest[place >> 3 & _BYTES - 1] |= 1 << (place & 7)

    def __contains__(self, key: Key) -> bool:
        places = _places(key)
        return any(
            all(each[place >> 3 & _BYTES - 1] & 1 << (place & 7) for place in places)
            for each in self._filters
        )

    def __bytes__(self) -> bytes:
        return b"".join(self._filters)


def _places(key: Key) -> tuple[int, ...]:
    name = "\0".join(key).encode("utf-8", "replace")
    return _PLACES.unpack(hashlib.blake2b(name, digest_size=_PLACES.size).digest())


class Remembered:
    """The answered calls, as far as the engine knows them."""

    def __init__(self) -> None:
        #: None until the historian has sent it; until then every id may be one.
        self._old: IdFilter | None = None
        self._recent: OrderedDict[Key, RequestRecord] = OrderedDict()

    def begin(self, filters: bytes) -> None:
        """Take over the historian's filter, unless an earlier historian has sent one."""
        if self._old is None:
            self._old = IdFilter(filters)
            for key in self._recent:
                self._old.add(key)

    def add(self, record: RequestRecord) -> None:
        """Add an answered call."""
        self._recent[record.key] = record
        if self._old is not None:
            self._old.add(record.key)
            while len(self._recent) > _RECENT:
                self._recent.popitem(last=False)

    def find(self, key: Key) -> RequestRecord | None:
        """The record of a recent call."""
        return self._recent.get(key)

    def may_be_old(self, key: Key) -> bool:
        """Whether the historian may have the record."""
        return self._old is None or key in self._old

    def forget(self, workspace: str) -> None:
        """Drop the records of a workspace: the historian has rewritten its replies."""
        for key in [each for each in self._recent if each[0] == workspace]:
            del self._recent[key]
