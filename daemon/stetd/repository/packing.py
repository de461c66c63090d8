"""Writing Git packs: many objects as two files instead of one file each.

libgit2 holds Python's interpreter lock while it writes, and a loose object costs several
system calls; a busy daemon writes hundreds of objects a second. So what has gathered is
written as one pack, without deltas. What is done when there is time, with deltas, is in
:mod:`stetd.repository.repacking`.

Formats (Git's documentation, gitformat-pack):

    pack   "PACK", version 2, count; per object a header (type and size, 7 bits a byte, the
           first byte with 3 bits of type and 4 of size) and the deflated content; SHA-1
    idx    "\\377tOc", version 2; 256 cumulative counts by first byte of the id; the ids in
           order; CRC-32 of each packed entry; offsets (4 bytes, or an index with the top
           bit set into a table of 8-byte ones); SHA-1 of the pack; SHA-1 of all before
"""

from __future__ import annotations

import hashlib
import heapq
import mmap
import os
import struct
import sys
import zlib
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from itertools import accumulate

from stetd.failpoints import failpoint
from stetd.history.objects import NewObject
from stetd.storage.disk import Disk

_TYPES = {"commit": 1, "tree": 2, "blob": 3}
_DISTANCE_DELTA, _ID_DELTA = 6, 7
_FAST = 1
_LARGE_OFFSET = 1 << 31
#: This many packs are joined to one.
_MANY_PACKS = 16
#: Packs larger than this stay as they are.
_MERGED_BYTES = 512 << 10
#: A pack is written in pieces of about this size.
_PIECE = 128 << 10


def _entry_header(kind: int, size: int) -> bytes:
    byte = kind << 4 | size & 0x0F
    size >>= 4
    header = bytearray()
    while size:
        header.append(byte | 0x80)
        byte = size & 0x7F
        size >>= 7
    header.append(byte)
    return bytes(header)


def packed_object(kind: str, content: bytes, level: int = _FAST) -> bytes:
    """An object as a pack's entry, whole."""
    return _entry_header(_TYPES[kind], len(content)) + zlib.compress(content, level)


def packed_delta(base: bytes, delta: bytes, level: int) -> bytes:
    """An object as a pack's entry: what makes it out of the object with the id ``base``.

    The base is named by its id, not by its distance: the entry means the same wherever in a
    pack it stands, as long as its base is in the same one.
    """
    return delta_header(len(delta)) + base + zlib.compress(delta, level)


def delta_header(size: int) -> bytes:
    """What stands in an entry before the base's id; ``size`` is the delta's length."""
    return _entry_header(_ID_DELTA, size)


def _index(ids: bytes, crcs: array[int], offsets: array[int], checksum: bytes) -> bytes:
    """The index of a pack: 20 bytes of id, a CRC and an offset for each object, by id."""
    counts = [0] * 256
    for first in ids[::20]:
        counts[first] += 1
    small, large = array("I"), array("Q")
    for offset in offsets:
        if offset < _LARGE_OFFSET:
            small.append(offset)
        else:
            small.append(_LARGE_OFFSET | len(large))
            large.append(offset)
    body = b"".join(
        [
            b"\377tOc",
            struct.pack(">I", 2),
            struct.pack(">256I", *accumulate(counts)),
            ids,
            *(_big_endian(numbers) for numbers in (crcs, small, large)),
            checksum,
        ]
    )
    return body + hashlib.sha1(body, usedforsecurity=False).digest()


def _big_endian(numbers: array[int]) -> bytes:
    if sys.byteorder == "little":
        numbers = numbers[:]
        numbers.byteswap()
    return numbers.tobytes()


def _folder(repository: str) -> str:
    return os.path.join(repository, "objects", "pack")


def write_pack(repository: str, objects: Iterable[NewObject], disk: Disk) -> list[str]:
    """Write objects as a pack of a repository; gives the paths of its files.

    Objects given twice are packed once. The files are synced before they get their names,
    and the index comes last: a pack that is seen is whole. (A torn index would make every
    look-up in the repository fail.) Their names are not synced yet.
    """
    unique = {item.oid: item for item in objects}
    ids = sorted(unique)
    entries = (packed_object(unique[oid].kind, unique[oid].content) for oid in ids)
    return _store(repository, bytes.fromhex("".join(ids)), entries, disk)


