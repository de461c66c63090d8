"""The engine's state: workspaces, sessions, requests, answered calls.

At a start it is rebuilt from the last checkpoint and the journal records after it. After that it
is changed only by records that were made durable before.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Iterator
from typing import Any

import msgspec

from stet.wire.results import ModeResult
from stetd.config.settings import Settings
from stetd.history.commits import rfc3339
from stetd.history.excluding import NOTHING_EXCLUDED, Excludes
from stetd.history.protecting import Protection
from stetd.repository.stored_objects import StoredObjects
from stetd.session.modes import Grant, Instant, Standing, grant_end, mode_at
from stetd.session.sessions import Session, with_clipboards, with_standing
from stetd.session.upgrades import UpgradeRequest, without_old
from stetd.state.workspace import Workspace
from stetd.storage.disk import Disk
from stetd.storage.journal_format import (
    Checkpoint,
    ClipboardSet,
    ModeSet,
    SessionEnded,
    SessionOpened,
    UpgradeSet,
    WorkspaceState,
)
from stetd.storage.request_record import RequestRecord

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
#: What changes sessions, modes and requests for write access.
SessionRecord = SessionOpened | SessionEnded | ModeSet | UpgradeSet | ClipboardSet


def workspace_name(root: str) -> str:
    """The name of a workspace's directory in the state: readable, and unique by a hash."""
    readable = _UNSAFE.sub("-", os.path.basename(root)).strip("-.")[:40] or "root"
    return f"{readable}-{hashlib.sha256(os.fsencode(root)).hexdigest()[:12]}"


def shadow_path(state_directory: str, name: str) -> str:
    """Where a workspace's shadow repository lies."""
    return os.path.join(state_directory, "workspaces", name)


def time_text(seconds: float | None) -> str | None:
    """A time as results have it, in whole seconds; None stays None."""
    return None if seconds is None else rfc3339(int(seconds))


