"""Defects that a crash rig must find: each changes a daemon in the rig's own process.

``STET_MUTANT=<name>`` for ``python -m rigs.kth_write``; nothing of this is in production code.
"""

from __future__ import annotations

import asyncio
import os
import sys
import traceback
from collections.abc import Coroutine
from typing import Any

from rigs.crashable_disk import CrashableDisk
from stetd.engine import writer
from stetd.engine.checkpointing import Checkpointer
from stetd.engine.preparing import EditJob, Outcome, Preparer
from stetd.recovery import files as settling
from stetd.repository import git_writer
from stetd.repository.shadow_repo import ShadowRepository
from stetd.state.workspace import Workspace
from stetd.storage.journal import Journal
from stetd.storage.journal_format import Checkpoint
from stetd.storage.paths_on_disk import Target
from stetd.storage.worktree import OnDisk, Worktree
from stetd.transaction import transaction
from stetd.transaction.transaction import Prepared, PreparedFile


def no_fsync() -> None:
    """No sync of anything reaches the disk."""

    def sync(self: CrashableDisk, fd: int) -> None:
        with self._change("no sync"):
            return

    CrashableDisk.fsync = CrashableDisk.fdatasync = sync  # type: ignore[method-assign]


def no_journal_sync() -> None:
    """A call's record is written, but not synced."""
    Journal.sync = _no_sync  # type: ignore[method-assign]


def checkpoint_without_git_sync() -> None:
    """A checkpoint syncs none of the objects that it lets the journal forget."""
    git_writer._Unsynced.sync = lambda self, disk, repository: self.files.clear()  # type: ignore[method-assign]


def checkpoint_without_file_sync() -> None:
    """A checkpoint syncs none of the workspace's files."""
    Worktree.sync = lambda self, paths: None  # type: ignore[method-assign]


def reply_before_journal() -> None:
    """A call is answered when it is planned."""
    prepare = Preparer.prepare

    def reply_first(
        self: Preparer, workspace: Workspace, jobs: list[EditJob], turn_s: float
    ) -> list[tuple[EditJob, Outcome]]:
        outcomes = prepare(self, workspace, jobs, turn_s)
        for job, outcome in outcomes:
            if isinstance(outcome, Prepared):
                job.future.set_result(outcome.result)
                job.future = asyncio.get_running_loop().create_future()
        return outcomes

    Preparer.prepare = reply_first  # type: ignore[method-assign]


def no_outside_check() -> None:
    """What comes out of an exchange is not looked at."""

    def compare_displaced(
        self: Worktree, target: Target, temporary: str, expected: OnDisk
    ) -> OnDisk | None:
        return None

    Worktree.compare_displaced = compare_displaced  # type: ignore[method-assign]


def no_exchange() -> None:
    """The new file is renamed over the old one."""

    def swap(self: Worktree, target: Target, temporary: str) -> None:
        self._disk.exchange(temporary, target.name, target.dir_fd)
        self._disk.unlink(temporary, target.dir_fd)

    Worktree.swap = swap  # type: ignore[method-assign]


def abort_without_sync() -> None:
    """An abort's record is written, but not synced, before anything is put back."""
    transaction.__dict__["abort"] = _without_sync(transaction.abort)
    writer.__dict__["abort"] = transaction.abort


def _no_sync(self: Journal, *, always: bool = False) -> None:
    pass


def _without_sync(act: Any) -> Any:
    def acting(*arguments: Any, **named: Any) -> Any:
        sync = Journal.sync
        Journal.sync = _no_sync  # type: ignore[method-assign]
        try:
            return act(*arguments, **named)
        finally:
            Journal.sync = sync  # type: ignore[method-assign]

    return acting


def abort_names_one_path() -> None:
    """An abort says of the path where somebody saved what stands there, and of no other."""
    images_after_abort = transaction._images_after_abort

    def of_one_path(voided: Any, cause: Any) -> Any:
        images, blobs = images_after_abort(voided, cause)
        return {path: images[path] for path in images if path == getattr(cause, "path", "")}, blobs

    transaction.__dict__["_images_after_abort"] = of_one_path


def put_back_without_looking() -> None:
    """What comes out when a file is put back is not looked at."""

    def swap_back(self: transaction.Restorer, work: PreparedFile) -> None:
        self.worktree.swap(work.target, work.temporary)

    transaction.Restorer._swap_back = swap_back  # type: ignore[method-assign]


