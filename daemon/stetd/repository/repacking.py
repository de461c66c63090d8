"""Repacks a repository while calls go on: loose objects and small packs become one pack.

The background thread writes whole objects: each version of a file and of every directory above it.
Here the versions of one path become deltas, each from the next newer version, so that the newest,
which is read most, is whole. Unreachable objects are left out.

One pass (:class:`Repacking`), on a thread of its own:

    list      the packs and loose objects; packs are not joined meanwhile
    mark      reachable objects (only if garbage is to be dropped)
    choose    loose objects; packs so small that copying them costs little (each pack that
              stays is at least twice as large as all smaller ones); packs with garbage
    write     one synced pack with its index; then make the names of both durable
    sweep     write objects again that have become reachable meanwhile; then remove the copied packs
              and loose objects. On the background thread, so that nothing is written meanwhile

After a kill at any point every object is in the old files, the new pack, or both.

Entries are copied unchanged, after a check of their checksums. A whole object becomes a delta only
of a newer whole object; a delta keeps its base. Deltas from one old pack lead to whole objects of
that pack, and of two copies the one from the larger pack is taken. So chains have no cycles.
"""

from __future__ import annotations

import os
import zlib
from array import array
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import msgspec

from stetd.failpoints import failpoint
from stetd.history.objects import TREE_MODE
from stetd.repository.deltas import make_delta
from stetd.repository.object_files import (
    DISTANCE_DELTA,
    ID_DELTA,
    ObjectFiles,
    all_loose_ids,
    loose_name,
    pack_names,
    read_loose,
)
from stetd.repository.packing import (
    Chosen,
    PackEntries,
    pack_folder,
    packed_delta,
    packed_object,
    remove_derived,
    remove_pack,
    store_pack,
    write_pack,
)
from stetd.repository.reachable import LINKS, Marks, named_entries
from stetd.repository.references import HISTORY, named_commits, read_reference, read_shallow
from stetd.repository.stored_ids import each_id
from stetd.storage.disk import Disk
from stetd.storage.progress import Progress

#: Compression level: high, because this is done once, and no call waits for it.
_THOROUGH = 6
#: Longest chain of deltas.
_LONGEST_CHAIN = 30
#: Bytes; larger contents stay whole, because reading them through a chain would take long.
_LONGEST_DELTA_S_BASE = 4 << 20
_NONE = 0xFFFFFFFF
#: Loose objects that are removed in one step.
_STEP = 64
#: A pack that stays is at least this many times as large as all smaller ones together.
_FACTOR = 2
#: Approximate bytes of a loose object in a pack.
_LOOSE_BYTES = 300


