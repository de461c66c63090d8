"""Processes that plan: a call that takes long has an interpreter, and a processor, of its own.

A thread would not do. Most of planning is Python, or C that keeps the interpreter, so the writer
would wait for it at every step; and nothing can stop a thread.

:class:`Nursery` is a process that was forked when the daemon had no thread yet and holds nothing
open. It does nothing but fork when it is told to. (A program that is started anew could be that
of another version by now, or not to be found any more.) :class:`Planner` is one such fork, as the
daemon has it: it is given the parameters of one call after the other, asks what it wants to know
of the workspace, and answers with a plan or a refusal. It opens no file, and changes nothing.

A planner lives on a *leash*: a pipe whose other end the daemon holds. When that is let go, on
purpose or because the daemon was killed, the kernel ends the planner (SIGIO), whatever it is doing.

What both say goes over a :mod:`stetd.planning_channel`. A process that lacks memory says so if it
still can, and ends: nobody knows what it has left half-read.
"""

from __future__ import annotations

import fcntl
import gc
import os
import resource
import select
import signal
import socket
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from typing import Any, Literal, NoReturn

from stet.wire.failures import Kind, Refused, refuse
from stetd.editing.dialects import DIALECTS
from stetd.editing.edits import Plan, SourceFile, World
from stetd.planning_channel import (
    Asked,
    Call,
    Channel,
    ChannelBroken,
    Declined,
    Exhausted,
    Failed,
    Late,
    Message,
    Planned,
    Ready,
    answered,
    asked,
    understood,
)
from stetd.recorded_plans import Answer, Question, RecordedPlan, answer

#: Others are more urgent: what takes long takes a little longer.
_NICE = 5
#: Bytes of address space that planning one call may take.
_MOST_MEMORY = 4 << 30
#: Seconds in which a process must be there.
_READY_S = 10.0
_DESCRIPTORS = 1 << 16


class NoPlanner(Exception):
    """No process could be made."""


class PlannerLost(Exception):
    """The process that planned a call has ended."""


class PlanningFailed(Exception):
    """Planning a call has met a defect of ours: what it was, and its traceback."""


class Nursery:
    """Makes planners. Fork it early: no other thread may run."""

    def __init__(self) -> None:
        self._socket, other = socket.socketpair()
        self.pid = os.fork()
        if self.pid == 0:
            _end_with(lambda: _keep_nursery(other))
        other.close()

    def planner(self) -> Planner:
        """A new process. Raises NoPlanner if there can be none."""
        try:
            planner = self._asked_for()
        except OSError as error:
            raise NoPlanner(str(error)) from error
        if not planner.ready():
            planner.close()
            raise NoPlanner("it could not be forked")
        return planner

    def _asked_for(self) -> Planner:
        with ExitStack() as ours, ExitStack() as theirs:
            near, far = socket.socketpair()
            ours.callback(near.close)
            theirs.callback(far.close)
            held, leash = os.pipe()
            ours.callback(os.close, leash)
            theirs.callback(os.close, held)
            socket.send_fds(self._socket, [b"planner"], [far.fileno(), held])
            ours.pop_all()  # they are the planner's from now on
            return Planner(Channel(near), leash)

    def close(self) -> None:
        """Make no more. Those that there are live on."""
        self._socket.close()
        with suppress(ChildProcessError):
            os.waitpid(self.pid, 0)


class Planner:
    """One process that plans. One call at a time."""

    def __init__(self, channel: Channel, leash: int) -> None:
        self._channel = channel
        self._leash = leash
        #: Of no use any more: close it.
        self.spoilt = False

    def ready(self) -> bool:
        """Whether the process is there."""
        try:
            said, _ = self._channel.receive(time.monotonic() + _READY_S)
        except (ChannelBroken, Late):
            return False
        return isinstance(said, Ready)

    def plan(
        self, method: str, params: Mapping[str, Any], world: World, until: float
    ) -> RecordedPlan:
        """Plan one call of a dialect, and record it; a refusal is an outcome as well.

        ``until``: when (monotonic) it has taken too long, which is a refusal. Raises PlannerLost
        PlanningFailed, and what the world raises but for refusals.
        """
        if self.spoilt:
            raise PlannerLost("nobody knows where it is since the call before")
        answers: list[tuple[Question, Answer]] = []
        self.spoilt = True  # until it has said its last word on this call
        try:
            outcome = self._outcome(method, params, world, answers, until)
        except Late:
            outcome = _TOO_LONG
        except ChannelBroken as error:
            raise PlannerLost(str(error)) from error
        return RecordedPlan(method, tuple(answers), outcome)

    def _outcome(
        self,
        method: str,
        params: Mapping[str, Any],
        world: World,
        answers: list[tuple[Question, Answer]],
        until: float,
    ) -> Plan | Refused:
        self._tell(until, Call(method=method, params=dict(params)))
        while True:
            said, contents = self._channel.receive(until)
            if isinstance(said, Asked):
                told = answer(world, said.question)
                answers.append((said.question, told))
                message, held = answered(told)
                self._tell(until, message, *held)
                continue
            if isinstance(said, Exhausted):
                return _TOO_MUCH_MEMORY
            self.spoilt = not self._channel.speaks
            match said:
                case Declined():
                    return said.refusal
                case Planned():
                    return _filled(said.plan, contents, answers)
                case Failed():
                    raise PlanningFailed(said.reason, said.traceback)
                case _:
                    raise ChannelBroken(f"{type(said).__name__} is no outcome")

    def _tell(self, until: float, message: Message, *contents: bytes) -> None:
        with suppress(ChannelBroken):  # it may have said why it ended, which is heard next
            self._channel.send(message, *contents, until=until)

    def end(self) -> None:
        """End the process, whatever it is doing; a call that it plans is lost. Any thread."""
        if self._leash >= 0:
            leash, self._leash = self._leash, -1
            os.close(leash)
        self._channel.end()  # one that is stopped (SIGSTOP) goes on living

    def close(self) -> None:
        """End the process, and forget it."""
        self.end()
        self._channel.close()