class PackWriter:
    """A pack whose entries come one by one, in the order of their ids, which are known before.

    ``ids``: one after the other, 20 bytes each. ``staged_as``: two threads must not write under
    one name. Every ``sync_every`` bytes what has been written is synced: all of a large pack at
    once would keep the journal's syncs waiting.
    """

    def __init__(
        self,
        repository: str,
        ids: bytes,
        disk: Disk,
        *,
        staged_as: str = "new",
        sync_every: int | None = None,
    ) -> None:
        self._folder = _folder(repository)
        self._ids = ids
        self._disk = disk
        self._sync_every = sync_every
        self._staged = os.path.join(self._folder, f"{staged_as}.pack.tmp")
        self._crcs, self._offsets = array("I"), array("Q")
        self._checksum = hashlib.sha1(usedforsecurity=False)
        self._piece = bytearray(b"PACK" + struct.pack(">II", 2, len(ids) // 20))
        self._written = self._synced = 0
        self._fd = disk.open(self._staged, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)

    def add(self, entry: bytes) -> None:
        """The next entry."""
        self._crcs.append(zlib.crc32(entry))
        self._offsets.append(self._written + len(self._piece))
        self._piece += entry
        if len(self._piece) >= _PIECE:
            self._flush()

    def _flush(self) -> None:
        self._checksum.update(self._piece)
        self._disk.write_all(self._fd, bytes(self._piece))
        self._written += len(self._piece)
        self._piece = bytearray()
        if self._sync_every is not None and self._written - self._synced >= self._sync_every:
            self._disk.fdatasync(self._fd)
            self._synced = self._written

    def finish(self) -> list[str]:
        """Give the pack its name, and then its index; the paths of the two files.

        Both are synced before they get their names, which are not synced yet.
        """
        assert len(self._crcs) == len(self._ids) // 20, "BUG: entries are missing"
        self._flush()
        self._disk.write_all(self._fd, self._checksum.digest())
        self._disk.fdatasync(self._fd)
        self.close()
        name = os.path.join(self._folder, f"pack-{self._checksum.hexdigest()}")
        failpoint("git.pack_staged")
        os.replace(self._staged, name + ".pack")
        index = _index(self._ids, self._crcs, self._offsets, self._checksum.digest())
        _store_index(name + ".idx", index, self._disk)
        return [name + ".pack", name + ".idx"]

    def close(self) -> None:
        """Give the file back; what is staged is cleared away at the next start."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _store(repository: str, ids: bytes, entries: Iterable[bytes], disk: Disk) -> list[str]:
    """Write a pack and its index; gives their paths."""
    writer = PackWriter(repository, ids, disk)
    try:
        for entry in entries:
            writer.add(entry)
        return writer.finish()
    finally:
        writer.close()


def _store_index(path: str, content: bytes, disk: Disk) -> None:
    fd = disk.open(path + ".tmp", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        disk.write_all(fd, content)
        disk.fdatasync(fd)
    finally:
        os.close(fd)
    failpoint("git.pack_staged")
    os.replace(path + ".tmp", path)


# -- merging


def merge_packs(repository: str, disk: Disk) -> list[str]:
    """If there are many packs, join the smallest of them to one; gives the new files' paths.

    A look-up asks pack after pack, and every open pack is a file handle. Packs are joined
    only to one that is at least twice as large as the largest of them, so an object is
    copied only as often as the logarithm of their number. The entries are copied as they
    are. The new pack is durable, with its names, before an old one is removed; a reader
    that knows only the old ones looks again (``StoredObjects``).
    """
    packs = sorted(_mergeable(repository))[:_MANY_PACKS]
    sizes = [size for size, _ in packs]
    if len(packs) < _MANY_PACKS or sum(sizes) < 2 * sizes[-1]:
        return []
    old = [name for _, name in packs if not _has_distances(name)]
    if len(old) < 2:
        return []
    written = _join(repository, old, disk)
    disk.sync_directory(_folder(repository))
    failpoint("git.packs_joined")
    for name in old:
        if name + ".pack" not in written:
            remove_pack(name, disk)
    return written


def remove_pack(name: str, disk: Disk) -> None:
    """Remove a pack whose objects lie elsewhere, given its path without ending.

    A kill in between leaves what the next start knows for a leftover (``clear_half_packs``);
    a pack that has lost its index in some other way it must not take for one.
    """
    with suppress(FileNotFoundError):
        os.replace(name + ".idx", name + ".idx.tmp")
    failpoint("git.pack_unindexed")
    for ending in (".bitmap", ".rev", ".mtimes", ".pack", ".idx.tmp"):  # some are plain git's
        disk.unlink(name + ending)


def clear_half_packs(repository: str) -> None:
    """Remove packs that a killed process has half written or half removed.

    They are told by their index, which is still, or already, under its temporary name. What
    is in them is elsewhere as well: in the packs that were to be joined, or in the journal.
    """
    for name in os.listdir(_folder(repository)):
        stem, ending = os.path.join(_folder(repository), name[:-8]), name[-8:]
        if ending != ".idx.tmp":
            continue
        if os.path.exists(stem + ".pack") and not os.path.exists(stem + ".idx"):
            os.unlink(stem + ".pack")
        os.unlink(stem + ending)


def _mergeable(repository: str) -> Iterator[tuple[int, str]]:
    """(size, path without ending) of the packs that are not too large to be copied."""
    for entry in os.scandir(_folder(repository)):
        name, ending = os.path.splitext(entry.path)
        if ending == ".pack" and os.path.exists(name + ".idx"):
            size = entry.stat().st_size
            if size <= _MERGED_BYTES:
                yield size, name


def _join(repository: str, names: list[str], disk: Disk) -> list[str]:
    """Write one pack with the entries of several, each object once.

    Thousands of objects, again and again: nothing is kept of each but numbers in arrays.
    As Python objects, and with the packs read into memory, they would leave the heap
    larger and more torn after every join.
    """
    with ExitStack() as opened:
        packs = [opened.enter_context(_mapped(name + ".pack")) for name in names]
        ids = bytearray()
        places = array("I")  # number of the pack, start, end
        for oid, *place in heapq.merge(
            *(_entries(number, name, len(packs[number])) for number, name in enumerate(names))
        ):
            if oid != ids[-20:]:
                ids += oid
                places.extend(place)
        entries = (
            packs[places[at]][places[at + 1] : places[at + 2]] for at in range(0, len(places), 3)
        )
        return _store(repository, bytes(ids), entries, disk)


def _has_distances(name: str) -> bool:
    """Whether a pack has deltas that say how far away their base is: plain git writes such."""
    with _mapped(name + ".pack") as pack:
        places = (start for _, _, start, _ in _entries(0, name, len(pack)))
        return any(pack[start] >> 4 & 7 == _DISTANCE_DELTA for start in places)


def _mapped(path: str) -> mmap.mmap:
    with open(path, "rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _entries(number: int, name: str, size: int) -> Iterator[tuple[bytes, int, int, int]]:
    """(id, number, start, end) of the entries of a pack of ``size`` bytes, by id.

    Deltas of ours name their base by its id, so an entry means the same in any pack that has
    its base; of an object that is in several packs all copies but the first pack's are left
    out, so no two deltas become each other's base. The pack is small enough for 4-byte offsets.
    """
    with open(name + ".idx", "rb") as file:
        index = file.read()
    (count,) = struct.unpack_from(">I", index, 8 + 255 * 4)
    ids = 8 + 256 * 4
    starts = array("I", index[ids + 24 * count : ids + 28 * count])
    if sys.byteorder == "little":
        starts.byteswap()
    ends = array("I", sorted([*starts, size - 20]))
    for at, start in enumerate(starts):
        oid = index[ids + 20 * at : ids + 20 * at + 20]
        yield oid, number, start, ends[bisect_right(ends, start)]
