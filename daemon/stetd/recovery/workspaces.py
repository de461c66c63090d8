"""Opening a workspace after a start: its history, its directory, its files.

    history   the journal's commits are made again                           Recovery.head_of
    files     the directory is opened, and calls that a crash interrupted
              are finished                                                   Recovery.settle

If a step fails, only this workspace is deferred: no call works in it, the journal keeps the records
that it needs, and ``State.troubles`` says why. A missing directory or a damaged history can be put
right while the daemon runs: opening is tried again when a session enters the workspace. A file that
could not be settled is tried again at the next start.
"""

from __future__ import annotations

import errno
import logging
import os
import shlex
from contextlib import suppress

import msgspec

from stet.wire.failures import Kind, Refused, refuse
from stetd.history.objects import NewObject
from stetd.recovery.startup import Recovery
from stetd.repository.references import HISTORY, read_shallow, set_pin, write_shallow
from stetd.repository.shadow_repo import create_repository
from stetd.repository.stored_objects import BrokenRepository, MissingObject, StoredObjects
from stetd.state.state import State, shadow_path
from stetd.state.workspace import Workspace
from stetd.storage.disk import Disk, SyncFailed
from stetd.storage.journal import Journal, JournalBroken
from stetd.storage.journal_format import WorkspaceState
from stetd.transaction.heads import Head, RecordContradicts

_log = logging.getLogger(__name__)
#: Errors that mean a damaged repository, not a failing disk or a defect of the daemon.
_REPOSITORY_ERRORS = {
    errno.EACCES, errno.EEXIST, errno.EIO, errno.EISDIR, errno.ELOOP, errno.ENOENT, errno.ENOTDIR,
    errno.EPERM, errno.EINVAL,
}  # fmt: skip


class _Damaged(Exception):
    """The history can't be opened; the message says why."""


class WorkspaceOpener(msgspec.Struct, frozen=True):
    """Opens workspaces, or defers them."""

    state: State
    recovery: Recovery
    journal: Journal
    #: Names of workspaces that only another start of the daemon can open.
    _stuck: set[str] = msgspec.field(default_factory=set)
    #: Names of workspaces whose history in Git lacks commits of the journal.
    _damaged: set[str] = msgspec.field(default_factory=set)

    def at_start(self, known: WorkspaceState) -> None:
        """Open or defer a workspace that the journal knows. Of one that is not allowed any more,
        only the history is recovered. Raises OSError, JournalBroken.
        """
        if not known.allowed:
            self._recover_history_only(known)
            return
        try:
            self.open(known)
        except Refused as refusal:
            _log.error("workspace %s is deferred: %s", known.root, refusal.message)

    def open(self, known: WorkspaceState) -> tuple[Workspace, list[NewObject]]:
        """Open a workspace. Returns it and the objects that settling its files has added.

        Raises Refused, with the reason, if it is deferred; OSError, JournalBroken.
        """
        if known.name in self._stuck:
            raise refuse(Kind.IO_ERROR, self.state.troubles[known.name])
        try:
            repository, head = self._history(known)
        except _Damaged as damage:
            self._damaged.add(known.name)
            why = self._damaged_message(known, str(damage))
            raise self._deferred(known, why, damaged=True) from damage
        try:
            workspace = self.state.open_workspace(known, repository)
        except OSError as error:
            repository.close()
            why = (
                f"{known.root}: the workspace's directory can't be opened ({error.strerror}). Its "
                "history is kept; it goes on when the directory is back."
            )
            raise self._deferred(known, why) from error
        workspace.head = head
        return workspace, self._settle(known, workspace)

    def _history(self, known: WorkspaceState) -> tuple[StoredObjects, Head]:
        """Make the commits of the journal again. Raises _Damaged, OSError."""
        state, repository = self.state, None
        try:
            repository = open_repository(state, known.name)
            head = self.recovery.head_of(known.name, repository)
            recorded = [each.head for each in self.recovery.heads_since_checkpoint(known.name)]
            pin_unrecorded(repository, recorded, state.disk)
            if known.cut is not None and read_shallow(repository.path) != {known.cut.oldest}:
                # The daemon was killed between the record of the cut and this file.
                write_shallow(repository.path, known.cut.oldest, state.disk)
                repository.reopen()
        except MissingObject as error:
            why = _missing(error)
        except (RecordContradicts, BrokenRepository) as error:
            why = str(error)
        except OSError as error:
            if isinstance(error, SyncFailed) or error.errno not in _REPOSITORY_ERRORS:
                raise
            where = f"{os.fsdecode(error.filename)}: " if error.filename else ""
            why = f"{where}{error.strerror}"
        else:
            return repository, head
        if repository is not None:
            repository.close()
        raise _Damaged(why)

    def _settle(self, known: WorkspaceState, workspace: Workspace) -> list[NewObject]:
        head = workspace.head
        try:
            settled = self.recovery.settle(workspace, self.journal)
        except MissingObject as error:
            workspace.head = head  # no new commit was journalled
            self._close(workspace)
            raise self._deferred(known, self._damaged_message(known, _missing(error))) from error
        except (OSError, JournalBroken):
            del self.state.open[workspace.name]
            workspace.close()
            raise
        if settled.unsettled:
            self._stuck.add(known.name)
            self._close(workspace)
            raise self._deferred(known, _stuck_message(known, settled.unsettled))
        self.state.troubles.pop(known.name, None)
        self._damaged.discard(known.name)
        cleared = workspace.worktree.clear_leftovers()
        self.state.unsynced[known.name] = settled.pending.chains.keys() | cleared
        if workspace.head.commit is not None:  # questions wait until Git has all that was settled
            workspace.number = self.state.number
        return settled.objects

    def _close(self, workspace: Workspace) -> None:
        """Close a workspace; its state goes to ``State.known`` for the next checkpoint."""
        self.state.known[workspace.name] = self.state.present(workspace)
        del self.state.open[workspace.name]
        workspace.close()

    def _recover_history_only(self, known: WorkspaceState) -> None:
        try:
            repository, _ = self._history(known)
        except _Damaged as damage:
            _log.warning("history of %s, which is no workspace now: %s", known.root, damage)
            self.state.given_up.add(known.name)
        else:
            repository.close()
        self.recovery.forget(known.name)

    def give_up(self, known: WorkspaceState) -> None:
        """Drop the records that the journal keeps for a workspace that is not allowed any more.

        ``State.known`` keeps the head. If the workspace is allowed again, its history goes on only
        if Git has that commit.
        """
        if known.name in self._damaged:
            self.state.given_up.add(known.name)
        self.recovery.forget(known.name)
        self.state.troubles.pop(known.name, None)
        self._damaged.discard(known.name)
        self._stuck.discard(known.name)

    def _deferred(self, known: WorkspaceState, why: str, *, damaged: bool = False) -> Refused:
        self.recovery.defer(known.name, damaged=damaged)
        self.state.troubles[known.name] = why
        return refuse(Kind.IO_ERROR, why)

    def _damaged_message(self, known: WorkspaceState, what: str) -> str:
        shadow = shadow_path(self.state.directory, known.name)
        root = shlex.quote(known.root)
        return (
            f"the history of {known.root} is damaged, so no call can work there: {what}. Nothing "
            "that was answered is lost yet: what Git lacks of the newest calls is kept in the "
            "journal. A person must act: stet verify names all that is damaged; put the files of "
            f"{shadow} back from a copy, and the workspace works again. To begin a new history "
            f"instead: stet workspaces --forget {root}, move {shadow} away, stet init {root}."
        )