def _filled(
    plan: Plan, contents: Sequence[bytes], answers: Sequence[tuple[Question, Answer]]
) -> Plan:
    """A plan as it was made, with what its files held and will hold. Raises ChannelBroken."""
    if len(contents) != sum(planned.after is not None for planned in plan.files):
        raise ChannelBroken("the contents are not those of the plan")
    read = {said.path: said.data for _, said in answers if isinstance(said, SourceFile)}
    after = iter(contents)
    files = tuple(
        replace(
            planned,
            before=None if planned.before is None else read.get(planned.path),
            after=None if planned.after is None else next(after),
        )
        for planned in plan.files
    )
    return replace(plan, files=files)


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


# -- in the other processes


def _end_with(work: Any) -> NoReturn:
    """Do this in a process that was forked just now, and end it."""
    status = 1
    try:
        work()
        status = 0
    except BaseException:  # noqa: BLE001 - nothing of the daemon's may run here
        traceback.print_exc()
    finally:
        os._exit(status)


def _keep_nursery(control: socket.socket) -> None:
    """Fork whenever the daemon says so, until it is gone."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the daemon says when it is over
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel takes care of those that ended
    os.closerange(3, control.fileno())
    os.closerange(control.fileno() + 1, _DESCRIPTORS)
    os.chdir("/")
    gc.freeze()
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, 64, 2)
        if not message:
            return
        with suppress(OSError):  # too many processes: the daemon sees that there is none
            if os.fork() == 0:
                control.close()
                _end_with(partial(_plan_for_ever, descriptors[0], descriptors[1]))
        for descriptor in descriptors:
            os.close(descriptor)


def _plan_for_ever(connected: int, leash: int) -> None:
    fcntl.fcntl(leash, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(leash, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
    if select.select([leash], [], [], 0)[0]:
        return  # it was let go before the kernel knew
    with suppress(OSError, ValueError):  # a hardened unit may forbid it
        os.nice(_NICE)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
    channel = Channel(socket.socket(fileno=connected))
    channel.send(Ready())
    try:
        while True:
            _plan(channel)
    except ChannelBroken:
        return
    except MemoryError:
        pass  # wherever it was: what was being heard is lost, so nothing more is read
    if channel.speaks:
        channel.send(Exhausted())


def _plan(channel: Channel) -> None:
    """Plan the next call. Raises ChannelBroken, MemoryError: then there can be no other."""
    call, _ = channel.receive()
    if not isinstance(call, Call):
        raise ChannelBroken(f"{type(call).__name__} is no call")
    message, contents = _planned(call, _AskedWorld(channel))
    try:
        channel.send(message, *contents)
    except UnicodeEncodeError as error:  # half a character, which no reply could hold either
        channel.send(_defect(error))


def _planned(call: Call, world: World) -> tuple[Message, Sequence[bytes]]:
    """What comes of a call, to be said."""
    try:
        plan = DIALECTS[call.method](call.params, world)
    except Refused as refusal:
        return Declined.of(refusal), ()
    except (MemoryError, ChannelBroken):
        raise
    except Exception as error:  # noqa: BLE001 - the daemon logs it and answers
        return _defect(error), ()
    files = tuple(
        replace(
            planned,
            before=None if planned.before is None else b"",
            after=None if planned.after is None else b"",
        )
        for planned in plan.files
    )
    contents = [planned.after for planned in plan.files if planned.after is not None]
    return Planned(plan=replace(plan, files=files)), contents


def _defect(error: Exception) -> Failed:
    return Failed(reason=repr(error), traceback=traceback.format_exc())


class _AskedWorld:
    """The world as the daemon answers for it."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def read(self, path: str) -> SourceFile:
        return self._file("read", path)

    def look(self, path: str) -> SourceFile:
        return self._file("look", path)

    @property
    def root(self) -> str:
        said = self._ask(("root", ""))
        assert isinstance(said, str), "BUG: the root is not a path"
        return said

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
        said = understood(*self._channel.receive())
        if isinstance(said, Refused):
            raise said
        return said
