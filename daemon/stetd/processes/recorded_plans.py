"""Recorded plans: the questions that planning has asked the world, the answers, and the outcome.

A dialect is a function of its parameters and of the world's answers (:mod:`stetd.editing.edits`).
So the engine need not plan again a call that another process has planned: it asks the same
questions, and if all answers are the same, the outcome is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec

from stet.wire.failures import Refused
from stetd.editing.edits import Plan, SourceFile, World
from stetd.history.objects import object_id
from stetd.processes.framing import Declined

#: The kind of question: a file, the entry at a path itself, the clipboards.
Kind = Literal["read", "look", "clipboards"]
Answer = SourceFile | Mapping[str, str] | Refused


class PlanOutdated(Exception):
    """The world's answer about ``path`` differs from the one when the call was planned."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


class Asked(msgspec.Struct, frozen=True):
    """A question about a path ("" for the clipboards), and the digest of its answer."""

    kind: Kind
    path: str
    digest: bytes


class RecordedPlan(msgspec.Struct, frozen=True):
    """One planned call of a dialect: its plan, or its refusal."""

    method: str
    asked: list[Asked]
    plan: Plan | None = None
    refusal: Declined | None = None


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

    def _answered(self, kind: Kind, path: str = "") -> Any:
        found = _answer(self._world, kind, path)
        self.asked.append(Asked(kind, path, _digest(found)))
        if isinstance(found, Refused):
            raise found
        return found


def _answer(world: World, kind: Kind, path: str) -> Answer:
    """Ask the world; a refusal is an answer, too."""
    try:
        match kind:
            case "read":
                return world.read(path)
            case "look":
                return world.look(path)
            case "clipboards":
                return world.clipboards
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
        if known.refusal is not None:
            raise known.refusal.refusal
        assert known.plan is not None, "BUG: neither a plan nor a refusal"
        return known.plan
