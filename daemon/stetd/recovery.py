"""What happens between opening the journal and serving: PROTOCOL.md 9-11.

The journal has been read and made durable. From it come the state (checkpoint, then
records), the commits, which are made again in Git, and for every path touched since the
checkpoint a chain of images, by which :mod:`stetd.settling` brings the files to their
last image. The caller then takes a checkpoint. Killed at any step, it starts over and
comes to the same end.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from stetd.failpoints import hit
from stetd.heads import Head, History
from stetd.history.objects import NewObject, same_image
from stetd.history.recovery_table import Link
from stetd.session.sessions import UNRESTRICTED, with_clipboards
from stetd.settling import Emptied, Recovered, Replay, Settling, Temporary
from stetd.state import State
from stetd.storage.journal import Journal, ReadSegment
from stetd.storage.journal_format import (
    Abort,
    Change,
    Checkpoint,
    ClipboardSet,
    CommitRecord,
    ModeSet,
    PathChange,
    Published,
    Record,
    SessionOpened,
    WorkspaceAllowed,
    WorkspaceForgotten,
    WorkspaceState,
)
from stetd.storage.request_store import RequestRecord
from stetd.storage.shadow_repo import MissingObject, ShadowRepository
from stetd.workspace import Workspace, head_at


class RecoveryError(Exception):
    """The state can't be recovered as it is; the message says what a person can do."""


def records_since_checkpoint(
    segments: Iterable[ReadSegment],
) -> tuple[Checkpoint | None, list[tuple[str, Record]]]:
    """The newest checkpoint, and every record from its watermark on with its boot id."""
    everything = [
        (segment.number, offset, segment.boot, record)
        for segment in segments
        for offset, record in segment.records
    ]
    checkpoint = None
    for _, _, _, record in everything:
        if isinstance(record, Checkpoint):
            checkpoint = record
    mark = (checkpoint.segment, checkpoint.offset) if checkpoint else (0, 0)
    return checkpoint, [
        (boot, record)
        for number, offset, boot, record in everything
        if (number, offset) >= mark and not isinstance(record, Checkpoint)
    ]


