"""Plans that are made in another process, and used by the engine.

Threads can't plan long calls: most of planning holds the interpreter's lock, and a thread can't be
stopped. This process, the planner, plans them on the files as they are on disk. It changes nothing.

A dialect is a function of its parameters and of the world's answers (:mod:`stetd.editing.edits`).
So a plan is recorded with the questions that planning has asked, digests of the answers, and the
outcome. The engine need not plan again: it asks the same questions, and if all answers are the
same, the outcome is.

A planner that runs out of memory says so if it can, and ends, because it may have read half of a
message.
"""

from __future__ import annotations

import gc
import hashlib
import os
import resource
import sys
import traceback
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, suppress
from typing import Any, Literal

import msgspec

from stet.wire.failures import Kind, Refused, refuse
from stetd import __version__
from stetd.editing.edits import Plan, SourceFile, World
from stetd.history.excluding import NOTHING_EXCLUDED
from stetd.history.objects import object_id
from stetd.planning.calls import plan_dialects, plan_directly
from stetd.planning.world import CallLimits, CallWorld, EditCall
from stetd.processes.children import Declined, Failed, Message, attach_to_engine, encoded, receive
from stetd.state.workspace import PlanOutdated
from stetd.storage.disk import Disk
from stetd.storage.worktree import Worktree

#: Niceness of a planner: other processes are more urgent.
_NICE = 5
#: A kind of question: a file, the entry at a path itself, the clipboards.
Question = Literal["read", "look", "clipboards"]
Answer = SourceFile | Mapping[str, str] | Refused


class Asked(msgspec.Struct, frozen=True):
    """A question about a path ("" for the clipboards), and the digest of its answer."""

    kind: Question
    path: str
    digest: bytes


class RecordedPlan(msgspec.Struct, frozen=True):
    """One planned call of a dialect: its plan, or its refusal."""

    method: str
    asked: list[Asked]
    outcome: Plan | Declined


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


#: Declined: planning was given up. The refusal of a call is among the plans.
ToEngine = Ready | Planned | Declined | Failed
to_engine: msgspec.msgpack.Decoder[ToEngine] = msgspec.msgpack.Decoder(ToEngine)
_to_planner = msgspec.msgpack.Decoder(Planning)


def given_up(why: str) -> Refused:
    """The refusal of a call whose planning was stopped."""
    return refuse(
        Kind.INPUT_TOO_LARGE,
        f"Planning this call {why}; it was stopped and nothing was changed. Send several smaller "
        "calls, search for exact text, or edit a smaller file.",
    )


#: Made in advance: there is no memory to make it when it is sent.
_OUT_OF_MEMORY = encoded(Declined.of(given_up("takes too much memory")))


# -- recording and replaying


class RecordingWorld:
    """A world that records the questions that it is asked."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.root = world.root
        self.asked: list[Asked] = []

    def read(self, path: str) -> SourceFile:
        """The file at a path. Raises Refused."""
        found: SourceFile = self._answered("read", path)
        return found

    def look(self, path: str) -> SourceFile:
        """The entry at a path itself. Raises Refused."""
        found: SourceFile = self._answered("look", path)
        return found

    @property
    def clipboards(self) -> Mapping[str, str]:
        """The session's clipboards by name."""
        found: Mapping[str, str] = self._answered("clipboards")
        return found

    def _answered(self, kind: Question, path: str = "") -> Any:
        found = _answer(self._world, kind, path)
        self.asked.append(Asked(kind, path, _digest(found)))
        if isinstance(found, Refused):
            raise found
        return found


def _answer(world: World, kind: Question, path: str) -> Answer:
    """Ask the world; a refusal is an answer, too."""
    try:
        if kind == "clipboards":
            return world.clipboards
        return world.read(path) if kind == "read" else world.look(path)
    except Refused as refusal:
        return refusal.copy()


def _digest(answer: Answer) -> bytes:
    match answer:
        case Refused():
            said = repr((answer.failures, answer.extra))
        case SourceFile(path, data, mode):
            said = repr((path, mode, None if data is None else object_id("blob", data)))
        case _:
            said = repr(sorted(answer.items()))
    return hashlib.sha256(said.encode()).digest()


class Replay:
    """Plans calls as they were recorded. Raises PlanOutdated if a plan is not valid any more."""

    def __init__(self, recorded: Iterable[RecordedPlan]) -> None:
        self._left = iter(recorded)

    def __call__(self, method: str, _params: Mapping[str, Any], world: World) -> Plan:
        """The next recorded plan, which must be one of this method. Raises its refusal."""
        known = next(self._left, None)
        if known is None or known.method != method:
            raise PlanOutdated("")
        for asked in known.asked:
            if _digest(_answer(world, asked.kind, asked.path)) != asked.digest:
                raise PlanOutdated(asked.path)
        if isinstance(known.outcome, Declined):
            raise known.outcome.refusal
        return known.outcome


# -- in the planning process


def main(arguments: Sequence[str]) -> int:
    """Plan calls until the engine is gone."""
    descriptor, max_memory = arguments
    connected = attach_to_engine(descriptor)
    with suppress(OSError, ValueError):  # a hardened unit may forbid it
        os.nice(_NICE)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_AS, (int(max_memory), int(max_memory)))
    with suppress(OSError):
        connected.sendall(encoded(Ready(version=__version__)))
        try:
            while (content := receive(connected)) is not None:
                connected.sendall(encoded(_planned(_to_planner.decode(content))))
                # Documents and their forms refer to each other. They take 15 times the file's size.
                gc.collect()
        except MemoryError:  # half of a message may have been read, so the process must end
            connected.sendall(_OUT_OF_MEMORY)
    return 0


def _planned(asked: Planning) -> Planned | Failed:
    """Plan a call, and record the plan or refusal of each dialect. Raises MemoryError."""
    plans: list[RecordedPlan] = []

    def plan(method: str, params: Mapping[str, Any], world: World) -> Plan:
        recording = RecordingWorld(world)
        try:
            made = plan_directly(method, params, recording)
        except Refused as refusal:
            plans.append(RecordedPlan(method, recording.asked, Declined.of(refusal)))
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
