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

Both sides of the conversation are here, because they are the same program. So pickle is no door
that was not open before.
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
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, Literal, NoReturn, cast

from stet.wire.failures import Kind, Refused, refuse
from stetd.editing.dialects import DIALECTS
from stetd.editing.edits import Plan, SourceFile, World
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
        ours, theirs = socket.socketpair()
        held, leash = os.pipe()
        try:
            socket.send_fds(self._socket, [b"planner"], [theirs.fileno(), held])
        except OSError as error:
            ours.close()
            os.close(leash)
            raise NoPlanner(str(error)) from error
        finally:
            theirs.close()
            os.close(held)
        planner = Planner(Connection(ours.detach()), leash)
        if not planner.ready():
            planner.close()
            raise NoPlanner("it could not be forked")
        return planner

    def close(self) -> None:
        """Make no more. Those that there are live on."""
        self._socket.close()
        with suppress(ChildProcessError):
            os.waitpid(self.pid, 0)


class Planner:
    """One process that plans. One call at a time."""

    def __init__(self, connection: Connection, leash: int) -> None:
        self._connection = connection
        self._leash = leash
        #: Of no use any more: close it.
        self.spoilt = False

    def ready(self) -> bool:
        """Whether the process is there."""
        try:
            return self._connection.poll(_READY_S) and bool(self._connection.recv())
        except (OSError, EOFError):
            return False

    def plan(
        self, method: str, params: Mapping[str, Any], world: World, until: float
    ) -> RecordedPlan:
        """Plan one call of a dialect, and record it; a refusal is an outcome as well.

        ``until``: when (monotonic) it has taken too long, which is a refusal. Raises PlannerLost
        PlanningFailed, and what the world raises but for refusals.
        """
        answers: list[tuple[Question, Answer]] = []
        try:
            self._connection.send((method, params))
            while True:
                if not self._connection.poll(max(0.0, until - time.monotonic())):
                    self.spoilt = True
                    return RecordedPlan(method, tuple(answers), _TOO_LONG)
                kind, value = self._connection.recv()
                if kind == "ask":
                    said = answer(world, value)
                    answers.append((value, said))
                    _send_answer(self._connection, said)
                elif kind == "failed":
                    raise PlanningFailed(*value)
                else:
                    outcome = self._outcome(kind, value, answers)
                    return RecordedPlan(method, tuple(answers), outcome)
        except (OSError, EOFError) as error:
            if isinstance(error, EOFError | ConnectionError):
                raise PlannerLost(repr(error)) from error
            raise

    def _outcome(
        self, kind: str, value: Any, answers: list[tuple[Question, Answer]]
    ) -> Plan | Refused:
        if kind == "refused":
            failures, extra = value
            return Refused(*failures, extra=extra)
        plan = cast("Plan", value)
        read = {said.path: said.data for _, said in answers if isinstance(said, SourceFile)}
        files = []
        for planned in plan.files:
            after = self._connection.recv_bytes() if planned.after is not None else None
            before = read.get(planned.path) if planned.before is not None else None
            files.append(replace(planned, before=before, after=after))
        return replace(plan, files=tuple(files))

    def end(self) -> None:
        """End the process, whatever it is doing; a call that it plans is lost. Any thread."""
        if self._leash >= 0:
            leash, self._leash = self._leash, -1
            os.close(leash)

    def close(self) -> None:
        """End the process, and forget it."""
        self.end()
        self._connection.close()


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
                _end_with(partial(_plan_for_ever, Connection(descriptors[0]), descriptors[1]))
        for descriptor in descriptors:
            os.close(descriptor)


def _plan_for_ever(connection: Connection, leash: int) -> None:
    fcntl.fcntl(leash, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(leash, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
    if select.select([leash], [], [], 0)[0]:
        return  # it was let go before the kernel knew
    with suppress(OSError, ValueError):  # a hardened unit may forbid it
        os.nice(_NICE)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
    connection.send(True)
    while True:
        try:
            method, params = connection.recv()
        except EOFError:
            return
        try:
            _plan(connection, method, params)
        except MemoryError:
            _send_refusal(connection, _TOO_MUCH_MEMORY)


def _plan(connection: Connection, method: str, params: Mapping[str, object]) -> None:
    try:
        plan = DIALECTS[method](params, _AskedWorld(connection))
    except Refused as refusal:
        _send_refusal(connection, refusal)
        return
    except (MemoryError, EOFError, OSError):
        raise
    except Exception as error:  # noqa: BLE001 - the daemon logs it and answers
        connection.send(("failed", (repr(error), traceback.format_exc())))
        return
    contents = [planned.after for planned in plan.files]
    files = tuple(
        replace(
            planned,
            before=None if planned.before is None else b"",
            after=None if planned.after is None else b"",
        )
        for planned in plan.files
    )
    connection.send(("plan", replace(plan, files=files)))
    for content in contents:
        if content is not None:
            connection.send_bytes(content)


def _send_refusal(connection: Connection, refusal: Refused) -> None:
    connection.send(("refused", (refusal.failures, refusal.extra)))


class _AskedWorld:
    """The world as the daemon answers for it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

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
        self._connection.send(("ask", question))
        return _receive_answer(self._connection)


def _send_answer(connection: Connection, said: Answer) -> None:
    """An answer, the content of a file apart: it may be long, and need not be copied."""
    if isinstance(said, Refused):
        connection.send(("refused", (said.failures, said.extra)))
    elif isinstance(said, SourceFile) and said.data is not None:
        connection.send(("file", replace(said, data=b"")))
        connection.send_bytes(said.data)
    else:
        connection.send(("value", said))


def _receive_answer(connection: Connection) -> Answer:
    """The same, received. Raises Refused."""
    kind, value = connection.recv()
    if kind == "refused":
        failures, extra = value
        raise Refused(*failures, extra=extra)
    if kind == "file":
        return replace(cast("SourceFile", value), data=connection.recv_bytes())
    return cast("Answer", value)
