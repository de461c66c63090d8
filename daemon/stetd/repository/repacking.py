"""Packing a repository tightly, beside the work: loose objects and small packs into one pack.

What the background thread writes lies there whole, each version of a file and of every
directory above it. Here the versions of one path become deltas, each made from the next newer
one, so that what is read most is whole. Objects that no reference needs are left out.

One pass (:class:`Repacking`), on a thread of its own:

    list      the packs and the loose objects there are; nothing is joined meanwhile
    mark      what the references need (only if garbage is to be dropped)
    choose    loose objects; packs so small that joining them costs little (each pack that
              stays is at least twice as large as all smaller ones); packs with garbage
    write     one pack, synced, with its index; then the names of both are made durable
    sweep     what has come to be needed meanwhile is written again; then the packs and loose
              objects that were copied go. On the background thread: nothing is written then

Killed anywhere, every object is in the old files, the new pack, or both.

Entries are copied as they are, after comparing their checksum. An object that lay whole becomes
a delta only of another one that lay whole and is newer; one that was a delta stays one of the
same base. Deltas within one pack that came in before lead to that pack's whole objects, and of
two copies the one from the larger pack is taken. So chains never go round.
"""

from __future__ import annotations

import os
import sys
import zlib
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from heapq import merge

from stetd.failpoints import failpoint
from stetd.history.objects import NewObject
from stetd.repository.deltas import make_delta
from stetd.repository.object_files import (
    INDEX_HEAD,
    Damaged,
    Missing,
    ObjectFiles,
    Pack,
    loose_name,
    pack_names,
    read_loose,
)
from stetd.repository.packing import (
    PackWriter,
    delta_header,
    packed_delta,
    packed_object,
    remove_pack,
    write_pack,
)
from stetd.repository.reachable import (
    BrokenHistory,
    Marking,
    Marks,
    all_loose_ids,
    pack_ids,
    union,
)
from stetd.repository.references import DamagedReference, read_reference, references_below
from stetd.repository.shallow import read_shallow
from stetd.storage.disk import Disk
from stetd.storage.progress import Progress

_DISTANCE_DELTA, _ID_DELTA = 6, 7
#: Effort of deflating: this is done once, beside the work.
_THOROUGH = 6
#: Deltas on the way to a whole object, at most.
_LONGEST_CHAIN = 30
#: Contents longer than this stay whole: reading one through a chain would take long.
_LONGEST_DELTA_S_BASE = 4 << 20
_NONE = 0xFFFFFFFF
#: So many bytes of a new pack are synced at a time.
_SYNC_EVERY = 4 << 20
#: Removing so many loose objects is one step.
_STEP = 64
#: A pack that stays is so many times as large as all smaller ones together.
_FACTOR = 2
#: Stands for a source: the object is loose.
_LOOSE = 0xFFFF
#: What a loose object takes in a pack, roughly.
_LOOSE_BYTES = 300


class _Source:
    """A pack to be copied from: its ids and where its entries begin, in the order of ids."""

    def __init__(self, pack: Pack) -> None:
        self.pack = pack
        self.ids = pack_ids(pack)
        crcs = pack.index_bytes(INDEX_HEAD + 20 * pack.count, 4 * pack.count)
        self.crcs = array("I", crcs)
        if sys.byteorder == "little":
            self.crcs.byteswap()
        self.starts = array("Q", (pack.offset(number) for number in range(pack.count)))
        self.sorted = array("Q", sorted([*self.starts, pack.size - 20]))
        self.by_place = array("I", sorted(range(pack.count), key=self.starts.__getitem__))
        #: Whether it has deltas: those of its objects that are whole are what they are based on.
        self.has_deltas = any(self.kind(number) > 4 for number in range(pack.count))

    def kind(self, number: int) -> int:
        return os.pread(self.pack.fd, 1, self.starts[number])[0] >> 4 & 7

    def raw(self, number: int) -> bytes:
        """An entry's bytes. Raises Damaged."""
        start = self.starts[number]
        at = bisect_left(self.sorted, start)
        data = os.pread(self.pack.fd, self.sorted[at + 1] - start, start)
        if zlib.crc32(data) != self.crcs[number]:
            raise Damaged(self.pack.pack_name, f"the entry at offset {start} was changed")
        return data

    def id_at_offset(self, offset: int) -> bytes:
        """The id of the object whose entry begins there. Raises Damaged."""
        at = bisect_left(self.sorted, offset)
        if at >= len(self.by_place) or self.sorted[at] != offset:
            raise Damaged(self.pack.pack_name, f"no entry begins at offset {offset}")
        number = self.by_place[at]
        return self.ids[20 * number : 20 * number + 20]


