"""What changes anything, on the event loop: the order in which it takes calls is the history's.

Which call is next, of those that wait, is the queue's affair (:mod:`stetd.engine.fair_queue`):
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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from stet.wire.failures import Kind, Refused, refuse
from stet.wire.first_use import known
from stet.wire.results import EditResult, FileChange
from stetd.editing.patience import TakesLong, limited
from stetd.engine.checkpointing import Checkpoints, WriterLimits
from stetd.engine.fair_queue import FairQueue, Lane, Waiting
from stetd.engine.late_writes import GraceWatch, LateWrite, seal_late_write
from stetd.engine.long_planning import AT_ONCE_BYTES, AT_ONCE_S, Planners
from stetd.failpoints import failpoint, reached
from stetd.history.commits import rfc3339
from stetd.history.objects import NewObject
from stetd.observing.before_note import BeforeNote
from stetd.observing.recording import NOTE_SECONDS, note_id, observe, read_note
from stetd.planning.calls import check_if_match, plan_call, plan_here
from stetd.planning.proposals import Proposal, Proposing
from stetd.planning.world import OBSERVE, EditCall
from stetd.processes.historian_client import Historian
from stetd.processes.historian_messages import Place
from stetd.processes.recorded_plans import Changed, PlanDialect, RecordedPlan, Replay, refused_anew
from stetd.processes.remembered import Key
from stetd.repository.stored_objects import MissingObject
from stetd.session.modes import RESTRICTED
from stetd.session.sessions import Session, clipboard_bytes
from stetd.state.events import Events
from stetd.state.mode_records import Modes
from stetd.state.session_records import Sessions
from stetd.state.state import State
from stetd.state.workspace import Base, Workspace
from stetd.storage.journal import Journal, JournalBroken
from stetd.storage.journal_format import CommitRecord, Record
from stetd.storage.request_record import RequestRecord, answered
from stetd.transaction.drafts import Draft, Who
from stetd.transaction.parameters import check_label
from stetd.transaction.refusals import (
    TOOL_DISABLED,
    after_dropping,
    contended,
    damaged_history,
    history_unwritable,
    in_restricted_workspace,
    io_failure,
    other_call,
    outcome_unknown,
    read_only,
)
from stetd.transaction.sealing import seal
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
#: How often a call is planned elsewhere at most, while its files change each time.
_MAX_OVERTAKEN = 5
#: Seconds that a plan from elsewhere may wait to be used before the next call is planned.
_USED_S = 5.0
#: Seconds after a turn in which what nobody waits for is left: it is done once for many turns.
_HOUSEKEEPING_S = 0.005
#: Seconds between two looks at calls that are planned elsewhere, before a stop.
_LOOK_S = 0.05
#: Bytes that the journal may have while the history can't be written, and while it only takes
#: long; more if checkpoints are to be rarer than that.
MOST_UNWRITTEN, _MOST_BEHIND = 64 << 20, 512 << 20


@dataclass(slots=True)
class _EditJob:
    call: EditCall
    future: Future[EditResult]
    lane: Lane
    attempts: int = 0
    #: Seconds that planning and publishing it has taken.
    seconds: float = 0.0
    begun: bool = False
    answered: bool = False
    #: In which it was planned last.
    session: Session | None = None
    #: It can't go on here: a planner or the historian is to be asked.
    asks: bool = False
    #: It was planned elsewhere, by ``asking``; what came of that: plans, a proposal, why there are
    #: none; None if no process could be had.
    planned: bool = False
    found: list[RecordedPlan] | Proposal | Exception | None = None
    asking: asyncio.Task[None] | None = None
    #: What the historian has said of calls that may have been answered long ago.
    recalled: dict[Key, RequestRecord | None] = field(default_factory=dict)
    #: How often what was planned elsewhere did not hold any more.
    overtaken: int = 0


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


_FORSAKEN = refuse(
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
    """Owns the state; everything that changes it goes through the queue.

    All of it is for the event loop's thread.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        state: State,
        journal: Journal,
        historian: Historian,
        limits: WriterLimits,
        planners: Planners | None = None,
    ) -> None:
        self._loop = loop
        self.state = state
        self.journal = journal
        self.historian = historian
        #: What subscribers are told of.
        self.events = Events()
        #: Who may write, and who asks to.
        self.modes = Modes(state, self.events, self.record)
        #: Who works here.
        self.sessions = Sessions(state, self.modes, self.record, limits.default_mode)
        self.read_only: str | None = None
        #: Number of the last record that made a commit anywhere.
        self.git_number = 0
        self._limits = limits
        #: Where calls are planned that take long; None: here.
        self._planners = planners
        self._queue = FairQueue()
        #: Where the daemon's own work waits, which is little and not to wait for anybody.
        self._own_lane = Lane(estimate=0.0, new=False)
        self._in_flight: dict[tuple[str, str, str], _InFlight] = {}
        self._grace = GraceWatch(limits.grace_s)
        self._last_work = time.monotonic()
        self._ends = math.inf
        self._drained: list[Future[None]] = []
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
            limits,
            self.become_read_only,
        )
        self.checkpoints.on_begin = self.sessions.let_go
        self.checkpoints.on_end = self._wake

    def submit_edit(self, call: EditCall, lane: Lane) -> Future[EditResult]:
        """Queue a client's editing call. A retry of one in flight gets that one's outcome."""
        future: Future[EditResult] = self._loop.create_future()
        if call.retryable and not call.preview:
            key = (call.workspace, call.session or "", call.request)
            first = self._in_flight.get(key)
            if first is not None:
                if first.digest != call.digest:
                    future.set_exception(other_call(call.request))
                else:
                    first.followers.append(future)
                return future
            self._in_flight[key] = _InFlight(call.digest, future)
        self._queue.put(_EditJob(call, future, lane), lane)
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

    def forsake(self, lane: Lane) -> None:
        """A client is gone: what it has asked for goes on, unless that is too much by now."""
        for item in self._queue.forsake(lane):
            if isinstance(item, _EditJob):
                self._answer(item, _FORSAKEN)
            elif isinstance(item, _Task):
                _fail(item.future, _FORSAKEN)

    def finish_within(self, seconds: float) -> None:
        """From now on take only so long for the calls that wait, and refuse the others."""
        self._ends = min(self._ends, time.monotonic() + seconds)
        self._wake()

    async def drain(self) -> None:
        """Wait until nothing is asked for a call any more."""
        drained: Future[None] = self._loop.create_future()
        self._drained.append(drained)
        self._wake()
        await drained

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
        deadline = time.monotonic() + self._turn_s()
        items = self._queue.take(_MAX_BATCH, self._turn_s())
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
        self._awake = False
        self._go_on_if_due()
        if self._keeping is None or self._keeping.when() > self._loop.time() + _HOUSEKEEPING_S:
            self._keep_house_in(_HOUSEKEEPING_S)

    def _go_on_if_due(self) -> None:
        """Have another turn if something can be drawn, after those who wait for replies."""
        if not self._awake and self._queue.due_in() == 0:
            self._awake = True
            self._next = self._loop.call_soon(self._turn)

    def _keep_house_in(self, seconds: float) -> None:
        if self._keeping is not None:
            self._keeping.cancel()
        self._keeping = self._loop.call_later(seconds, self._keep_house)

    def _keep_house(self) -> None:
        """Do what nobody waits for, and say when there is more of it."""
        self._keeping = None
        self.historian.follow()
        try:
            self._housekeeping()
        except Exception as error:  # noqa: BLE001 - a defect must not end the writer
            _log.exception("housekeeping failed")
            self.become_read_only(f"internal error: {type(error).__name__}, see the log")
        self._go_on_if_due()
        pause = self._pause()
        if pause is not None:
            self._keep_house_in(pause)

    def _turn_s(self) -> float:
        return max(TURN_S, min(_SYNCS_A_TURN * self.journal.sync_s, LONGEST_TURN_S))

    def _pause(self) -> float | None:
        """How long to wait for work before there is housekeeping to do; None: no need."""
        held = self._drained or (self._ends < math.inf and self._queue.held())
        due = [
            _LOOK_S if held else None,
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

    def _run_batch(self, batch: list[_EditJob]) -> None:
        workspace = self.state.open.get(batch[0].call.workspace)
        if workspace is None or time.monotonic() > self._ends:
            closed = refuse(Kind.WORKSPACE_NOT_ALLOWED, "this workspace is closed")
            for job in batch:
                self._answer(job, closed if workspace is None else _STOPPING)
            return
        pending = batch
        while pending:
            try:
                pending = self._try_batch(workspace, pending)
            except Exception as error:  # noqa: BLE001 - a defect must not end the writer
                # Whatever was made durable is settled at the next start.
                _log.exception("a batch of calls failed")
                self.become_read_only(f"internal error: {type(error).__name__}, see the log")
                for job in pending:
                    if not job.answered:
                        self._answer(job, outcome_unknown())
                return

    def _try_batch(self, workspace: Workspace, jobs: list[_EditJob]) -> list[_EditJob]:
        """Plan, journal and publish jobs; gives those that must be planned again."""
        try:
            workspace.check_present()
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
        outcomes: list[_Outcome] = []
        held: set[Lane] = set()
        number = self.state.number
        now = int(time.time())
        deadline = time.perf_counter() + self._turn_s()
        for job in jobs:
            if (outcomes or held) and not job.begun and time.perf_counter() > deadline:
                break  # these calls have not been looked at; they are put back into the queue
            if job.lane in held:
                continue  # as this one, because a call before it has not been planned yet
            job.begun = True
            name = job.call.session
            if name is not None and name not in sessions:
                sessions[name] = self.state.sessions.get((workspace.name, name))
            session = sessions.get(name) if name is not None else None
            began = time.perf_counter()
            outcome = self._plan_one(workspace, base, job, session, number + 1, now)
            job.seconds += time.perf_counter() - began
            if outcome is None:
                held.add(job.lane)
                continue
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
    ) -> _Outcome | None:
        """Plan a job; None if something is to be asked for it first (:meth:`_ask`)."""
        call = job.call
        try:
            # First: a call that was applied is answered so, whatever the mode is by now.
            replayed = self._replay(workspace, job)
            if replayed is not None:
                return _Outcome(job, answer=replayed)
            job.session = session = self._admitted(workspace, call, session)
            prepared = self._prepare(workspace, base, job, session, number, now)
            self._keep(session, prepared)
        except TakesLong:
            job.asks = True
            return None
        except Changed as change:
            job.overtaken += 1
            if job.overtaken == _MAX_OVERTAKEN:
                return _Outcome(job, answer=contended(change.path, _MAX_OVERTAKEN))
            job.asks = True
            return None
        except Refused as refusal:
            cut = self.state.known[workspace.name].cut
            if cut is not None:
                when = rfc3339(cut.time)
                refusal = after_dropping(refusal, cut.dropped, cut.oldest, when)
            return _Outcome(job, answer=_light(refusal))
        except OSError as error:
            return _Outcome(job, answer=io_failure(error))
        except MissingObject as error:
            return _Outcome(job, answer=damaged_history(str(error)))
        except Exception as error:  # noqa: BLE001 - a defect of ours must not end the writer
            _log.exception("planning %s failed", call.method)
            return _Outcome(job, answer=refuse(Kind.INTERNAL, f"internal error: {error!r}"))
        if not _changes(prepared):
            prepared.close()
            return _Outcome(job, answer=prepared.result)
        return _Outcome(job, prepared=prepared)

    def _prepare(
        self,
        workspace: Workspace,
        base: Base,
        job: _EditJob,
        session: Session | None,
        number: int,
        now: int,
    ) -> Prepared:
        """Plan a call and seal it. Raises Refused, TakesLong, Changed."""
        call, limits = job.call, self._limits
        if call.method == OBSERVE:
            return observe(
                workspace,
                base,
                call,
                session,
                limits=limits.call,
                protection=limits.protection,
                note=self._note(workspace, job, now),
                number=number,
                now=now,
            )
        draft = self._draft(workspace, base, job, session)
        try:
            self._check_nested(workspace, call, [item.target.path for item in draft.files])
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
                excludes=workspace.excludes,
                preview=call.preview or draft.preview,
            )
        except BaseException:
            for item in draft.files:
                item.target.close()
            raise

    def _admitted(
        self, workspace: Workspace, call: EditCall, session: Session | None
    ) -> Session | None:
        """The session in which a call may be made; the person's may be in none. Raises Refused."""
        if call.entrant is not None:
            session = self.sessions.find(call.entrant, session)
        self._check_mode(workspace, call, session)
        self._check_writable(call)
        return session

    def _keep(self, session: Session | None, prepared: Prepared) -> None:
        """Record the session first, if it is new and something will be of it. Raises Refused."""
        if session is None or not _changes(prepared):
            return
        try:
            self.sessions.keep(session)
        except BaseException:
            prepared.close()
            raise

    def _note(self, workspace: Workspace, job: _EditJob, now: int) -> BeforeNote | None:
        """What was noted before the tool ran that is observed now. Raises TakesLong."""
        call = job.call
        use = call.params.get("use")
        if use is None or call.params["phase"] != "after":
            return None
        key = (workspace.name, call.session or "", note_id(use))
        told = self._answered(key, job)
        if told is None or now - told.time > NOTE_SECONDS:
            return None
        return read_note(told.reply)

    def _draft(
        self, workspace: Workspace, base: Base, job: _EditJob, session: Session | None
    ) -> Draft:
        """Plan a call, or take what was planned elsewhere. Raises Refused, TakesLong, Changed."""
        call, limits, found = job.call, self._limits, job.found

        def plan(plan_dialect: PlanDialect = plan_here) -> Draft:
            return plan_call(
                workspace, base, call, session, limits.call, limits.protection, plan_dialect
            )

        if isinstance(found, Exception):
            raise found
        if call.needs_history:
            if not isinstance(found, Proposal):
                check_if_match(workspace, base, call, session, limits.call)
                raise TakesLong
            paths = [file.path for file in found.files]
            workspace.check_unchanged(found.number, paths, found.reverts)
            return plan_call(
                workspace, base, call, session, limits.call, limits.protection, proposal=found
            )
        if isinstance(found, list):
            return plan(Replay(found))
        if self._planners is None or job.planned:
            return plan()
        if call.size > AT_ONCE_BYTES:
            raise TakesLong
        with limited(AT_ONCE_S):
            return plan()

    # -- calls for which something is asked

    def _ask(self, job: _EditJob) -> None:
        """Have a job planned elsewhere. It is the first in its lane, which is held meanwhile."""
        job.asks, job.found = False, None
        if job.asking is not None:
            job.asking.cancel()
        self._queue.hold(job.lane)
        job.asking = self._loop.create_task(self._asked(job))
        self._asking.add(job.asking)
        job.asking.add_done_callback(self._asking.discard)

    async def _asked(self, job: _EditJob) -> None:
        call, limits = job.call, self._limits.call
        try:
            workspace = self.state.open[call.workspace]
            if self._unknown(job):
                await self._recall(job)
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

    def _go_on(self, job: _EditJob) -> None:
        if not job.answered:
            self._queue.let_go(job.lane)
            self._wake()

    def _unknown(self, job: _EditJob) -> list[Key]:
        """The ids that the historian is to be asked for before a job can be planned."""
        call, remembered = job.call, self.historian.remembered
        keys = []
        if call.retryable and not call.preview:
            keys.append((call.workspace, call.session or "", call.request))
        use = call.params.get("use") if call.method == OBSERVE else None
        if use is not None and call.params["phase"] == "after":
            keys.append((call.workspace, call.session or "", note_id(use)))
        return [
            key
            for key in keys
            if key not in job.recalled
            and key not in self.state.requests
            and remembered.find(key) is None
            and remembered.may_be_old(key)
        ]

    async def _recall(self, job: _EditJob) -> None:
        """Ask the historian for calls that may have been answered long ago. Raises Refused."""
        for key in self._unknown(job):
            found = await self.historian.ask("answered call", key, list[RequestRecord])
            job.recalled[key] = found[0] if found else None

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
                self._check_mode(workspace, job.call, session)
            except Refused as refusal:
                if self._queue.withdraw(lane, job):
                    self._answer(job, _light(refusal))

    def _is_wanted(self, job: _EditJob) -> bool:
        """Whether somebody still waits for the answer."""
        if not job.lane.forsaken:
            return True
        entry = self._in_flight.get((job.call.workspace, job.call.session or "", job.call.request))
        return entry is not None and bool(entry.followers)

    def _check_mode(self, workspace: Workspace, call: EditCall, session: Session | None) -> None:
        if call.control and call.needs_history:
            return  # the person's own undo works in every mode
        if call.method == OBSERVE:
            return  # nothing is written to a file: it is better known than not
        if self.state.effective_mode(session, workspace) == RESTRICTED:
            raise refuse(Kind.TOOL_DISABLED, TOOL_DISABLED)

    def _check_nested(self, workspace: Workspace, call: EditCall, paths: Sequence[str]) -> None:
        """Refuse what reaches into a restricted workspace from the one around it."""
        if call.control and call.needs_history:
            return
        for inner, root in self.state.restricted_below(workspace):
            path = next((each for each in paths if each.startswith(inner)), None)
            if path is not None:
                raise in_restricted_workspace(path, root)

    def _check_writable(self, call: EditCall) -> None:
        if call.preview:
            return
        if self.read_only is not None:
            raise read_only(self.read_only)
        trouble = self.historian.trouble
        most = MOST_UNWRITTEN if trouble is not None else _MOST_BEHIND
        if self.journal.bytes > max(most, self._limits.checkpoint_bytes):
            raise history_unwritable(trouble)

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
                f"{self._limits.max_clipboard_bytes:,} is the most; delete some first "
                "(max_clipboard_bytes in the configuration)",
            )

    def _answered(self, key: Key, job: _EditJob) -> RequestRecord | None:
        """The record of an answered call. Raises TakesLong where the historian is to be asked."""
        found = self.state.requests.get(key) or self.historian.remembered.find(key)
        if found is None and self.historian.remembered.may_be_old(key):
            if key not in job.recalled:
                if isinstance(job.found, Refused):
                    raise job.found  # nobody knows: it must not be done twice
                raise TakesLong
            found = job.recalled[key]
        return found

    def _replay(self, workspace: Workspace, job: _EditJob) -> EditResult | None:
        call = job.call
        if not call.retryable or call.preview:
            return None
        key = (workspace.name, call.session or "", call.request)
        record = self._answered(key, job)
        if record is None:
            return None
        if record.digest != call.digest:
            raise other_call(call.request)
        result = msgspec.msgpack.decode(record.reply, type=known(EditResult))
        return msgspec.structs.replace(result, replayed=True, diff="")

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

    def _publish_all(self, workspace: Workspace, outcomes: list[_Outcome]) -> list[_EditJob]:
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
            told = answered(record)
            self.state.requests[told.key] = told
            self.historian.remembered.add(told)
        self._note_unsynced(workspace, prepared)
        for work in prepared.files:
            self._grace.watch(workspace, work)
        if record.commits:
            # What was only observed is not counted line by line; whoever is told counts it.
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
        """Tell subscribers what record ``number`` has added to the history, which Git follows.

        ``files``: those of the last commit, where they are known; ``commits``: which were made.
        """
        assert workspace.head.commit is not None, "BUG: a commit without a head"
        workspace.number = self.git_number = number
        workspace.note(number, commits)
        self.events.committed(
            workspace.name, workspace.root, workspace.shadow, number, objects, files
        )

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
                excludes=workspace.excludes,
            )
        except (OSError, JournalBroken) as error:
            self.become_read_only(f"a call could be neither finished nor voided: {error}")
            for job in jobs:
                self._answer(job, outcome_unknown())
            return []
        for work in voided[0].files:
            self._grace.watch(workspace, work)
        self.state.number = aborted.number
        if aborted.head.commit != workspace.head.commit:
            workspace.head = aborted.head
            self.committed(workspace, aborted.number, aborted.objects)
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
        self.read_only = self.read_only or reason
        self.checkpoints.give_up()

    def _answer(self, job: _EditJob, answer: EditResult | Exception) -> None:
        followers: list[Future[EditResult]] = []
        if job.call.retryable and not job.call.preview:
            key = (job.call.workspace, job.call.session or "", job.call.request)
            entry = self._in_flight.pop(key, None)
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

    def reconfigure(self, limits: WriterLimits) -> None:
        """Go by other limits from now on."""
        self._limits = limits
        self._grace.period = limits.grace_s
        self.sessions.default_mode = limits.default_mode
        self.checkpoints.reconfigure(limits)

    # -- changes that are not edits

    def record(self, *records: Record) -> None:
        """Make records durable. Raises Refused."""
        if self.read_only is not None:
            raise read_only(self.read_only)
        try:
            self.journal.append(*records)
            self.journal.sync()
        except JournalBroken as error:
            self.become_read_only(str(error))
            raise outcome_unknown() from error
        except OSError as error:
            raise io_failure(error) from error
        self.checkpoints.needed = True
        self.historian.follow()

    # -- when there is nothing else to do

    def _housekeeping(self) -> None:
        held = self._queue.held()
        if held and time.monotonic() > self._ends:
            for lane in held:
                self._queue.let_go(lane)  # what is drawn from now on is refused
        elif self._drained and not held and self._queue.empty:
            for drained in self._drained:
                drained.set_result(None)
            self._drained = []
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
        workspace.head = found.head
        self.committed(workspace, self.state.number, found.objects)

    def end_grace(self) -> None:
        """Look at all displaced files now, before stopping."""
        for late in self._grace.expired(all_of_them=True):
            self._record_late_write(late)


