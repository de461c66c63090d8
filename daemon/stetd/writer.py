"""The one thread that changes anything: its queue is the order of the history.

Editing calls that wait together are planned one after the other, share one journal sync
(group commit), and are then published and answered in order (PROTOCOL.md 2-6). Other
changes (sessions, modes, clipboards, workspaces) run between batches.
"""

from __future__ import annotations

import errno
import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from stet.wire.failures import Failure, Kind, Refused, refuse
from stet.wire.results import EditResult, FileChange
from stetd.call_planning import plan_call
from stetd.call_world import EditCall
from stetd.failpoints import hit
from stetd.grace import GraceWatch, LateWrite
from stetd.history.objects import (
    EMPTY_TREE,
    Image,
    Tree,
    find_entry,
    object_id,
    stored_tree,
)
from stetd.params import check_label
from stetd.session.sessions import RESTRICTED, Session, clipboard_bytes
from stetd.state import State
from stetd.storage.background import Background
from stetd.storage.journal import Journal, JournalBroken
from stetd.storage.journal_format import Checkpoint, Record
from stetd.storage.request_store import RequestRecord, RequestStore
from stetd.storage.shadow_repo import MissingObject, line_diff
from stetd.transaction import (
    Displaced,
    Prepared,
    Who,
    abort,
    mark_published,
    seal,
    seal_found,
)
from stetd.workspace import Base, Workspace

_log = logging.getLogger(__name__)

