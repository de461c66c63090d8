"""The writer: runs every state-changing call on the event loop, one at a time. Its order is the
order of the history.

The queue decides which call is next (:mod:`stetd.engine.fair_queue`): calls of one connection in
their order, connections in turns. Calls that are taken together are a batch: they are planned one
after the other, share one sync of the journal (group commit), and are then published and answered
in order (ARCHITECTURE.md 4). Other changes (sessions, modes, clipboards, workspaces) run between
batches.

Each turn takes the calls that the turn of the loop before it has read, so calls that arrive
together share a batch without waiting for each other.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from asyncio import Future
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import msgspec

from stet.wire.failures import Kind, Refused, refuse
from stet.wire.results import EditResult, FileChange
from stetd.engine.checkpointing import Checkpointer
from stetd.engine.fair_queue import FairQueue, Lane, Waiting
from stetd.engine.late_writes import GraceWatch, seal_late_write
from stetd.engine.long_planning import Planners
from stetd.engine.preparing import EditJob, Outcome, Preparer
from stetd.failpoints import failpoint, reached
from stetd.history.objects import NewObject
from stetd.planning.proposals import Proposal
from stetd.planning.world import EditCall
from stetd.processes.historian_client import Historian
from stetd.processes.historian_messages import WorkspaceView
from stetd.processes.remembered import Key
from stetd.refusals import (
    contended,
    io_failure,
    no_longer_allowed,
    other_call,
    outcome_unknown,
    read_only,
    shutting_down,
)
from stetd.state.events import Events
from stetd.state.mode_records import Modes
from stetd.state.session_records import Sessions
from stetd.state.state import SessionRecord, State
from stetd.state.workspace import Workspace
from stetd.storage.journal import Journal, JournalBroken
from stetd.storage.journal_format import CommitRecord, Record
from stetd.storage.request_record import answered
from stetd.transaction.transaction import Displaced, Prepared, abort, mark_published

_log = logging.getLogger(__name__)

T = TypeVar("T")
_MAX_BATCH = 64
_MAX_ATTEMPTS = 8
#: Seconds of work in one turn, by estimate. Calls of a turn share one sync of the journal; a call
#: that arrives meanwhile waits for all of them.
TURN_S = 0.012
#: On a slow disk a turn lasts as long as this many syncs, so that syncs do not take most of the
#: time; but at most LONGEST_TURN_S.
_SYNCS_A_TURN = 2
LONGEST_TURN_S = 0.1
#: On a slow disk a turn waits for more calls to share its sync: if a sync takes longer than
#: _LONG_SYNC_S, it waits for the share _GATHER_SHARE of that time, at most _MAX_GATHER_S.
_LONG_SYNC_S, _GATHER_SHARE, _MAX_GATHER_S = 0.002, 0.1, 0.005
#: Seconds for which a planner's turn goes on after it has answered: the call's own turn comes soon,
#: and if the plan is outdated by then, it is planned again.
_PLAN_KEPT_S = 5.0
#: Seconds between a turn and the housekeeping, which is done once for many turns.
_HOUSEKEEPING_S = 0.005
#: Seconds between checks of the calls that planners still have, while the daemon stops.
_STOP_POLL_S = 0.05


_Outcomes = Sequence[tuple[EditJob, Outcome]]


class _Task(Waiting, eq=False, kw_only=True):
    run: Callable[[], Any]
    future: Future[Any]


_ABANDONED = refuse(
    Kind.OVERLOADED,
    "The connection was lost before this call was begun, while many such calls waited; it was not "
    "started and changed nothing. Send it again.",
)


class Writer:
    """Owns the state; every change of it goes through the queue."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        state: State,
        journal: Journal,
        historian: Historian,
        planners: Planners | None = None,
    ) -> None:
        self._loop = loop
        self.state = state
        self.journal = journal
        self.historian = historian
        self.events = Events()
        self.modes = Modes(state, self.events, self.change)
        self.sessions = Sessions(state, self.modes)
        #: Processes that plan long calls; None: the writer plans every call itself.
        self._planners = planners
        self._queue = FairQueue()
        #: The daemon's own tasks: they are short, and wait for no client.
        self._own_lane = Lane(estimate=0.0, new=False)
        #: Calls that may be sent again, by their key, until they are answered.
        self._in_flight: dict[Key, EditJob] = {}
        self._grace = GraceWatch(state)
        self._last_work = time.monotonic()
        self._stop_deadline = math.inf
        self._asking_tasks: set[asyncio.Task[None]] = set()
        self._next_turn: asyncio.Handle | None = None
        self._housekeeping_timer: asyncio.TimerHandle | None = None
        #: Whether the last batch had more than one call.
        self._batch_was_shared = False
        self.checkpoints = Checkpointer(
            state, journal, historian, self.become_read_only, self.sessions.drop_idle, self._wake
        )
        self.preparer = Preparer(state, self.sessions, journal, historian)

    def submit_edit(self, call: EditCall, lane: Lane) -> Future[EditResult]:
        """Queue a client's editing call. A retry of a call in flight gets that call's outcome."""
        future: Future[EditResult] = self._loop.create_future()
        job = EditJob(call=call, future=future, lane=lane, planned=self._planners is None)
        first = self._in_flight.setdefault(call.key, job) if call.once else job
        if first is job:
            self._queue.put(job)
            self._wake()
        elif first.call.digest == call.digest:
            first.followers.append(future)
        else:
            future.set_exception(other_call(call.request))
        return future

    def submit(
        self,
        run: Callable[[], T],
        lane: Lane | None = None,
        *,
        after_all: bool = False,
        within: float = math.inf,
    ) -> Future[T]:
        """Run a function between batches, after the calls that are queued on its lane.

        ``after_all``: after every call that is queued on any lane, or at the latest after
        ``within`` seconds.
        """
        future: Future[T] = self._loop.create_future()
        lane = lane or self._own_lane
        task = _Task(run=run, future=future, lane=lane, after_all=after_all)
        self._queue.put(task, within=within)
        self._wake()
        return future

    def quiet_s(self) -> float:
        """Seconds since the last writing call was carried out; 0 while calls wait."""
        return time.monotonic() - self._last_work if self._queue.empty else 0.0

    def abandon(self, lane: Lane) -> None:
        """A client is gone. Its calls stay queued, unless too many calls of such clients are."""
        self._give_up(self._queue.abandon(lane), _ABANDONED)

    def finish_within(self, seconds: float) -> None:
        """Refuse the calls that are still queued after this time: the daemon is stopping."""
        self._stop_deadline = min(self._stop_deadline, time.monotonic() + seconds)
        self._wake()

    @contextmanager
    def pause(self) -> Iterator[None]:
        """A context in which queued calls wait. Not within a turn."""
        self._take_no_turn()
        try:
            yield
        finally:
            self._next_turn = None
            self._wake(at_once=True)

    async def drain(self) -> None:
        """Wait until all that is queued now is done."""
        await self.submit(lambda: None, after_all=True)

    async def stop(self) -> None:
        """Take no more turns. Queued calls are not carried out: drain the queue before."""
        self._take_no_turn()
        if self._housekeeping_timer is not None:
            self._housekeeping_timer.cancel()
        for task in self._asking_tasks:
            task.cancel()
        await asyncio.gather(*self._asking_tasks, return_exceptions=True)

    def _take_no_turn(self) -> None:
        # While there is a next turn, though it is cancelled, no other is scheduled.
        self._wake()
        assert self._next_turn is not None, "BUG: no turn was scheduled"
        self._next_turn.cancel()

    def _wake(self, *, at_once: bool = False) -> None:
        """Schedule a turn; the loop reads from all sockets that are readable before it."""
        if self._next_turn is None:
            gather = 0.0
            # Clients that were answered together send their next calls almost together, and these
            # should share a sync again.
            if self._batch_was_shared and not at_once and self.journal.sync_s > _LONG_SYNC_S:
                gather = min(self.journal.sync_s * _GATHER_SHARE, _MAX_GATHER_S)
            self._next_turn = (
                self._loop.call_later(gather, self._turn)
                if gather
                else self._loop.call_soon(self._turn)
            )

    # -- turns

    def _turn(self) -> None:
        """Carry out queued calls and tasks for some milliseconds, then yield to the loop."""
        taken: list[Any] = []
        try:
            self._queue.take(_MAX_BATCH, self._turn_s(), taken)
            self._carry_out(list(taken))
        except Exception as error:  # noqa: BLE001 - a defect must not end the writer
            self._failed("a turn of the writer", error)
            self._give_up([*taken, *self._queue.drop_all()], outcome_unknown())
        finally:
            self._next_turn = None
            self._turn_again_if_due()
            self._housekeep_in(_HOUSEKEEPING_S)

    def _carry_out(self, items: list[Any]) -> None:
        """Carry out items in order; put back those for which the turn is too short."""
        deadline = time.monotonic() + self._turn_s()
        begun = False
        while items:
            if begun and time.monotonic() > deadline:
                self._queue.put_back(items)
                break
            begun = True
            if isinstance(items[0], _Task):
                self._run_task(items.pop(0))
                continue
            batch = _take_batch(items)
            self._batch_was_shared = len(batch) > 1
            self._run_batch(batch)
            late = [job for job in batch if not job.answered]
            for job in batch:
                if job.answered:
                    self._queue.charge(job, job.seconds)
            if late:  # a call took long: calls that arrived meanwhile may go first
                self._queue.put_back([*late, *items])
                items = []
                for job in late:
                    if job.needs_asking:
                        self._start_asking(job)
            self._last_work = time.monotonic()

    def _turn_again_if_due(self) -> None:
        """Schedule another turn if an item can be drawn; replies are sent before it."""
        if self._queue.due_in() == 0:
            self._wake(at_once=True)

    def _housekeep_in(self, seconds: float) -> None:
        """Do the housekeeping after so many seconds, if it is not due before."""
        timer, due = self._housekeeping_timer, self._loop.time() + seconds
        if timer is None or timer.when() > due:
            if timer is not None:
                timer.cancel()
            self._housekeeping_timer = self._loop.call_at(due, self._housekeep)

    def _housekeep(self) -> None:
        """Do the work that no client waits for, and schedule the next."""
        self._housekeeping_timer = None
        try:
            self.historian.follow()
            held = self._queue.held()
            if held and time.monotonic() > self._stop_deadline:
                for lane in held:
                    self._queue.release(lane)  # calls that are drawn from now on are refused
            self.record_late_writes()
            if self.checkpoints.due_in(self._last_work) == 0:
                self.checkpoints.begin()
            self.modes.end_grants()
        except Exception as error:  # noqa: BLE001 - a defect must not end the writer
            self._failed("housekeeping", error)
        self._turn_again_if_due()
        stopping = self._stop_deadline < math.inf and self._queue.held()
        for pause in (
            _STOP_POLL_S if stopping else None,
            self._grace.next_due(),
            self.checkpoints.due_in(self._last_work),
            self.modes.due_in(),
            self._queue.due_in() or None,
        ):
            if pause is not None:  # None: there is nothing to do if no call comes
                self._housekeep_in(max(0.0, pause))

    def _turn_s(self) -> float:
        return max(TURN_S, min(_SYNCS_A_TURN * self.journal.sync_s, LONGEST_TURN_S))

    def _run_task(self, task: _Task) -> None:
        began = time.perf_counter()
        try:
            result = task.run()
        except BaseException as error:  # noqa: BLE001 - the future's owner gets it
            _settle(task.future, error)
        else:
            _settle(task.future, result)
        if task.lane is not self._own_lane:  # the daemon's own tasks are not charged
            self._queue.charge(task, time.perf_counter() - began)

    # -- batches

    def _run_batch(self, batch: list[EditJob]) -> None:
        workspace = self.state.open.get(batch[0].call.workspace)
        if workspace is None or time.monotonic() > self._stop_deadline:
            refusal = no_longer_allowed() if workspace is None else shutting_down()
            self._give_up(batch, refusal)
            return
        pending = batch
        while pending:
            try:
                pending = self._try_batch(workspace, pending)
            except Exception as error:  # noqa: BLE001 - a defect must not end the writer
                self._failed("a batch of calls", error)
                self._give_up(pending, outcome_unknown())
                return

    def _try_batch(self, workspace: Workspace, jobs: list[EditJob]) -> list[EditJob]:
        """Plan, journal and publish jobs; returns those that must be planned again."""
        try:
            workspace.check_present()
        except Refused as refusal:
            self._give_up(jobs, refusal)
            return []
        outcomes = self.preparer.prepare(workspace, jobs, self._turn_s())
        try:
            return self._publish_all(workspace, self._make_durable(outcomes))
        finally:
            for each in _prepared(outcomes):
                each.close()

    # -- calls that need a planner or the historian

    def _start_asking(self, job: EditJob) -> None:
        """Ask a planner or the historian about a job, the first in its lane. The lane is held."""
        job.needs_asking, job.response = False, None
        if job.asking is not None:
            job.asking.cancel()
        self._queue.hold(job.lane)
        job.asking = self._loop.create_task(self._ask(job))
        self._asking_tasks.add(job.asking)
        job.asking.add_done_callback(self._asking_tasks.discard)

    async def _ask(self, job: EditJob) -> None:
        call, limits = job.call, self.preparer.limits
        try:
            workspace = self.state.open[call.workspace]
            if job.old_request is not None:
                await self.preparer.recall(job)
            elif call.needs_history:
                view = self.view(workspace, call.directory)
                job.asked_at = view.number
                job.response = await self.historian.ask("take back", call, Proposal, view)
            elif self._planners is not None:
                job.planned = True
                async with self._planners.turn(
                    lambda: not job.lane.abandoned or bool(job.followers)
                ):
                    job.response = await self._planners.plan(call, workspace, job.session, limits)
                    await reached("beside.planned")
                    self._resume(job)
                    await asyncio.sleep(_PLAN_KEPT_S)  # `_answer` cancels it
                return
        except Exception as error:  # noqa: BLE001 - the call is answered with it
            job.response = error
        self._resume(job)

    def _resume(self, job: EditJob) -> None:
        if not job.answered:
            self._queue.release(job.lane)
            self._wake()

    def view(self, workspace: Workspace, directory: str = "") -> WorkspaceView:
        """The workspace as the historian needs to know it for a question."""
        return WorkspaceView(
            root=workspace.root,
            shadow=workspace.shadow,
            head=workspace.head.commit,
            number=workspace.number,
            directory=directory,
            cut=self.state.known[workspace.name].cut,
            inner=[path for path, _ in self.state.inside(workspace)],
        )

    def refuse_held(self) -> None:
        """Refuse the calls on held lanes that the present mode forbids.

        They have changed nothing; the calls behind them in their lanes go on.
        """
        for job in self._queue.held_items():
            workspace = self.state.open.get(job.call.workspace)
            if workspace is None:
                continue
            session = self.state.sessions.get((workspace.name, job.call.session or ""))
            try:
                self.preparer.check_mode(workspace, job.call, session)
            except Refused as refusal:
                self._queue.withdraw(job.lane)
                self._answer(job, refusal)

    def _make_durable(self, outcomes: _Outcomes) -> _Outcomes:
        """Append the records of a batch and sync once. If that fails, its calls are refused."""
        if prepared := _prepared(outcomes):
            failpoint("journal.before_append")
            reserve = sum(each.abort_reserve for each in prepared)
            try:
                self.record(*(each.record for each in prepared), reserve=reserve)
            except Refused as refusal:
                failed = refusal.copy()
                return [(j, failed if isinstance(o, Prepared) else o) for j, o in outcomes]
            self.state.number += len(prepared)
        return outcomes

    def _publish_all(self, workspace: Workspace, outcomes: _Outcomes) -> list[EditJob]:
        for i, (job, outcome) in enumerate(outcomes):
            if not isinstance(outcome, Prepared):
                self._answer(job, outcome)
                continue
            began = time.perf_counter()
            try:
                outcome.publish(workspace.worktree)
            except (Displaced, OSError) as cause:
                return self._abort(workspace, outcomes[i:], cause)
            self._published(workspace, outcome)
            job.seconds += time.perf_counter() - began
            self._answer(job, outcome.result)
        return []

    def _published(self, workspace: Workspace, prepared: Prepared) -> None:
        """Update the state: the transaction is carried out."""
        record = prepared.record
        # Not if a directory can't be removed yet: after a kill, recovery tries again only for
        # unmarked records.
        leftovers = workspace.worktree.leftovers
        if not any(f"{path}/" in leftovers for path in record.leftover_directories):
            mark_published(self.journal, record.number)
        workspace.head = prepared.head
        if prepared.session is not None:
            self.state.sessions[workspace.name, prepared.session.name] = prepared.session
        if record.request is not None:
            request = answered(record)
            self.state.requests[request.key] = request
            self.historian.remembered.add(request)
        self._note_unsynced(workspace, prepared)
        for work in prepared.files:
            self._grace.watch(workspace, work)
        if record.commits:
            # An observed edit has no counted lines: they are counted if a subscriber wants them.
            counted = prepared.result.commit is not None and bool(prepared.files)
            own = prepared.result.files if counted else None
            self.committed(workspace, record.number, prepared.objects, own, record.commits)

    def _note_unsynced(self, workspace: Workspace, prepared: Prepared) -> None:
        paths = [change.path for change in prepared.record.paths]
        self.state.unsynced.setdefault(workspace.name, set()).update(paths)
        if workspace.touched is not None:
            workspace.touched.update(paths)

    def committed(
        self,
        workspace: Workspace,
        number: int,
        objects: list[NewObject],
        files: Sequence[FileChange] | None = None,
        commits: Sequence[CommitRecord] | None = None,
    ) -> None:
        """Note what record ``number`` has added to the history, and tell subscribers.

        ``files``: those of the last commit, if they are known. ``commits``: all that were made;
        None: not known, so every proposal that is under way is outdated.
        """
        assert workspace.head.commit is not None, "BUG: a commit without a head"
        workspace.number = number
        workspace.note_commits(number, commits)
        self.events.committed(workspace, number, objects, files)

    def _abort(
        self, workspace: Workspace, outcomes: _Outcomes, cause: Displaced | OSError
    ) -> list[EditJob]:
        """Void a call that could not be published and the later ones of its batch; returns the
        jobs to try again.
        """
        voided, jobs = _prepared(outcomes), [job for job, _ in outcomes]
        history = workspace.history(int(time.time()))
        # Names were exchanged and exchanged back: without a sync the disk may hold either.
        self._note_unsynced(workspace, voided[0])
        try:
            record, number = abort(
                voided,
                cause,
                history=history,
                number=self.state.number + 1,
                journal=self.journal,
                worktree=workspace.worktree,
            )
        except (OSError, JournalBroken) as error:
            self.become_read_only(f"a call could be neither finished nor voided: {error}")
            self._give_up(jobs, outcome_unknown())
            return []
        for work in voided[0].files:
            self._grace.watch(workspace, work)
        self.state.number = number
        if history.head.commit != workspace.head.commit:
            workspace.head = history.head
            self.committed(workspace, number, history.new_objects(record.blobs))
        if isinstance(cause, Displaced):
            jobs[0].attempts += 1
            if jobs[0].attempts < _MAX_ATTEMPTS:
                return jobs
            failure = contended(cause.path, _MAX_ATTEMPTS)
        else:
            failure = io_failure(cause)
        self._answer(jobs[0], failure)
        return jobs[1:]

    def become_read_only(self, reason: str) -> None:
        """Take no writing call and no checkpoint any more, until the daemon starts again."""
        _log.error("going read-only: %s", reason)
        self.state.read_only = self.state.read_only or reason

    def _failed(self, what: str, error: Exception) -> None:
        """Handle a defect: records that were made durable are settled at the next start."""
        _log.exception("%s failed", what)
        self.become_read_only(f"internal error: {type(error).__name__}, see the log")

    def _give_up(self, items: Iterable[EditJob | _Task], refusal: Refused) -> None:
        """Refuse those that are not answered yet."""
        for item in items:
            if isinstance(item, EditJob):
                if not item.answered:
                    self._answer(item, refusal)
            elif not item.future.done():
                _settle(item.future, refusal)

    def _answer(self, job: EditJob, answer: EditResult | Exception) -> None:
        if job.call.once:
            self._in_flight.pop(job.call.key, None)
        failpoint("reply.before")
        job.answered = True
        if job.asking is not None:
            job.asking.cancel()
            # The task refers to the job, and so do the tracebacks of what it was answered with:
            # only the collector would free them, and with them the texts of a large call.
            job.asking = job.response = None
            self._queue.release(job.lane)
        _settle(job.future, answer)
        if job.followers and isinstance(answer, EditResult):
            answer = msgspec.structs.replace(answer, replayed=True)
        for future in job.followers:
            _settle(future, answer)

    # -- changes that are not edits

    def record(self, *records: Record, reserve: int = 0) -> None:
        """Make records durable; ``reserve``: room that they may need later. Raises Refused."""
        if self.state.read_only is not None:
            raise read_only(self.state.read_only)
        try:
            self.journal.append(*records, reserve=reserve)
            self.journal.sync()
        except JournalBroken as error:
            self.become_read_only(str(error))
            raise outcome_unknown() from error
        except OSError as error:
            raise io_failure(error) from error
        self.checkpoints.needed = True
        self._housekeep_in(_HOUSEKEEPING_S)

    def change(self, record: SessionRecord) -> None:
        """Make a record durable, then in force. Raises Refused."""
        self.record(record)
        self.state.apply(record)

    # -- late writes

    def record_late_writes(self, *, all_of_them: bool = False) -> None:
        """Record what was written to displaced files whose grace period is over, or to all."""
        for late in self._grace.expired(all_of_them=all_of_them):
            history = late.workspace.history(int(time.time()))
            record = seal_late_write(late, history, self.state.number + 1)
            if record is None:
                continue
            try:
                self.record(record)
            except Refused as error:
                _log.error("a late write to %s could not be recorded: %s", late.path, error)
                continue
            self.state.number += 1
            late.workspace.head = history.head
            self.committed(late.workspace, record.number, history.new_objects(record.blobs))


def _settle(future: Future[T], answer: T | BaseException) -> None:
    """Give a future its result or its error, unless its client has stopped waiting."""
    if future.cancelled():
        return
    if isinstance(answer, BaseException):  # a copy of a refusal: each raise adds to its traceback
        future.set_exception(answer.copy() if isinstance(answer, Refused) else answer)
    else:
        future.set_result(answer)


def _prepared(outcomes: _Outcomes) -> list[Prepared]:
    return [outcome for _, outcome in outcomes if isinstance(outcome, Prepared)]


def _take_batch(items: list[Any]) -> list[EditJob]:
    """Take the calls that can share a batch with the first: of its workspace, and not ``alone``.

    Other items (tasks, calls in other workspaces) are passed over, but no call passes an item
    of its own connection.
    """
    first = items[0].call
    if first.alone:
        return [items.pop(0)]
    batch, rest = [items[0]], []
    passed: set[Lane] = set()  # lanes with an item that was passed over
    for item in items[1:]:
        fits = isinstance(item, EditJob) and item.call.workspace == first.workspace
        if fits and not item.call.alone and item.lane not in passed:
            batch.append(item)
        else:
            passed.add(item.lane)
            rest.append(item)
    items[:] = rest
    return batch
