"""Opening a workspace after a start: its history, its directory, its files.

    history   what the journal has of it is made again               Recovery.head_of
    files     the directory is opened, and what a crash left there
              unfinished is finished                                 Recovery.settle

Where one of these fails, this workspace alone is deferred: no call works in it, the journal keeps
what it needs, and ``State.troubles`` says why. What can be put right while the daemon runs (a
directory that is away, a history that is put back from a copy) is tried again when somebody enters
the workspace; a file that could not be settled, at the next start.
"""

from __future__ import annotations

import errno
import logging
import os
import shlex

import msgspec

from stet.wire.failures import Kind, Refused, refuse
from stetd.history.objects import NewObject
from stetd.recovery.startup import Recovery
from stetd.repository.making_repository import create_repository
from stetd.repository.references import HISTORY
from stetd.repository.shallow import read_shallow, write_shallow
from stetd.repository.stored_objects import BrokenRepository, MissingObject, StoredObjects
from stetd.state.state import State, shadow_path
from stetd.state.workspace import Workspace
from stetd.storage.disk import Disk, SyncFailed
from stetd.storage.journal import Journal, JournalBroken
from stetd.storage.journal_format import WorkspaceState
from stetd.transaction.heads import Head, RecordContradicts

_log = logging.getLogger(__name__)
#: What says that something is wrong with this repository, and not with the disk or the daemon.
_ITS_OWN = {
    errno.EACCES, errno.EEXIST, errno.EIO, errno.EISDIR, errno.ELOOP, errno.ENOENT, errno.ENOTDIR,
    errno.EPERM,
}  # fmt: skip


class _Damaged(Exception):
    """The history can't be opened; the message says what is wrong with it."""


class Opening(msgspec.Struct, frozen=True):
    """Opens workspaces, or defers them."""

    state: State
    recovery: Recovery
    journal: Journal
    #: Names of those in which only another start can help.
    _stuck: set[str] = msgspec.field(default_factory=set)
    #: Names of those whose history is not in Git as far as the journal has it.
    _damaged: set[str] = msgspec.field(default_factory=set)

    def at_start(self, known: WorkspaceState) -> None:
        """Open one of the workspaces that the journal knows; also one not allowed any more,
        of which Git gets what the journal has. Raises OSError, JournalBroken.
        """
        if not known.allowed:
            self._leave_to_git(known)
            return
        try:
            self.open_again(known)
        except Refused as refusal:
            _log.error("workspace %s is deferred: %s", known.root, refusal.message)

    def again(self, known: WorkspaceState) -> tuple[Workspace, list[NewObject]]:
        """Try again to open a deferred workspace; what was added to its history.

        Raises Refused with the reason, OSError, JournalBroken.
        """
        if known.name in self._stuck:
            raise refuse(Kind.IO_ERROR, self.state.troubles[known.name])
        return self.open_again(known)

    def open_again(self, known: WorkspaceState) -> tuple[Workspace, list[NewObject]]:
        """Open a workspace; also gives what settling its files has added to the history.

        Raises Refused after putting it off; OSError, JournalBroken.
        """
        try:
            repository, head = self._history(known)
        except _Damaged as damage:
            self.recovery.defer(known.name, damaged=True)
            self._damaged.add(known.name)
            raise self._trouble(known, _damaged(known, self.state, str(damage))) from damage
        try:
            workspace = self.state.open_workspace(known, repository)
        except OSError as error:
            self.recovery.defer(known.name)
            repository.close()
            why = (
                f"{known.root}: the workspace's directory can't be opened ({error.strerror}). Its "
                "history is kept; it goes on when the directory is back."
            )
            raise self._trouble(known, why) from error
        workspace.head = head
        return workspace, self._settle(known, workspace)

    def _history(self, known: WorkspaceState) -> tuple[StoredObjects, Head]:
        """Make a history again as the journal has it. Raises _Damaged, OSError."""
        state, repository = self.state, None
        try:
            repository = open_repository(state.directory, known.name, state.disk)
            head = self.recovery.head_of(known.name, repository)
            if known.cut is not None and read_shallow(repository.path) != {known.cut.oldest}:
                # Killed between the record of the cut and the file.
                write_shallow(repository.path, known.cut.oldest, state.disk)
                repository.reopen()
        except MissingObject as error:
            why = _lacks(error)
        except (RecordContradicts, BrokenRepository) as error:
            why = str(error)
        except OSError as error:
            if isinstance(error, SyncFailed) or error.errno not in _ITS_OWN:
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
            self.recovery.defer(known.name)
            workspace.head = head  # nothing has been journalled
            self._close(workspace)
            raise self._trouble(known, _damaged(known, self.state, _lacks(error))) from error
        except (OSError, JournalBroken):
            del self.state.open[workspace.name]
            workspace.close()
            raise
        if settled.unsettled:
            self._stuck.add(known.name)
            self._close(workspace)
            raise self._trouble(known, _stuck(known, settled.unsettled))
        self.state.troubles.pop(known.name, None)
        self._damaged.discard(known.name)
        cleared = workspace.worktree.clear_leftovers()
        self.state.unsynced[known.name] = settled.touched | cleared
        if workspace.head.commit is not None:
            workspace.number = self.state.number
        return settled.objects

    def _close(self, workspace: Workspace) -> None:
        """Leave a workspace that was open: the next checkpoint uses what is known of it."""
        self.state.change_known(
            workspace.name,
            head=workspace.head.commit,
            commits=workspace.head.commits,
            leftovers=sorted(workspace.worktree.leftovers),
        )
        del self.state.open[workspace.name]
        workspace.close()

    def _leave_to_git(self, known: WorkspaceState) -> None:
        try:
            repository, _ = self._history(known)
        except _Damaged as damage:
            _log.warning("history of %s, which is no workspace now: %s", known.root, damage)
            self._damaged.add(known.name)
            self.give_up(known)
            return
        self.recovery.forget(known.name)
        repository.close()

    def give_up(self, known: WorkspaceState) -> None:
        """Let go of what the journal keeps of a workspace that is not allowed any more.

        Its head stays, as the journal has it: a damaged history goes on only if Git has that.
        """
        if known.name in self._damaged:
            self.state.given_up.add(known.name)
        self.recovery.forget(known.name)
        self.state.troubles.pop(known.name, None)
        self._damaged.discard(known.name)
        self._stuck.discard(known.name)

    def _trouble(self, known: WorkspaceState, why: str) -> Refused:
        self.state.troubles[known.name] = why
        return refuse(Kind.IO_ERROR, why)


