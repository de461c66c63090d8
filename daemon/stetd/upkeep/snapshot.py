"""A snapshot: the whole workspace as one commit of kind ``snapshot``, beside the calls.

    begin     note the head; from now on collect the paths that calls touch
    read      the historian writes the files that may differ from the head, and the trees, into
              synced packs (:mod:`stetd.historian.maintenance.snapshots`)
    commit    one small journal record without contents: a tree, and for every path that a call
              touched meanwhile its state in the history. Git follows

A kill before the record leaves only unreachable objects.
"""

from __future__ import annotations

import time

import msgspec

from stet.wire.results import SnapshotResult
from stetd.engine.writer import Writer
from stetd.failpoints import failpoint, reached
from stetd.history.objects import changed_paths
from stetd.processes.long_work import SnapshotTree
from stetd.state.workspace import Workspace
from stetd.storage.journal_format import PathChange
from stetd.storage.progress import Progress
from stetd.transaction.drafts import Requester
from stetd.transaction.heads import Head
from stetd.upkeep.schedule import check_open, record

#: Files whose permissions are kept if Git's modes can't express them; private files first.
_MAX_PERMISSIONS = 1000


async def snapshot(
    writer: Writer, workspace: Workspace, who: Requester, skip_large: bool, progress: Progress
) -> SnapshotResult:
    """Take a snapshot. Raises Refused, OSError."""
    check_open(writer, workspace)
    workspace.check_present()
    base = workspace.head
    touched = workspace.touched = set[str]()
    try:
        while True:
            view, excludes = writer.view(workspace), workspace.excludes.digest
            taken = await writer.historian.ask("snapshot", skip_large, SnapshotTree, view, progress)
            await reached("snapshot.before_record")
            if excludes == workspace.excludes.digest:  # else it may have files excluded by now
                break
        load = workspace.repository.load_tree
        changed = changed_paths(base.tree, workspace.head.tree, load)
        touched.update(path for path, _, _ in changed)
        commit = _commit(writer, workspace, who, taken, touched)
    finally:
        workspace.touched = None
    return msgspec.structs.replace(taken.result, commit=commit)


def _commit(
    writer: Writer, workspace: Workspace, who: Requester, taken: SnapshotTree, touched: set[str]
) -> str | None:
    check_open(writer, workspace)
    load, head = workspace.repository.load_tree, workspace.head
    now = int(time.time())
    history = workspace.history(now)
    kept = (path for path in sorted(touched) if not workspace.excludes(path))
    changes = {path: head.image(path, load) for path in kept}
    result = taken.result
    changed = result.added + result.modified + result.removed
    noun = "file" if result.files == 1 else "files"
    subject = f"snapshot: {result.files:,} {noun}, {changed:,} changed"
    meta = who.commit_meta("snapshot", now, subject, permissions=_kept(taken.permissions))
    commit = history.add(meta, changes, taken.tree)
    if history.head.tree.oid == head.tree.oid:
        return None
    paths = _paths(writer, workspace, head, history.head)
    record(writer, workspace, history, paths=paths)
    failpoint("snapshot.recorded")
    return commit


def _kept(permissions: list[tuple[str, int]]) -> tuple[tuple[str, int], ...]:
    private_first = sorted(permissions, key=lambda each: (each[1] & 0o044 == 0o044, each))
    return tuple(sorted(private_first[:_MAX_PERMISSIONS]))


def _paths(writer: Writer, workspace: Workspace, head: Head, new: Head) -> list[PathChange]:
    """The snapshot's changes of paths that are not synced yet: recovery must bring these files to
    the snapshot's state, not to that of an earlier record.
    """
    load = workspace.repository.load_tree
    changed = []
    unsynced = writer.state.unsynced, writer.checkpoints.syncing
    for path in sorted({path for each in unsynced for path in each.get(workspace.name, ())}):
        if workspace.excludes(path):
            continue  # a snapshot leaves it out, whatever is on disk
        before, after = head.image(path, load), new.image(path, load)
        if before != after:
            changed.append(PathChange(path, before, after))
    return changed