class Repacking(msgspec.Struct):
    """One pass over one repository. ``drop``: leave out unreachable objects.

    ``on_background`` runs something on the background thread and waits for it.
    """

    repository: str
    disk: Disk
    on_background: Callable[[Callable[[], None]], None]
    progress: Progress
    drop: bool
    #: The number of unreachable objects.
    dropped: int = 0
    _loose: bytes = b""
    _marks: Marks | None = None

    # -- the pass

    def run(self) -> None:
        """Run the pass. Raises BrokenHistory, DamagedReference, Damaged, OSError."""
        self.progress.begin("listing")
        roots = references(self.repository)
        with ExitStack() as opened:
            files = opened.enter_context(closing(ObjectFiles(self.repository)))
            packs = [
                opened.enter_context(closing(PackEntries(self.repository, name)))
                for name in pack_names(self.repository)
            ]
            self._loose = all_loose_ids(self.repository)
            if self.drop:
                self._mark(roots, files, packs)
            copied = self._chosen_packs(packs)
            if not self._loose and not copied:
                return
            # Of two copies prefer the one in a pack with deltas, then the one in the larger pack.
            preferred = sorted(copied, key=lambda pack: (not pack.has_deltas, -pack.size))
            self.progress.begin("choosing")
            new = _NewPack(files, Chosen(preferred, self._loose, self._is_wanted))
            self.progress.begin("comparing versions", len(new.chosen))
            new.find_bases(roots, self.progress)
            written = self._write(new) if len(new.chosen) else []
            self._sweep(copied, written)

    def _mark(self, roots: list[str], files: ObjectFiles, packs: list[PackEntries]) -> None:
        self._marks = marks = Marks(files, Chosen(packs, self._loose).ids)
        self.progress.begin("looking for what is needed", len(marks))
        marks.on_mark = lambda _: self.progress.step()
        marks.mark_from(roots)
        self.dropped = marks.known.count(0)

    def _is_wanted(self, oid: bytes) -> bool:
        return self._marks is None or self._marks.has(oid)

    def _chosen_packs(self, packs: list[PackEntries]) -> list[PackEntries]:
        """The packs to write again: small ones, as long as the next is not much larger than all
        before it; with ``drop`` also packs with garbage, and packs without deltas.
        """
        by_size = sorted(packs, key=lambda pack: pack.size)
        joined, total = 0, _LOOSE_BYTES * len(self._loose) // 20
        for number, pack in enumerate(by_size, 1):
            if pack.size < _FACTOR * total:
                joined = number
            total += pack.size
        chosen = by_size[:joined]
        if self.drop:
            chosen += (
                pack
                for pack in by_size[joined:]
                if not (pack.has_deltas and all(map(self._is_wanted, each_id(pack.all_ids()))))
            )
        return chosen

    def _write(self, new: _NewPack) -> list[str]:
        """Write the new pack durably; returns the paths of its files."""
        self.progress.begin("packing", len(new.chosen))
        failpoint("gc.before_pack")
        entries = new.entries(self.progress)
        written = store_pack(self.repository, new.chosen.ids, entries, self.disk, staged_as="gc")
        failpoint("gc.pack_written")
        self.disk.sync_path(pack_folder(self.repository))
        failpoint("gc.pack_durable")
        return written

    # -- sweeping

    def _sweep(self, packs: list[PackEntries], written: list[str]) -> None:
        self.progress.begin("removing what was copied", len(self._loose) // 20)
        gone = [p.name for p in packs if os.path.join(self.repository, p.pack_name) not in written]
        # Garbage may become reachable until it is removed, so it is removed in one step.
        at_once, later = (self._loose, b"") if self.dropped else (b"", self._loose)
        self.on_background(lambda: self._remove(gone, at_once))
        for at in range(0, len(later), 20 * _STEP):
            self._unlink(later[at : at + 20 * _STEP])
            self.progress.step(_STEP)
        failpoint("gc.swept")

    def _remove(self, packs: list[str], loose: bytes) -> None:
        """Remove the copied files. Runs on the background thread."""
        if self.dropped:
            self._rescue()
        failpoint("gc.before_removing")
        remove_derived(self.repository, self.disk)
        for name in packs:
            remove_pack(os.path.join(self.repository, name), self.disk)
            failpoint("gc.removed_pack")
        self._unlink(loose)

    def _rescue(self) -> None:
        """Write objects again that were unreachable when marked, and are reachable now."""
        assert self._marks is not None, "BUG: nothing was marked"
        needed: list[int] = []
        marks = self._marks
        marks.on_mark = needed.append
        marks.mark_from(references(self.repository))
        self.dropped -= len(needed)
        if needed:
            objects = map(marks.read, map(marks.at, needed))
            write_pack(self.repository, objects, self.disk)
            self.disk.sync_path(pack_folder(self.repository))

    def _unlink(self, ids: bytes) -> None:
        for oid in each_id(ids):
            self.disk.unlink(os.path.join(self.repository, loose_name(oid.hex())))
            failpoint("gc.removed_loose")


class _NewPack:
    """The entries of the new pack: copies, or new deltas of newer versions."""

    def __init__(self, files: ObjectFiles, chosen: Chosen) -> None:
        self._files = files
        self.chosen = chosen
        # By index: the object's base; 0 until a version of the object was seen, then the number of
        # objects in its chain. Arrays, because Python objects would take 100 bytes for each.
        self._bases = array("I", [_NONE]) * len(chosen)
        self._chains = bytearray(len(chosen))

    # -- deltas

    def find_bases(self, roots: list[str], progress: Progress) -> None:
        """Pair each whole object with the next newer version of its path."""
        shallow = read_shallow(self._files.path)
        for root in roots:
            newer: bytes | None = None
            oid: str | None = root
            while oid is not None:
                place = self._place(bytes.fromhex(oid))
                if place is None or self._chains[place]:
                    break  # older versions were packed before, or are seen from another root
                self._chains[place] = 1
                links = dict(LINKS.findall(self._files.read(oid)[1].partition(b"\n\n")[0]))
                if b"tree" not in links:
                    break
                tree = bytes.fromhex(links[b"tree"].decode())
                if newer not in (None, tree):
                    self._pair(newer, tree)
                parent = links.get(b"parent")
                newer, oid = tree, None if oid in shallow or parent is None else parent.decode()
                progress.step()

    def _place(self, oid: bytes) -> int | None:
        """The index of an object that may become a delta; None: it is not in the new pack, or
        comes from a pack with deltas.
        """
        place = self.chosen.find(oid)
        if place is None:
            return None
        source = self.chosen.source(place)
        return place if source is None or not source[0].has_deltas else None

    def _pair(self, newer: bytes, older: bytes) -> None:
        """Pair two versions of a directory, and of its entries."""
        waiting = [(newer, older, True)]
        while waiting:
            newer, older, is_tree = waiting.pop()
            base, place = self._place(newer), self._place(older)
            if base is None or place is None:
                continue
            length = self._chains[base] or 1
            self._chains[base] = length
            if self._chains[place]:
                continue  # this pair, or one with a newer version, has been seen
            self._chains[place] = 1
            if length <= _LONGEST_CHAIN:
                self._bases[place], self._chains[place] = base, length + 1
            if is_tree:
                now = dict(named_entries(self._files.read(newer.hex())[1]))
                for name, oid in named_entries(self._files.read(older.hex())[1]):
                    if now.get(name, oid) != oid:
                        waiting.append((now[name], oid, name.startswith(TREE_MODE)))

    # -- entries

    def entries(self, progress: Progress) -> Iterator[bytes]:
        """The entries, ordered by id. Raises Damaged."""
        for place in range(len(self.chosen)):
            yield self._entry(place)
            progress.step()

    def _entry(self, place: int) -> bytes:
        oid, base, source = self.chosen.at(place), self._bases[place], self.chosen.source(place)
        if base != _NONE:
            entry = self._as_delta(oid, self.chosen.at(base))
            if entry is not None:
                return entry
        if source is None:
            return packed_object(*read_loose(self._files.path, oid.hex()), _THOROUGH)
        pack, number = source
        raw = pack.checked(number)
        if raw[0] >> 4 & 7 not in (DISTANCE_DELTA, ID_DELTA):
            return raw
        # A delta stays one, with its base given by id, if the base is in the new pack, too.
        start = pack.starts[number]
        _, size, kept_base, data = pack.entry_head(start)
        if not isinstance(kept_base, bytes):
            kept_base = pack.id_at_offset(kept_base)
        if self.chosen.find(kept_base) is None:
            return packed_object(*self._files.read(oid.hex()), _THOROUGH)
        return packed_delta(kept_base, size, raw[data - start :])

    def _as_delta(self, oid: bytes, base: bytes) -> bytes | None:
        kind, content = self._files.read(oid.hex())
        base_kind, base_content = self._files.read(base.hex())
        if kind != base_kind or max(len(content), len(base_content)) > _LONGEST_DELTA_S_BASE:
            return None
        delta = make_delta(base_content, content)
        if delta is None:
            return None
        return packed_delta(base, len(delta), zlib.compress(delta, _THOROUGH))


def references(repository: str) -> list[str]:
    """The ids that references name, the history's first. Raises DamagedReference."""
    found = read_reference(repository, HISTORY), *named_commits(repository)
    return [oid for oid in found if oid is not None]