@dataclass(slots=True)
class _Chosen:
    """What goes into the new pack: ids in order; per id the source and the number in it."""

    ids: bytearray = field(default_factory=bytearray)
    sources: array[int] = field(default_factory=lambda: array("H"))
    numbers: array[int] = field(default_factory=lambda: array("I"))

    def __len__(self) -> int:
        return len(self.sources)

    def id_at(self, place: int) -> bytes:
        return bytes(self.ids[20 * place : 20 * place + 20])

    def find(self, oid: bytes) -> int | None:
        at = bisect_left(range(len(self)), oid, key=self.id_at)
        return at if at < len(self) and self.id_at(at) == oid else None


class Repacking:
    """One pass over one repository. ``drop``: leave out what no reference needs.

    ``on_background`` runs something on the background thread and waits for it. Afterwards
    ``changed`` tells whether files were replaced.
    """

    def __init__(
        self,
        repository: str,
        disk: Disk,
        on_background: Callable[[Callable[[], None]], None],
        progress: Progress,
        *,
        drop: bool,
    ) -> None:
        self._repository = repository
        self._disk = disk
        self._on_background = on_background
        self._progress = progress
        self._drop = drop
        self._files = ObjectFiles(repository)
        self._packs: list[Pack] = []
        self._marking: Marking | None = None
        self._loose = b""
        self.changed = False
        #: How many objects no reference needed.
        self.dropped = 0

    def close(self) -> None:
        """Close the files."""
        self._files.close()
        for pack in self._packs:
            pack.close()

    # -- the pass

    def run(self) -> None:
        """The whole pass. Raises BrokenHistory, Damaged, OSError."""
        self._progress.begin("listing")
        roots = references(self._repository)
        self._packs = self._open_packs()
        self._loose = all_loose_ids(self._repository)
        marks = None
        if self._drop:
            self._mark(roots)
            assert self._marking is not None, "BUG: nothing was marked"
            marks = self._marking.marks
            self.dropped = marks.unmarked
        packs: list[Pack] = []
        self._choose_packs(packs, marks)
        if not self._loose and not packs:
            return
        sources = [_Source(pack) for pack in packs]
        # Of two copies that of a pack with deltas, and then that of the larger pack.
        sources.sort(key=lambda source: (not source.has_deltas, -source.pack.size))
        chosen = _Chosen()
        self._choose(chosen, sources, marks)
        bases = _Bases(len(chosen))
        self._find_bases(chosen, sources, bases, roots)
        before = marks.copy() if marks is not None else b""
        written: list[str] = []
        if len(chosen):
            self._write(chosen, sources, bases, written)
        self._sweep(packs, written, before)
        self.changed = True

    def _open_packs(self) -> list[Pack]:
        return [Pack(self._repository, name) for name in pack_names(self._repository)]

    def _mark(self, roots: list[str]) -> None:
        ids = union([*(pack_ids(pack) for pack in self._packs), self._loose])
        marks = Marks(ids)
        self._marking = Marking(self._files, marks, read_shallow(self._repository))
        self._progress.begin("looking for what is needed", len(marks))
        self._marking.on_object = self._progress.step
        self._marking.mark_from(roots)

    def _choose_packs(self, packs: list[Pack], marks: Marks | None) -> None:
        """Those to be written again: small ones, as long as the next is not much larger than all
        before it; and, if a person asked, those with garbage and those without any delta.
        """
        by_size = sorted(self._packs, key=lambda pack: pack.size)
        joined, total = 0, _LOOSE_BYTES * len(self._loose) // 20
        for number, pack in enumerate(by_size):
            if pack.size < _FACTOR * total:
                joined = number + 1
            total += pack.size
            worth = marks is not None and not all(map(marks.has, _each(pack_ids(pack))))
            if worth or (self._drop and not _Source(pack).has_deltas):
                packs.append(pack)
        if joined > 1 or (joined and self._loose):
            packs += [pack for pack in by_size[:joined] if pack not in packs]

    def _choose(self, chosen: _Chosen, sources: list[_Source], marks: Marks | None) -> None:
        stays = [pack for pack in self._packs if all(pack is not s.pack for s in sources)]
        self._progress.begin("choosing")
        lists = [_numbered(source.ids, number) for number, source in enumerate(sources)]
        loose = ((oid, _LOOSE, 0) for oid in _each(self._loose))
        for oid, source, number in merge(*lists, loose):
            if chosen.ids[-20:] == oid or (marks is not None and not marks.has(oid)):
                continue
            if _is_whole_in(stays, oid):
                continue
            chosen.ids += oid
            chosen.sources.append(source)
            chosen.numbers.append(number)

    # -- deltas

    def _find_bases(
        self, chosen: _Chosen, sources: list[_Source], bases: _Bases, roots: list[str]
    ) -> None:
        """Pair each object that lay whole with the next newer version of its path."""
        self._progress.begin("comparing versions", len(chosen))
        fresh = bytearray(
            source == _LOOSE or not sources[source].has_deltas for source in chosen.sources
        )
        shallow = read_shallow(self._repository)
        for root in roots:
            newer: bytes | None = None
            oid: str | None = root
            while oid is not None:
                place = chosen.find(bytes.fromhex(oid))
                if place is None or not fresh[place]:
                    break  # what is older has been packed before
                kind, content = self._files.read(oid)
                tree, parent = _tree_and_parent(kind, content)
                if tree is None:
                    break
                if newer is not None:
                    self._pair(chosen, fresh, bases, newer, tree)
                newer, oid = tree, None if oid in shallow else parent
                self._progress.done += 1

    def _pair(
        self, chosen: _Chosen, fresh: bytearray, bases: _Bases, newer: bytes, older: bytes
    ) -> None:
        """The versions of one directory, and of what is in it."""
        waiting = [(newer, older)]
        while waiting:
            newer, older = waiting.pop()
            if newer == older:
                continue
            base, place = chosen.find(newer), chosen.find(older)
            if base is None or place is None or not (fresh[base] and fresh[place]):
                continue
            if not bases.add(place, base):
                continue  # this pair, or a newer one, was seen before
            now, then = self._entries(newer), self._entries(older)
            for key, oid in then.items():
                other = now.get(key, oid)
                if other == oid:
                    continue
                if key[1] == b"40000":
                    waiting.append((other, oid))
                else:
                    _pair_files(chosen, fresh, bases, other, oid)

    def _entries(self, tree: bytes) -> dict[tuple[bytes, bytes], bytes]:
        content, at = self._files.read(tree.hex())[1], 0
        entries = {}
        while at < len(content):
            zero = content.index(b"\0", at)
            mode, _, name = content[at:zero].partition(b" ")
            entries[name, mode] = content[zero + 1 : zero + 21]
            at = zero + 21
        return entries

    # -- writing

    def _write(
        self, chosen: _Chosen, sources: list[_Source], bases: _Bases, written: list[str]
    ) -> None:
        self._progress.begin("packing", len(chosen))
        failpoint("gc.before_pack")
        pack = PackWriter(
            self._repository, bytes(chosen.ids), self._disk, staged_as="gc", sync_every=_SYNC_EVERY
        )
        try:
            for place in range(len(chosen)):
                pack.add(self._entry(chosen, sources, bases, place))
                self._progress.done = place + 1
            written += pack.finish()
        finally:
            pack.close()
        failpoint("gc.pack_written")
        self._disk.sync_directory(os.path.join(self._repository, "objects", "pack"))
        failpoint("gc.pack_durable")

    def _entry(self, chosen: _Chosen, sources: list[_Source], bases: _Bases, place: int) -> bytes:
        oid = chosen.id_at(place)
        source, number = chosen.sources[place], chosen.numbers[place]
        base = bases.of(place)
        if base is not None:
            entry = self._as_delta(oid, chosen.id_at(base))
            if entry is not None:
                return entry
        if source == _LOOSE:
            return packed_object(*read_loose(self._repository, oid.hex()), _THOROUGH)
        raw = sources[source].raw(number)
        kind = raw[0] >> 4 & 7
        if kind not in (_DISTANCE_DELTA, _ID_DELTA):
            return raw
        return self._moved_delta(chosen, sources[source], number, raw) or packed_object(
            *self._files.read(oid.hex()), _THOROUGH
        )

    def _as_delta(self, oid: bytes, base: bytes) -> bytes | None:
        kind, content = self._files.read(oid.hex())
        base_kind, base_content = self._files.read(base.hex())
        if kind != base_kind or max(len(content), len(base_content)) > _LONGEST_DELTA_S_BASE:
            return None
        delta = make_delta(kind, base_content, content)
        return None if delta is None else packed_delta(base, delta, _THOROUGH)

    def _moved_delta(
        self, chosen: _Chosen, source: _Source, number: int, raw: bytes
    ) -> bytes | None:
        """A delta that was one before, with its base named by id; None if that is not here."""
        _, size, base, data = source.pack.entry_head(source.starts[number])
        if not isinstance(base, bytes):
            base = source.id_at_offset(base)
        if chosen.find(base) is None:
            return None
        return delta_header(size) + base + raw[data - source.starts[number] :]

    # -- sweeping

    def _sweep(self, packs: list[Pack], written: list[str], before: bytes) -> None:
        self._progress.begin("removing what was copied", len(self._loose) // 20)
        new = {os.path.basename(path) for path in written}
        gone = [p.name for p in packs if os.path.basename(p.pack_name) not in new]
        if self._drop and self.dropped:
            # Garbage may become needed until the moment in which it goes: all at once then.
            loose, self._loose = self._loose, b""
            self._on_background(lambda: self._remove(gone, loose, before))
        else:
            self._on_background(lambda: self._remove(gone, b"", b""))
        for at in range(0, len(self._loose), 20 * _STEP):
            self._unlink(self._loose[at : at + 20 * _STEP])
            self._progress.done += _STEP
        failpoint("gc.swept")

    def _remove(self, packs: list[str], loose: bytes, before: bytes) -> None:
        """On the background thread."""
        if before:
            self._rescue(before)
        failpoint("gc.before_removing")
        for name in packs:
            remove_pack(os.path.join(self._repository, name), self._disk)
            failpoint("gc.removed_pack")
        self._unlink(loose)

    def _rescue(self, before: bytes) -> None:
        """Write again what no reference needed when it was looked at, and one needs now."""
        assert self._marking is not None, "BUG: nothing was marked"
        self._marking.mark_from(references(self._repository))
        needed = self._marking.marks.since(before)
        self.dropped -= len(needed)
        if needed:
            objects = [_object(self._files, oid) for oid in needed]
            write_pack(self._repository, objects, self._disk)
            self._disk.sync_directory(os.path.join(self._repository, "objects", "pack"))

    def _unlink(self, ids: bytes) -> None:
        for oid in _each(ids):
            self._disk.unlink(os.path.join(self._repository, loose_name(oid.hex())))
            failpoint("gc.removed_loose")


class _Bases:
    """Which objects become deltas of which, by place; chains have a longest length."""

    def __init__(self, count: int) -> None:
        self._bases = array("I", [_NONE]) * count
        self._depths = bytearray(count)
        self._seen = bytearray(count)

    def add(self, place: int, base: int) -> bool:
        """Note a version and the next newer one; False if the older one has been seen."""
        self._seen[base] = 1
        if self._seen[place]:
            return False
        self._seen[place] = 1
        if self._depths[base] < _LONGEST_CHAIN:
            self._bases[place] = base
            self._depths[place] = self._depths[base] + 1
        return True

    def of(self, place: int) -> int | None:
        base = self._bases[place]
        return None if base == _NONE else base


def _pair_files(
    chosen: _Chosen, fresh: bytearray, bases: _Bases, newer: bytes, older: bytes
) -> None:
    base, place = chosen.find(newer), chosen.find(older)
    if base is not None and place is not None and fresh[base] and fresh[place]:
        bases.add(place, base)


def references(repository: str) -> list[str]:
    """The ids that references name, that of the history first. Raises BrokenHistory."""
    names = references_below(repository, "refs")
    names.sort(key=lambda name: not name.startswith("refs/heads/"))
    try:
        found = [read_reference(repository, name) for name in names]
    except DamagedReference as error:
        raise BrokenHistory(f"the reference {error} is damaged") from error
    return list(dict.fromkeys(oid for oid in found if oid is not None))


def _object(files: ObjectFiles, oid: bytes) -> NewObject:
    try:
        kind, content = files.read(oid.hex())
    except (Missing, Damaged) as error:
        raise BrokenHistory(f"{oid.hex()}: {error}") from error
    return NewObject(kind, oid.hex(), content)


def _tree_and_parent(kind: str, commit: bytes) -> tuple[bytes | None, str | None]:
    if kind != "commit":
        return None, None
    lines = commit.partition(b"\n\n")[0].split(b"\n")
    tree = bytes.fromhex(lines[0][5:].decode())
    parent = lines[1][7:].decode() if len(lines) > 1 and lines[1].startswith(b"parent ") else None
    return tree, parent


def _is_whole_in(packs: list[Pack], oid: bytes) -> bool:
    """Whether one of these packs has an object, undamaged: any other copy may go then."""
    for pack in packs:
        number = pack.find(oid)
        if number is not None:
            with suppress(Damaged):
                pack.read(number, oid.hex())
                return True
    return False


def _numbered(ids: bytes, source: int) -> Iterator[tuple[bytes, int, int]]:
    return ((oid, source, number) for number, oid in enumerate(_each(ids)))


def _each(ids: bytes) -> Iterator[bytes]:
    return (ids[at : at + 20] for at in range(0, len(ids), 20))