def _lacks(error: MissingObject) -> str:
    return f"{error}, which it needs, is missing or damaged"


def _damaged(known: WorkspaceState, state: State, what: str) -> str:
    shadow, root = shadow_path(state.directory, known.name), shlex.quote(known.root)
    return (
        f"the history of {known.root} is damaged, so no call can work there: {what}. Nothing that "
        "was answered is lost yet: what Git lacks of the newest calls is kept in the journal. "
        f"A person must act: stet verify names all that is damaged; put the files of {shadow} "
        "back from a copy, and the workspace works again. To begin a new history instead: stet "
        f"workspaces --forget {root}, move {shadow} away, stet init {root}."
    )


def _stuck(known: WorkspaceState, unsettled: dict[str, str]) -> str:
    path, error = next(iter(unsettled.items()))
    more = f" ({len(unsettled)} files in all)" if len(unsettled) > 1 else ""
    return (
        f"a call in {known.root} that a crash interrupted can't be finished, because {path}: "
        f"{error}{more}. No call works in this workspace until it can: a person must see to that "
        "file, and restart stetd. Nothing is lost: the journal keeps the call."
    )


def open_repository(
    state_directory: str, name: str, disk: Disk, *, in_use: bool = False
) -> StoredObjects:
    """The shadow repository of a workspace, made if it is not there; its name is durable.

    ``in_use``: the historian may be writing there, so what looks like a leftover of a
    killed one is left alone. Raises BrokenRepository, OSError.
    """
    path = shadow_path(state_directory, name)
    create_repository(path, disk, clear_leftovers=not in_use)
    disk.sync_directory(os.path.dirname(path))
    if os.path.isdir(os.path.join(path, HISTORY)):
        raise BrokenRepository(f"{HISTORY} is a directory, and no reference")
    return StoredObjects(path)
