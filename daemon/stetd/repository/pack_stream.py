"""Objects written one after the other, into packs of some size: for work beside the calls."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from stetd.failpoints import failpoint
from stetd.repository.packing import PackWriter, packed_object
from stetd.storage.disk import Disk

#: A pack holds about so many bytes, and at most so many objects.
_PACK_BYTES, _PACK_OBJECTS = 16 << 20, 8192
_SYNC_EVERY = 4 << 20
_FAST = 1


@dataclass(slots=True)
class PackStream:
    """Takes objects, each once. They are durable after :meth:`flush`."""

    repository: str
    disk: Disk
    staged_as: str
    _entries: dict[bytes, bytes] = field(default_factory=dict)
    _bytes: int = 0
    _written: set[bytes] = field(default_factory=set)

    def add(self, kind: str, oid: str, content: bytes) -> None:
        """Take an object."""
        key = bytes.fromhex(oid)
        if key in self._written:
            return
        self._written.add(key)
        self._entries[key] = packed_object(kind, content, _FAST)
        self._bytes += len(self._entries[key])
        if self._bytes > _PACK_BYTES or len(self._entries) >= _PACK_OBJECTS:
            self.flush()

    def flush(self) -> None:
        """Write what was taken."""
        if not self._entries:
            return
        ids = sorted(self._entries)
        pack = PackWriter(
            self.repository,
            b"".join(ids),
            self.disk,
            staged_as=self.staged_as,
            sync_every=_SYNC_EVERY,
        )
        try:
            for oid in ids:
                pack.add(self._entries[oid])
            pack.finish()
        finally:
            pack.close()
        failpoint(f"{self.staged_as}.pack_written")
        self.disk.sync_directory(os.path.join(self.repository, "objects", "pack"))
        self._entries, self._bytes = {}, 0