def _missing(error: MissingObject) -> str:
    return f"{error}, which it needs, is missing or damaged"


def _stuck_message(known: WorkspaceState, unsettled: dict[str, str]) -> str:
    path, error = next(iter(unsettled.items()))
    more = f" ({len(unsettled)} files in all)" if len(unsettled) > 1 else ""
    return (
        f"a call in {known.root} that a crash interrupted can't be finished, because {path}: "
        f"{error}{more}. No call works in this workspace until it can: a person must see to that "
        "file, and restart stetd. Nothing is lost: the journal keeps the call."
    )


def open_repository(state: State, name: str, *, in_use: bool = False) -> StoredObjects:
    """The shadow repository of a workspace, durably created if it is not there.

    ``in_use``: the historian may be writing to it, so files that look like leftovers of a killed
    historian are not removed. Raises BrokenRepository, OSError.
    """
    path = shadow_path(state.directory, name)
    create_repository(path, state.disk, clear_leftovers=not in_use)
    state.disk.sync_path(os.path.dirname(path))
    if os.path.isdir(os.path.join(path, HISTORY)):
        raise BrokenRepository(f"{HISTORY} is a directory, and no reference")
    return StoredObjects(path)


def pin_unrecorded(repository: StoredObjects, recorded: list[str | None], disk: Disk) -> None:
    """Pin the newest commit in Git if it comes after the journal's: the state was put together of
    copies from different moments. Otherwise the next gc would remove it. Raises OSError.

    ``recorded``: the heads that the journal knows, the newest last; None: no commit.
    """
    with suppress(MissingObject):
        head = repository.head()
        if head is None or head in recorded:
            return
        if any(recorded[-1] in (None, commit.oid) for commit in repository.walk(head)):
            name, path = f"unrecorded-{head[:12]}", repository.path
            set_pin(path, name, head, disk)
            _log.error("%s has commits that the journal does not have: pin %s", path, name)
