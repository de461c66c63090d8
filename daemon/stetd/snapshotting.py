"""A snapshot: the whole workspace as one commit of kind ``snapshot``, beside the calls.

    begin     (writer)  the head; from now on the paths that calls touch are noted
    look      stat data of every file; limits; nothing has been written until here
    read      the files that may be other than the head has them, their contents into packs
    look      again at those; what was saved meanwhile is read again
    trees     directory by directory, into packs; all of it synced
    commit    (writer)  one small journal record without contents: a tree, and for every path
              that a call touched meanwhile what the history says of it. Git follows

What nobody has changed since the last snapshot is known by its stat data (the cache) and is not
read. Killed before the record, nothing has happened but objects that nothing needs.
"""

from __future__ import annotations

import os
import shutil
import time
import uuid
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

from stet.wire.failures import Kind, Refused, refuse
from stet.wire.results import Peer, SkippedPath, SnapshotResult
from stetd import __version__
from stetd.failpoints import hit
from stetd.heads import Head, History, unusual_permissions
from stetd.history.commits import CommitMeta
from stetd.history.objects import (
    EMPTY_TREE,
    TREE,
    Entry,
    Image,
    LoadTree,
    Tree,
    changed_paths,
    find_entry,
    object_id,
    stored_tree,
)
from stetd.history_work import check_open, record
from stetd.storage.journal_format import PathChange
from stetd.storage.pack_stream import PackStream
from stetd.storage.repacking import Progress
from stetd.storage.scanning import Folder, Scan
from stetd.storage.shadow_repo import ShadowRepository
from stetd.storage.stat_cache import Stamp, StatCache, StatCacheWriter
from stetd.storage.worktree import RACY_NS, OnDisk
from stetd.workspace import Workspace
from stetd.writer import Writer

T = TypeVar("T")
#: Files that change while they are read are read so often again, then taken as they were last.
_ROUNDS = 3
#: Permissions that Git's modes can't say are kept for so many files, private ones first.
_MOST_PERMISSIONS = 1000
#: Bytes of the disk that are left free.
_RESERVE = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotLimits:
    """What a snapshot may have: files, bytes of all and of one."""

    files: int
    bytes: int
    file_bytes: int


@dataclass(frozen=True, slots=True)
class Asked:
    """Who asked for a snapshot, and why. ``skip_large``: leave files out that are too large."""

    agent: str | None
    session: str | None
    peer: Peer | None
    message: str = ""
    skip_large: bool = False


def snapshot(
    writer: Writer,
    workspace: Workspace,
    asked: Asked,
    limits: SnapshotLimits,
    progress: Progress,
) -> Generator[None, None, SnapshotResult]:
    """Take a snapshot, step by step; not on the writer thread. Raises Refused, OSError."""
    run = _Snapshot(writer, workspace, asked, limits, progress)
    return (yield from run.steps())


def stat_cache_path(shadow: str) -> str:
    """Where the stat data of a workspace's files are kept."""
    workspaces, name = os.path.split(shadow)
    return os.path.join(os.path.dirname(workspaces), "snapshots", name + ".stat")