def watermark_after_the_syncs() -> None:
    """A checkpoint's snapshot is taken when its syncs are done."""
    finish = Checkpointer._finish

    def finish_later(self: Checkpointer, snapshot: Checkpoint) -> Coroutine[Any, Any, None]:
        position = self._journal.position
        return finish(self, self._state.checkpoint(position.segment, position.offset))

    Checkpointer._finish = finish_later  # type: ignore[method-assign]


def segments_dropped_early() -> None:
    """Old segments go before the checkpoint is durable."""
    append = Journal.append

    def drop_first(self: Journal, *records: Any, reserve: int = 0) -> None:
        if isinstance(records[0], Checkpoint):
            old = self.segments_before(records[0].segment)
            self.remove(old)
            self.forget(old)
        append(self, *records, reserve=reserve)

    Journal.append = drop_first  # type: ignore[method-assign]


def unmarked() -> None:
    """Nothing says which records have been carried out."""
    writer.__dict__["mark_published"] = lambda journal, *numbers: None


def no_request_record() -> None:
    """Nobody remembers which requests were applied."""
    Preparer._replay = lambda self, job: None  # type: ignore[method-assign]


def no_repair_of_objects() -> None:
    """Recovery takes an empty loose object for present."""
    ShadowRepository.clear_damaged = lambda self, oids: None  # type: ignore[method-assign]


def no_rolling_forward() -> None:
    """Recovery decides, and does nothing."""
    settling.FileRecovery.carry_out = lambda self, journal: None  # type: ignore[method-assign]


def displaced_saves_cleared() -> None:
    """Recovery does not look into temporary files before it removes them."""
    settling.FileRecovery.check_temporaries = lambda self: None  # type: ignore[method-assign]


def decisions_not_synced() -> None:
    """Recovery acts on what it has decided before that is durable."""
    settling.FileRecovery.journal = _without_sync(settling.FileRecovery.journal)  # type: ignore[method-assign]


def journal_read_without_sync() -> None:
    """Recovery acts on what it reads in the journal before that is durable."""
    fsync = CrashableDisk.fsync

    def sync(self: CrashableDisk, fd: int) -> None:
        if not os.readlink(f"/proc/self/fd/{fd}").endswith(".wal"):
            fsync(self, fd)

    CrashableDisk.fsync = sync  # type: ignore[method-assign]


def torn_is_foreign() -> None:
    """What a power cut tore is taken for somebody's work."""
    settling.__dict__["looks_torn"] = lambda data, contents: False


_TELLING = (
    no_fsync,
    no_journal_sync,
    checkpoint_without_git_sync,
    checkpoint_without_file_sync,
    reply_before_journal,
    no_outside_check,
    no_exchange,
    abort_without_sync,
    abort_names_one_path,
    put_back_without_looking,
    watermark_after_the_syncs,
    segments_dropped_early,
    unmarked,
)
_RECOVERING = (
    no_request_record,
    no_repair_of_objects,
    no_rolling_forward,
    displaced_saves_cleared,
    decisions_not_synced,
    journal_read_without_sync,
    torn_is_foreign,
)
MUTANTS = [mutant.__name__ for mutant in (*_TELLING, *_RECOVERING)]


def become_what_is_asked_for(*, recovering: bool) -> None:
    """Apply the mutant that STET_MUTANT names, if it is one for this part of the daemon's life."""
    for mutant in _RECOVERING if recovering else _TELLING:
        if mutant.__name__ == os.environ.get("STET_MUTANT"):
            mutant()


def fit() -> bool:
    """Whether the mutant that is asked for still fits the daemon's code, tried in a child.

    One that can't be applied would pass for one that was caught.
    """
    name = os.environ.get("STET_MUTANT")
    if name and name not in MUTANTS:
        print(f"no mutant is called {name}: {', '.join(MUTANTS)}", file=sys.stderr)
        return False
    child = os.fork()
    if child == 0:
        status = 1
        try:
            for recovering in (False, True):
                become_what_is_asked_for(recovering=recovering)
            status = 0
        except Exception:  # noqa: BLE001 - a name that is no more
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
    return os.waitpid(child, 0)[1] == 0
