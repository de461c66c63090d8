"""The questions that planning a call has asked the world, the answers, and the outcome.

A dialect is a function of its parameters and of what the world answers
(:mod:`stetd.editing.edits`). So a call that was planned elsewhere is not planned again where it is
carried out: the same questions are asked, and where all answers are the same, so is the outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

import msgspec

from stet.wire.failures import Refused
from stetd.editing.edits import Plan, SourceFile, World

#: Plans one call of a dialect, by the name of its method. Raises Refused.
PlanDialect = Callable[[str, Mapping[str, Any], World], Plan]
#: A file, what is at a path itself, or the clipboards; and the path, if any.
Question = tuple[Literal["read", "look", "clipboards"], str]
Answer = SourceFile | Mapping[str, str] | Refused


class Changed(Exception):
    """The world answers otherwise than when the call was planned; ``path``: about what."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


class RecordedPlan(msgspec.Struct, frozen=True):
    """One planned call of a dialect."""

    method: str
    answers: tuple[tuple[Question, Answer], ...]
    outcome: Plan | Refused


def answer(world: World, question: Question) -> Answer:
    """What the world says, a refusal included."""
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
    """The same refusal, without where it came from."""
    return Refused(*refusal.failures, extra=refusal.extra)


class Replay:
    """Gives recorded plans again, as a PlanDialect; raises Changed where one does not hold."""

    def __init__(self, recorded: Iterable[RecordedPlan]) -> None:
        self._left = iter(recorded)

    def __call__(self, method: str, _params: Mapping[str, Any], world: World) -> Plan:
        """The next recorded plan, which must be of such a call."""
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
