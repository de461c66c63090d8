"""Answered calls that the engine remembers: records of the newest, fingerprints of all ids.

The historian keeps the replies (:mod:`stetd.historian.index.request_store`). To ask it at each call
would take longer than most calls.
"""

from __future__ import annotations

import hashlib
from array import array
from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Iterable

import msgspec

from stetd.storage.request_record import RequestRecord

Key = tuple[str, str, str]
#: Answered calls that are kept in memory.
_RECENT = 2_000


def _fingerprint(key: Key) -> int:
    name = "\0".join(key).encode("utf-8", "replace")
    return int.from_bytes(hashlib.blake2b(name, digest_size=8).digest())


def fingerprints(keys: Iterable[Key]) -> bytes:
    """Eight bytes for each id, in order, for the historian's message."""
    return array("Q", sorted(map(_fingerprint, keys))).tobytes()


class Remembered(msgspec.Struct):
    """The answered calls, as far as the engine knows them."""

    #: None until the historian has sent them; until then every id may be one.
    _old: array[int] | None = None
    _recent: OrderedDict[Key, RequestRecord] = msgspec.field(default_factory=OrderedDict)

    def begin(self, sent: bytes) -> None:
        """Take over the historian's fingerprints, unless an earlier historian has sent some."""
        if self._old is None:
            self._old = array("Q", sent)
            for key in self._recent:
                insort(self._old, _fingerprint(key))

    def add(self, record: RequestRecord) -> None:
        """Add an answered call."""
        self._recent[record.key] = record
        if self._old is not None:
            insort(self._old, _fingerprint(record.key))
            while len(self._recent) > _RECENT:
                self._recent.popitem(last=False)

    def find(self, key: Key) -> RequestRecord | None:
        """The record of a recent call."""
        return self._recent.get(key)

    def may_be_old(self, key: Key) -> bool:
        """Whether the historian may have the record."""
        if self._old is None:
            return True
        sought = _fingerprint(key)
        at = bisect_left(self._old, sought)
        return at < len(self._old) and self._old[at] == sought

    def forget(self, workspace: str) -> None:
        """Drop the records of a workspace: the historian has rewritten its replies."""
        for key in [each for each in self._recent if each[0] == workspace]:
            del self._recent[key]
