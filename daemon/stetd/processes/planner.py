"""Processes that plan long calls.

Threads can't do this: most of planning holds the interpreter's lock, and a thread can't be stopped.

:class:`Planner` is the daemon's side of one process: it sends the parameters of a call, answers the
questions about the workspace, and receives a plan or a refusal. The process opens no file and
changes nothing.

Both sides use a :mod:`stetd.processes.channel`. A process that runs out of memory says so if it
can, and ends, because it may have read half of a message.
"""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import sys
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal

from stet.wire.failures import Kind, Refused, refuse
from stetd import __version__
from stetd.editing.dialects import DIALECTS
from stetd.editing.edits import Plan, SourceFile, World
from stetd.processes import children
from stetd.processes.channel import (
    Asked,
    Call,
    Channel,
    ChannelBroken,
    DaemonChannel,
    Exhausted,
    Planned,
    Ready,
    answered,
    asked,
    understood,
)
from stetd.processes.framing import Declined, Failed, Message
from stetd.processes.recorded_plans import Answer, Question, RecordedPlan, answer

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


async def begin_planner(max_memory: int = _MAX_MEMORY) -> Planner:
    """Start a process with so many bytes of address space. Raises NoPlanner."""
    try:
        near, process = children.start(__name__, str(max_memory))
    except OSError as error:
        raise NoPlanner(str(error)) from error
    planner = Planner(DaemonChannel(near), process)
    if not await planner.ready():
        planner.close()
        raise NoPlanner("it did not begin, or is of another version")
    return planner


class Planner:
    """One planning process. It plans one call at a time."""

    def __init__(
        self, channel: DaemonChannel, process: subprocess.Popen[bytes] | None = None
    ) -> None:
        self._channel = channel
        self._process = process

    async def ready(self) -> bool:
        """Wait until the process is ready; returns whether it is."""
        try:
            async with asyncio.timeout(_READY_TIMEOUT_S):
                said = await self._channel.receive()
        except (ChannelBroken, TimeoutError):
            return False
        return said == Ready(version=__version__)

    async def plan(
        self, method: str, params: Mapping[str, Any], world: World, until: float
    ) -> RecordedPlan:
        """Plan one call of a dialect and record the questions and the outcome, plan or refusal.

        ``until``: the deadline (monotonic); after it the outcome is a refusal. Raises PlannerLost,
        PlanningFailed, and what ``world`` raises except refusals.
        """
        answers: list[tuple[Question, Answer]] = []
        outcome: Plan | Refused
        try:
            async with asyncio.timeout_at(until):
                outcome = await self._outcome(method, params, world, answers)
        except TimeoutError:
            self.close()
            outcome = _TOO_LONG
        except ChannelBroken as error:
            raise PlannerLost(str(error)) from error
        return RecordedPlan(method, tuple(answers), outcome)

    async def _outcome(
        self,
        method: str,
        params: Mapping[str, Any],
        world: World,
        answers: list[tuple[Question, Answer]],
    ) -> Plan | Refused:
        await self._tell(Call(method=method, params=dict(params), root=os.fsencode(world.root)))
        loop = asyncio.get_running_loop()
        while True:
            said = await self._channel.receive()
            match said:
                case Asked():
                    # In a thread: reading a large file takes long.
                    reading = loop.run_in_executor(None, answer, world, said.question)
                    try:
                        found = await asyncio.shield(reading)
                    except asyncio.CancelledError:
                        await asyncio.wait([reading])  # it still uses the world's descriptors
                        raise
                    answers.append((said.question, found))
                    await self._tell(answered(found))
                case Exhausted():
                    return _TOO_MUCH_MEMORY
                case Declined():
                    return said.refusal
                case Planned():
                    return said.plan
                case Failed():
                    raise PlanningFailed(said.reason, said.traceback)
                case _:
                    raise ChannelBroken(f"{type(said).__name__} is no outcome")

    async def _tell(self, message: Message) -> None:
        with suppress(ChannelBroken):  # the next message received may say why it ended
            await self._channel.send(message)

    def close(self) -> None:
        """Kill the process; the call that it plans is lost."""
        self._channel.close()
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
    """Plan calls until the daemon is gone."""
    descriptor, max_memory = arguments
    channel = Channel(children.begin(descriptor))
    with suppress(OSError, ValueError):  # a hardened unit may forbid it
        os.nice(_NICE)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_AS, (int(max_memory), int(max_memory)))
    channel.send(Ready(version=__version__))
    try:
        while True:
            _plan(channel)
    except ChannelBroken:
        return 0
    except MemoryError:  # half of a message may have been read, so the process must end
        channel.send(Exhausted())
    return 0


def _plan(channel: Channel) -> None:
    """Plan the next call. Raises ChannelBroken, MemoryError: the process must end then."""
    call = channel.receive()
    if not isinstance(call, Call):
        raise ChannelBroken(f"{type(call).__name__} is no call")
    message = _planned(call, _AskedWorld(channel, os.fsdecode(call.root)))
    try:
        channel.send(message)
    except UnicodeEncodeError as error:  # a lone surrogate, which no reply could have either
        channel.send(_defect(error))


def _planned(call: Call, world: World) -> Message:
    """The outcome of a call as a message."""
    try:
        return Planned(plan=DIALECTS[call.method](call.params, world))
    except Refused as refusal:
        return Declined.of(refusal)
    except (MemoryError, ChannelBroken):
        raise
    except Exception as error:  # noqa: BLE001 - the daemon logs it and answers
        return _defect(error)


def _defect(error: Exception) -> Failed:
    return Failed(reason=repr(error), traceback=traceback.format_exc())


class _AskedWorld:
    """A world whose questions the daemon answers."""

    def __init__(self, channel: Channel, root: str) -> None:
        self._channel = channel
        self.root = root

    def read(self, path: str) -> SourceFile:
        return self._file("read", path)

    def look(self, path: str) -> SourceFile:
        return self._file("look", path)

    @property
    def clipboards(self) -> Mapping[str, str]:
        said = self._ask(("clipboards", ""))
        assert isinstance(said, dict), "BUG: clipboards are not by name"
        return said

    def _file(self, kind: Literal["read", "look"], path: str) -> SourceFile:
        said = self._ask((kind, path))
        assert isinstance(said, SourceFile), "BUG: a path is no file"
        return said

    def _ask(self, question: Question) -> Answer:
        self._channel.send(asked(question))
        said = understood(self._channel.receive())
        if isinstance(said, Refused):
            raise said
        return said


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
