"""What happens between opening the journal and serving: PROTOCOL.md 9-11.

The journal has been read and made durable. From it come the state (checkpoint, then records), the
commits, which are made again in Git, and for every path touched since the checkpoint a chain of
images, by which :mod:`stetd.recovery.files` brings the files to their last image. The caller then
takes a checkpoint. Killed at any step, it starts over and comes to the same end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from stetd.history.objects import NewObject, same_image
from stetd.recovery.files import Emptied, RecordedCommit, Recovered, Replay, Settling, Temporary
from stetd.recovery.table import Link
from stetd.repository.stored_objects import StoredObjects
from stetd.session.modes import UNRESTRICTED
from stetd.session.sessions import with_clipboards
from stetd.state.state import State
from stetd.state.workspace import Workspace, head_at
from stetd.storage.journal import Journal, ReadSegment
from stetd.storage.journal_format import (
    Abort,
    Change,
    Checkpoint,
    ClipboardSet,
    CommitRecord,
    ModeSet,
    Published,
    Reached,
    Record,
    Rewritten,
    SessionEnded,
    SessionOpened,
    Unsettled,
    UpgradeSet,
    WorkspaceAllowed,
    WorkspaceForgotten,
    WorkspaceState,
)
from stetd.storage.request_record import answered
from stetd.transaction.heads import Head, History, RecordContradicts, remake


class Placed(msgspec.Struct, frozen=True):
    """A record, where it is in the journal, and the boot in which it was written."""

    segment: int
    offset: int
    boot: str
    record: Record


def contents(segments: Iterable[ReadSegment]) -> tuple[Checkpoint | None, list[Placed]]:
    """The newest checkpoint, and all other records in order."""
    checkpoint = None
    records = []
    for segment in segments:
        for offset, record in segment.records:
            if isinstance(record, Checkpoint):
                checkpoint = record
            else:
                records.append(Placed(segment.number, offset, segment.boot, record))
    return checkpoint, records


def begun_anew(known: WorkspaceState) -> WorkspaceState:
    """A workspace whose old history was given up."""
    return msgspec.structs.replace(
        known, head=None, commits=0, unsettled=None, cut=None, forgetting=None
    )


def _after(commits: Sequence[RecordedCommit], head: str | None) -> Sequence[RecordedCommit]:
    """A history's commits that come after one of them; all, if it is none of them."""
    for at in range(len(commits), 0, -1):
        commit = commits[at - 1][1]
        if head == (commit.head if isinstance(commit, Rewritten) else commit.oid):
            return commits[at:]
    return commits


class Settled(NamedTuple):
    """What settling has added to the history, and the paths that it or the calls have written.

    ``unsettled``: the paths that could not be brought to their last image, and why.
    """

    objects: list[NewObject]
    touched: set[str]
    unsettled: dict[str, str]