class Recovery:
    """One recovery. Call :meth:`replay`, then :meth:`settle` for every open workspace."""

    def __init__(self, state: State, boot: str) -> None:
        self._state = state
        self._boot = boot
        self._replays: dict[str, Replay] = {}
        self._published: set[int] = set()
        #: Number of a voided record to the number of the abort that voids it.
        self._voided: dict[int, int] = {}
        self._objects: dict[str, list[NewObject]] = {}
        self.report = Recovered()

    # -- the state

    def replay(self, checkpoint: Checkpoint | None, records: list[tuple[str, Record]]) -> None:
        """Rebuild the state; nothing is written."""
        state = self._state
        if checkpoint is not None:
            state.number = checkpoint.number
            state.known = {w.name: w for w in checkpoint.workspaces}
            state.sessions = {(s.workspace, s.name): s for s in checkpoint.sessions}
        for _, record in records:
            if isinstance(record, Published):
                self._published.add(record.number)
            elif isinstance(record, Abort):
                self._voided.update(dict.fromkeys(record.voided, record.number))
        self.report.records = len(records)
        for boot, record in records:
            self._apply(boot, record)

    def _apply(self, boot: str, record: Record) -> None:
        state = self._state
        match record:
            case Change():
                self._apply_change(boot, record)
            case Abort():
                self._apply_abort(boot, record)
            case SessionOpened(session):
                state.sessions[session.workspace, session.name] = session
            case WorkspaceAllowed(name, root):
                known = state.known.get(name) or WorkspaceState(name, root, UNRESTRICTED, None, 0)
                state.known[name] = msgspec.structs.replace(known, allowed=True)
            case WorkspaceForgotten(name):
                forgotten = msgspec.structs.replace(state.known[name], allowed=False)
                state.known[name] = forgotten
            case ModeSet(name, None, mode):
                state.known[name] = msgspec.structs.replace(state.known[name], mode=mode)
            case ModeSet(name, str(session_name), mode):
                session = state.sessions[name, session_name]
                state.sessions[name, session_name] = msgspec.structs.replace(session, mode=mode)
            case ClipboardSet(name, session_name, clipboard, text):
                session = state.sessions[name, session_name]
                changed = with_clipboards(session, {clipboard: text})
                state.sessions[name, session_name] = changed

    def _apply_change(self, boot: str, record: Change) -> None:
        state = self._state
        replay = self._replays.setdefault(record.workspace, Replay())
        state.number = max(state.number, record.number)
        marked = record.performed or record.number in self._published
        replay.blobs.update(record.blobs)
        for change in record.paths:
            chain = replay.chains.setdefault(change.path, [Link(change.before, published=True)])
            if not same_image(chain[-1].image, change.before):
                chain.append(Link(change.before, published=True))
            chain.append(Link(change.after, published=marked))
            replay.boots[change.path] = boot
            if change.temporary:
                self._note_temporary(replay, boot, record, change)
        self._note_directories(replay, boot, record)
        if record.number in self._voided:
            return
        self._take_commits(record.workspace, record.number, record.commits)
        session = state.sessions.get((record.workspace, record.session or ""))
        if session is not None and record.session is not None:
            session = with_clipboards(session, record.clipboards)
            own = sum(1 for c in record.commits if c.meta.kind != "outside")
            session = msgspec.structs.replace(
                session, commits=session.commits + own, last_seen=record.time
            )
            state.sessions[record.workspace, record.session] = session
        if record.request is not None:
            answered = RequestRecord(
                record.workspace,
                record.session or "",
                record.request,
                record.digest,
                record.reply,
                record.time,
                record.number,
            )
            state.requests[answered.key] = answered

    def _note_temporary(
        self, replay: Replay, boot: str, record: Change, change: PathChange
    ) -> None:
        replay.temporaries.append(
            Temporary(
                path=change.path,
                name=change.temporary,
                settled_by=self._voided.get(record.number, record.number),
                boot=boot,
                before=change.before,
                position=len(replay.chains[change.path]) - 1,
            )
        )

    def _note_directories(self, replay: Replay, boot: str, record: Change) -> None:
        voided_by = self._voided.get(record.number)
        if voided_by is None:
            paths, settled_by = record.leftover_directories, record.number
        else:
            made = {path for commit in record.commits for path in commit.meta.directories}
            paths, settled_by = sorted(made, reverse=True), voided_by
        if paths:
            replay.directories.append(Emptied(paths, settled_by, boot))

    def _apply_abort(self, boot: str, record: Abort) -> None:
        replay = self._replays.setdefault(record.workspace, Replay())
        self._state.number = max(self._state.number, record.number)
        replay.blobs.update(record.blobs)
        marked = record.number in self._published
        for path, image in record.stands.items():
            replay.chains.setdefault(path, []).append(Link(image, published=marked))
            replay.boots[path] = boot
        self._take_commits(record.workspace, record.number, record.commits)

    def _take_commits(self, name: str, number: int, commits: list[CommitRecord]) -> None:
        if not commits:
            return
        self._replays[name].commits += [(number, commit) for commit in commits]
        known = self._state.known[name]
        self._state.known[name] = msgspec.structs.replace(
            known, head=commits[-1].oid, commits=known.commits + len(commits)
        )

    # -- Git

    def write_git(
        self, name: str, repository: ShadowRepository, start: WorkspaceState | None
    ) -> Head:
        """Make every commit since the checkpoint again and check its id (invariant 2).

        ``start`` is the workspace as the checkpoint has it. Raises RecoveryError.
        """
        try:
            head = head_at(repository, start.head if start else None, start.commits if start else 0)
        except MissingObject as error:
            raise RecoveryError(
                f"the shadow repository {repository.path} lacks {error}, which the journal says "
                "is part of its history. Restore the repository from a backup."
            ) from error
        replay = self._replays.setdefault(name, Replay())
        history = History(head, repository.load_tree, 0)
        for number, commit in replay.commits:
            if commit.parent != history.head.commit:
                raise RecoveryError(
                    f"record {number} of the journal continues commit {commit.parent}, "
                    f"but the history stands at {history.head.commit}"
                )
            oid = history.add(commit.meta, commit.changes)
            if oid != commit.oid:
                raise RecoveryError(
                    f"record {number} of the journal makes {oid}, not {commit.oid} as it says"
                )
        objects = [NewObject("blob", oid, data) for oid, data in replay.blobs.items()]
        objects += history.objects
        self._objects[name] = objects
        repository.clear_damaged(item.oid for item in objects)
        repository.write(objects)
        hit("recovery.objects")
        # Also if there is nothing new: under "relaxed" the reference may be ahead.
        repository.set_head(history.head.commit)
        return history.head

    # -- the workspace's files

    def settle(self, workspace: Workspace, journal: Journal) -> list[NewObject]:
        """Bring the files of a workspace to their last image; new commits go on its head.

        The decisions are journalled and synced before any of them is carried out.
        """
        replay = self._replays.get(workspace.name)
        if replay is None:
            return []
        settling = Settling(
            self._state, workspace, replay, self._boot, self._published, self.report
        )
        settling.look_at_temporaries()
        settling.look_at_paths()
        settling.journal(journal)
        settling.carry_out(journal)
        settling.clear_temporaries()
        settling.remove_directories()
        return settling.objects

    def objects_of(self, workspace: str) -> list[NewObject]:
        """What :meth:`write_git` wrote; not synced yet."""
        return self._objects.get(workspace, [])

    def touched(self, workspace: str) -> set[str]:
        """The paths written since the checkpoint."""
        replay = self._replays.get(workspace)
        return set(replay.chains) if replay else set()
