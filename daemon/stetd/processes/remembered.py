"""Which answered calls are remembered: the newest in memory, the ids of all in a Bloom filter.

The historian keeps the replies (:mod:`stetd.historian.index.request_store`). Asking it on each call
would take longer than most calls. The filter says yes to some that are not there, and never no to
one that is.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterable

from stetd.storage.request_record import RequestRecord

Key = tuple[str, str, str]
#: Bits of a filter for each expected id: one in a hundred is taken for another.
_BITS = 10
_LEAST_BITS = 1 << 17
#: Answered calls that are kept in memory.
_RECENT = 2_000


class IdFilter:
    """Whether an id may be one of those that were added."""

    def __init__(self, bits: bytes) -> None:
        self._bits = bytearray(bits)

    @classmethod
    def of(cls, keys: Iterable[Key], expected: int) -> IdFilter:
        """A filter with these."""
        made = cls(bytes(max(_LEAST_BITS, _BITS * expected) // 8))
        for key in keys:
            made.add(key)
        return made

    def add(self, key: Key) -> None:
        """Add one."""
        for place in self._places(key):
            self._bits[place >> 3] |= 1 << (place & 7)

    def __contains__(self, key: Key) -> bool:
        return all(self._bits[place >> 3] & 1 << (place & 7) for place in self._places(key))

    def __bytes__(self) -> bytes:
        return bytes(self._bits)

    def _places(self, key: Key) -> list[int]:
        digest = hashlib.blake2b("\0".join(key).encode("utf-8", "replace"), digest_size=28).digest()
        size = len(self._bits) * 8
        return [int.from_bytes(digest[at : at + 4], "big") % size for at in range(0, 28, 4)]


class Remembered:
    """What the engine knows of answered calls."""

    def __init__(self) -> None:
        #: None until the historian has sent it: until then any may be remembered.
        self._old: IdFilter | None = None
        self._recent: OrderedDict[Key, RequestRecord] = OrderedDict()

    def begin(self, bits: bytes) -> None:
        """Take over the historian's filter, unless an earlier one has sent it."""
        if self._old is None:
            self._old = IdFilter(bits)
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