class Recovery:
    """One recovery: :meth:`replay`, :meth:`head_of` for every workspace, then :meth:`settle`.

    It stays in use for workspaces that could not be opened: :meth:`defer`, and later again
    :meth:`head_of` and :meth:`settle`.
    """

    def __init__(self, state: State, boot: str) -> None:
        self._state = state
        self._boot = boot
        self._replays: dict[str, Replay] = {}
        #: What Git has of each history, all of it durable: the checkpoint says so.
        self._starts: dict[str, Reached] = {}
        self._published: set[int] = set()
        #: Number of a voided record to the number of the abort that voids it.
        self._voided: dict[int, int] = {}
        self.report = Recovered()

    # -- the state

    def replay(self, checkpoint: Checkpoint | None, records: Sequence[Placed]) -> None:
        """Rebuild the state; nothing is written.

        Records before the checkpoint's watermark count only for a deferred workspace: for its
        files, and for its commits if its history was damaged.
        """
        state = self._state
        mark = (0, 0)
        if checkpoint is not None:
            mark = checkpoint.segment, checkpoint.offset
            state.begin(checkpoint)
            for known in checkpoint.workspaces:
                held = known.unsettled.start if known.unsettled is not None else None
                self._starts[known.name] = held or Reached(known.head, known.commits)
        for placed in records:
            if isinstance(placed.record, Published):
                self._published.add(placed.record.number)
            elif isinstance(placed.record, Abort):
                self._voided.update(dict.fromkeys(placed.record.voided, placed.record.number))
        for placed in records:
            self._hold(placed, mark)
            if (placed.segment, placed.offset) >= mark:
                self.report.records += 1
                self._apply(placed.record)

    def _hold(self, placed: Placed, mark: tuple[int, int]) -> None:
        """Note what a record did to files, if these may not be as it says."""
        record, place = placed.record, (placed.segment, placed.offset)
        if isinstance(record, Published):
            names = [n for n, replay in self._replays.items() if record.number in replay.numbers]
        elif isinstance(record, Change | Abort):
            held = self._state.unsettled.get(record.workspace)
            if place < mark and (held is None or not held.holds(*place)):
                return
            names = [record.workspace]
            replay = self._replays.setdefault(record.workspace, Replay(first=place))
            replay.numbers.add(record.number)
            replay.blobs.update(record.blobs)
            replay.private.update(record.private)
            if isinstance(record, Change):
                self._note_change(replay, placed.boot, record)
            else:
                self._note_abort(replay, placed.boot, record)
            if place < mark and held is not None and held.start is not None:
                self._hold_commits(replay, record)
        else:
            return
        for name in names:
            self._replays[name].last = placed.segment

    def _apply(self, record: Record) -> None:
        state = self._state
        match record:
            case Change():
                self._apply_change(record)
            case Abort(number, workspace):
                state.number = max(state.number, number)
                self._take_commits(workspace, number, record.commits)
            case SessionOpened() | SessionEnded() | ModeSet() | UpgradeSet() | ClipboardSet():
                state.apply(record)
            case WorkspaceAllowed(name, root, anew):
                known = state.known.get(name) or WorkspaceState(name, root, UNRESTRICTED, None, 0)
                if anew:
                    known = begun_anew(known)
                    self._starts.pop(name, None)
                    self.forget(name)
                state.known[name] = msgspec.structs.replace(known, allowed=True)
            case WorkspaceForgotten(name):
                state.change_known(name, allowed=False)

    def _note_change(self, replay: Replay, boot: str, record: Change) -> None:
        settled_by = self._voided.get(record.number, record.number)
        marked = record.performed or settled_by in self._published
        for change in record.paths:
            chain = replay.chains.setdefault(change.path, [Link(change.before, published=True)])
            if not same_image(chain[-1].image, change.before):
                chain.append(Link(change.before, published=True))
            chain.append(Link(change.after, published=marked))
            replay.boots[change.path] = boot
            if change.temporary:
                temporary = Temporary(
                    path=change.path,
                    name=change.temporary,
                    settled_by=settled_by,
                    boot=boot,
                    before=change.before,
                    position=len(chain) - 1,
                )
                replay.temporaries.append(temporary)
        paths = record.leftover_directories
        if settled_by != record.number:
            made = {path for commit in record.commits for path in commit.meta.directories}
            paths = sorted(made, reverse=True)
        if paths:
            replay.directories.append(Emptied(paths, settled_by, boot))

    def _apply_change(self, record: Change) -> None:
        state = self._state
        state.number = max(state.number, record.number)
        if record.number in self._voided:
            return
        self._take_commits(record.workspace, record.number, record.commits)
        if record.cut is not None:
            state.change_known(record.workspace, cut=record.cut)
        if record.rewritten is not None:
            self._take_rewritten(record.workspace, record.number, record.rewritten)
        session = state.sessions.get((record.workspace, record.session or ""))
        if session is not None:
            session = with_clipboards(session, record.clipboards)
            own = sum(1 for c in record.commits if c.meta.kind != "outside")
            session = msgspec.structs.replace(
                session, commits=session.commits + own, last_seen=record.time
            )
            state.sessions[record.workspace, session.name] = session
        if record.request is not None:
            known = answered(record)
            state.requests[known.key] = known

    def _note_abort(self, replay: Replay, boot: str, record: Abort) -> None:
        marked = record.number in self._published
        for path, image in record.stands.items():
            replay.chains.setdefault(path, []).append(Link(image, published=marked))
            replay.boots[path] = boot

    def _hold_commits(self, replay: Replay, record: Change | Abort) -> None:
        """Note the commits of a record that the state has, but perhaps not Git."""
        if record.number in self._voided:
            return
        replay.commits += [(record.number, commit) for commit in record.commits]
        rewritten = record.rewritten if isinstance(record, Change) else None
        if rewritten is not None and rewritten.head:
            replay.commits.append((record.number, rewritten))

    def _take_rewritten(self, name: str, number: int, rewritten: Rewritten) -> None:
        if not rewritten.head:
            self._state.change_known(name, forgetting=None)
            return
        self._replays[name].commits.append((number, rewritten))
        self._state.change_known(
            name, head=rewritten.head, commits=rewritten.commits, forgetting=rewritten
        )

    def _take_commits(self, name: str, number: int, commits: list[CommitRecord]) -> None:
        if not commits:
            return
        self._replays[name].commits += [(number, commit) for commit in commits]
        count = self._state.known[name].commits + len(commits)
        self._state.change_known(name, head=commits[-1].oid, commits=count)

    # -- Git

    def head_of(self, name: str, repository: StoredObjects) -> Head:
        """Make every commit since the checkpoint again and check its id (invariant 2).

        Nothing is written: that is the historian's. Raises MissingObject and RecordContradicts if
        the history is damaged.
        """
        start = self.start_of(name)
        replay = self._replays.setdefault(name, Replay((0, 0)))
        history = History(head_at(repository, start.head, start.commits), repository.load_tree, 0)
        for number, commit in _after(replay.commits, start.head):
            if isinstance(commit, Rewritten):
                history.head = head_at(repository, commit.head, commit.commits)
                continue
            remake(history, number, commit)
        known = self._state.known[name]
        if history.head.commit != known.head:
            raise RecordContradicts(
                f"the journal's records lead to commit {history.head.commit}, but its checkpoint "
                f"says {known.head}"
            )
        return history.head

    def start_of(self, name: str) -> Reached:
        """What Git durably has of a history; what the journal has beyond is made on that."""
        return self._starts.get(name, Reached(None, 0))

    def reached(self, name: str) -> list[Reached]:
        """Heads of a history: at the start, and after each commit that the journal has."""
        found = [self.start_of(name)]
        commits = self._replays[name].commits if name in self._replays else []
        for _, commit in _after(commits, found[0].head):
            if isinstance(commit, Rewritten):
                found.append(Reached(commit.head, commit.commits))
            else:
                found.append(Reached(commit.oid, found[-1].commits + 1))
        return found

    # -- the workspace's files

    def settle(self, workspace: Workspace, journal: Journal) -> Settled:
        """Bring the files of a workspace to their last image; new commits go on its head.

        The decisions are journalled and synced before any of them is carried out. Raises OSError
        and JournalBroken if they can't be; MissingObject, with nothing decided yet, if the history
        lacks what they need. Where something stays unsettled the workspace is deferred.
        """
        replay = self._replays.get(workspace.name)
        if replay is None:
            return Settled([], set(), {})
        settling = Settling(
            self._state, workspace, replay, self._boot, self._published, self.report
        )
        settling.look_at_temporaries()
        settling.look_at_paths()
        settling.journal(journal)
        settling.carry_out(journal)
        settling.clear_temporaries()
        settling.remove_directories()
        if settling.unsettled:
            replay.last = journal.position.segment  # what was decided is to be held as well
            self.defer(workspace.name)
        else:
            self.forget(workspace.name)
        return Settled(settling.objects, set(replay.chains), settling.unsettled)

    def defer(self, name: str, *, damaged: bool = False) -> None:
        """Keep what opening the workspace will need, in the journal too.

        ``damaged``: its commits as well, because Git can't have them yet.
        """
        replay = self._replays.get(name)
        if replay is not None and (replay.chains or (damaged and replay.commits)):
            start = self.start_of(name) if damaged else None
            self._state.unsettled[name] = Unsettled(*replay.first, replay.last, start)

    def forget(self, name: str) -> None:
        """Nothing is to be settled in this workspace any more."""
        self._replays.pop(name, None)
        self._state.unsettled.pop(name, None)
