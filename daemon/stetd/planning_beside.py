"""Planning calls that take long beside the writer, which goes on with others meanwhile.

The writer begins with every call itself, but not for long (:mod:`stetd.editing.patience`). A call
that needs longer is planned here, in a process of its own (:mod:`stetd.planning_process`), on
what stands on the disk now; what planning has asked and what came of it is recorded. Then the call
is the writer's again: there the same questions are asked, and if all answers are the same (which
they nearly always are), what was planned is what the writer would have planned. So all that a call
must be checked for is checked by the writer, at the time when it is carried out.

A few calls are planned at a time, one of a client, in the order in which they came; calls of
clients that are gone only when nobody else's wait. A thread takes no new call before the last one
was carried out or some seconds have passed, so hardly more results wait than there are threads.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from stet.wire.failures import Kind, Refused, refuse
from stetd.call_planning import plan_dialects
from stetd.call_world import CallLimits, EditCall
from stetd.editing.edits import Plan, World
from stetd.failpoints import hit
from stetd.planning_process import NoPlanner, Nursery, Planner, PlannerLost
from stetd.recorded_plans import RecordedPlan, refused_anew
from stetd.session.sessions import Session
from stetd.workspace import Workspace

#: Seconds for which the writer plans a call itself.
AT_ONCE_S = 0.01
#: Calls of more bytes are never planned there: their tokens may have to be counted.
AT_ONCE_BYTES = 60_000
#: Seconds after which planning a call is given up.
MOST_S = 120.0
#: Calls that are planned at a time.
_THREADS = 2
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
Recorded: TypeAlias = list[RecordedPlan] | Exception | None


@dataclass(slots=True, eq=False)
class Beside:
    """One call that is to be planned here."""

    call: EditCall
    workspace: Workspace
    session: Session | None
    limits: CallLimits
    #: Called on another thread once ``recorded`` is there.
    done: Callable[[], None]
    #: Whether somebody still waits for the answer.
    wanted: Callable[[], bool]
    #: Whether it was answered otherwise.
    over: Callable[[], bool]
    #: It was submitted.
    begun: bool = False
    recorded: Recorded = None
    #: To be set once the result was used, or is of no use any more.
    taken: threading.Event = field(default_factory=threading.Event)


class PlanningBeside:
    """Threads that have calls planned, each in its own process. Any thread may submit."""

    def __init__(self, nursery: Nursery) -> None:
        self._nursery = nursery
        self._changed = threading.Condition()
        self._waiting: deque[Beside] = deque()
        self._threads: list[threading.Thread] = []
        self._planners: set[Planner] = set()
        self._idle = 0
        self._closed = False

    def submit(self, beside: Beside) -> None:
        """Plan this when its turn has come; where there can be no thread, give it back at once."""
        with self._changed:
            self._waiting.append(beside)
            if len(self._waiting) > self._idle and len(self._threads) < _THREADS:
                self._begin_thread()
            if self._threads:
                self._changed.notify()
                return
            self._waiting.remove(beside)
        beside.done()

    def _begin_thread(self) -> None:
        thread = threading.Thread(target=self._run, name="stet-plan", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # as many tasks as the user or the unit may have
            _log.error("no thread to plan in: %s", error)
        else:
            self._threads.append(thread)

    def close(self) -> None:
        """End the threads and their processes; what waits is not planned."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            for planner in self._planners:
                planner.end()
        for thread in self._threads:
            thread.join()
        self._nursery.close()

    def _run(self) -> None:
        planner: Planner | None = None
        while not self._closed:
            beside = self._next()
            if beside is not None:
                planner = self._planned(beside, planner)
                del beside  # it may hold a large file twice
            elif planner is not None:
                self._end(planner)
                planner = None
        if planner is not None:
            self._end(planner)

    def _planned(self, beside: Beside, planner: Planner | None) -> Planner | None:
        """Plan one call, and give it back; the process that can go on, if any."""
        new = planner is None
        try:
            planner = planner if planner is not None else self._begin()
            hit("beside.planning")
            beside.recorded = _recorded(beside, planner)
        except NoPlanner as error:
            _log.error("no process to plan in, so the writer does it: %s", error)
        except PlannerLost as error:
            if planner is not None and not new and not self._closed:
                self._end(planner)
                return self._planned(beside, None)  # it may have ended long ago
            _log.error("the process that planned %s ended: %s", beside.call.method, error)
            beside.recorded = refused_anew(_LOST)
        except Exception as error:  # noqa: BLE001 - the writer answers with it
            beside.recorded = error
        if planner is not None and (planner.spoilt or not isinstance(beside.recorded, list)):
            self._end(planner)
            planner = None
        hit("beside.planned")
        beside.done()
        beside.taken.wait(_TAKEN_S)
        return planner

    def _next(self) -> Beside | None:
        """The next call, None if there is none for a while."""
        with self._changed:
            self._idle += 1
            self._changed.wait_for(lambda: self._waiting or self._closed, _IDLE_S)
            self._idle -= 1
            if self._closed or not self._waiting:
                return None
            for over in [each for each in self._waiting if each.over()]:
                self._waiting.remove(over)
                over.done()
            if not self._waiting:
                return None
            chosen = next((each for each in self._waiting if each.wanted()), self._waiting[0])
            self._waiting.remove(chosen)
            return chosen

    def _begin(self) -> Planner:
        planner = self._nursery.planner()
        with self._changed:
            self._planners.add(planner)
            if self._closed:
                planner.end()
        return planner

    def _end(self, planner: Planner) -> None:
        with self._changed:
            self._planners.discard(planner)
            planner.end()
        planner.close()


def _recorded(beside: Beside, planner: Planner) -> list[RecordedPlan]:
    """All calls of dialects that the call consists of, planned on what stands on the disk now."""
    recorded: list[RecordedPlan] = []
    until = time.monotonic() + MOST_S

    def plan(method: str, params: Mapping[str, Any], world: World) -> Plan:
        known = planner.plan(method, params, world, until)
        recorded.append(known)
        if isinstance(known.outcome, Refused):
            raise refused_anew(known.outcome)
        return known.outcome

    workspace = beside.workspace.apart()
    try:
        plan_dialects(workspace, beside.call, beside.session, beside.limits, plan)
    except Refused:
        pass  # the writer will come to the same
    finally:
        workspace.worktree.close()
    return recorded
