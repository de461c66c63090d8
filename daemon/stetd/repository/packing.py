"""Writes Git packs: many objects as two files instead of one file each.

A loose object costs several system calls, and a busy daemon writes hundreds of objects a second.
So objects that have gathered are written as one pack, without deltas;
:mod:`stetd.repository.repacking` makes deltas later.

The format of packs is in :mod:`stetd.repository.object_files`; that of an index (Git's
documentation, gitformat-pack):

    "\\377tOc", version 2; 256 cumulative counts by first byte of the id; the ids in order;
    CRC-32 of each packed entry; offsets (4 bytes, or an index with the top bit set into a table
    of 8-byte ones); SHA-1 of the pack; SHA-1 of all before
"""

from __future__ import annotations

import hashlib
import heapq
import os
import struct
import zlib
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, closing, suppress
from functools import cached_property
from itertools import accumulate, count, repeat
from pathlib import Path

import msgspec

from stetd.failpoints import failpoint
from stetd.history.objects import NewObject
from stetd.repository.object_files import (
    DISTANCE_DELTA,
    ID_DELTA,
    INDEX_HEAD,
    NUMBERS,
    Damaged,
    Pack,
    big_endian,
    number_bytes,
    pack_names,
)
from stetd.repository.stored_ids import SortedIds, each_id
from stetd.storage.disk import Disk, write_durably
from stetd.storage.priority import yield_processor

_FAST = 1
_LARGE_OFFSET = 1 << 31
#: Number of packs from which the smallest are joined.
_MANY_PACKS = 16
#: Bytes; larger packs are not joined.
_MERGED_BYTES = 512 << 10
#: Approximate bytes, and maximum number of objects, of a pack of a stream.
_STREAM_BYTES, _STREAM_OBJECTS = 16 << 20, 8192
#: Bytes per sync: syncing all of a large pack at once would delay the journal's syncs.
_SYNC_EVERY = 4 << 20
#: Approximate bytes per write.
_PIECE = 128 << 10
#: The temporary name of a loose object; Git treats such files as leftovers of killed processes.
UNFINISHED = "tmp_obj_stet"
#: Instead of a pack's number: the object is loose.
_LOOSE = 0xFFFF


def _entry_header(kind: int, size: int) -> bytes:
    first, more = kind << 4 | size & 0x0F, size >> 4
    return bytes([first | 0x80]) + number_bytes(more) if more else bytes([first])


def packed_object(kind: str, content: bytes, level: int = _FAST) -> bytes:
    """A pack's entry of a whole object."""
    return _entry_header(NUMBERS[kind], len(content)) + zlib.compress(content, level)


def packed_delta(base: bytes, size: int, deflated: bytes) -> bytes:
    """A pack's entry of a delta (``size`` bytes before deflating) to the object ``base``.

    The base is given by id, not by distance, so the entry is valid anywhere in a pack that has the
    base.
    """
    return _entry_header(ID_DELTA, size) + base + deflated


def _index(ids: bytes, crcs: array[int], offsets: array[int], checksum: bytes) -> bytes:
    """The content of a pack's index: id (20 bytes), CRC and offset of each object, by id."""
    counts = Counter(ids[::20])
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
            struct.pack(">256I", *accumulate(counts[first] for first in range(256))),
            ids,
            *(big_endian(numbers).tobytes() for numbers in (crcs, small, large)),
            checksum,
        ]
    )
    return body + hashlib.sha1(body, usedforsecurity=False).digest()


def pack_folder(repository: str) -> str:
    """The directory of the packs."""
    return os.path.join(repository, "objects", "pack")


def write_pack(repository: str, objects: Iterable[NewObject], disk: Disk) -> list[str]:
    """Write objects as a pack of a repository; returns the paths of its files.

    Duplicates are packed once. The files are synced before they get their names, and the index gets
    its name last, so a visible pack is complete. (A torn index would make every look-up in the
    repository fail.) The names are not synced yet.
    """
    unique = {item.oid: item for item in objects}
    ids = sorted(unique)
    entries = (packed_object(unique[oid].kind, unique[oid].content) for oid in ids)
    return store_pack(repository, bytes.fromhex("".join(ids)), entries, disk)


