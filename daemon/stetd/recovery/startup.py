"""Recovery, between opening the journal and serving: ARCHITECTURE.md 6.

The journal was read and made durable before. It gives

1. the state: the checkpoint, then later records;
2. the commits since the checkpoint, which are made again;
3. for each path since then the chain of its images. :mod:`stetd.recovery.files` brings the file to
   the last one.

The caller then takes a checkpoint. Recovery may be killed at any step: the next one comes to the
same result.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from stetd.history.objects import same_image
from stetd.processes.historian_messages import StartingPoint
from stetd.recovery.files import FileRecovery, PendingRecords, Recovered, Temporary
from stetd.recovery.table import ChainImage
from stetd.repository.stored_objects import StoredObjects
from stetd.session.modes import UNRESTRICTED
from stetd.state.state import State
from stetd.state.workspace import Workspace, head_at
from stetd.storage.journal import Journal, PlacedRecord
from stetd.storage.journal_format import (
    Abort,
    Change,
    Checkpoint,
    ClipboardSet,
    ModeSet,
    Published,
    Reached,
    Record,
    Rewritten,
    SessionEnded,
    SessionOpened,
    Step,
    Unsettled,
    UpgradeSet,
    WorkspaceAllowed,
    WorkspaceForgotten,
    WorkspaceState,
    session_after,
    steps,
)
from stetd.storage.request_record import answered
from stetd.transaction.heads import Head, HistoryBuilder, RecordContradicts, remake


def split_records(read: Iterable[PlacedRecord]) -> tuple[Checkpoint | None, list[PlacedRecord]]:
    """The newest checkpoint, and all records but checkpoints in order."""
    checkpoint = None
    records = []
    for placed in read:
        if isinstance(placed.record, Checkpoint):
            checkpoint = placed.record
        else:
            records.append(placed)
    return checkpoint, records


def with_new_history(known: WorkspaceState) -> WorkspaceState:
    """The state of a workspace that begins a new history."""
    return msgspec.structs.replace(
        known, head=None, commits=0, unsettled=None, cut=None, forgetting=None
    )


class Recovery:
    """One recovery: :meth:`replay`, then :meth:`head_of` and :meth:`settle` for every workspace.

    A workspace that can't be opened is put off by :meth:`defer`, and :meth:`head_of` and
    :meth:`settle` are tried again later.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._pending: dict[str, PendingRecords] = {}
        #: The same, by the number of each of their records, while these are replayed.
        self._pending_with: dict[int, PendingRecords] = {}
        #: Each history's head that Git durably has, by the checkpoint.
        self._starts: dict[str, Reached] = {}
        self._published: set[int] = set()
        #: Number of a voided record to the number of its abort.
        self._voided: dict[int, int] = {}
        self.report = Recovered()

    # -- the state

    def replay(self, checkpoint: Checkpoint | None, records: Sequence[PlacedRecord]) -> None:
        """Rebuild the state. Writes nothing.

        Records before the checkpoint's watermark are used only for a deferred workspace: for its
        files, and for its commits if its history is damaged.
        """
        state = self._state
        begin = StartingPoint.of(checkpoint)
        watermark, self._starts = begin.mark, begin.starts
        if checkpoint is not None:
            state.load_checkpoint(checkpoint)
        for placed in records:
            if isinstance(placed.record, Published):
                self._published.add(placed.record.number)
            elif isinstance(placed.record, Abort):
                self._voided.update(dict.fromkeys(placed.record.voided, placed.record.number))
        for placed in records:
            self._collect(placed, watermark)
            if (placed.segment, placed.offset) >= watermark:
                self.report.records += 1
                self._apply(placed.record)
        self._pending_with.clear()  # it would keep their contents for as long as the daemon runs

    def _collect(self, placed: PlacedRecord, watermark: tuple[int, int]) -> None:
        """Collect a record if its effect on the workspace's files, or on Git, may be missing."""
        record, place = placed.record, (placed.segment, placed.offset)
        if isinstance(record, Published) and record.number in self._pending_with:
            self._pending_with[record.number].last = placed.segment
        if not isinstance(record, Change | Abort):
            return
        held = self._state.known[record.workspace].unsettled
        if place < watermark and (held is None or not held.holds(*place)):
            return
        pending = self._pending.setdefault(record.workspace, PendingRecords(first=place))
        pending.last = placed.segment
        self._pending_with[record.number] = pending
        pending.blobs.update(record.blobs)
        pending.blobs.update(record.private)
        # Before the watermark only those of a damaged history: Git may lack them.
        if place >= watermark or (held is not None and held.start is not None):
            pending.commits += [(record.number, step) for step in self._steps(record)]
        if isinstance(record, Change):
            self._collect_change(pending, placed.boot, record)
            return
        marked = record.number in self._published
        for path, image in record.stands.items():
            pending.chains.setdefault(path, []).append(ChainImage(image, marked, placed.boot))

    def _collect_change(self, pending: PendingRecords, boot: str, record: Change) -> None:
        settled_by = self._voided.get(record.number, record.number)
        settled = settled_by in self._published
        for change in record.paths:
            chain = pending.chains.setdefault(change.path, [])
            if not chain or not same_image(chain[-1].image, change.before):
                chain.append(ChainImage(change.before, published=True))
            chain.append(ChainImage(change.after, record.performed or settled, boot))
            if change.temporary:
                position = len(chain) - 1
                pending.temporaries.append(
                    Temporary(change.path, change.temporary, settled, position)
                )
        # A mark says that they were removed; after a power cut they may be there again.
        if settled and boot == self._state.boot:
            return
        directories = record.leftover_directories
        if settled_by != record.number:
            made = {path for commit in record.commits for path in commit.meta.directories}
            directories = sorted(made, reverse=True)
        pending.directories += directories

    def _steps(self, record: Change | Abort) -> Sequence[Step]:
        return steps(record) if record.number not in self._voided else ()

    def _apply(self, record: Record) -> None:
        state = self._state
        match record:
            case Change() | Abort():
                self._apply_commits(record)
                if isinstance(record, Change) and record.number not in self._voided:
                    self._apply_call(record)
            case SessionOpened() | SessionEnded() | ModeSet() | UpgradeSet() | ClipboardSet():
                state.apply(record)
            case WorkspaceAllowed(name, root, anew):
                known = state.known.get(name) or WorkspaceState(name, root, UNRESTRICTED, None, 0)
                if anew:
                    known = with_new_history(known)
                    self._starts.pop(name, None)
                    self._pending.pop(name, None)
                state.known[name] = msgspec.structs.replace(known, allowed=True)
            case WorkspaceForgotten(name):
                state.change_known(name, allowed=False)
                if name in self._pending:
                    self._pending[name].give_up_files()

    def _apply_commits(self, record: Change | Abort) -> None:
        state = self._state
        state.number = max(state.number, record.number)
        for step in self._steps(record):
            reached = state.known[record.workspace].reached.after(step)
            state.change_known(record.workspace, head=reached.head, commits=reached.commits)

    def _apply_call(self, record: Change) -> None:
        state = self._state
        if record.cut is not None:
            state.change_known(record.workspace, cut=record.cut)
        if record.rewritten is not None:
            forgetting = record.rewritten if record.rewritten.head else None
            state.change_known(record.workspace, forgetting=forgetting)
        key = record.workspace, record.session or ""
        session = session_after(record, state.sessions.get(key))
        if session is not None:
            state.sessions[key] = session
        if record.request is not None:
            known = answered(record)
            state.requests[known.key] = known

    # -- Git

    def head_of(self, name: str, repository: StoredObjects) -> Head:
        """Make every commit since the checkpoint again, and check its id (ARCHITECTURE.md 1).

        Writes nothing: the historian does. Raises MissingObject and RecordContradicts if the
        history is damaged.
        """
        start = self.start_of(name)
        pending = self._pending.setdefault(name, PendingRecords((0, 0)))
        history = HistoryBuilder(
            head_at(repository, start.head, start.commits), repository.load_tree, 0
        )
        for number, commit in pending.commits_after(start):
            if isinstance(commit, Rewritten):
                history.head = head_at(repository, commit.head, commit.commits)
            else:
                remake(history, number, commit)
        known = self._state.known[name]
        if history.head.commit != known.head:
            raise RecordContradicts(
                f"the journal's records lead to commit {history.head.commit}, but its checkpoint "
                f"says {known.head}"
            )
        return history.head

    def start_of(self, name: str) -> Reached:
        """The head that Git durably has; the journal's later commits are made on it."""
        return self._starts.get(name, Reached(None, 0))

    def heads_since_checkpoint(self, name: str) -> list[Reached]:
        """The heads of a history: the one that Git has, and that of each later commit."""
        heads = [self.start_of(name)]
        pending = self._pending.get(name)
        for _, commit in pending.commits_after(heads[0]) if pending is not None else ():
            heads.append(heads[-1].after(commit))
        return heads

    # -- the workspace's files

    def settle(self, workspace: Workspace, journal: Journal) -> FileRecovery:
        """Bring the files of a workspace to their last image, after :meth:`head_of`; adds commits
        to its head.

        The decisions are journalled and synced before any of them is carried out. Raises OSError
        and JournalBroken if that fails; MissingObject, with nothing journalled, if the history
        lacks content that is needed. If a path stays unsettled, the workspace must be deferred.
        """
        pending = self._pending[workspace.name]
        files = FileRecovery(self._state, workspace, pending, self.report)
        files.check_temporaries()
        files.check_paths()
        files.journal(journal)
        files.carry_out(journal)
        files.clear_temporaries()
        files.remove_directories()
        if files.unsettled:
            pending.last = journal.position.segment  # the decisions are kept as well
        else:
            self.forget(workspace.name)
        return files

    def defer(self, name: str, *, damaged: bool = False) -> None:
        """Keep the workspace's records, here and in the journal, until it can be opened.

        ``damaged``: the commits are kept, too, because Git may lack them.
        """
        pending = self._pending.get(name)
        if pending is not None and (pending.chains or (damaged and pending.commits)):
            start = self.start_of(name) if damaged else None
            held = Unsettled(*pending.first, pending.last, start)
            self._state.change_known(name, unsettled=held)

    def forget(self, name: str) -> None:
        """Drop the workspace's records: its files are settled."""
        self._pending.pop(name, None)
        self._state.change_known(name, unsettled=None)
