"""The historian's part of a snapshot (:mod:`stetd.upkeep.snapshot`): reads the whole workspace."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from contextlib import closing, suppress

import msgspec

from stet.wire.failures import Kind, Refused, refuse
from stet.wire.results import SnapshotResult
from stetd.config.settings import Settings
from stetd.failpoints import failpoint
from stetd.historian.queries.files import present
from stetd.history.objects import EMPTY_TREE, TREE, Entry, Image, object_id, tree_content
from stetd.processes.long_work import SnapshotTree
from stetd.repository.packing import PackStream
from stetd.repository.stored_objects import StoredObjects
from stetd.state.read_view import ReadView
from stetd.storage.scanning import Folder, Scan
from stetd.storage.stat_cache import Stamp, read_stat_cache, stat_cache_path, write_stat_cache
from stetd.storage.worktree import RACY_NS
from stetd.transaction.heads import unusual_permissions

#: How often files that change while they are read are read; then the last read counts.
_ROUNDS = 3
#: Bytes of free disk space that a snapshot leaves.
_RESERVE = 64 << 20


def taken(view: ReadView, skip_large: bool, settings: Settings) -> SnapshotTree:
    """Read the workspace and write its contents and trees. Raises Refused, OSError."""
    progress, known = view.progress, read_stat_cache(stat_cache_path(view.shadow))
    progress.begin("looking at the files")
    with closing(StoredObjects(view.shadow)) as repository:
        tree = repository.commit(view.head).tree if view.head is not None else None
        scan = Scan(
            view.worktree,
            repository.load_tree,
            tree,
            known,
            max_files=settings.snapshot_max_files,
            max_file_bytes=view.max_file_bytes,
            excludes=view.excludes,
        )
        for _ in scan.walk():
            progress.step(scan.files - progress.done)
        _check_limits(view.shadow, scan, skip_large, settings.snapshot_max_bytes)
        packs = PackStream(view.shadow, view.disk, "snapshot")
        snapshot = _Snapshot(view, scan, packs)
        snapshot.read()
        new = snapshot.write_trees()
        packs.flush()
        changed = Counter(
            "A" if was is None else "D" if now is None else "M"
            for _, was, now in repository.changed(tree, new)
        )
    cached = ((folder.path, folder.cached) for folder in scan.folders)
    write_stat_cache(stat_cache_path(view.shadow), cached, view.disk)
    result = SnapshotResult(
        commit=None,
        files=scan.files - len(scan.large),
        bytes=scan.bytes,
        added=changed["A"],
        modified=changed["M"],
        removed=changed["D"],
        skipped=scan.skipped,
        skipped_count=scan.skipped_count,
    )
    return SnapshotTree(tree=new, result=result, permissions=list(snapshot.permissions.items()))


def _check_limits(shadow: str, scan: Scan, skip_large: bool, max_bytes: int) -> None:
    if scan.files > scan.max_files:
        most = ", ".join(f"{name} {n:,}" for name, n in scan.by_top.most_common(5))
        raise refuse(
            Kind.INPUT_TOO_LARGE,
            f"the workspace has {scan.files:,} files that no .gitignore leaves out; a snapshot "
            f"takes {scan.max_files:,} at most (snapshot_max_files). Most are in: {most}. "
            "Leave out what is made by programs, in a .gitignore. Nothing was written.",
        )
    if scan.large and not skip_large:
        named = ", ".join(f"{path} ({size:,} bytes)" for size, path in scan.large[:5])
        raise refuse(
            Kind.FILE_TOO_LARGE,
            f"{len(scan.large)} files have more than {scan.max_file_bytes:,} bytes "
            f"(max_file_bytes): {named}. Leave them out in a .gitignore, or send "
            "skip_large: true. Nothing was written.",
        )
    for size, path in scan.large:
        scan.skip(path, f"it has {size:,} bytes, more than {scan.max_file_bytes:,}")
    if scan.bytes > max_bytes:
        raise refuse(
            Kind.INPUT_TOO_LARGE,
            f"the workspace's files have {scan.bytes:,} bytes; a snapshot takes "
            f"{max_bytes:,} at most (snapshot_max_bytes). Leave out what is made by "
            "programs, in a .gitignore. Nothing was written.",
        )
    free = shutil.disk_usage(shadow).free - _RESERVE
    if scan.unknown_bytes > free:
        raise refuse(
            Kind.STORAGE_FULL,
            f"{scan.unknown_bytes:,} bytes may have to be written to the history, and only "
            f"{max(free, 0):,} are free beside a reserve. Nothing was written.",
        )


class _Snapshot(msgspec.Struct):
    """Reads the files of a scan, and writes the contents and trees that are new."""

    view: ReadView
    scan: Scan
    packs: PackStream
    permissions: dict[str, int] = {}

    def read(self) -> None:
        waiting = self.scan.unknown
        self.view.progress.begin("reading", len(waiting))
        for round_number in range(_ROUNDS):
            for folder, name in waiting:
                self._read_one(folder, name)
                self.view.progress.step(not round_number)
            failpoint("snapshot.read")
            waiting = [
                (folder, name)
                for folder, name in waiting
                if self._stamp(folder, name) != folder.stamps.get(name)
            ]
            if not waiting:
                return

    def _read_one(self, folder: Folder, name: str) -> None:
        """Read a file, and pack its content if the history does not have it."""
        path = folder.path + name
        folder.entries.pop(name, None)
        folder.cached.pop(name, None)
        folder.stamps.pop(name, None)
        self.permissions.pop(path, None)
        before = self._stamp(folder, name)
        if before is not None:  # an unreadable file is tried again only if it changes
            folder.stamps[name] = before
        try:
            found = present(self.view.worktree, path, self.view.max_file_bytes)
        except Refused as refusal:
            self.scan.skip(path, refusal.message)
            self._keep(folder, name)
            return
        if found is None or found.data is None or before is None:
            return
        image = Image(found.oid, found.mode)
        folder.entries[name] = Entry(image.git_mode, found.oid)
        settled = found.read_at_ns - max(before.mtime, before.ctime) > RACY_NS
        if settled and self._stamp(folder, name) == before:
            folder.cached[name] = before, bytes.fromhex(found.oid)
        tracked = folder.tracked.get(name)
        if tracked is None or (tracked.mode, tracked.oid) != (image.git_mode, found.oid):
            permissions = unusual_permissions(found.mode)
            if permissions is not None:
                self.permissions[path] = permissions
            self.packs.add("blob", found.oid, found.data)

    @staticmethod
    def _keep(folder: Folder, name: str) -> None:
        """Keep the history's version of a file that exists, but can't be read."""
        tracked = folder.tracked.get(name)
        if tracked is not None:
            folder.entries[name] = tracked

    def _stamp(self, folder: Folder, name: str) -> Stamp | None:
        path = folder.path + name
        try:
            target = self.view.worktree.resolve_exactly(path)
        except Refused:
            return None
        with target, suppress(OSError):
            if not target.missing:
                return Stamp.of(os.stat(target.name, dir_fd=target.dir_fd, follow_symlinks=False))
        return None

    def write_trees(self) -> str:
        """Write the trees of all directories, the deepest first; returns the root's id."""
        self.view.progress.begin("writing directories", len(self.scan.folders))
        below: dict[str, dict[str, Entry]] = {}
        passed = {path.rstrip("/") for path in self.scan.passed}
        for folder in reversed(self.scan.folders):
            for name in folder.tracked:
                if folder.path + name in passed:
                    self._keep(folder, name)
            entries = folder.entries | below.pop(folder.path, {})
            self.view.progress.step()
            if not entries and folder.path:
                continue
            content = tree_content(entries)
            oid = object_id("tree", content)
            parent, _, name = folder.path.rstrip("/").rpartition("/")
            if folder.path:
                below.setdefault(parent + "/" if parent else "", {})[name] = Entry(TREE, oid)
            if oid != folder.tree:
                self.packs.add("tree", oid, content)
            if not folder.path:
                return oid
        return EMPTY_TREE
