"""Checks every object in a repository's files, whether the history needs it or not.

An intact object is remembered by id and kind, in 21 bytes; a damaged one becomes a :class:`Fault`.
The checks do not use libgit2, which does not survive every damage
(:mod:`stetd.repository.object_files`).

Files change meanwhile: packs are joined, loose objects are packed. An object that has vanished
between listing and opening its file was written to another file before; it is found there when it
seems to be missing (:meth:`ObjectCheck.kind_now`).
"""

from __future__ import annotations

import hashlib
import os
from array import array
from contextlib import closing
from typing import NamedTuple

from stetd.repository.object_files import (
    INDEX_HEAD,
    KINDS,
    NUMBERS,
    Damaged,
    Missing,
    ObjectFiles,
    Pack,
    all_loose_ids,
    as_damage,
    big_endian,
    loose_name,
    pack_names,
    read_loose,
)
from stetd.repository.stored_ids import SortedIds, each_id

_CHUNK = 1 << 18


class Fault(NamedTuple):
    """Damage of an object in the file ``path``, or of the whole file.

    ``kind`` is damaged_object, damaged_pack, damaged_index or missing_pack; ``path`` is
    relative to the repository.
    """

    kind: str
    path: str
    why: str
    oid: str | None = None


class ObjectCheck:
    """The objects in the files of one repository, and their faults."""

    def __init__(self, repository: str) -> None:
        self._repository = repository
        #: The ids, each with its kind if it was found intact: by the pack's name, or ``objects``
        #: for all that are loose.
        self._found: dict[str, SortedIds] = {}
        #: Objects that appeared after they were listed.
        self._late: dict[bytes, int] = {}
        self._last = SortedIds(b"")
        self._files = ObjectFiles(repository)
        self.faults: list[Fault] = []
        #: Packs without an index; a kill between two renames may leave one.
        self.unindexed: list[str] = []

    def close(self) -> None:
        """Close the files."""
        self._files.close()

    @property
    def objects(self) -> int:
        """The number of intact objects; two copies count twice."""
        found = self._found.values()
        return sum(len(ids) - ids.known.count(0) for ids in found) + len(self._late)

    def read(self, oid: str) -> tuple[str, bytes] | None:
        """Kind and content of an object; None if there is no intact copy."""
        try:
            return self._files.read(oid)
        except (Missing, Damaged):
            return None

    def kind_of(self, oid: str) -> str | None:
        """The kind of an object of which a whole copy was found."""
        key = bytes.fromhex(oid)
        # Related objects are mostly in the same file.
        for ids in (self._last, *self._found.values()):
            number = ids.find(key)
            kind = ids.known[number] if number is not None else 0
            if kind:
                self._last = ids
                return KINDS[kind]
        return KINDS.get(self._late.get(key, 0))

    # -- checking

    def scan(self) -> None:
        """Check every file."""
        self._scan_loose()
        self._scan_packs()
        self._look_for_lone_files()

    def kind_now(self, oid: str) -> str | None:
        """As :meth:`kind_of`; if it was not found, new files are checked: it may be there since."""
        kind = self.kind_of(oid)
        if kind is None:
            self._scan_packs()
            kind = self.kind_of(oid)
        if kind is None and (found := self.read(oid)) is not None:
            kind, _ = found
            self._late[bytes.fromhex(oid)] = NUMBERS[kind]
        return kind

    def _scan_loose(self) -> None:
        ids = self._found["objects"] = SortedIds(all_loose_ids(self._repository))
        for number, oid in enumerate(map(bytes.hex, each_id(ids.ids))):
            try:
                ids.known[number] = NUMBERS[read_loose(self._repository, oid)[0]]
            except FileNotFoundError:
                continue  # packed meanwhile
            except (Damaged, OSError) as error:
                self._add_fault(as_damage(error, loose_name(oid)), oid)

    def _scan_packs(self) -> None:
        for name in pack_names(self._repository):
            if name in self._found:
                continue
            self._found[name] = SortedIds(b"")
            try:
                with closing(Pack(self._repository, name)) as pack:
                    self._scan_pack(pack)
            except FileNotFoundError:
                continue  # joined with others meanwhile
            except (Damaged, OSError) as error:
                self._add_fault(as_damage(error, name + ".pack"))

    def _add_fault(self, damage: Damaged, oid: str | None = None) -> None:
        kind = "damaged_index" if damage.path.endswith(".idx") else "damaged_pack"
        kind = "damaged_object" if oid is not None else kind
        self.faults.append(Fault(kind, damage.path, damage.why, oid))

    def _scan_pack(self, pack: Pack) -> None:
        self._check_sums(pack)
        ids = SortedIds(pack.all_ids())
        self._check_order(pack, ids)
        self._found[pack.name] = ids
        # In the order of offsets, so that bases of deltas are in the cache.
        table = pack.index_bytes(INDEX_HEAD + 24 * pack.count, 4 * pack.count)
        offsets = big_endian(array("I", table))
        for number in sorted(range(pack.count), key=offsets.__getitem__):
            oid = ids.at(number).hex()
            try:
                ids.known[number] = NUMBERS[pack.read(number, oid)[0]]
            except Damaged as error:
                self._add_fault(error, oid)

    def _check_sums(self, pack: Pack) -> None:
        index_sums = os.pread(pack.index_fd, 40, pack.index_size - 40)
        for path, fd, size, expected in (
            (pack.index_name, pack.index_fd, pack.index_size, index_sums[20:]),
            (pack.pack_name, pack.fd, pack.size, os.pread(pack.fd, 20, pack.size - 20)),
        ):
            checksum = hashlib.sha1(usedforsecurity=False)
            for start in range(0, size - 20, _CHUNK):
                checksum.update(os.pread(fd, min(_CHUNK, size - 20 - start), start))
            if checksum.digest() != expected:
                self._add_fault(Damaged(path, "its checksum is wrong: a part of it was changed"))
            elif path == pack.pack_name and expected != index_sums[:20]:
                self._add_fault(Damaged(pack.index_name, "it is the index of another pack"))

    def _check_order(self, pack: Pack, ids: SortedIds) -> None:
        last, starts = b"", [0, *pack.fanout]
        for number in range(pack.count):
            oid = ids.at(number)
            if oid <= last or not starts[oid[0]] <= number < starts[oid[0] + 1]:
                raise Damaged(pack.index_name, "its ids are not in order")
            last = oid

    def _look_for_lone_files(self) -> None:
        try:
            names = sorted(os.listdir(os.path.join(self._repository, "objects", "pack")))
        except OSError as error:
            self._add_fault(as_damage(error, "objects/pack"))
            return
        for name in names:
            stem, ending = os.path.splitext(name)
            if ending == ".idx" and stem + ".pack" not in names:
                path = f"objects/pack/{stem}.pack"
                self.faults.append(Fault("missing_pack", path, "it is gone; its index is there"))
            if ending == ".pack" and stem + ".idx" not in names:
                self.unindexed.append(f"objects/pack/{name}")
