"""Processes that plan long calls.

Threads can't do this: most of planning holds the interpreter's lock, and a thread can't be stopped.

The engine sends a call; the process plans it on the files as they are on disk, and answers with the
recorded plans (:mod:`stetd.processes.recorded_plans`). It changes nothing. Messages are MessagePack
of the types below, each after its length. A process that runs out of memory says so if it can, and
ends, because it may have read half of a message.
"""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import socket
import subprocess
import sys
import traceback
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from typing import Any

import msgspec

from stet.wire.failures import Kind, Refused, refuse
from stetd import __version__
from stetd.editing.edits import Plan, World
from stetd.history.excluding import NOTHING_EXCLUDED
from stetd.planning.calls import plan_dialects, plan_directly
from stetd.planning.world import CallLimits, CallWorld, EditCall
from stetd.processes import children, framing
from stetd.processes.framing import Declined, Failed, Message
from stetd.processes.recorded_plans import RecordedPlan, RecordingWorld
from stetd.storage.disk import Disk
from stetd.storage.worktree import Worktree

#: Niceness of a planner: other processes are more urgent.
_NICE = 5
#: Bytes of address space of a planner.
_MAX_MEMORY = 4 << 30
#: Seconds in which a new process must be ready.
_READY_TIMEOUT_S = 10.0


class NoPlanner(Exception):
    """No process could be started."""


class PlannerLost(Exception):
    """The process that planned a call has ended."""


class PlanningFailed(Exception):
    """A defect of stetd made planning fail: the exception's text, and its traceback."""


class Planning(Message, frozen=True):
    """From the engine: plan this call in the workspace ``root``, with the session's clipboards."""

    root: str
    call: EditCall
    clipboards: dict[str, str]
    limits: CallLimits


class Ready(Message, frozen=True):
    """The planner is ready. ``version`` differs if stetd was upgraded while the daemon runs."""

    version: str


class Planned(Message, frozen=True):
    """The plans of the call's dialects; the last one is a refusal if the call is refused."""

    plans: list[RecordedPlan]


class Exhausted(Message, frozen=True):
    """Planning ran out of memory. The process ends."""


ToEngine = Ready | Planned | Exhausted | Failed
_encoder = msgspec.msgpack.Encoder()
_to_planner = msgspec.msgpack.Decoder(Planning)
_to_engine: msgspec.msgpack.Decoder[ToEngine] = msgspec.msgpack.Decoder(ToEngine)


def _encoded(message: Message) -> bytes:
    return framing.framed(_encoder.encode(message))


async def begin_planner(max_memory: int = _MAX_MEMORY) -> Planner:
    """Start a process with so many bytes of address space. Raises NoPlanner."""
    try:
        near, process = children.start(__name__, str(max_memory))
    except OSError as error:
        raise NoPlanner(str(error)) from error
    planner = Planner(near, process)
    with ExitStack() as unless_ready:
        unless_ready.callback(planner.close)
        if not await planner.ready():
            raise NoPlanner("it did not begin, or is of another version")
        unless_ready.pop_all()
    return planner


class Planner:
    """The engine's side of one process, on the event loop. It plans one call at a time.

    Unusable after a call was cancelled or refused for its time or memory.
    """

    def __init__(
        self, connected: socket.socket, process: subprocess.Popen[bytes] | None = None
    ) -> None:
        self._socket = connected
        self._process = process
        connected.setblocking(False)

    async def ready(self) -> bool:
        """Wait until the process is ready; returns whether it is."""
        try:
            async with asyncio.timeout(_READY_TIMEOUT_S):
                return await self._receive() == Ready(version=__version__)
        except (PlannerLost, TimeoutError):
            return False

    async def plan(self, asked: Planning, seconds: float) -> list[RecordedPlan]:
        """The plans of a call. Raises Refused if that takes more seconds, or too much memory;
        PlannerLost, PlanningFailed.
        """
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(seconds):
                with suppress(OSError):  # the message received may say why the process has ended
                    await loop.sock_sendall(self._socket, _encoded(asked))
                said = await self._receive()
        except TimeoutError:
            raise _TOO_LONG.copy() from None
        match said:
            case Planned():
                return said.plans
            case Exhausted():
                raise _TOO_MUCH_MEMORY.copy()
            case Failed():
                raise PlanningFailed(said.reason, said.traceback)
            case _:
                raise PlannerLost(f"{type(said).__name__} is no outcome")

    async def _receive(self) -> ToEngine:
        (size,) = framing.LENGTH.unpack(await self._exactly(framing.LENGTH.size))
        content = await self._exactly(size)
        try:
            return _to_engine.decode(content)
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
        if self._process is not None:
            self._process.kill()
            self._process.wait()


_TOO_LONG = refuse(
    Kind.INPUT_TOO_LARGE,
    "Planning this call took too long; it was stopped and nothing was changed. Send several "
    "smaller calls, search for exact text, or edit a smaller file.",
)
_TOO_MUCH_MEMORY = refuse(
    Kind.INPUT_TOO_LARGE,
    "Planning this call takes too much memory; it was stopped and nothing was changed. Send "
    "several smaller calls, search for exact text, or edit a smaller file.",
)


# -- in the planning process


def main(arguments: Sequence[str]) -> int:
    """Plan calls until the engine is gone."""
    descriptor, max_memory = arguments
    connected = children.attach_to_engine(descriptor)
    with suppress(OSError, ValueError):  # a hardened unit may forbid it
        os.nice(_NICE)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_AS, (int(max_memory), int(max_memory)))
    with suppress(OSError):
        connected.sendall(_encoded(Ready(version=__version__)))
        try:
            while (content := framing.receive(connected)) is not None:
                connected.sendall(_encoded(_planned(_to_planner.decode(content))))
                # Documents and their forms refer to each other. They take 15 times the file's size.
                gc.collect()
        except MemoryError:  # half of a message may have been read, so the process must end
            connected.sendall(_encoded(Exhausted()))
    return 0


def _planned(asked: Planning) -> Planned | Failed:
    """Plan a call, and record the plan or refusal of each dialect. Raises MemoryError."""
    plans: list[RecordedPlan] = []

    def plan(method: str, params: Mapping[str, Any], world: World) -> Plan:
        recording = RecordingWorld(world)
        try:
            made = plan_directly(method, params, recording)
        except Refused as refusal:
            plans.append(RecordedPlan(method, recording.asked, refusal=Declined.of(refusal)))
            raise
        plans.append(RecordedPlan(method, recording.asked, made))
        return made

    try:
        # The engine, which asks the same questions, gets the same refusals and errors.
        with (
            suppress(Refused, OSError),
            closing(Worktree(asked.root, Disk())) as worktree,
            closing(CallWorld(worktree, asked.call, asked.limits, asked.clipboards)) as world,
        ):
            plan_dialects(asked.call, world, NOTHING_EXCLUDED, plan)
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - the engine logs it and answers
        return Failed(reason=repr(error), traceback=traceback.format_exc())
    return Planned(plans=plans)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