T = TypeVar("T")
_MAX_BATCH = 64
_MAX_ATTEMPTS = 8
#: Seconds that a replayed answer waits for the contents that its diff is made from.
_REPLAY_WAIT_S = 5.0
TOOL_DISABLED = (
    "Patch tool is disabled in Restricted mode. Use request_mode_upgrade to request write access."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterLimits:
    """What the writer needs of the configuration; bytes and seconds."""

    max_file_bytes: int
    max_clipboard_bytes: int
    checkpoint_bytes: int
    checkpoint_idle_s: float
    grace_s: float
    request_record_calls: int
    request_record_s: float


@dataclass(slots=True)
class _EditJob:
    call: EditCall
    future: Future[EditResult]
    attempts: int = 0


@dataclass(slots=True)
class _Task:
    run: Callable[[], Any]
    future: Future[Any]


@dataclass(slots=True)
class _Outcome:
    """What planning made of a job: a transaction to publish, or an answer to give."""

    job: _EditJob
    prepared: Prepared | None = None
    answer: EditResult | Exception | None = None


@dataclass(slots=True)
class _InFlight:
    digest: bytes
    future: Future[EditResult]
    followers: list[Future[EditResult]] = field(default_factory=list)


_STOP = object()


class Writer:
    """Owns the state; everything that changes it goes through the queue."""

    def __init__(
        self,
        state: State,
        journal: Journal,
        background: Background,
        requests: RequestStore,
        requests_to_write: RequestStore,
        limits: WriterLimits,
    ) -> None:
        self.state = state
        self.journal = journal
        self.background = background
        self.read_only: str | None = None
        #: Number of the last record that made a commit anywhere.
        self.git_number = 0
        self._requests = requests
        self._requests_to_write = requests_to_write
        self._limits = limits
        self._queue: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._in_flight: dict[tuple[str, str, str], _InFlight] = {}
        self._admission = threading.Lock()
        self._grace = GraceWatch(limits.grace_s)
        self._last_work = time.monotonic()
        self._checkpoint_running = False
        self._waiting: list[Callable[[], None]] = []
        self._dirty = False
        self._thread = threading.Thread(target=self._run, name="stet-writer", daemon=True)

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    # -- called from any thread

    def submit_edit(self, call: EditCall) -> Future[EditResult]:
        """Queue an editing call. A retry of one in flight gets that one's outcome."""
        future: Future[EditResult] = _uncancellable()
        if call.retryable and not call.preview:
            key = (call.workspace, call.session or "", call.request)
            with self._admission:
                first = self._in_flight.get(key)
                if first is not None:
                    if first.digest != call.digest:
                        future.set_exception(_other_call(call.request))
                    else:
                        first.followers.append(future)
                    return future
                self._in_flight[key] = _InFlight(call.digest, future)
                self._queue.put(_EditJob(call, future))
                return future
        self._queue.put(_EditJob(call, future))
        return future

    def submit(self, run: Callable[[], T]) -> Future[T]:
        """Run something on the writer thread, after the calls that are queued already."""
        future: Future[T] = _uncancellable()
        self._queue.put(_Task(run, future))
        return future

    def stop(self) -> None:
        """Finish what is queued, then end the thread."""
        self._queue.put(_STOP)
        self._thread.join()

    # -- the thread

    def _run(self) -> None:
        while True:
            items = self._next_items()
            while items:
                first = items[0]
                if first is _STOP:
                    self._grace.close()
                    return
                if isinstance(first, _Task):
                    items.pop(0)
                    self._run_task(first)
                    continue
                self._run_batch(_take_batch(items))
                self._last_work = time.monotonic()
            try:
                self._housekeeping()
            except Exception as error:  # noqa: BLE001 - a defect must not end the writer
                _log.exception("housekeeping failed")
                self.become_read_only(f"internal error: {error!r}")

    def _next_items(self) -> list[Any]:
        try:
            items = [self._queue.get(timeout=self._pause())]
        except queue.Empty:
            return []
        while len(items) < _MAX_BATCH:
            try:
                items.append(self._queue.get_nowait())
            except queue.Empty:
                break
        return items

    def _pause(self) -> float | None:
        """How long to wait for work before there is housekeeping to do; None: no need."""
        due = [self._grace.next_due()]
        if self._dirty and not self._checkpoint_running and self.read_only is None:
            due.append(self._last_work + self._limits.checkpoint_idle_s - time.monotonic())
        pauses = [pause for pause in due if pause is not None]
        return max(0.0, min(pauses)) if pauses else None

    def _run_task(self, task: _Task) -> None:
        try:
            result = task.run()
        except BaseException as error:  # noqa: BLE001 - it belongs to whoever asked
            task.future.set_exception(error)
        else:
            task.future.set_result(result)

    # -- batches

    def _run_batch(self, batch: list[_EditJob]) -> None:
        workspace = self.state.open.get(batch[0].call.workspace)
        if workspace is None:
            for job in batch:
                self._answer(job, refuse(Kind.WORKSPACE_NOT_ALLOWED, "this workspace is closed"))
            return
        pending = batch
        while pending:
            try:
                pending = self._try_batch(workspace, pending)
            except Exception as error:  # noqa: BLE001 - a defect must not end the writer
                # Whatever was made durable is settled at the next start.
                _log.exception("a batch of calls failed")
                self.become_read_only(f"internal error: {error!r}")
                for job in pending:
                    if not job.future.done():
                        self._answer(job, _outcome_unknown())
                return

    def _try_batch(self, workspace: Workspace, jobs: list[_EditJob]) -> list[_EditJob]:
        """Plan, journal and publish jobs; gives those that must be planned again."""
        try:
            workspace.check_present()
            if jobs[0].call.needs_history:
                self.background.require(workspace.number)
        except Refused as refusal:
            for job in jobs:
                self._answer(job, refusal)
            return []
        outcomes = self._plan(workspace, jobs)
        try:
            failure = self._make_durable(outcomes)
            if failure is not None:
                for outcome in outcomes:
                    self._answer(outcome.job, outcome.answer or failure)
                return []
            return self._publish_all(workspace, outcomes)
        finally:
            for outcome in outcomes:
                if outcome.prepared is not None:
                    outcome.prepared.close()

    def _plan(self, workspace: Workspace, jobs: list[_EditJob]) -> list[_Outcome]:
        base = Base(workspace.head)
        sessions: dict[str, Session | None] = {}
        outcomes = []
        number = self.state.number
        now = int(time.time())
        for job in jobs:
            name = job.call.session
            if name is not None and name not in sessions:
                sessions[name] = self.state.sessions.get((workspace.name, name))
            session = sessions.get(name) if name is not None else None
            outcome = self._plan_one(workspace, base, job, session, number + 1, now)
            outcomes.append(outcome)
            if outcome.prepared is not None:
                number += 1
                base = base.after(outcome.prepared)
                if name is not None:
                    sessions[name] = outcome.prepared.session
        return outcomes

    def _plan_one(
        self,
        workspace: Workspace,
        base: Base,
        job: _EditJob,
        session: Session | None,
        number: int,
        now: int,
    ) -> _Outcome:
        call = job.call
        try:
            # First: a call that was applied is answered so, whatever the mode is by now.
            replayed = self._replay(workspace, call)
            if replayed is not None:
                return _Outcome(job, answer=replayed)
            self._check_mode(workspace, call, session)
            self._check_writable(call)
            prepared = self._prepare(workspace, base, call, session, number, now)
        except Refused as refusal:
            return _Outcome(job, answer=refusal)
        except OSError as error:
            return _Outcome(job, answer=io_failure(error))
        except Exception as error:  # noqa: BLE001 - a defect of ours must not end the writer
            _log.exception("planning %s failed", call.method)
            return _Outcome(job, answer=refuse(Kind.INTERNAL, f"internal error: {error!r}"))
        if call.preview or not (prepared.record.commits or prepared.record.clipboards):
            prepared.close()
            return _Outcome(job, answer=prepared.result)
        return _Outcome(job, prepared=prepared)

    def _prepare(
        self,
        workspace: Workspace,
        base: Base,
        call: EditCall,
        session: Session | None,
        number: int,
        now: int,
    ) -> Prepared:
        """Plan a call and seal it. Raises Refused."""
        draft = plan_call(workspace, base, call, session, self._limits.max_file_bytes)
        try:
            self._check_clipboards(session, draft.clipboards)
            return seal(
                draft,
                Who(call.agent, call.session, call.peer, call.method, call.request, call.why),
                number=number,
                time=now,
                digest=call.digest,
                workspace=workspace.name,
                worktree=workspace.worktree,
                head=base.head,
                session=session,
                load=workspace.repository.load_tree,
                preview=call.preview,
            )
        except BaseException:
            for item in draft.files:
                item.target.close()
            raise

    def _check_mode(self, workspace: Workspace, call: EditCall, session: Session | None) -> None:
        if call.control and call.needs_history:
            return  # the person's own undo works in every mode
        if self.state.effective_mode(session, workspace) == RESTRICTED:
            raise refuse(Kind.TOOL_DISABLED, TOOL_DISABLED)

    def _check_writable(self, call: EditCall) -> None:
        if self.read_only is not None and not call.preview:
            raise refuse(
                Kind.READ_ONLY,
                f"the daemon is read-only: {self.read_only}. Reading works; "
                "a person must look at the disk and restart stetd.",
            )

    def _check_clipboards(self, session: Session | None, changes: Mapping[str, str]) -> None:
        if not changes:
            return
        if session is None:
            raise refuse(
                Kind.INVALID_PARAMS,
                "clipboards belong to a session: name one in hello, e.g. session: 'conv-1'",
            )
        for name in changes:
            check_label("the clipboard name", name)
        size = clipboard_bytes({**session.clipboards, **changes})
        if size > self._limits.max_clipboard_bytes:
            raise refuse(
                Kind.INPUT_TOO_LARGE,
                f"the session's clipboards would hold {size:,} bytes, "
                f"{self._limits.max_clipboard_bytes:,} is the most; delete some first",
            )

    def _replay(self, workspace: Workspace, call: EditCall) -> EditResult | None:
        if not call.retryable or call.preview:
            return None
        key = (workspace.name, call.session or "", call.request)
        record = self.state.requests.get(key) or self._requests.find(*key)
        if record is None:
            return None
        if record.digest != call.digest:
            raise _other_call(call.request)
        result = msgspec.msgpack.decode(record.reply, type=EditResult)
        diff = ""  # not worth failing for: the call was applied, and that is the answer
        if self.background.wait_for(workspace.number, _REPLAY_WAIT_S):
            diff = _diff_of(workspace, result)
        return msgspec.structs.replace(result, replayed=True, diff=diff)

    def _make_durable(self, outcomes: Sequence[_Outcome]) -> Exception | None:
        """Append the records of a batch and sync once; why not, if that failed."""
        records: list[Record] = []
        reserve = 0
        for outcome in outcomes:
            if outcome.prepared is not None:
                records.append(outcome.prepared.record)
                reserve += outcome.prepared.abort_reserve
        if not records:
            return None
        hit("journal.before_append")
        try:
            self.journal.append(*records, reserve=reserve)
            self.journal.sync()
        except JournalBroken as error:
            self.become_read_only(str(error))
            return _outcome_unknown()
        except OSError as error:
            return io_failure(error)
        self.state.number += len(records)
        self._dirty = True
        return None

    def _publish_all(self, workspace: Workspace, outcomes: list[_Outcome]) -> list[_EditJob]:
        for i, outcome in enumerate(outcomes):
            if outcome.prepared is None:
                assert outcome.answer is not None, "BUG: a job without a transaction or an answer"
                self._answer(outcome.job, outcome.answer)
                continue
            try:
                outcome.prepared.publish(workspace.worktree)
            except (Displaced, OSError) as cause:
                return self._abort(workspace, outcomes[i:], cause)
            self._published(workspace, outcome.prepared)
            self._answer(outcome.job, outcome.prepared.result)
        return []

    def _published(self, workspace: Workspace, prepared: Prepared) -> None:
        """Take the transaction over into the state; it is done."""
        record = prepared.record
        mark_published(self.journal, record.number)
        workspace.head = prepared.head
        if prepared.session is not None:
            self.state.sessions[workspace.name, prepared.session.name] = prepared.session
        if record.request is not None:
            answered = RequestRecord(
                workspace.name,
                record.session or "",
                record.request,
                record.digest,
                record.reply,
                record.time,
                record.number,
            )
            self.state.requests[answered.key] = answered
        self._note_unsynced(workspace, prepared)
        for work in prepared.files:
            self._grace.watch(workspace, work)
        if record.commits:
            self._to_git(workspace, record.number, prepared.objects)

    def _note_unsynced(self, workspace: Workspace, prepared: Prepared) -> None:
        unsynced = self.state.unsynced.setdefault(workspace.name, set())
        unsynced.update(work.target.path for work in prepared.files)

    def _to_git(self, workspace: Workspace, number: int, objects: list[Any]) -> None:
        assert workspace.head.commit is not None, "BUG: a commit without a head"
        workspace.number = self.git_number = number
        self.background.write(number, workspace.shadow, objects, workspace.head.commit)

    def _abort(
        self, workspace: Workspace, outcomes: list[_Outcome], cause: Exception
    ) -> list[_EditJob]:
        """Void a call that could not be published and the later ones; what is to be tried again."""
        voided = [o.prepared for o in outcomes if o.prepared is not None]
        jobs = [outcome.job for outcome in outcomes]
        # The names were changed and changed back: on disk they may be either.
        self._note_unsynced(workspace, voided[0])
        try:
            aborted = abort(
                voided,
                cause,
                base=workspace.head,
                number=self.state.number + 1,
                time=int(time.time()),
                journal=self.journal,
                worktree=workspace.worktree,
                load=workspace.repository.load_tree,
            )
        except (OSError, JournalBroken) as error:
            self.become_read_only(f"a call could be neither finished nor voided: {error}")
            for job in jobs:
                self._answer(job, _outcome_unknown())
            return []
        for work in voided[0].files:
            self._grace.watch(workspace, work)
        self.state.number = aborted.number
        if aborted.head.commit != workspace.head.commit:
            workspace.head = aborted.head
            self._to_git(workspace, aborted.number, aborted.objects)
        if isinstance(cause, Displaced):
            jobs[0].attempts += 1
            if jobs[0].attempts < _MAX_ATTEMPTS:
                return jobs
            failure: Exception = _contended(cause.path)
        else:
            assert isinstance(cause, OSError)
            failure = io_failure(cause)
        self._answer(jobs[0], failure)
        return jobs[1:]

    def become_read_only(self, reason: str) -> None:
        """Take no call that writes any more, nor a checkpoint; until the next start."""
        _log.error("going read-only: %s", reason)
        self.read_only = self.read_only or reason

    def _answer(self, job: _EditJob, answer: EditResult | Exception) -> None:
        followers: list[Future[EditResult]] = []
        if job.call.retryable and not job.call.preview:
            key = (job.call.workspace, job.call.session or "", job.call.request)
            with self._admission:
                entry = self._in_flight.pop(key, None)
            followers = entry.followers if entry else []
        hit("reply.before")
        for number, future in enumerate([job.future, *followers]):
            if isinstance(answer, Exception):
                future.set_exception(answer)
            elif number:
                future.set_result(msgspec.structs.replace(answer, replayed=True))
            else:
                future.set_result(answer)

    # -- changes that are not edits

    def record(self, *records: Record) -> None:
        """Make records durable; on the writer thread. Raises Refused."""
        if self.read_only is not None:
            raise refuse(Kind.READ_ONLY, f"the daemon is read-only: {self.read_only}")
        try:
            self.journal.append(*records)
            self.journal.sync()
        except JournalBroken as error:
            self.become_read_only(str(error))
            raise _outcome_unknown() from error
        except OSError as error:
            raise io_failure(error) from error
        self._dirty = True

    # -- checkpoints

    def _housekeeping(self) -> None:
        for late in self._grace.expired():
            self._record_late_write(late)
        if not self._dirty or self._checkpoint_running or self.read_only is not None:
            return
        idle = time.monotonic() - self._last_work >= self._limits.checkpoint_idle_s
        if idle or self.journal.bytes > self._limits.checkpoint_bytes:
            self.begin_checkpoint()

    def _record_late_write(self, late: LateWrite) -> None:
        """An in-place write reached a displaced file: two outside commits (limit b)."""
        workspace = late.workspace
        stands = _standing_image(workspace, late.path)
        image = Image(object_id("blob", late.data), late.mode)
        if image.same_as(stands):
            return
        found = seal_found(
            [
                ("written late to the replaced file", {late.path: image}),
                ("the file as it stands", {late.path: stands}),
            ],
            {image.oid: late.data},
            head=workspace.head,
            number=self.state.number + 1,
            time=int(time.time()),
            workspace=workspace.name,
            load=workspace.repository.load_tree,
        )
        try:
            self.record(found.record)
        except Refused as error:
            _log.error("a late write to %s could not be recorded: %s", late.path, error)
            return
        self.state.number += 1
        workspace.head = found.head
        self._to_git(workspace, self.state.number, found.objects)

    def end_grace(self) -> None:
        """Look at all displaced files now, before stopping."""
        for late in self._grace.expired(all_of_them=True):
            self._record_late_write(late)

    def begin_checkpoint(self, done: Callable[[], None] | None = None) -> None:
        """Start a checkpoint: watermark and snapshot now, the syncs in the background.

        ``done`` is called, on the writer thread, after a checkpoint that was begun later
        than this call; also if it failed, which is then in the log. A daemon that is
        read-only takes none: it would drop the records that the next start has to settle.
        """
        if self.read_only is not None:
            if done is not None:
                done()
            return
        if done is not None:
            self._waiting.append(done)
        if self._checkpoint_running:
            return
        self._checkpoint_running = True
        self._dirty = False
        waiting, self._waiting = self._waiting, []
        if self.journal.position.offset > self._limits.checkpoint_bytes // 4:
            self._start_segment()
        position = self.journal.position
        snapshot = self.state.checkpoint(position.segment, position.offset)
        requests = list(self.state.requests.values())
        unsynced, self.state.unsynced = self.state.unsynced, {}
        worktrees = {name: ws.worktree for name, ws in self.state.open.items()}

        def sync_more() -> None:
            for name, paths in unsynced.items():
                if name in worktrees:
                    worktrees[name].sync(paths)
            self._requests_to_write.add(
                requests,
                keep_calls=self._limits.request_record_calls,
                forget_before=int(time.time() - self._limits.request_record_s),
            )

        def finish() -> None:
            self.submit(lambda: self._finish_checkpoint(snapshot, requests, waiting))

        def fail(error: OSError) -> None:
            self.submit(lambda: self._fail_checkpoint(error, waiting))

        self.background.checkpoint(sync_more, finish, fail)

    def _fail_checkpoint(self, error: OSError, waiting: list[Callable[[], None]]) -> None:
        """A sync failed: only the journal is to be trusted, so nothing may be dropped from it."""
        self._checkpoint_running = False
        self.become_read_only(f"a sync failed: {error.strerror}")
        for done in [*waiting, *self._waiting]:
            done()
        self._waiting.clear()

    def _finish_checkpoint(
        self,
        snapshot: Checkpoint,
        requests: list[RequestRecord],
        waiting: list[Callable[[], None]],
    ) -> None:
        """Everything up to the watermark is durable: say so, then drop what is older."""
        self._checkpoint_running = False
        hit("checkpoint.before_record")
        try:
            self.journal.append(snapshot)
            self.journal.sync_always()
        except JournalBroken as error:
            self.become_read_only(str(error))
        except OSError as error:
            _log.warning("checkpoint not written: %s", error)
            self._dirty = True
            self._last_work = time.monotonic()  # try again, but not at once
        else:
            hit("checkpoint.recorded")
            self._forget_what_is_kept(snapshot, requests)
        for done in waiting:
            done()
        if self._waiting:
            self.begin_checkpoint()

    def _forget_what_is_kept(self, snapshot: Checkpoint, requests: list[RequestRecord]) -> None:
        """Drop from memory and from the journal what the checkpoint has made durable."""
        for request in requests:
            if self.state.requests.get(request.key) is request:
                del self.state.requests[request.key]
        try:
            self.journal.drop_before(snapshot.segment)
        except OSError as error:
            _log.warning("old journal segments remain: %s", error)

    def _start_segment(self) -> None:
        """Begin a segment, so that all before the watermark can be dropped."""
        try:
            self.journal.start_segment()
        except OSError as error:
            _log.warning("the journal could not start a new segment: %s", error)


def _uncancellable() -> Future[Any]:
    """A future that a client who goes away can't cancel: the call goes on without it."""
    future: Future[Any] = Future()
    future.set_running_or_notify_cancel()
    return future


def _take_batch(items: list[Any]) -> list[_EditJob]:
    """The calls at the front that can share a batch: one workspace, no reading of history."""
    batch: list[_EditJob] = []
    while items and isinstance(items[0], _EditJob):
        call = items[0].call
        if batch and (call.needs_history or call.workspace != batch[0].call.workspace):
            break
        batch.append(items.pop(0))
        if call.needs_history:
            break
    return batch


def _standing_image(workspace: Workspace, path: str) -> Image | None:
    """What the history has at a path, with the permission bits that only the disk knows."""
    known = find_entry(workspace.head.tree, path, workspace.repository.load_tree)
    if known is None:
        return None
    image = Image(known[1], known[0])
    try:
        target = workspace.worktree.resolver.resolve(path, follow_last=False)
    except Refused:
        return image
    try:
        found = None if target.missing else workspace.worktree.look(target.dir_fd, target.name)
    except (OSError, Refused):
        return image
    finally:
        target.close()
    return found.image if found and image.same_as(found.image) else image


def _diff_of(workspace: Workspace, result: EditResult) -> str:
    """The diff of a recorded result, made again from the history."""
    if result.commit is None:
        return ""
    try:
        before, after = _trees_around(workspace, result.commit)
        return "".join(_diff_of_file(workspace, before, after, file) for file in result.files)
    except MissingObject:
        return ""


def _trees_around(workspace: Workspace, commit: str) -> tuple[Tree, Tree]:
    repository = workspace.repository
    stored = repository.commit(commit)
    before = Tree({}, EMPTY_TREE)
    if stored.parent is not None:
        before = stored_tree(repository.commit(stored.parent).tree, repository.load_tree)
    return before, stored_tree(stored.tree, repository.load_tree)


def _diff_of_file(workspace: Workspace, before: Tree, after: Tree, file: FileChange) -> str:
    repository = workspace.repository
    old = find_entry(before, file.old_path or file.path, repository.load_tree)
    new = find_entry(after, file.path, repository.load_tree)
    return line_diff(
        file.path,
        repository.blob(old[1]) if old else None,
        repository.blob(new[1]) if new else None,
        old_path=file.old_path,
        modes=(old[0] if old else None, new[0] if new else None),
    ).text


def io_failure(error: OSError) -> Refused:
    """An I/O error as a refusal: nothing has been changed."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    kind = Kind.STORAGE_FULL if full else Kind.IO_ERROR
    where = f"{os.fsdecode(error.filename)}: " if error.filename else ""
    what = error.strerror or repr(error)
    advice = "Free some space and send the call again." if full else "Nothing was changed."
    return Refused(Failure(kind.value, f"{where}{what}. {advice}"))


def _outcome_unknown() -> Refused:
    return refuse(
        Kind.OUTCOME_UNKNOWN,
        "the disk failed at a moment when it is not known whether the call will stand; that is "
        "settled when stetd starts again. Ask again then with the same request_id.",
    )


def _contended(path: str) -> Refused:
    return refuse(
        Kind.CONTENDED,
        f"{path}: the file kept changing while the call was tried ({_MAX_ATTEMPTS} times); nothing "
        "of the call was applied. Read the file again and retry when it has settled.",
        path=path,
    )


def _other_call(request: str) -> Refused:
    return refuse(
        Kind.INVALID_PARAMS,
        f"request_id {request!r} was used for another call before; "
        "make a new id for every new call.",
    )
