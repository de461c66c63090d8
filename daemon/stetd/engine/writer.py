"""What changes anything, on the event loop: the order in which it takes calls is the history's.

Which call is next, of those that wait, the queue decides (:mod:`stetd.engine.fair_queue`):
those of a connection in their order, connections in turns. Calls that are taken together are
planned one after the other, share one journal sync (group commit), and are then published and
answered in order (PROTOCOL.md 2-6). Other changes (sessions, modes, clipboards, workspaces) run
between batches.

All that one turn of the loop has read is taken in the next turn, so calls that come together share
a batch without waiting for each other.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from asyncio import Future
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from stet.wire.failures import Kind, Refused, refuse
from stet.wire.results import EditResult, FileChange
from stetd.config.settings import Settings
from stetd.engine.checkpointing import Checkpoints
from stetd.engine.fair_queue import FairQueue, Lane, Waiting
from stetd.engine.late_writes import GraceWatch, LateWrite, seal_late_write
from stetd.engine.long_planning import Planners
from stetd.engine.preparing import EditJob, Outcome, Preparer, light
from stetd.failpoints import failpoint, reached
from stetd.history.objects import NewObject
from stetd.planning.proposals import Proposal, Proposing
from stetd.planning.world import EditCall
from stetd.processes.historian_client import Historian
from stetd.processes.historian_messages import Place
from stetd.processes.recorded_plans import refused_anew
from stetd.state.events import Events
from stetd.state.mode_records import Modes
from stetd.state.session_records import Sessions
from stetd.state.state import State
from stetd.state.workspace import Workspace
from stetd.storage.journal import Journal, JournalBroken
from stetd.storage.journal_format import CommitRecord, Record
from stetd.storage.request_record import answered
from stetd.transaction.refusals import (
    contended,
    io_failure,
    no_longer_allowed,
    other_call,
    outcome_unknown,
    read_only,
)
from stetd.transaction.transaction import Displaced, Prepared, abort, mark_published

_log = logging.getLogger(__name__)

T = TypeVar("T")
_MAX_BATCH = 64
_MAX_ATTEMPTS = 8
#: Seconds of work in one turn, as far as it can be foreseen: its calls share one sync of the
#: journal, and one that comes meanwhile waits for them.
TURN_S = 0.012
#: Where a sync takes long, a turn is so many times as long, or most of the time would go into
#: syncs; but it is no longer than LONGEST_TURN_S.
_SYNCS_A_TURN = 2
LONGEST_TURN_S = 0.1
#: Where a sync takes longer than this, calls are waited for that may share it: so long a part of
#: it, and no longer than that.
_LONG_SYNC_S, _GATHERED, _MOST_GATHERED_S = 0.002, 0.1, 0.005
#: Seconds that a plan from elsewhere may wait to be used before the next call is planned.
_USED_S = 5.0
#: Seconds after a turn in which what nobody waits for is left: it is done once for many turns.
_HOUSEKEEPING_S = 0.005
#: Seconds between two looks at calls that are planned elsewhere, before a stop.
_LOOK_S = 0.05


@dataclass(slots=True)
class _Task:
    run: Callable[[], Any]
    future: Future[Any]


@dataclass(slots=True)
class _InFlight:
    digest: bytes
    future: Future[EditResult]
    followers: list[Future[EditResult]] = field(default_factory=list)


_ABANDONED = refuse(
    Kind.OVERLOADED,
    "The connection was lost before this call was begun, while many such calls waited; it was not "
    "started and changed nothing. Send it again.",
)
_STOPPING = refuse(
    Kind.SHUTTING_DOWN,
    "The daemon is stopping; this call was not started and changed nothing. Connect again in a "
    "moment and send it again.",
)


class Writer:
    """Owns the state; everything that changes it goes through the queue."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        state: State,
        journal: Journal,
        historian: Historian,
        settings: Settings,
        planners: Planners | None = None,
    ) -> None:
        self._loop = loop
        self.state = state
        self.journal = journal
        self.historian = historian
        #: What subscribers get.
        self.events = Events()
        #: Who may write, and who asks to.
        self.modes = Modes(state, self.events, self.record)
        #: Who works here.
        self.sessions = Sessions(state, self.modes, self.record, settings.default_mode)
        #: Where calls are planned that take long; None: here.
        self._planners = planners
        self._queue = FairQueue()
        #: Where the daemon's own work waits, which is little and not to wait for anybody.
        self._own_lane = Lane(estimate=0.0, new=False)
        self._in_flight: dict[tuple[str, str, str], _InFlight] = {}
        self._grace = GraceWatch(settings.grace_s)
        self._last_work = time.monotonic()
        self._ends = math.inf
        self._asking: set[asyncio.Task[None]] = set()
        #: The next turn, if ``_awake``: what waits is then taken.
        self._next: asyncio.Handle | None = None
        self._awake = False
        #: When housekeeping is next.
        self._keeping: asyncio.TimerHandle | None = None
        #: Whether the last batch was more than one call.
        self._shared = False
        self.checkpoints = Checkpoints(
            state,
            journal,
            historian,
            loop,
            settings,
            self.become_read_only,
        )
        self.preparer = Preparer(
            state, self.sessions, journal, historian, settings, elsewhere=planners is not None
        )
        self.checkpoints.on_begin = self.sessions.let_go
        self.checkpoints.on_end = self._wake

    def submit_edit(self, call: EditCall, lane: Lane) -> Future[EditResult]:
        """Queue a client's editing call. A retry of one in flight gets that one's outcome."""
        future: Future[EditResult] = self._loop.create_future()
        if call.once:
            first = self._in_flight.get(call.key)
            if first is not None:
                if first.digest != call.digest:
                    future.set_exception(other_call(call.request))
                else:
                    first.followers.append(future)
                return future
            self._in_flight[call.key] = _InFlight(call.digest, future)
        self._queue.put(EditJob(call, future, lane), lane)
        self._wake()
        return future

    def submit(
        self,
        run: Callable[[], T],
        lane: Lane | None = None,
        *,
        after_all: bool = False,
        within: float = math.inf,
    ) -> Future[T]:
        """Run something between batches: for a client, after what it has asked for before.

        ``after_all``: after every call that is queued already, whoever's it is; ``within``: or
        after so many seconds.
        """
        future: Future[T] = self._loop.create_future()
        lane = lane or self._own_lane
        self._queue.put(_Task(run, future), lane, after_all=after_all, within=within)
        self._wake()
        return future

    def is_next(self, lane: Lane) -> bool:
        """Whether nothing that this client has asked for waits, so that it may go on at once."""
        return not (lane.waiting or lane.held)

    def quiet_s(self) -> float:
        """Seconds since the last writing call was carried out; 0 while some wait."""
        return time.monotonic() - self._last_work if self._queue.empty else 0.0

    def abandon(self, lane: Lane) -> None:
        """A client is gone: what it has asked for goes on, unless that is too much by now."""
        for item in self._queue.abandon(lane):
            self._refuse(item, _ABANDONED)

    def finish_within(self, seconds: float) -> None:
        """From now on take only so long for the calls that wait, and refuse the others."""
        self._ends = min(self._ends, time.monotonic() + seconds)
        self._wake()

    async def drain(self) -> None:
        """Wait until all that waits by now is done."""
        await self.submit(lambda: None, after_all=True)

    async def stop(self) -> None:
        """Take no more turns. What is queued stays undone: drain before."""
        self._grace.close()
        for handle in (self._next, self._keeping):
            if handle is not None:
                handle.cancel()
        self._awake = True
        for task in self._asking:
            task.cancel()
        await asyncio.gather(*self._asking, return_exceptions=True)

    def _wake(self) -> None:
        """Have a turn, after all that is readable now was read."""
        if not self._awake:
            self._awake = True
            gather = self._gather_s()
            self._next = (
                self._loop.call_later(gather, self._turn)
                if gather
                else self._loop.call_soon(self._turn)
            )

    def _gather_s(self) -> float:
        """Seconds to wait for more calls: those of clients that were answered together come almost
        together again, and should share the next sync, too.
        """
        long = self._shared and self.journal.sync_s > _LONG_SYNC_S
        return min(self.journal.sync_s * _GATHERED, _MOST_GATHERED_S) if long else 0.0

    # -- turns

    def _turn(self) -> None:
        """Do what waits, for some milliseconds; then others of the loop have their turn."""
        taken: list[Waiting] = []
        try:
            taken = self._queue.take(_MAX_BATCH, self._turn_s())
            self._carry_out(list(taken))
        except Exception as error:  # noqa: BLE001 - a defect must not end the writer
            self._failed("a turn of the writer", error)
            for waiting in taken:
                self._refuse(waiting.item, outcome_unknown())
        finally:
            self._awake = False
            self._go_on_if_due()
            self._keep_house_soon()

    def _carry_out(self, items: list[Waiting]) -> None:
        """Do these in their order, and put back those for which the turn is too short."""
        deadline = time.monotonic() + self._turn_s()
        begun = False
        while items:
            if begun and time.monotonic() > deadline:
                self._queue.put_back(items)
                break
            begun = True
            first = items[0].item
            if isinstance(first, _Task):
                self._run_task(first, items.pop(0))
                continue
            batch = _take_batch(items)
            self._shared = len(batch) > 1
            self._run_batch([waiting.item for waiting in batch])
            late = [waiting for waiting in batch if not waiting.item.answered]
            for waiting in batch:
                if waiting.item.answered:
                    self._queue.charge(waiting, waiting.item.seconds)
            if late:  # one of the calls took long: whoever came meanwhile may be first
                self._queue.put_back([*late, *items])
                items = []
                for waiting in late:
                    if waiting.item.asks:
                        self._ask(waiting.item)
            self._last_work = time.monotonic()

    def _go_on_if_due(self) -> None:
        """Have another turn if something can be drawn, after those who wait for replies."""
        if not self._awake and self._queue.due_in() == 0:
            self._awake = True
            self._next = self._loop.call_soon(self._turn)

    def _keep_house_soon(self) -> None:
        if self._keeping is None or self._keeping.when() > self._loop.time() + _HOUSEKEEPING_S:
            self._keep_house_in(_HOUSEKEEPING_S)

    def _keep_house_in(self, seconds: float) -> None:
        if self._keeping is not None:
            self._keeping.cancel()
        self._keeping = self._loop.call_later(seconds, self._keep_house)

    def _keep_house(self) -> None:
        """Do what nobody waits for, and say when there is more of it."""
        self._keeping = None
        try:
            self.historian.follow()
            self._housekeeping()
        except Exception as error:  # noqa: BLE001 - a defect must not end the writer
            self._failed("housekeeping", error)
        self._go_on_if_due()
        pause = self._pause()
        if pause is not None:
            self._keep_house_in(pause)

    def _turn_s(self) -> float:
        return max(TURN_S, min(_SYNCS_A_TURN * self.journal.sync_s, LONGEST_TURN_S))

    def _pause(self) -> float | None:
        """How long to wait for work before there is housekeeping to do; None: no need."""
        ends = self._ends < math.inf and self._queue.held()
        due = [
            _LOOK_S if ends else None,
            self._grace.next_due(),
            self.checkpoints.due_in(self._last_work),
            self.modes.due_in(),
            self._queue.due_in() or None,
        ]
        pauses = [pause for pause in due if pause is not None]
        return max(0.0, min(pauses)) if pauses else None

    def _run_task(self, task: _Task, waiting: Waiting) -> None:
        began = time.perf_counter()
        try:
            result = task.run()
        except BaseException as error:  # noqa: BLE001 - it belongs to whoever asked
            _fail(task.future, error)
        else:
            _give(task.future, result)
        if waiting.lane is not self._own_lane:  # the daemon's work waits for nobody's turn
            self._queue.charge(waiting, time.perf_counter() - began)

    # -- batches

    def _run_batch(self, batch: list[EditJob]) -> None:
        workspace = self.state.open.get(batch[0].call.workspace)
        if workspace is None or time.monotonic() > self._ends:
            closed = no_longer_allowed()
            for job in batch:
                self._answer(job, closed if workspace is None else _STOPPING)
            return
        pending = batch
        while pending:
            try:
                pending = self._try_batch(workspace, pending)
            except Exception as error:  # noqa: BLE001 - a defect must not end the writer
                self._failed("a batch of calls", error)
                for job in pending:
                    self._refuse(job, outcome_unknown())
                return

    def _try_batch(self, workspace: Workspace, jobs: list[EditJob]) -> list[EditJob]:
        """Plan, journal and publish jobs; gives those that must be planned again."""
        try:
            workspace.check_present()
        except Refused as refusal:
            for job in jobs:
                self._answer(job, refusal)
            return []
        outcomes = self.preparer.prepare(workspace, jobs, self._turn_s())
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

    # -- calls for which something is asked

    def _ask(self, job: EditJob) -> None:
        """Have a job planned elsewhere. It is the first in its lane, which is held meanwhile."""
        job.asks, job.found = False, None
        if job.asking is not None:
            job.asking.cancel()
        self._queue.hold(job.lane)
        job.asking = self._loop.create_task(self._asked(job))
        self._asking.add(job.asking)
        job.asking.add_done_callback(self._asking.discard)

    async def _asked(self, job: EditJob) -> None:
        call, limits = job.call, self.preparer.limits
        try:
            workspace = self.state.open[call.workspace]
            if job.unknown is not None:
                await self.preparer.recall(job, job.unknown)
            elif call.needs_history:
                asked, place = Proposing(call, limits), self.place(workspace, call.directory)
                job.found = await self.historian.ask("take back", asked, Proposal, place)
            elif self._planners is not None:
                job.planned = True
                async with self._planners.turn(lambda: self._is_wanted(job)):
                    job.found = await self._planners.plan(call, workspace, job.session, limits)
                    await reached("beside.planned")
                    self._go_on(job)
                    await asyncio.sleep(_USED_S)  # this task is cancelled when the plan is used
                return
        except Exception as error:  # noqa: BLE001 - the call is answered with it
            job.found = error
        self._go_on(job)

    def _go_on(self, job: EditJob) -> None:
        if not job.answered:
            self._queue.let_go(job.lane)
            self._wake()

    def place(self, workspace: Workspace, directory: str = "") -> Place:
        """Where the historian is to look."""
        return Place(
            name=workspace.name,
            root=workspace.root,
            shadow=workspace.shadow,
            head=workspace.head.commit,
            number=workspace.number,
            directory=directory,
            cut=self.state.known[workspace.name].cut,
            inner=[path for path, _ in self.state.inside(workspace)],
        )

    def refuse_held(self) -> None:
        """Refuse the calls that are being planned and may not be made in the mode that holds now.

        Nothing of them has been done; those behind them in their lanes go on.
        """
        for lane, job in self._queue.held_items():
            workspace = self.state.open.get(job.call.workspace)
            if workspace is None:
                continue
            session = self.state.sessions.get((workspace.name, job.call.session or ""))
            try:
                self.preparer.check_mode(workspace, job.call, session)
            except Refused as refusal:
                if self._queue.withdraw(lane, job):
                    self._answer(job, light(refusal))

    def _is_wanted(self, job: EditJob) -> bool:
        """Whether somebody still waits for the answer."""
        if not job.lane.abandoned:
            return True
        entry = self._in_flight.get(job.call.key)
        return entry is not None and bool(entry.followers)

    def _make_durable(self, outcomes: Sequence[Outcome]) -> Exception | None:
        """Append the records of a batch and sync once; why not, if that failed."""
        records: list[Record] = []
        reserve = 0
        for outcome in outcomes:
            if outcome.prepared is not None:
                records.append(outcome.prepared.record)
                reserve += outcome.prepared.abort_reserve
        if not records:
            return None
        failpoint("journal.before_append")
        try:
            self.journal.append(*records, reserve=reserve)
            self.journal.sync()
        except JournalBroken as error:
            self.become_read_only(str(error))
            return outcome_unknown()
        except OSError as error:
            return io_failure(error)
        self.state.number += len(records)
        self.checkpoints.needed = True
        return None

    def _publish_all(self, workspace: Workspace, outcomes: list[Outcome]) -> list[EditJob]:
        for i, outcome in enumerate(outcomes):
            if outcome.prepared is None:
                assert outcome.answer is not None, "BUG: a job without a transaction or an answer"
                self._answer(outcome.job, outcome.answer)
                continue
            began = time.perf_counter()
            try:
                outcome.prepared.publish(workspace.worktree)
            except (Displaced, OSError) as cause:
                return self._abort(workspace, outcomes[i:], cause)
            self._published(workspace, outcome.prepared)
            outcome.job.seconds += time.perf_counter() - began
            self._answer(outcome.job, outcome.prepared.result)
        return []

    def _published(self, workspace: Workspace, prepared: Prepared) -> None:
        """Take the transaction over into the state; it is done."""
        record = prepared.record
        # Else recovery looks again: until a checkpoint, only the record knows of them.
        if not workspace.worktree.still_there(record.leftover_directories):
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
            # Lines of what was only observed are counted for subscribers, if there are any.
            counted = prepared.result.commit is not None and prepared.files
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
        """Notify subscribers of what record ``number`` has added to the history, which Git follows.

        ``files``: those of the last commit, where they are known; ``commits``: which were made.
        """
        assert workspace.head.commit is not None, "BUG: a commit without a head"
        workspace.number = number
        workspace.note(number, commits)
        self.events.committed(
            workspace.name, workspace.root, workspace.shadow, number, objects, files
        )

    def _abort(
        self, workspace: Workspace, outcomes: list[Outcome], cause: Exception
    ) -> list[EditJob]:
        """Void a call that could not be published and the later ones; what is to be tried again."""
        voided = [o.prepared for o in outcomes if o.prepared is not None]
        jobs = [outcome.job for outcome in outcomes]
        # The names were changed and changed back: on disk they may be either.
        self._note_unsynced(workspace, voided[0])
        try:
            aborted, number = abort(
                voided,
                cause,
                base=workspace.head,
                number=self.state.number + 1,
                time=int(time.time()),
                journal=self.journal,
                worktree=workspace.worktree,
                load=workspace.repository.load_tree,
                excludes=workspace.excludes,
            )
        except (OSError, JournalBroken) as error:
            self.become_read_only(f"a call could be neither finished nor voided: {error}")
            for job in jobs:
                self._answer(job, outcome_unknown())
            return []
        for work in voided[0].files:
            self._grace.watch(workspace, work)
        self.state.number = number
        if aborted.history.head.commit != workspace.head.commit:
            workspace.head = aborted.history.head
            self.committed(workspace, number, aborted.objects)
        if isinstance(cause, Displaced):
            jobs[0].attempts += 1
            if jobs[0].attempts < _MAX_ATTEMPTS:
                return jobs
            failure: Exception = contended(cause.path, _MAX_ATTEMPTS)
        else:
            assert isinstance(cause, OSError)
            failure = io_failure(cause)
        self._answer(jobs[0], failure)
        return jobs[1:]

    def become_read_only(self, reason: str) -> None:
        """Take no call that writes any more, nor a checkpoint; until the next start."""
        _log.error("going read-only: %s", reason)
        self.state.read_only = self.state.read_only or reason
        self.checkpoints.give_up()

    def _failed(self, what: str, error: Exception) -> None:
        """After a defect: whatever was made durable is settled at the next start."""
        _log.exception("%s failed", what)
        self.become_read_only(f"internal error: {type(error).__name__}, see the log")

    def _refuse(self, item: EditJob | _Task, refusal: Refused) -> None:
        """Give up something that was queued, unless it was answered already."""
        if isinstance(item, EditJob):
            if not item.answered:
                self._answer(item, refusal)
        elif not item.future.done():
            _fail(item.future, refusal)

    def _answer(self, job: EditJob, answer: EditResult | Exception) -> None:
        followers: list[Future[EditResult]] = []
        if job.call.once:
            entry = self._in_flight.pop(job.call.key, None)
            followers = entry.followers if entry else []
        failpoint("reply.before")
        job.answered = True
        if job.asking is not None:
            job.asking.cancel()
            self._queue.let_go(job.lane)
        for number, future in enumerate([job.future, *followers]):
            if isinstance(answer, Exception):
                _fail(future, answer)
            elif number:
                _give(future, msgspec.structs.replace(answer, replayed=True))
            else:
                _give(future, answer)

    def reconfigure(self, settings: Settings) -> None:
        """Go by other settings from now on."""
        self.preparer.go_by(settings)
        self._grace.period = settings.grace_s
        self.sessions.default_mode = settings.default_mode
        self.checkpoints.settings = settings

    # -- changes that are not edits

    def record(self, *records: Record) -> None:
        """Make records durable. Raises Refused."""
        if self.state.read_only is not None:
            raise read_only(self.state.read_only)
        try:
            self.journal.append(*records)
            self.journal.sync()
        except JournalBroken as error:
            self.become_read_only(str(error))
            raise outcome_unknown() from error
        except OSError as error:
            raise io_failure(error) from error
        self.checkpoints.needed = True
        self._keep_house_soon()

    # -- when there is nothing else to do

    def _housekeeping(self) -> None:
        held = self._queue.held()
        if held and time.monotonic() > self._ends:
            for lane in held:
                self._queue.let_go(lane)  # what is drawn from now on is refused
        for late in self._grace.expired():
            self._record_late_write(late)
        self.checkpoints.begin_if_due(self._last_work)
        self.modes.end()

    def _record_late_write(self, late: LateWrite) -> None:
        """An in-place write reached a displaced file."""
        workspace = late.workspace
        found = seal_late_write(late, self.state.number + 1)
        if found is None:
            return
        try:
            self.record(found.record)
        except Refused as error:
            _log.error("a late write to %s could not be recorded: %s", late.path, error)
            return
        self.state.number += 1
        workspace.head = found.history.head
        self.committed(workspace, self.state.number, found.objects)

    def end_grace(self) -> None:
        """Look at all displaced files now, before stopping."""
        for late in self._grace.expired(all_of_them=True):
            self._record_late_write(late)


def _give(future: Future[T], result: T) -> None:
    if not future.cancelled():  # nobody waits any more, but it has happened
        future.set_result(result)


def _fail(future: Future[Any], error: BaseException) -> None:
    if not future.cancelled():  # whoever raises a refusal adds to where it came from
        future.set_exception(refused_anew(error) if isinstance(error, Refused) else error)


def _take_batch(items: list[Waiting]) -> list[Waiting]:
    """The calls that can share a batch: one workspace, no reading of history.

    The first item is one; others are taken from behind what is in between (a reader, a call
    in another workspace), but none that would overtake something of its own connection.
    """
    first = items[0].item.call
    if first.alone:
        return [items.pop(0)]
    batch, rest = [items[0]], []
    passed: set[int] = set()  # lanes of which something stays behind
    for waiting in items[1:]:
        job = waiting.item
        fits = isinstance(job, EditJob) and job.call.workspace == first.workspace
        if fits and not job.call.alone and id(waiting.lane) not in passed:
            batch.append(waiting)
        else:
            passed.add(id(waiting.lane))
            rest.append(waiting)
    items[:] = rest
    return batch
