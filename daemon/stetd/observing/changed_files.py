"""Scans a workspace, in bounded time, for files that may differ from the history.

The files found are candidates only: the writer reads them again and compares them with the head
of that time (:mod:`stetd.observing.recording`), so a file may change after the scan. Files are
cached by their stat data (``KnownFiles``): the next scan reads only files that changed.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import closing

from stet.wire.failures import Refused
from stetd.history.ignoring import is_left_out
from stetd.history.objects import EMPTY_TREE, TREE, Image
from stetd.observing.current_content import NO_TIME, ScanRequest, ScanResult
from stetd.repository.stored_objects import StoredObjects
from stetd.state.read_view import ReadView
from stetd.storage.scanning import Folder, Scan
from stetd.storage.stat_cache import Known, read_stat_cache, stat_cache_path
from stetd.storage.worktree import RACY_NS
from stetd.transaction.heads import unusual_permissions

#: Swap files of Vim, lock links and autosaves of Emacs: they change while somebody only types.
_OF_EDITORS = re.compile(r"(?:.*/)?(?:\.(?:[^/]*\.)?sw[a-p]|\.#[^/]*|#[^/]*#)", re.DOTALL)
#: Permission bits beyond Git's are noted if at most so many files have some.
_MAX_MODES = 1000
#: At most so many .gitignore files may differ from those in the history.
_MAX_IGNORES = 1000


#: By shadow repository, stat data and blob ids of the files of a directory: those of the last scan
#: that has met all directories, at first those of a snapshot.
KnownFiles = dict[str, Callable[[str], Known]]


def scan_workspace(view: ReadView, files: KnownFiles, asked: ScanRequest) -> ScanResult:
    """Scan the whole workspace, within the limits of ``asked``."""
    known = files.get(view.shadow)
    if known is None:
        known = files[view.shadow] = read_stat_cache(stat_cache_path(view.shadow))
    try:
        with closing(StoredObjects(view.shadow)) as repository:
            tree = repository.commit(view.head).tree if view.head is not None else None
            scan = Scan(
                view.worktree,
                repository.load_tree,
                tree,
                known,
                max_files=asked.max_files,
                max_file_bytes=view.max_file_bytes,
                excludes=view.excludes,
                inner=view.inner,
            )
            found = _differing(view, repository, scan, files, asked)
            found.tree = tree or EMPTY_TREE
            found.kept = [path for path in asked.late if not _is_ignored(scan, view, path)]
            return found
    except OSError as error:
        return ScanResult(why=f"it can't be scanned: {error.strerror}")


def _is_ignored(scan: Scan, view: ReadView, path: str) -> bool:
    """Whether a ``.gitignore`` ignores a path, absolute or relative to the session's directory."""
    root = view.worktree.root
    whole = os.path.normpath(os.path.join(root, view.directory, path))
    return is_left_out(whole.removeprefix(root + "/"), scan.rules.get)


def _differing(
    view: ReadView, repository: StoredObjects, scan: Scan, files: KnownFiles, asked: ScanRequest
) -> ScanResult:
    found = ScanResult(
        excludes=view.excludes.digest, ignores=scan.ignores, changed_ignores=scan.changed_ignores
    )
    for _ in scan.walk():
        if scan.files > asked.max_files:
            found.why = f"it has more than {asked.max_files:,} files that no .gitignore leaves out"
            return found
        if time.monotonic() > asked.deadline:
            found.why = NO_TIME
            return found
    for folder, name in scan.unknown:
        if time.monotonic() > asked.deadline:
            found.why = "there was no time to read all of it"
            break
        path = folder.path + name
        if name not in folder.tracked or _differs(view, folder, name):
            found.paths.append((path, folder.stamps[name].size))
    inner = tuple(view.inner)
    found.paths += (
        (path, 0)
        for path in _deleted(scan, repository)
        if not path.startswith(inner) and not view.excludes(path)
    )
    # No tool writes them. As changes of a command they would be in the way of its undo.
    of_editors = {path for path, _ in found.paths if _OF_EDITORS.fullmatch(path)}
    found.paths = [each for each in found.paths if each[0] not in of_editors]
    found.inner = sorted(view.inner.intersection(scan.passed))
    found.add_skipped([*scan.passed, *sorted(of_editors)])
    found.add_skipped(sorted(path for _, path in scan.large))
    found.modes = {
        folder.path + name: bits
        for folder in scan.folders
        for name, stamp in folder.stamps.items()
        if (bits := unusual_permissions(stamp.mode)) is not None
    }
    if len(found.modes) > _MAX_MODES:
        found.modes = {}
    if len(found.changed_ignores) > _MAX_IGNORES and not found.why:
        found.why = f"more than {_MAX_IGNORES:,} .gitignore files are new"
    known = {folder.path: folder.cached for folder in scan.folders}
    if view.shadow in files:  # else the workspace was forgotten meanwhile
        files[view.shadow] = lambda path: known.get(path, {})
    return found


def _differs(view: ReadView, folder: Folder, name: str) -> bool:
    """Read a file, compare it with the history's, and remember its blob id for later scans."""
    tracked, stamp = folder.tracked[name], folder.stamps[name]
    try:
        read = view.worktree.read_path(folder.path + name, view.max_file_bytes)
    except Refused:
        read = None
    if read is None or read.data is None:
        return True  # it can't be read or is large; the writer tries again and warns
    if read.read_at_ns - max(stamp.mtime, stamp.ctime) > RACY_NS and (
        (stamp.size, stamp.mtime, stamp.inode) == (read.size, read.mtime_ns, read.inode[1])
    ):
        folder.cached[name] = stamp, bytes.fromhex(read.oid)
    image = Image(read.oid, read.mode)
    return (tracked.mode, tracked.oid) != (image.git_mode, image.oid)


def _deleted(scan: Scan, repository: StoredObjects) -> Iterator[str]:
    """The paths of files that are in the history and that the scan has not found."""
    met = {folder.path for folder in scan.folders}
    for folder in scan.folders:
        for name, entry in folder.tracked.items():
            path = folder.path + name
            if entry.mode != TREE:
                if name not in folder.stamps:
                    yield path
            elif path + "/" not in met:
                yield from (below for below, _ in repository.files(entry.oid, path + "/"))
