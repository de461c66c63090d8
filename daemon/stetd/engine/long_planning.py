"""Planning calls that take long beside the writer, which goes on with others meanwhile.

The writer begins with every call itself, but not for long (:mod:`stetd.editing.patience`). A call
that needs longer is planned here, in a process of its own (:mod:`stetd.processes.planner`), on
what stands on the disk now; what planning has asked and what came of it is recorded. Then the call
is the writer's again: there the same questions are asked, and if all answers are the same (which
they nearly always are), what was planned is what the writer would have planned. So all that a call
must be checked for is checked by the writer, at the time when it is carried out.

A few calls are planned at a time, one of a client, in the order in which they came; calls of
clients that are gone only when nobody else's wait. No new one is begun before the last one was
carried out or some seconds have passed, so hardly more results wait than are planned at a time.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from stet.wire.failures import Kind, Refused, refuse
from stetd.editing.edits import Plan, World
from stetd.failpoints import reached
from stetd.planning.calls import plan_dialects
from stetd.planning.proposals import Proposal
from stetd.planning.world import CallLimits, EditCall
from stetd.processes.planner import NoPlanner, Planner, PlannerLost, begin_planner
from stetd.processes.recorded_plans import RecordedPlan, refused_anew
from stetd.session.sessions import Session
from stetd.state.workspace import Workspace

#: Seconds for which the writer plans a call itself.
AT_ONCE_S = 0.01
#: Calls of more bytes are never planned there: their tokens may have to be counted.
AT_ONCE_BYTES = 60_000
#: Seconds after which planning a call is given up.
MOST_S = 120.0
#: Calls that are planned at a time.
_AT_A_TIME = 2
#: Seconds without such a call after which a process is ended.
_IDLE_S = 20.0
#: Seconds that a result is waited for to be used before the next call is planned.
_TAKEN_S = 5.0

_log = logging.getLogger(__name__)
_LOST = refuse(
    Kind.INTERNAL,
    "The process that planned this call ended unexpectedly; nothing was changed. Send several "
    "smaller calls, search for exact text, or edit a smaller file.",
)

#: What was planned; or why that can't be: an answer, a defect, None where no process could be had.
Recorded: TypeAlias = list[RecordedPlan] | Proposal | Exception | None


@dataclass(slots=True, eq=False)
class Beside:
    """One call that is to be planned here."""

    call: EditCall
    workspace: Workspace
    session: Session | None
    limits: CallLimits
    #: Called once ``recorded`` is there.
    done: Callable[[], None]
    #: Whether somebody still waits for the answer.
    wanted: Callable[[], bool]
    #: Whether it was answered otherwise.
    over: Callable[[], bool]
    #: It was submitted.
    begun: bool = False
    recorded: Recorded = None
    #: To be set once the result was used, or is of no use any more.
    taken: asyncio.Event = field(default_factory=asyncio.Event)


class PlanningBeside:
    """Has calls planned, each in a process of its own; on the event loop."""

    def __init__(self, begin: Callable[[], Awaitable[Planner]] = begin_planner) -> None:
        self._begin_planner = begin
        self._waiting: deque[Beside] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        #: Processes that plan, and those that wait for a call.
        self._planners: set[Planner] = set()
        self._idle: list[Planner] = []
        self._idle_since = 0.0
        self._ending: asyncio.TimerHandle | None = None
        self._closed = False

    def submit(self, beside: Beside) -> None:
        """Plan this when its turn has come."""
        self._waiting.append(beside)
        self._begin()

    async def close(self) -> None:
        """End the processes; what waits is not planned."""
        self._closed = True
        if self._ending is not None:
            self._ending.cancel()
        for planner in list(self._planners):
            planner.end()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for planner in list(self._planners):
            self._end(planner)

    def _begin(self) -> None:
        while not self._closed and len(self._tasks) < _AT_A_TIME:
            beside = self._next()
            if beside is None:
                break
            task = asyncio.get_running_loop().create_task(self._carry_out(beside))
            self._tasks.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._begin()

    def _next(self) -> Beside | None:
        for over in [each for each in self._waiting if each.over()]:
            self._waiting.remove(over)
            over.done()
        if not self._waiting:
            return None
        chosen = next((each for each in self._waiting if each.wanted()), self._waiting[0])
        self._waiting.remove(chosen)
        return chosen

    async def _carry_out(self, beside: Beside) -> None:
        """Plan one call, give it back, and wait until it was used."""
        try:
            beside.recorded = await self._planned(beside)
        except NoPlanner as error:
            _log.error("no process to plan in, so the writer does it: %s", error)
        except PlannerLost as error:
            _log.error("the process that planned %s ended: %s", beside.call.method, error)
            beside.recorded = refused_anew(_LOST)
        except Exception as error:  # noqa: BLE001 - the writer answers with it
            beside.recorded = error
        await reached("beside.planned")
        beside.done()
        with suppress(TimeoutError):
            await asyncio.wait_for(beside.taken.wait(), _TAKEN_S)

    async def _planned(self, beside: Beside) -> list[RecordedPlan]:
        """Raises NoPlanner, PlannerLost, and what planning does."""
        new = not self._idle
        planner = await self._new() if new else self._idle.pop()
        try:
            await reached("beside.planning")
            recorded = await _recorded(beside, planner)
        except PlannerLost:
            self._end(planner)
            if new or self._closed:
                raise
            return await self._planned(beside)  # it may have ended long ago
        except BaseException:
            self._end(planner)
            raise
        if planner.spoilt:
            self._end(planner)
        else:
            self._idle.append(planner)
            loop = asyncio.get_running_loop()
            self._idle_since = loop.time()
            if self._ending is None:
                self._ending = loop.call_later(_IDLE_S, self._end_idle)
        return recorded

    async def _new(self) -> Planner:
        planner = await self._begin_planner()
        self._planners.add(planner)
        return planner

    def _end(self, planner: Planner) -> None:
        self._planners.discard(planner)
        planner.close()

    def _end_idle(self) -> None:
        """End the processes that nobody has needed for a while."""
        self._ending = None
        loop = asyncio.get_running_loop()
        left = self._idle_since + _IDLE_S - loop.time()
        if left > 0:
            self._ending = loop.call_later(left, self._end_idle)
            return
        while self._idle:
            self._end(self._idle.pop())


async def _recorded(beside: Beside, planner: Planner) -> list[RecordedPlan]:
    """All calls of dialects that the call consists of, planned on what stands on the disk now."""
    recorded: list[RecordedPlan] = []
    until = time.monotonic() + MOST_S

    async def plan(method: str, params: Mapping[str, Any], world: World) -> Plan:
        known = await planner.plan(method, params, world, until)
        recorded.append(known)
        if isinstance(known.outcome, Refused):
            raise refused_anew(known.outcome)
        return known.outcome

    workspace = beside.workspace.apart()
    try:
        await plan_dialects(workspace, beside.call, beside.session, beside.limits, plan)
    except Refused:
        pass  # the writer will come to the same
    finally:
        workspace.worktree.close()
    return recorded
