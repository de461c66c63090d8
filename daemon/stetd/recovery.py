"""What happens between opening the journal and serving: PROTOCOL.md 9-11.

The journal has been read and made durable. From it come the state (checkpoint, then
records), and for every path touched since the checkpoint a chain of images. What the
disk holds is judged by :mod:`stetd.history.recovery_table`; the decisions are journalled
and synced, then carried out like any transaction, then Git is written, and the caller
takes a checkpoint. Killed at any step, it starts over and comes to the same end.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from stet.wire.failures import Refused
from stetd.failpoints import hit
from stetd.history.commits import CommitMeta
from stetd.history.objects import (
    Image,
    NewObject,
    find_entry,
    same_image,
)
from stetd.history.recovery_table import Decision, Link, decide, looks_torn
from stetd.session.sessions import UNRESTRICTED, with_clipboards
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
from stetd.storage.worktree import OnDisk
from stetd.transaction import (
    Displaced,
    FileWork,
    Head,
    History,
    PutBack,
    install,
    seal_found,
    seal_restoring,
)
from stetd.workspace import Workspace, head_at

_log = logging.getLogger(__name__)


class RecoveryError(Exception):
    """The state can't be recovered as it is; the message says what a person can do."""


@dataclass(slots=True)
class _Temporary:
    """A temporary file that a record names."""

    path: str
    name: str
    record: int
    before: Image | None
    after: Image | None
    #: The image that an abort of the record names for the path.
    stands: Image | None = None

    def holds_ours(self, oid: str) -> bool:
        """Whether this content is known to the record: nobody's save was displaced."""
        return any(i is not None and i.oid == oid for i in (self.before, self.after, self.stands))


@dataclass(slots=True)
class _Replay:
    """What the records since the checkpoint say of one workspace."""

    chains: dict[str, list[Link]] = field(default_factory=dict)
    #: The boot in which a path was last written about.
    boots: dict[str, str] = field(default_factory=dict)
    temporaries: list[_Temporary] = field(default_factory=list)
    commits: list[tuple[int, CommitRecord]] = field(default_factory=list)
    blobs: dict[str, bytes] = field(default_factory=dict)


@dataclass(slots=True)
class Recovered:
    """What recovery did, for the log and for ``doctor``."""

    records: int = 0
    rolled_forward: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    torn: list[str] = field(default_factory=list)


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
        self._replays: dict[str, _Replay] = {}
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
        replay = self._replays.setdefault(record.workspace, _Replay())
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
                self._note_temporary(replay, record, change)
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

    def _note_temporary(self, replay: _Replay, record: Change, change: PathChange) -> None:
        decided_by = self._voided.get(record.number, record.number)
        replay.temporaries.append(
            _Temporary(change.path, change.temporary, decided_by, change.before, change.after)
        )

    def _apply_abort(self, boot: str, record: Abort) -> None:
        replay = self._replays.setdefault(record.workspace, _Replay())
        self._state.number = max(self._state.number, record.number)
        replay.blobs.update(record.blobs)
        marked = record.number in self._published
        for path, image in record.stands.items():
            replay.chains.setdefault(path, []).append(Link(image, published=marked))
            replay.boots[path] = boot
            for temporary in replay.temporaries:
                if temporary.record == record.number and temporary.path == path:
                    temporary.stands = image
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
        replay = self._replays.get(name)
        if replay is None or not replay.commits:
            return head
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
        repository.write_verified(objects)
        hit("recovery.objects")
        assert history.head.commit is not None, "BUG: commits without a head"
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
        settling = _Settling(
            self._state, workspace, replay, self._boot, self._published, self.report
        )
        settling.look_at_temporaries()
        settling.look_at_paths()
        settling.journal(journal)
        settling.carry_out(journal)
        settling.clear_temporaries()
        return settling.objects

    def objects_of(self, workspace: str) -> list[NewObject]:
        """What :meth:`write_git` wrote; not synced yet."""
        return self._objects.get(workspace, [])

    def touched(self, workspace: str) -> set[str]:
        """The paths written since the checkpoint."""
        replay = self._replays.get(workspace)
        return set(replay.chains) if replay else set()


