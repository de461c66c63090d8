"""Planning long calls in other processes, while the writer goes on.

The writer begins to plan every call itself, but gives up soon (:mod:`stetd.editing.time_limit`).
Then a planner (:mod:`stetd.planning.planner`) plans it on the files as they are now, and the writer
uses the recorded plan if it still holds, as it nearly always does. So every check of a call is made
by the writer, on the files as they are then.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import msgspec

from stet.wire.failures import Kind, refuse
from stetd import __version__
from stetd.failpoints import reached
from stetd.planning import planner as messages
from stetd.planning.world import CallLimits, EditCall
from stetd.processes import children
from stetd.processes.children import Declined, Failed
from stetd.session.sessions import Session
from stetd.state.workspace import Workspace

#: Seconds for which the writer plans a call itself.
WRITER_PLANNING_S = 0.01
#: The writer never plans calls of more bytes: their tokens may have to be counted.
WRITER_PLANNING_BYTES = 60_000
#: Bytes of address space of a planner.
_MAX_MEMORY = 4 << 30
#: Seconds in which a new planner must be ready.
_READY_TIMEOUT_S = 10.0
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


class PlannerLost(Exception):
    """The process that planned a call has ended."""


class PlanningFailed(Exception):
    """A defect of stetd made planning fail: the exception's text, and its traceback."""


async def begin_planner(max_memory: int = _MAX_MEMORY) -> Planner:
    """Start a process with so many bytes of address space. Raises OSError."""
    planner = Planner(*children.start("stetd.planning.planner", str(max_memory)))
    said: messages.ToEngine | None = None
    try:
        with suppress(PlannerLost, TimeoutError):
            async with asyncio.timeout(_READY_TIMEOUT_S):
                said = await planner.receive()
        if said != messages.Ready(version=__version__):
            raise OSError("it did not begin, or is of another version")
    except BaseException:
        planner.close()
        raise
    return planner


class Planner:
    """One process, on the event loop. It plans one call at a time.

    Unusable after a call was cancelled or refused for its time or memory.
    """

    def __init__(self, connected: socket.socket, process: subprocess.Popen[bytes]) -> None:
        self._socket = connected
        self._process = process
        connected.setblocking(False)

    async def plan(self, asked: messages.Planning, seconds: float) -> list[messages.RecordedPlan]:
        """The plans of a call. Raises Refused if that takes more seconds, or too much memory;
        PlannerLost, PlanningFailed.
        """
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(seconds):
                with suppress(OSError):  # the message received may say why the process has ended
                    await loop.sock_sendall(self._socket, children.encoded(asked))
                said = await self.receive()
        except TimeoutError:
            raise messages.given_up("took too long") from None
        match said:
            case messages.Planned():
                return said.plans
            case Declined():
                raise said.refusal
            case Failed():
                raise PlanningFailed(said.reason, said.traceback)
            case _:
                raise PlannerLost(f"{type(said).__name__} is no outcome")

    async def receive(self) -> messages.ToEngine:
        """The next message. Raises PlannerLost."""
        (size,) = children.LENGTH.unpack(await self._exactly(children.LENGTH.size))
        content = await self._exactly(size)
        try:
            return messages.to_engine.decode(content)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise PlannerLost(f"no message: {error}") from error

    async def _exactly(self, size: int) -> bytearray:
        content = bytearray(size)
        missing = memoryview(content)
        loop = asyncio.get_running_loop()
        while missing:
            try:
                count = await loop.sock_recv_into(self._socket, missing)
            except OSError as error:
                raise PlannerLost(repr(error)) from error
            if not count:
                raise PlannerLost("it is gone")
            missing = missing[count:]
        return content

    def close(self) -> None:
        """Kill the process; the call that it plans is lost."""
        self._socket.close()
        self._process.kill()
        self._process.wait()


class Planners(msgspec.Struct):
    """The planner processes, and the calls that wait for one."""

    _begin: Callable[[], Awaitable[Planner]] = begin_planner
    _working: int = 0
    #: Calls that wait for their turn; the function says whether a client waits for the answer.
    _waiting: dict[asyncio.Future[None], Callable[[], bool]] = {}
    #: Planners that plan no call now.
    _idle: list[Planner] = []
    _idle_timer: asyncio.TimerHandle | None = None

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
    ) -> list[messages.RecordedPlan] | None:
        """The plans of a call's dialects; None if no planner can be started. Raises Refused."""
        new = not self._idle
        try:
            planner = await self._begin() if new else self._idle.pop()
        except OSError as error:
            _log.error("no process to plan in, so the writer does it: %s", error)
            return None
        try:
            await reached("beside.planning")
            clipboards = session.clipboards if session else {}
            asked = messages.Planning(
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