class State(msgspec.Struct):
    """The writer's state."""

    directory: str
    disk: Disk
    #: All workspaces that were ever allowed, by name; ``allowed`` says whether they still are.
    known: dict[str, WorkspaceState] = {}
    #: The allowed workspaces that could be opened, by name.
    open: dict[str, Workspace] = {}
    sessions: dict[tuple[str, str], Session] = {}
    #: Answered calls since the last checkpoint, by (workspace, session, request).
    requests: dict[tuple[str, str, str], RequestRecord] = {}
    #: Deferred workspaces, by name: the reason, a sentence for clients.
    troubles: dict[str, str] = {}
    #: Workspaces not allowed any more whose history may be damaged: a checkpoint does not need it.
    given_up: set[str] = set()
    #: Highest journal record number in use.
    number: int = 0
    #: Paths written since the last checkpoint began, by workspace name.
    unsynced: dict[str, set[str]] = {}
    #: Id of this boot, for the clock of grants.
    boot: str = ""
    #: Requests for write access by id, oldest first.
    upgrades: dict[str, UpgradeRequest] = {}
    #: Grants, and the modes that return, by (workspace, session); (workspace, None): a workspace's.
    granted: dict[tuple[str, str | None], tuple[str, Grant]] = {}
    #: Why no call may write any more until the next start; None: calls may write.
    read_only: str | None = None
    settings: Settings = msgspec.field(default_factory=Settings)
    #: By the settings: files that are kept out of all histories, and files that are protected.
    excludes: Excludes = NOTHING_EXCLUDED
    protection: Protection = msgspec.field(default_factory=lambda: Protection((), "allow"))

    def __post_init__(self) -> None:
        self.reconfigure(self.settings)

    def reconfigure(self, settings: Settings) -> None:
        """Use these settings from now on."""
        self.settings, self.excludes = settings, Excludes(settings.exclude)
        self.protection = Protection(settings.protected, settings.protected_action)
        for workspace in self.open.values():
            workspace.excludes = self.excludes

    def change_known(self, name: str, **fields: Any) -> None:
        """Change fields of a WorkspaceState."""
        self.known[name] = msgspec.structs.replace(self.known[name], **fields)

    def open_workspace(self, known: WorkspaceState, repository: StoredObjects) -> Workspace:
        """Open an allowed workspace. Raises OSError if its directory is not there."""
        workspace = Workspace(known.name, known.root, repository, self.disk)
        workspace.excludes = self.excludes
        workspace.worktree.leftovers.update(known.leftovers)
        self.open[known.name] = workspace
        return workspace

    def present(self, workspace: Workspace) -> WorkspaceState:
        """What a checkpoint says of an open workspace."""
        known, head = self.known[workspace.name], workspace.head
        leftovers = sorted(workspace.worktree.leftovers)
        return msgspec.structs.replace(
            known, head=head.commit, commits=head.commits, leftovers=leftovers
        )

    def workspaces(self) -> list[WorkspaceState]:
        """All workspaces that were ever allowed, as they are now."""
        return [
            self.present(self.open[name]) if name in self.open else known
            for name, known in self.known.items()
        ]

    def name_at(self, root: str) -> str:
        """The name of the workspace with a root. It is found even if a link is there now."""
        known = self.known.get(workspace_name(root))
        return known.name if known and known.allowed else workspace_name(os.path.realpath(root))

    def unopened(self) -> list[WorkspaceState]:
        """The allowed workspaces whose directory could not be opened."""
        return [w for w in self.known.values() if w.allowed and w.name not in self.open]

    def now(self) -> Instant:
        """The present, by the clocks of grants."""
        return Instant(time.time(), time.clock_gettime(time.CLOCK_BOOTTIME), self.boot)

    def standings(self, session: Session | None, workspace: str) -> tuple[Standing, ...]:
        """What decides whether a session (None: nobody's) may write: the workspace's, its own."""
        ceiling = self.known[workspace].standing
        return (ceiling,) if session is None else (ceiling, session.standing)

    def effective_mode(self, session: Session | None, workspace: Workspace) -> str:
        """The mode in force for a session: the stricter of its own and the workspace's."""
        return mode_at(self.now(), *self.standings(session, workspace.name))

    def modes(self, session: Session | None, workspace: str) -> ModeResult:
        """The mode in force now, the session's and the workspace's, and when they end."""
        now, standings = self.now(), self.standings(session, workspace)
        ceiling, *own = standings
        return ModeResult(
            mode=mode_at(now, *standings),
            session_mode=mode_at(now, *own) if own else None,
            workspace_mode=mode_at(now, ceiling),
            until=time_text(grant_end(now, *standings)),
            session_until=time_text(grant_end(now, *own)),
            workspace_until=time_text(grant_end(now, ceiling)),
        )

    def inside(self, workspace: Workspace) -> Iterator[tuple[str, WorkspaceState]]:
        """The workspaces inside this one, open or not, each with the prefix of its paths."""
        prefix = workspace.root + "/"
        for known in self.known.values():
            if known.allowed and known.root.startswith(prefix):
                yield known.root[len(prefix) :] + "/", known

    def apply(self, record: SessionRecord) -> None:
        """Apply a durable record."""
        match record:
            case SessionOpened(session):
                self.sessions[session.workspace, session.name] = session
            case SessionEnded(name, session_name, request):
                self.sessions.pop((name, session_name), None)
                self.granted.pop((name, session_name), None)
                if request is not None:
                    self._set_upgrade(request)
            case ModeSet(name, session_name, mode, grant):
                self._set_standing(name, session_name, Standing(mode, grant))
            case UpgradeSet(request, mode, grant):
                self._set_upgrade(request)
                if mode is not None:
                    self._set_standing(request.workspace, request.session, Standing(mode, grant))
            case ClipboardSet(name, session_name, clipboard, text):
                key = name, session_name
                self.sessions[key] = with_clipboards(self.sessions[key], {clipboard: text})

    def _set_standing(self, name: str, session: str | None, standing: Standing) -> None:
        if session is None:
            self.change_known(name, mode=standing.mode, grant=standing.grant)
        elif (name, session) in self.sessions:
            self.sessions[name, session] = with_standing(self.sessions[name, session], standing)
        else:
            return
        self._note_grant(name, session, standing)

    def _note_grant(self, name: str, session: str | None, standing: Standing) -> None:
        if standing.grant is None:
            self.granted.pop((name, session), None)
        else:
            self.granted[name, session] = standing.mode, standing.grant

    def _set_upgrade(self, request: UpgradeRequest) -> None:
        self.upgrades[request.id] = request
        self.upgrades = without_old(self.upgrades)

    def load_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Start from the state of a checkpoint."""
        self.number = checkpoint.number
        self.known = {w.name: w for w in checkpoint.workspaces}
        self.sessions = {(s.workspace, s.name): s for s in checkpoint.sessions}
        self.upgrades = {each.id: each for each in checkpoint.upgrades}
        self.granted = {}
        for session in checkpoint.sessions:
            self._note_grant(session.workspace, session.name, session.standing)
        for known in checkpoint.workspaces:
            self._note_grant(known.name, None, known.standing)

    def checkpoint(self, segment: int, offset: int) -> Checkpoint:
        """The state as a checkpoint record, with the watermark."""
        sessions, upgrades = list(self.sessions.values()), list(self.upgrades.values())
        return Checkpoint(segment, offset, self.number, self.workspaces(), sessions, upgrades)
