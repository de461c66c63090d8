"""Methods that allow, forget and list workspaces: ``workspace_*``."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec

from stet.wire.failures import Kind, Refused, refuse
from stet.wire.results import WorkspaceInfo, WorkspaceList
from stetd.config.directories import Directories
from stetd.config.workspace_roots import why_not
from stetd.engine.writer import Writer
from stetd.parameters import NoParams, Root, invalid
from stetd.recovery.startup import with_new_history
from stetd.recovery.workspaces import WorkspaceOpener, open_repository, pin_unrecorded
from stetd.refusals import damaged_history, io_failure, read_only
from stetd.repository.stored_objects import BrokenRepository, MissingObject
from stetd.session.modes import UNRESTRICTED, mode_at
from stetd.state.state import State, shadow_path, workspace_name
from stetd.state.workspace import Workspace, head_at
from stetd.storage.disk import SyncFailed
from stetd.storage.journal import JournalBroken
from stetd.storage.journal_format import WorkspaceAllowed, WorkspaceForgotten, WorkspaceState

if TYPE_CHECKING:
    from stetd.methods.caller import Caller


class Workspaces(msgspec.Struct, frozen=True):
    """Allows, reopens and forgets workspaces. ``on_opened`` is called for each that was opened."""

    writer: Writer
    opening: WorkspaceOpener
    own: Directories
    on_opened: Callable[[Workspace], None]

    def allow(self, root: str) -> Workspace:
        """Allow a directory, durably, and open it. Does nothing the second time. Raises Refused."""
        state = self.writer.state
        path = self._check_root_usable(root)
        name = workspace_name(path)
        if name in state.open:
            return state.open[name]
        known = state.known.get(name)
        if known is not None and known.allowed:
            return self._reopen(known)
        return self._open(known or WorkspaceState(name, path, UNRESTRICTED, None, 0))

    def reopen(self, known: WorkspaceState) -> Workspace:
        """Try again to open a deferred workspace at its recorded root. Raises Refused."""
        path = self._check_root_usable(known.root)
        if path != known.root:
            raise not_allowed(f"{known.root}: a symbolic link is there now, and leads to {path}.")
        return self._reopen(known)

    def _check_root_usable(self, root: str) -> str:
        path = os.path.realpath(root)
        try:
            info = os.stat(path)
            os.fsencode(path).decode()
        except OSError as error:
            raise not_allowed(f"{root}: {error.strerror}.") from error
        except UnicodeDecodeError as error:
            raise invalid(f"{root!r}: this name is not valid UTF-8.") from error
        if not stat.S_ISDIR(info.st_mode):
            raise not_allowed(f"{root} is not a directory.")
        reason = why_not(path, self.own, [each.root for each in self.writer.state.open.values()])
        if reason:
            raise not_allowed(
                f"{path} can't be a workspace: {reason}. Choose a project's directory."
            )
        return path

    def _open(self, known: WorkspaceState) -> Workspace:
        """Open a workspace that is new or was forgotten, and record it."""
        state, name = self.writer.state, known.name
        if known.head is not None:
            # It has given up on this history, or would write to a new one what was for the one
            # that the person has moved away.
            self.writer.historian.restart()
        with errors_refused(self.writer, opening=True):
            repository = open_repository(state, name, in_use=name in state.known)
            if known.head is None:
                pin_unrecorded(repository, [None], state.disk)
            # The person has moved the history of a forgotten workspace away: start a new one.
            starts_new = known.head is not None and repository.is_empty()
            known = with_new_history(known) if starts_new else known
            workspace = state.open_workspace(known, repository)
            try:
                workspace.head = head_at(repository, known.head, known.commits)
                self.writer.record(WorkspaceAllowed(name, known.root, starts_new))
            except BaseException:
                del state.open[name]
                workspace.close()
                raise
        state.known[name] = msgspec.structs.replace(known, allowed=True)
        state.given_up.discard(name)
        self.on_opened(workspace)
        return workspace

    def _reopen(self, known: WorkspaceState) -> Workspace:
        writer = self.writer
        with errors_refused(writer, opening=True):
            workspace, objects = self.opening.open(known)
        writer.checkpoints.needed = True
        if workspace.head.commit is not None:
            writer.committed(workspace, writer.state.number, objects)
        writer.historian.restart()  # it had given up on this history
        self.on_opened(workspace)
        return workspace

    def forget(self, known: WorkspaceState) -> WorkspaceInfo:
        """Record that a workspace is no longer allowed, and close it. Its history is kept. The
        interrupted calls of a deferred one are never finished.
        """
        state, name = self.writer.state, known.name
        workspace = state.open.get(name)
        if workspace is not None:
            # Late writes belong to the history that ends here.
            self.writer.record_late_writes(all_of_them=True)
            with errors_refused(self.writer):  # the next checkpoint won't sync these files
                for unsynced in (state.unsynced, self.writer.checkpoints.syncing):
                    workspace.worktree.sync(unsynced.get(name, ()))
            known = state.present(workspace)
        info = _info(state, known)
        self.writer.record(WorkspaceForgotten(name))
        state.change_known(name, allowed=False, head=known.head, commits=known.commits)
        if workspace is None:
            self.opening.give_up(known)
        else:
            state.given_up.add(name)  # perhaps the historian can't go on with it
            state.unsynced.pop(name, None)
            del state.open[name]
            workspace.repository.close()
        return info


def not_allowed(why: str) -> Refused:
    """The refusal ``workspace_not_allowed``."""
    return refuse(Kind.WORKSPACE_NOT_ALLOWED, why)


def check_root(root: str) -> None:
    """Refuse (invalid_params) a root that is not absolute or has a NUL."""
    if not os.path.isabs(root) or "\0" in root:
        raise invalid(f"a workspace is an absolute directory, not {root!r}.")


@contextmanager
def errors_refused(writer: Writer, *, opening: bool = False) -> Iterator[None]:
    """Raise errors of the disk, the journal and the history as refusals: io_error, read_only ..

    ``opening``: a workspace can't be opened if a sync fails, but the others are not concerned.
    """
    if writer.state.read_only is not None:
        raise read_only(writer.state.read_only)
    try:
        yield
    except (BrokenRepository, MissingObject) as error:
        raise damaged_history(str(error)) from error
    except JournalBroken as error:
        writer.become_read_only(str(error))
        raise read_only(str(error)) from error
    except OSError as error:
        if isinstance(error, SyncFailed) and not opening:
            writer.become_read_only(f"a sync failed: {error.strerror}")
        raise io_failure(error) from error


async def workspace_allow(caller: Caller, wanted: Root) -> WorkspaceInfo:
    """Allow a directory; a forgotten one only after Git has all of its history."""
    writer, workspaces = caller.shared.writer, caller.shared.workspaces
    check_root(wanted.root)
    name = workspace_name(os.path.realpath(wanted.root))
    known = await caller.on_writer(lambda: writer.state.known.get(name))
    shadow = shadow_path(writer.state.directory, name)
    if known is not None and not known.allowed and os.path.isdir(shadow):
        # A repository without commits would be taken for a history that was moved away.
        await writer.historian.ask("reached", shadow, type(None))
    state = writer.state
    return await caller.on_writer(
        lambda: _info(state, state.present(workspaces.allow(wanted.root)))
    )


def workspace_forget(caller: Caller, wanted: Root) -> WorkspaceInfo:
    """Allow no more edits below a directory."""
    known = deferred_at(caller, wanted.root)
    if known is None:
        known = caller.state.known[caller.workspace_at(wanted.root).name]
    info = caller.shared.workspaces.forget(known)
    caller.shared.watched.pop(known.name, None)
    return info


def workspace_list(caller: Caller, _: NoParams) -> WorkspaceList:
    """List open and deferred workspaces."""
    infos = [_info(caller.state, known) for known in caller.state.workspaces() if known.allowed]
    return WorkspaceList(sorted(infos, key=lambda info: info.root))


def deferred_at(caller: Caller, root: str | None) -> WorkspaceState | None:
    """The deferred workspace with exactly this root, if there is one."""
    if root is None:
        return None
    check_root(root)
    name = caller.state.name_at(root)
    return next((known for known in caller.state.unopened() if known.name == name), None)


def _info(state: State, known: WorkspaceState) -> WorkspaceInfo:
    return WorkspaceInfo(
        known.root,
        shadow_path(state.directory, known.name),
        mode_at(state.now(), known.standing),
        known.head,
        known.commits,
        state.troubles.get(known.name),
    )
