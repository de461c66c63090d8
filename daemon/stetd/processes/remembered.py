"""Which answered calls are remembered: the newest in memory, the ids of all in Bloom filters.

The historian keeps the replies (:mod:`stetd.historian.index.request_store`). Asking it on each call
would take longer than most calls. The filter says yes to some that are not there, and never no to
one that is.
"""

from __future__ import annotations

import hashlib
import struct
from collections import OrderedDict
from collections.abc import Iterable

from stetd.storage.request_record import RequestRecord

Key = tuple[str, str, str]
#: A Bloom filter is begun for so many ids, of so many bytes: 32 bits and seven places an id. One
#: of 90,000 other ids is taken for one of them, each time an edit that waits for the historian.
_IDS, _BYTES = 1 << 14, 1 << 16
_PLACES = struct.Struct(">7I")
#: Answered calls that are kept in memory.
_RECENT = 2_000


class IdFilter:
    """Whether an id may be one of those that were added: Bloom filters, another when one is full.

    As bytes, for the historian's message: the filters, one after the other.
    """

    def __init__(self, filters: bytes = b"") -> None:
        self._filters = [
            bytearray(filters[start : start + _BYTES]) for start in range(0, len(filters), _BYTES)
        ]
        self._room = 0

    @classmethod
    def of(cls, keys: Iterable[Key]) -> IdFilter:
        """A filter with these."""
        made = cls()
        for key in keys:
            made.add(key)
        return made

    def add(self, key: Key) -> None:
        """Add one."""
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
    """What the engine knows of answered calls."""

    def __init__(self) -> None:
        #: None until the historian has sent it: until then any may be remembered.
        self._old: IdFilter | None = None
        self._recent: OrderedDict[Key, RequestRecord] = OrderedDict()

    def begin(self, filters: bytes) -> None:
        """Take over the historian's filter, unless an earlier one has sent it."""
        if self._old is None:
            self._old = IdFilter(filters)
            for key in self._recent:
                self._old.add(key)

    def add(self, record: RequestRecord) -> None:
        """A call was answered."""
        self._recent[record.key] = record
        if self._old is not None:
            self._old.add(record.key)
            while len(self._recent) > _RECENT:
                self._recent.popitem(last=False)

    def find(self, key: Key) -> RequestRecord | None:
        """The record of a call that was answered lately."""
        return self._recent.get(key)

    def may_be_old(self, key: Key) -> bool:
        """Whether the historian may know of one."""
        return self._old is None or key in self._old

    def forget(self, workspace: str) -> None:
        """The replies of a workspace were rewritten: ask the historian for them."""
        for key in [each for each in self._recent if each[0] == workspace]:
            del self._recent[key]
