"""Calls that take long to plan are planned in processes of their own, while the writer goes on.

The writer begins with every call itself, but not for long (:mod:`stetd.editing.patience`). A call
that needs longer is planned by a planner (:mod:`stetd.processes.planner`), on the files as they are
now. What planning asked and what came of it is recorded. Then the writer asks the same questions
again, and if all answers are the same (nearly always), the recorded plan is what it would have
planned. So every check of a call is made by the writer, when the call is carried out.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

from stet.wire.failures import Kind, Refused, refuse
from stetd.editing.edits import Plan, World
from stetd.failpoints import reached
from stetd.planning.calls import plan_dialects
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

_log = logging.getLogger(__name__)
_LOST = refuse(
    Kind.INTERNAL,
    "The process that planned this call ended unexpectedly; nothing was changed. Send several "
    "smaller calls, search for exact text, or edit a smaller file.",
)


class Planners:
    """The processes that plan, and whose turn it is."""

    def __init__(self, begin: Callable[[], Awaitable[Planner]] = begin_planner) -> None:
        self._begin = begin
        self._working = 0
        #: Calls that wait for their turn: whether somebody still waits for the answer.
        self._waiting: dict[asyncio.Future[None], Callable[[], bool]] = {}
        self._planners: set[Planner] = set()
        self._idle: list[Planner] = []
        self._ending: asyncio.TimerHandle | None = None

    @asynccontextmanager
    async def turn(self, wanted: Callable[[], bool]) -> AsyncIterator[None]:
        """Wait until few calls are planned; calls that nobody waits for come last."""
        if self._working >= _AT_A_TIME:
            turn = asyncio.get_running_loop().create_future()
            self._waiting[turn] = wanted
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._give_turn()  # it came too late
                raise
            finally:
                self._waiting.pop(turn, None)
        else:
            self._working += 1
        try:
            yield
        finally:
            self._give_turn()

    def _give_turn(self) -> None:
        """Hand the turn that ends to the next one that waits."""
        waiting = [(turn, wanted) for turn, wanted in self._waiting.items() if not turn.done()]
        if waiting:
            next((turn for turn, wanted in waiting if wanted()), waiting[0][0]).set_result(None)
        else:
            self._working -= 1

    async def plan(
        self, call: EditCall, workspace: Workspace, session: Session | None, limits: CallLimits
    ) -> list[RecordedPlan] | None:
        """The plans of a call's dialects; None if no process can be had. Raises Refused."""
        new = not self._idle
        try:
            planner = await self._new() if new else self._idle.pop()
        except NoPlanner as error:
            _log.error("no process to plan in, so the writer does it: %s", error)
            return None
        try:
            await reached("beside.planning")
            recorded = await _recorded(call, workspace, session, limits, planner)
        except PlannerLost as error:
            self._end(planner)
            if not new:  # it ended long ago
                return await self.plan(call, workspace, session, limits)
            _log.error("the process that planned %s ended: %s", call.method, error)
            raise refused_anew(_LOST) from None
        except BaseException:
            self._end(planner)
            raise
        self._idle.append(planner)
        if self._ending is not None:
            self._ending.cancel()
        self._ending = asyncio.get_running_loop().call_later(_IDLE_S, self._end_idle)
        return recorded

    def close(self) -> None:
        """End the processes; no call is being planned any more."""
        if self._ending is not None:
            self._ending.cancel()
        for planner in list(self._planners):
            self._end(planner)

    async def _new(self) -> Planner:
        planner = await self._begin()
        self._planners.add(planner)
        return planner

    def _end(self, planner: Planner) -> None:
        self._planners.discard(planner)
        planner.close()

    def _end_idle(self) -> None:
        while self._idle:
            self._end(self._idle.pop())


async def _recorded(
    call: EditCall,
    workspace: Workspace,
    session: Session | None,
    limits: CallLimits,
    planner: Planner,
) -> list[RecordedPlan]:
    """The plans of all dialects of a call, made on the files as they are on the disk now."""
    recorded: list[RecordedPlan] = []
    until = time.monotonic() + MOST_S

    async def plan(method: str, params: Mapping[str, Any], world: World) -> Plan:
        known = await planner.plan(method, params, world, until)
        recorded.append(known)
        if isinstance(known.outcome, Refused):
            raise refused_anew(known.outcome)
        return known.outcome

    apart = workspace.apart()
    try:
        with suppress(Refused):  # the writer will come to the same
            await plan_dialects(apart, call, session, limits, plan)
    finally:
        apart.worktree.close()
    return recorded