class _Snapshot:
    def __init__(
        self,
        writer: Writer,
        workspace: Workspace,
        asked: Asked,
        limits: SnapshotLimits,
        progress: Progress,
    ) -> None:
        self._writer = writer
        self._workspace = workspace
        self._asked = asked
        self._limits = limits
        self._progress = progress
        self._base = workspace.head
        self._touched: set[str] = set()
        self._permissions: list[tuple[str, int]] = []
        self._repository: ShadowRepository | None = None

    def steps(self) -> Generator[None, None, SnapshotResult]:
        self._on_writer(self._begin)
        try:
            self._writer.background.require(self._workspace.number)
            self._repository = ShadowRepository(self._workspace.shadow)
            return (yield from self._take(self._repository))
        finally:
            if self._repository is not None:
                self._repository.close()
            with suppress(Refused):
                self._on_writer(self._end)

    def _on_writer(self, run: Callable[[], T]) -> T:
        return self._writer.from_thread(run)

    def _begin(self) -> None:
        workspace = self._workspace
        check_open(self._writer, workspace)
        workspace.check_present()
        self._base = workspace.head
        self._touched = workspace.touched = set()

    def _end(self) -> None:
        self._workspace.touched = None

    def _take(self, repository: ShadowRepository) -> Generator[None, None, SnapshotResult]:
        workspace, base = self._workspace, self._base
        self._progress.begin("looking at the files")
        cache = StatCache(stat_cache_path(workspace.shadow))
        yield from cache.load()
        tree = repository.commit(base.commit).tree if base.commit is not None else None
        scan = Scan(
            workspace.worktree,
            repository.load_tree,
            tree,
            cache,
            max_files=self._limits.files,
            max_file_bytes=self._limits.file_bytes,
            excludes=workspace.excludes,
        )
        for _ in scan.walk():
            self._progress.done = scan.files
            yield
        self._check_limits(scan)
        packs = PackStream(workspace.shadow, self._writer.state.disk, "snapshot")
        yield from self._read(scan, packs)
        new = yield from self._write_trees(scan, packs)
        yield from packs.flush()
        counts = yield from self._count(repository, tree, new)
        hit("snapshot.before_record")
        commit = self._on_writer(lambda: self._commit(new, sum(counts), scan.files))
        yield from self._write_cache(scan)
        return SnapshotResult(
            commit=commit,
            files=scan.files,
            bytes=scan.bytes,
            added=counts[0],
            modified=counts[1],
            removed=counts[2],
            skipped=[SkippedPath(path, why) for path, why in scan.skipped],
            skipped_count=scan.skipped_count,
        )

    # -- limits

    def _check_limits(self, scan: Scan) -> None:
        limits = self._limits
        if scan.files > limits.files:
            most = ", ".join(f"{name} {n:,}" for name, n in scan.by_top.most_common(5))
            raise refuse(
                Kind.INPUT_TOO_LARGE,
                f"the workspace has {scan.files:,} files that no .gitignore leaves out; a snapshot "
                f"takes {limits.files:,} at most (snapshot_max_files). Most are in: {most}. "
                "Leave out what is made by programs, in a .gitignore. Nothing was written.",
            )
        if scan.large and not self._asked.skip_large:
            named = ", ".join(f"{path} ({size:,} bytes)" for size, path in scan.large[:5])
            raise refuse(
                Kind.FILE_TOO_LARGE,
                f"{len(scan.large)} files have more than {limits.file_bytes:,} bytes "
                f"(max_file_bytes): {named}. Leave them out in a .gitignore, or send "
                "skip_large: true. Nothing was written.",
            )
        for size, path in scan.large:
            self._drop_large(scan, size, path)
        if scan.bytes > limits.bytes:
            raise refuse(
                Kind.INPUT_TOO_LARGE,
                f"the workspace's files have {scan.bytes:,} bytes; a snapshot takes "
                f"{limits.bytes:,} at most (snapshot_max_bytes). Leave out what is made by "
                "programs, in a .gitignore. Nothing was written.",
            )
        free = shutil.disk_usage(self._workspace.shadow).free - _RESERVE
        if scan.unknown_bytes > free:
            raise refuse(
                Kind.STORAGE_FULL,
                f"{scan.unknown_bytes:,} bytes may have to be written to the history, and only "
                f"{max(free, 0):,} are free beside a reserve. Nothing was written.",
            )

    def _drop_large(self, scan: Scan, size: int, path: str) -> None:
        """Leave a file out; what the history has of it stays."""
        scan.skip(path, f"it has {size:,} bytes, more than {self._limits.file_bytes:,}")
        scan.files -= 1
        scan.bytes -= size
        folder_path, _, name = path.rpartition("/")
        folder_path += "/" if folder_path else ""
        for folder in scan.folders:
            if folder.path == folder_path:
                if (folder, name) in scan.unknown:
                    scan.unknown.remove((folder, name))
                    scan.unknown_bytes -= size
                del folder.stamps[name]
                tracked = folder.tracked.get(name)
                if tracked is not None and tracked.mode != TREE:
                    folder.entries[name] = tracked

    # -- reading

    def _read(self, scan: Scan, packs: PackStream) -> Iterator[None]:
        waiting = scan.unknown
        self._progress.begin("reading", len(waiting))
        for round_number in range(_ROUNDS):
            again: list[tuple[Folder, str]] = []
            for folder, name in waiting:
                yield from self._read_one(scan, packs, folder, name)
                self._progress.done += not round_number
                yield
            hit("snapshot.read")
            for folder, name in waiting:
                if self._has_changed(folder, name):
                    again.append((folder, name))
                yield
            if not again:
                return
            waiting = again

    def _read_one(self, scan: Scan, packs: PackStream, folder: Folder, name: str) -> Iterator[None]:
        """Read a file as it is now, and put its content into a pack if the history lacks it."""
        folder.entries.pop(name, None)
        folder.cached.pop(name, None)
        before = self._stamp(folder, name)
        found = self._look(scan, folder, name)
        if found is None or found.data is None or before is None:
            folder.stamps.pop(name, None)
            return
        folder.stamps[name] = before
        image = Image(found.oid, found.mode)
        folder.entries[name] = Entry(image.git_mode, found.oid)
        settled = found.read_at_ns - max(before.mtime, before.ctime) > RACY_NS
        if settled and self._stamp(folder, name) == before:
            folder.cached[name] = before, bytes.fromhex(found.oid)
        tracked = folder.tracked.get(name)
        if tracked is None or (tracked.mode, tracked.oid) != (image.git_mode, found.oid):
            self._note_permissions(folder.path + name, found.mode)
            yield from packs.add("blob", found.oid, found.data)

    def _look(self, scan: Scan, folder: Folder, name: str) -> OnDisk | None:
        path = folder.path + name
        worktree = self._workspace.worktree
        try:
            target = worktree.resolver.locate(path)
        except Refused:
            return None
        try:
            if target.path != path:
                return None
            return worktree.read(target, self._limits.file_bytes)
        except Refused as refusal:
            if refusal.kind != Kind.NOT_A_FILE:
                scan.skip(path, refusal.message)
            return None
        finally:
            target.close()

    def _stamp(self, folder: Folder, name: str) -> Stamp | None:
        path = folder.path + name
        try:
            target = self._workspace.worktree.resolver.locate(path)
        except Refused:
            return None
        try:
            if target.missing or target.path != path:
                return None
            return Stamp.of(os.stat(target.name, dir_fd=target.dir_fd, follow_symlinks=False))
        except OSError:
            return None
        finally:
            target.close()

    def _has_changed(self, folder: Folder, name: str) -> bool:
        now = self._stamp(folder, name)
        return now != folder.stamps.get(name)

    def _note_permissions(self, path: str, mode: int) -> None:
        permissions = unusual_permissions(mode)
        if permissions is not None:
            self._permissions.append((path, permissions))

    # -- trees

    def _write_trees(self, scan: Scan, packs: PackStream) -> Generator[None, None, str]:
        """The trees of all directories, the deepest first; gives the root's id."""
        self._progress.begin("writing directories", len(scan.folders))
        below: dict[str, dict[str, Entry]] = {}
        for folder in reversed(scan.folders):
            entries = folder.entries | below.pop(folder.path, {})
            self._progress.done += 1
            if not entries and folder.path:
                yield
                continue
            content = Tree(entries).serialize()
            oid = object_id("tree", content)
            parent, _, name = folder.path.rstrip("/").rpartition("/")
            if folder.path:
                below.setdefault(parent + "/" if parent else "", {})[name] = Entry(TREE, oid)
            if oid != folder.tree:
                yield from packs.add("tree", oid, content)
            if not folder.path:
                return oid
            yield
        return EMPTY_TREE

    def _count(
        self, repository: ShadowRepository, old: str | None, new: str
    ) -> Generator[None, None, tuple[int, int, int]]:
        """How many files were added, modified and removed."""
        counts = [0, 0, 0]
        load = repository.load_tree
        before = stored_tree(old, load) if old is not None else None
        for _, was, now in changed_paths(before, stored_tree(new, load), load):
            counts[0 if was is None else 2 if now is None else 1] += 1
            yield
        return counts[0], counts[1], counts[2]

    # -- the commit

    def _commit(self, tree: str, changed: int, files: int) -> str | None:
        """Make the commit on what the head is by now; on the writer thread."""
        workspace, writer = self._workspace, self._writer
        check_open(writer, workspace)
        load, head = workspace.repository.load_tree, workspace.head
        now = int(time.time())
        history = History(head, load, now)
        changes = self._touched_since(head)
        meta = CommitMeta(
            kind="snapshot",
            time=now,
            subject=f"snapshot: {files:,} files, {changed:,} changed",
            why=self._asked.message,
            method="snapshot",
            agent=self._asked.agent,
            session=self._asked.session,
            request=uuid.uuid4().hex,
            peer=self._asked.peer,
            permissions=self._kept_permissions(),
            version=__version__,
        )
        commit = history.add(meta, changes, tree)
        if history.head.tree.oid == head.tree.oid:
            return None
        paths = self._paths(head, history.head)
        number = record(writer, workspace.name, commits=history.commits, paths=paths)
        hit("snapshot.recorded")
        workspace.head = history.head
        writer.to_git(workspace, number, history.objects)
        return commit

    def _touched_since(self, head: Head) -> dict[str, Image | None]:
        """What the history says by now of every path that was touched since the beginning."""
        load = self._workspace.repository.load_tree
        paths = set(self._touched)
        paths.update(path for path, _, _ in changed_paths(self._base.tree, head.tree, load))
        kept = (path for path in sorted(paths) if not self._workspace.excludes(path))
        return {path: _image(head, path, load) for path in kept}

    def _kept_permissions(self) -> tuple[tuple[str, int], ...]:
        private_first = sorted(self._permissions, key=lambda each: (each[1] & 0o044 == 0o044, each))
        return tuple(sorted(islice(private_first, _MOST_PERMISSIONS)))

    def _paths(self, head: Head, new: Head) -> list[PathChange]:
        """What the snapshot found at paths that the journal's records are about: these are no
        longer what recovery has to bring back.
        """
        load = self._workspace.repository.load_tree
        changed = []
        for path in sorted(self._writer.state.unsynced.get(self._workspace.name, ())):
            if self._workspace.excludes(path):
                continue  # that the snapshot lacks it says nothing about the disk
            before, after = _image(head, path, load), _image(new, path, load)
            if before != after:
                changed.append(PathChange(path, before, after))
        return changed

    def _write_cache(self, scan: Scan) -> Iterator[None]:
        cache = StatCacheWriter(stat_cache_path(self._workspace.shadow), self._writer.state.disk)
        try:
            for folder in scan.folders:
                if folder.cached:
                    cache.add(folder.path, folder.cached)
                yield
            cache.finish()
        finally:
            cache.close()


def _image(head: Head, path: str, load: LoadTree) -> Image | None:
    found = find_entry(head.tree, path, load)
    return Image(found[1], found[0]) if found is not None else None
