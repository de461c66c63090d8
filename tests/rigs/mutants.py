"""Defects that a crash rig must find: each changes a daemon in the rig's own process.

``STET_MUTANT=<name>`` for ``python -m rigs.kth_write``; nothing of this is in production code.
"""

from __future__ import annotations

import os
from concurrent.futures import Future
from typing import Any

from rigs.crashable_disk import CrashableDisk
from stetd import settling
from stetd.storage import background
from stetd.storage.journal import Journal
from stetd.storage.paths_on_disk import Target
from stetd.storage.shadow_repo import ShadowRepository
from stetd.storage.worktree import OnDisk, Worktree
from stetd.writer import Writer


def no_fsync() -> None:
    """No sync of anything reaches the disk."""

    def sync(self: CrashableDisk, fd: int) -> None:
        with self._change("no sync"):
            return

    CrashableDisk.fsync = CrashableDisk.fdatasync = sync  # type: ignore[method-assign]


def no_journal_sync() -> None:
    """A call's record is written, but not synced."""
    Journal.sync = lambda self: None  # type: ignore[method-assign]


def checkpoint_without_git_sync() -> None:
    """A checkpoint syncs none of the objects that it lets the journal forget."""
    background._Unsynced.sync = lambda self, disk, repository: self.files.clear()  # type: ignore[method-assign]


def checkpoint_without_file_sync() -> None:
    """A checkpoint syncs none of the workspace's files."""
    Worktree.sync = lambda self, paths: None  # type: ignore[method-assign]


def reply_before_journal() -> None:
    """A call is answered when it is planned."""
    durable = Writer._make_durable

    def reply_first(self: Writer, outcomes: Any) -> Exception | None:
        for outcome in outcomes:
            if outcome.prepared is not None:
                outcome.job.future.set_result(outcome.prepared.result)
                outcome.job.future = Future()
        return durable(self, outcomes)

    Writer._make_durable = reply_first  # type: ignore[method-assign]


def no_outside_check() -> None:
    """What comes out of an exchange is not looked at."""

    def came_out(self: Worktree, target: Target, temporary: str, expected: OnDisk) -> OnDisk | None:
        return None

    Worktree.came_out = came_out  # type: ignore[method-assign]


def no_exchange() -> None:
    """The new file is renamed over the old one."""

    def swap(self: Worktree, target: Target, temporary: str) -> None:
        self._disk.exchange(temporary, target.name, target.dir_fd)
        self._disk.unlink(temporary, target.dir_fd)

    Worktree.swap = swap  # type: ignore[method-assign]


def no_request_record() -> None:
    """Nobody remembers which requests were applied."""
    Writer._replay = lambda self, workspace, call: None  # type: ignore[method-assign]


def no_repair_of_objects() -> None:
    """Recovery takes an empty loose object for present."""
    ShadowRepository.clear_damaged = lambda self, oids: None  # type: ignore[method-assign]


def no_rolling_forward() -> None:
    """Recovery decides, and does nothing."""
    settling.Settling.carry_out = lambda self, journal: None  # type: ignore[method-assign]


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
)
_RECOVERING = (no_request_record, no_repair_of_objects, no_rolling_forward, torn_is_foreign)
MUTANTS = [mutant.__name__ for mutant in (*_TELLING, *_RECOVERING)]


def become_what_is_asked_for(*, recovering: bool) -> None:
    """Apply the mutant that STET_MUTANT names, if it is one for this part of the daemon's life."""
    for mutant in _RECOVERING if recovering else _TELLING:
        if mutant.__name__ == os.environ.get("STET_MUTANT"):
            mutant()