def _changes(prepared: Prepared) -> bool:
    """Whether there is anything to be recorded."""
    record = prepared.record
    return bool(record.commits or record.clipboards or prepared.noted) and not prepared.preview


def _light(refusal: Refused) -> Refused:
    """A refusal without where it came from: that keeps all that planning has looked at."""
    refusal.__traceback__ = refusal.__context__ = refusal.__cause__ = None
    return refusal


def _give(future: Future[T], result: T) -> None:
    if not future.cancelled():  # nobody waits any more; it has happened all the same
        future.set_result(result)


def _fail(future: Future[Any], error: BaseException) -> None:
    if not future.cancelled():  # whoever raises a refusal adds to where it came from
        future.set_exception(refused_anew(error) if isinstance(error, Refused) else error)


def _take_batch(items: list[Waiting]) -> list[Waiting]:
    """The calls that can share a batch: one workspace, no reading of history.

    The first item is one; others are taken from behind what is in between (a reader, a call
    in another workspace), but none that would overtake something of its own connection, or
    what waits for all.
    """
    first = items[0].item.call
    batch, rest = [items[0]], []
    passed: set[int] = set()  # lanes of which something stays behind
    for number, waiting in enumerate(items[1:], start=1):
        job = waiting.item
        if waiting.after_all or first.alone:
            rest += items[number:]
            break
        fits = isinstance(job, _EditJob) and job.call.workspace == first.workspace
        if fits and not job.call.alone and id(waiting.lane) not in passed:
            batch.append(waiting)
        else:
            passed.add(id(waiting.lane))
            rest.append(waiting)
    items[:] = rest
    return batch
