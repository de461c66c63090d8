"""Planning long calls in other processes, while the writer goes on.

The writer begins to plan every call itself, but gives up soon (:mod:`stetd.editing.time_limit`).
Then a planner (:mod:`stetd.planning.planner`) plans the call on the files as they are now. Every
question that planning asks of the workspace is recorded, with a digest of its answer. When the
writer carries out the call it asks the same questions again; if all answers are the same (nearly
always), the recorded plan is the one that it would have made. So every check of a call is made by
the writer, on the files as they are then.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from stet.wire.failures import Kind, refuse
from stetd.failpoints import reached
from stetd.planning.planner import NoPlanner, Planner, PlannerLost, Planning, begin_planner
from stetd.planning.world import CallLimits, EditCall
from stetd.processes.recorded_plans import RecordedPlan
from stetd.session.sessions import Session
from stetd.state.workspace import Workspace

#: Seconds for which the writer plans a call itself.
WRITER_PLANNING_S = 0.01
#: The writer never plans calls of more bytes: their tokens may have to be counted.
WRITER_PLANNING_BYTES = 60_000
#: Seconds after which a planner gives up.
_PLANNING_TIMEOUT_S = 120.0
#: Planners that work at the same time.
_MAX_PLANNING = 2
#: Seconds after which an idle planner is ended.
_IDLE_S = 20.0

_log = logging.getLogger(__name__)
_LOST = refuse(
    Kind.INTERNAL,
    "The process that planned this call ended unexpectedly; nothing was changed. Send several "
    "smaller calls, search for exact text, or edit a smaller file.",
)


class Planners:
    """The planner processes, and the calls that wait for one."""

    def __init__(self, begin: Callable[[], Awaitable[Planner]] = begin_planner) -> None:
        self._begin = begin
        self._working = 0
        #: Calls that wait for their turn; the function says whether a client waits for the answer.
        self._waiting: dict[asyncio.Future[None], Callable[[], bool]] = {}
        #: Planners that plan no call now.
        self._idle: list[Planner] = []
        self._idle_timer: asyncio.TimerHandle | None = None

    @asynccontextmanager
    async def turn(self, wanted: Callable[[], bool]) -> AsyncIterator[None]:
        """Wait until a planner may work; calls that no client waits for come last."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting[turn] = wanted
        self._give_turns()
        try:
            await turn
            yield
        finally:
            if self._waiting.pop(turn, None) is None:  # it had its turn
                self._working -= 1
                self._give_turns()

    def _give_turns(self) -> None:
        """Give the turns that are free to calls that wait for one."""
        while self._working < _MAX_PLANNING:
            waiting = [turn for turn in self._waiting if not turn.cancelled()]
            if not waiting:
                break
            turn = next((each for each in waiting if self._waiting[each]()), waiting[0])
            del self._waiting[turn]
            self._working += 1
            turn.set_result(None)

    async def plan(
        self, call: EditCall, workspace: Workspace, session: Session | None, limits: CallLimits
    ) -> list[RecordedPlan] | None:
        """The plans of a call's dialects; None if no planner can be started. Raises Refused."""
        new = not self._idle
        try:
            planner = await self._begin() if new else self._idle.pop()
        except NoPlanner as error:
            _log.error("no process to plan in, so the writer does it: %s", error)
            return None
        try:
            await reached("beside.planning")
            clipboards = session.clipboards if session else {}
            asked = Planning(
                root=workspace.root, call=call, clipboards=dict(clipboards), limits=limits
            )
            recorded = await planner.plan(asked, _PLANNING_TIMEOUT_S)
        except PlannerLost as error:
            planner.close()
            if not new:  # it may have ended long ago
                return await self.plan(call, workspace, session, limits)
            _log.error("the process that planned %s ended: %s", call.method, error)
            raise _LOST.copy() from None
        except BaseException:
            planner.close()
            raise
        self._idle.append(planner)
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        self._idle_timer = asyncio.get_running_loop().call_later(_IDLE_S, self._end_idle)
        return recorded

    def close(self) -> None:
        """End the planners; no call is being planned any more."""
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        self._end_idle()

    def _end_idle(self) -> None:
        while self._idle:
            self._idle.pop().close()
