"""Recorded plans: the questions that planning has asked the world, the answers, and the outcome.

A dialect is a function of its parameters and of the world's answers (:mod:`stetd.editing.edits`).
So the engine need not plan again a call that another process has planned: it asks the same
questions, and if all answers are the same, the outcome is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

import msgspec

from stet.wire.failures import Refused
from stetd.editing.edits import Plan, SourceFile, World

#: Plans one call of a dialect, by the name of its method. Raises Refused.
PlanDialect = Callable[[str, Mapping[str, Any], World], Plan]
#: The kind of question (a file, the entry at a path itself, the clipboards), and the path, if any.
Question = tuple[Literal["read", "look", "clipboards"], str]
Answer = SourceFile | Mapping[str, str] | Refused


class Changed(Exception):
    """The world's answer about ``path`` differs from the one when the call was planned."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


class RecordedPlan(msgspec.Struct, frozen=True):
    """One planned call of a dialect."""

    method: str
    answers: tuple[tuple[Question, Answer], ...]
    outcome: Plan | Refused


def answer(world: World, question: Question) -> Answer:
    """Ask the world; a refusal is an answer, too."""
    kind, path = question
    try:
        match kind:
            case "read":
                return world.read(path)
            case "look":
                return world.look(path)
            case "clipboards":
                return dict(world.clipboards)
    except Refused as refusal:
        return refused_anew(refusal)


def refused_anew(refusal: Refused) -> Refused:
    """A copy of a refusal, without its traceback."""
    return Refused(*refusal.failures, extra=refusal.extra)


class Replay:
    """A PlanDialect that returns recorded plans; raises Changed if one is not valid any more."""

    def __init__(self, recorded: Iterable[RecordedPlan]) -> None:
        self._left = iter(recorded)

    def __call__(self, method: str, _params: Mapping[str, Any], world: World) -> Plan:
        """The next recorded plan, which must be one of this method."""
        known = next(self._left, None)
        if known is None or known.method != method:
            raise Changed("")
        for question, answered in known.answers:
            if not _same(answer(world, question), answered):
                raise Changed(question[1])
        if isinstance(known.outcome, Refused):
            raise refused_anew(known.outcome)
        return known.outcome


def _same(one: Answer, other: Answer) -> bool:
    if isinstance(one, Refused) and isinstance(other, Refused):
        return (one.failures, one.extra) == (other.failures, other.extra)
    return one == other