def store_pack(
    repository: str,
    ids: bytes,
    entries: Iterable[bytes],
    disk: Disk,
    *,
    staged_as: str = "new",
) -> list[str]:
    """Write a pack of these entries, ordered by id; returns the paths of its files.

    ``ids``: the ids, 20 bytes each. ``staged_as``: the temporary name; two threads must not use the
    same one. Both files are synced before they get their names, which are not synced yet.
    """
    staged = os.path.join(pack_folder(repository), f"{staged_as}.pack.tmp")
    crcs, offsets = array("I"), array("Q")
    checksum = hashlib.sha1(usedforsecurity=False)
    piece = bytearray(b"PACK" + struct.pack(">II", 2, len(ids) // 20))
    written = synced = 0
    fd = disk.open(staged, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        for entry in entries:
            yield_processor()
            crcs.append(zlib.crc32(entry))
            offsets.append(written + len(piece))
            piece += entry
            if len(piece) >= _PIECE:
                checksum.update(piece)
                disk.write_all(fd, bytes(piece))
                written, piece = written + len(piece), bytearray()
                if written - synced >= _SYNC_EVERY:
                    disk.fdatasync(fd)
                    synced = written
        assert len(crcs) == len(ids) // 20, "BUG: entries are missing"
        checksum.update(piece)
        disk.write_all(fd, bytes(piece) + checksum.digest())
        disk.fdatasync(fd)
    finally:
        os.close(fd)
    name = os.path.join(pack_folder(repository), f"pack-{checksum.hexdigest()}")
    failpoint("git.pack_staged")
    os.replace(staged, name + ".pack")
    write_durably(name + ".idx.tmp", _index(ids, crcs, offsets, checksum.digest()), disk)
    failpoint("git.pack_staged")
    os.replace(name + ".idx.tmp", name + ".idx")
    return [name + ".pack", name + ".idx"]


class PackStream(msgspec.Struct):
    """Writes a stream of objects, each once, into packs. :meth:`flush` makes them durable."""

    repository: str
    disk: Disk
    staged_as: str
    _entries: dict[bytes, bytes] = {}
    _bytes: int = 0
    _written: set[bytes] = set()

    def add(self, kind: str, oid: str, content: bytes) -> None:
        """Add an object."""
        key = bytes.fromhex(oid)
        if key in self._written:
            return
        self._written.add(key)
        self._entries[key] = packed_object(kind, content)
        self._bytes += len(self._entries[key])
        if self._bytes > _STREAM_BYTES or len(self._entries) >= _STREAM_OBJECTS:
            self.flush()

    def flush(self) -> None:
        """Write all objects durably."""
        if not self._entries:
            return
        ids = sorted(self._entries)
        entries = map(self._entries.__getitem__, ids)
        store_pack(self.repository, b"".join(ids), entries, self.disk, staged_as=self.staged_as)
        failpoint(f"{self.staged_as}.pack_written")
        self.disk.sync_path(pack_folder(self.repository))
        self._entries, self._bytes = {}, 0


# -- copying entries


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


# -- merging


def merge_packs(repository: str, disk: Disk) -> list[str]:
    """If there are many packs, join the smallest ones; returns the paths of the new files.

    A look-up searches pack after pack, and each open pack takes a descriptor. Packs are joined only
    if the result is at least twice as large as the largest of them, so an object is copied at most
    log(n) times. Entries are copied unchanged. The new pack is durable, with its names, before an
    old one is removed; a reader that knows only the old packs lists them again (``StoredObjects``).
    """
    names = pack_names(repository)
    by_size = sorted((os.path.getsize(f"{repository}/{name}.pack"), name) for name in names)
    packs = [each for each in by_size[:_MANY_PACKS] if each[0] <= _MERGED_BYTES]
    sizes = [size for size, _ in packs]
    if len(packs) < _MANY_PACKS or sum(sizes) < 2 * sizes[-1]:
        return []
    with ExitStack() as opened:
        joined = []
        for _, name in packs:
            with suppress(Damaged):  # a damaged pack is left alone
                pack = opened.enter_context(closing(PackEntries(repository, name)))
                # Plain git's deltas give the base by distance, which would be wrong after copying.
                if DISTANCE_DELTA not in pack.kinds:
                    joined.append(pack)
        if len(joined) < 2:
            return []
        chosen = Chosen(joined)
        sources = filter(None, map(chosen.source, range(len(chosen))))  # none is loose
        copied = (pack.raw(number) for pack, number in sources)
        written = store_pack(repository, chosen.ids, copied, disk)
    disk.sync_path(pack_folder(repository))
    failpoint("git.packs_joined")
    remove_derived(repository, disk)
    for pack in joined:
        name = os.path.join(repository, pack.name)
        if name + ".pack" not in written:
            remove_pack(name, disk)
    return written


def remove_derived(repository: str, disk: Disk) -> None:
    """Remove files that plain git has derived from packs and commits that are about to go."""
    objects = Path(repository, "objects")
    for pattern in ("pack/multi-pack-index*", "info/commit-graph*", "info/commit-graphs/*"):
        for path in sorted(objects.glob(pattern)):  # a chain of graphs before the graphs
            if not path.is_dir():
                disk.unlink(os.fspath(path))


def remove_pack(name: str, disk: Disk) -> None:
    """Remove a pack (given by its path without extension) whose objects are in other files.

    After a kill in between, the next start recognises the rest as a leftover
    (``clear_half_packs``). It must not take a pack that has lost its index otherwise for one.
    """
    with suppress(FileNotFoundError):
        os.replace(name + ".idx", name + ".idx.tmp")
    failpoint("git.pack_unindexed")
    for ending in (".bitmap", ".rev", ".mtimes", ".pack", ".idx.tmp"):  # some are plain git's
        disk.unlink(name + ending)


def clear_unfinished(repository: str) -> None:
    """Remove the leftovers of failed and killed writes: they may contain what is dropped.

    Nobody else may write objects meanwhile.
    """
    clear_half_packs(repository)
    objects = Path(repository, "objects")
    for path in (*objects.glob("pack/*.pack.tmp"), *objects.glob(f"??/{UNFINISHED}")):
        path.unlink(missing_ok=True)


def clear_half_packs(repository: str) -> None:
    """Remove packs that a killed process has half written or half removed.

    Their index has its temporary name, still or again. Their objects are also in the packs that
    were to be joined, or in the journal.
    """
    for name in os.listdir(pack_folder(repository)):
        stem, ending = os.path.join(pack_folder(repository), name[:-8]), name[-8:]
        if ending != ".idx.tmp":
            continue
        if os.path.exists(stem + ".pack") and not os.path.exists(stem + ".idx"):
            os.unlink(stem + ".pack")
        os.unlink(stem + ending)