@dataclass(slots=True)
class _Settling:
    """Deciding about the paths of one workspace and doing it."""

    state: State
    workspace: Workspace
    replay: _Replay
    boot: str
    published: set[int]
    report: Recovered
    records: list[Change] = field(default_factory=list)
    works: list[tuple[int, FileWork]] = field(default_factory=list)
    objects: list[NewObject] = field(default_factory=list)
    handled: set[str] = field(default_factory=set)

    def look_at_temporaries(self) -> None:
        """Find saves that were displaced and not yet put back (the last row of the table)."""
        for temporary in self.replay.temporaries:
            if temporary.record in self.published or temporary.path in self.handled:
                continue
            try:
                found = self._look(temporary.path, temporary.name)
                if found is not None and self._is_displaced_save(temporary, found):
                    self._put_back(temporary.path, found)
            except (Refused, OSError) as error:
                _log.warning("recovery can't look at a temporary of %s: %s", temporary.path, error)

    def _is_displaced_save(self, temporary: _Temporary, found: OnDisk) -> bool:
        """Whether a temporary file holds somebody's save.

        Not if its content is ours, nor if it is a torn piece of ours: after a reboot, or
        because the daemon was killed while it was being staged - in which case our text
        can't be in place.
        """
        if found.data is None or temporary.holds_ours(found.oid):
            return False
        images = (temporary.before, temporary.after, temporary.stands)
        contents = self._contents([image for image in images if image is not None])
        if not looks_torn(found.data, contents):
            return True
        if not self._same_boot(temporary.path):
            return False
        now = self._look(temporary.path)
        return same_image(now.image if now else None, temporary.after)

    def _put_back(self, path: str, saved: OnDisk) -> None:
        """Record a displaced save, and put it back if our image still stands there."""
        now = self._look(path)
        last = self.replay.chains[path][-1].image
        ours = same_image(now.image if now else None, last)
        self.handled.add(path)
        self.report.kept.append(path)
        assert saved.image is not None, "BUG: a displaced save that is no file"
        blobs = {saved.oid: saved.data or b""}
        steps: list[tuple[str, Mapping[str, Image | None]]] = [
            ("changed outside", {path: saved.image})
        ]
        if not ours:
            self._add_blob(blobs, now)
            steps.append(("changed outside", {path: now.image if now else None}))
        self._record_found(steps, blobs, write=(path, now, saved.image) if ours else None)

    def look_at_paths(self) -> None:
        """Judge every other path by the table."""
        for path, chain in self.replay.chains.items():
            if path in self.handled:
                continue
            try:
                found = self._look(path)
            except Refused as refusal:
                _log.warning("recovery leaves %s alone: %s", path, refusal)
                continue
            self._judge(path, chain, found)

    def _judge(self, path: str, chain: list[Link], found: OnDisk | None) -> None:
        image = found.image if found else None
        contents = self._contents([link.image for link in chain if link.image is not None])
        torn = found is not None and found.data is not None and looks_torn(found.data, contents)
        decision = decide(chain, image, same_boot=self._same_boot(path), torn=torn)
        last = chain[-1].image
        if decision is Decision.WRITE_LAST:
            self.report.rolled_forward.append(path)
            self._record_found([], {}, write=(path, found, last))
        elif decision is Decision.RESTORE_TORN:
            self.report.torn.append(path)
            blobs: dict[str, bytes] = {}
            self._add_blob(blobs, found)
            self._record_found(
                [("torn by a power cut", {path: image})],
                blobs,
                write=(path, found, last),
                restoring=True,
            )
        elif decision is Decision.KEEP and not self._known_to_history(path, image):
            self.report.kept.append(path)
            blobs = {}
            self._add_blob(blobs, found)
            self._record_found([("changed outside", {path: image})], blobs, write=None)

    def _known_to_history(self, path: str, image: Image | None) -> bool:
        known = find_entry(self.workspace.head.tree, path, self.workspace.repository.load_tree)
        return known == ((image.git_mode, image.oid) if image else None)

    def _record_found(
        self,
        steps: Sequence[tuple[str, Mapping[str, Image | None]]],
        blobs: dict[str, bytes],
        *,
        write: tuple[str, OnDisk | None, Image | None] | None,
        restoring: bool = False,
    ) -> None:
        """Add a record for a decision, with the file to be written if there is one."""
        self.state.number += 1
        meta = CommitMeta(
            kind="restore",
            time=int(time.time()),
            subject="restore after a power cut",
            method="recovery",
        )
        found = seal_found(
            steps,
            blobs,
            head=self.workspace.head,
            number=self.state.number,
            time=meta.time,
            workspace=self.workspace.name,
            load=self.workspace.repository.load_tree,
        )
        if write is not None:
            path, before, after = write
            content = self._content(after) if after is not None else None
            target = self.workspace.worktree.resolver.resolve(path, follow_last=False)
            found, work = seal_restoring(
                found,
                target,
                before,
                after,
                content,
                meta=meta if restoring else None,
                load=self.workspace.repository.load_tree,
            )
            self.works.append((self.state.number, work))
        self.records.append(found.record)
        self.workspace.head = found.head
        self.objects += found.objects

    def journal(self, journal: Journal) -> None:
        """Make the decisions durable."""
        if self.records:
            journal.append(*self.records, reserve=1 << 20)
            journal.sync_always()
        hit("recovery.decided")

    def carry_out(self, journal: Journal) -> None:
        """Write what is to be written, each by exchange and compare."""
        for number, work in self.works:
            try:
                self._carry_out(number, work, journal)
            finally:
                work.target.close()
        hit("recovery.carried_out")

    def _carry_out(self, number: int, work: FileWork, journal: Journal) -> None:
        worktree = self.workspace.worktree
        try:
            install(work, worktree)
        except Displaced:
            history = History(
                self.workspace.head, self.workspace.repository.load_tree, int(time.time())
            )
            putting_back = PutBack(
                worktree, journal, history, self.state.number, self.workspace.name
            )
            putting_back.restore(work, keep_displaced=True)
            self.state.number = putting_back.number
            self.workspace.head = history.head
            self.objects += history.objects
        else:
            if work.before is not None:
                worktree.discard(work.target, work.temporary)
        journal.append(Published(number))

    def clear_temporaries(self) -> None:
        """Remove the temporary files of records that were judged."""
        for temporary in self.replay.temporaries:
            folder = temporary.path.rpartition("/")[0]
            path = f"{folder}/{temporary.name}" if folder else temporary.name
            self.workspace.worktree.discard_path(path)

    # -- small things

    def _same_boot(self, path: str) -> bool:
        return self.replay.boots.get(path) == self.boot

    def _look(self, path: str, name: str | None = None) -> OnDisk | None:
        """What stands at a path, or at another name in its directory."""
        target = self.workspace.worktree.resolver.resolve(path, follow_last=False)
        try:
            if target.missing:
                return None
            return self.workspace.worktree.look(target.dir_fd, name or target.name)
        except FileNotFoundError:
            return None
        finally:
            target.close()

    @staticmethod
    def _add_blob(blobs: dict[str, bytes], found: OnDisk | None) -> None:
        if found is not None and found.data is not None:
            blobs[found.oid] = found.data

    def _content(self, image: Image) -> bytes:
        data = self.replay.blobs.get(image.oid)
        return self.workspace.repository.blob(image.oid) if data is None else data

    def _contents(self, images: list[Image]) -> list[bytes]:
        contents = []
        for image in images:
            try:
                contents.append(self._content(image))
            except MissingObject:
                continue
        return contents
