"""Why the engines differ over a case: which of its traits, taken away, lets them agree.

Only traits that a rule stands behind are taken away, and options of the call: first all of them,
then each is given back that makes no difference. Those that are left are the causes. Where the
engines differ without any of them, or ours refused with a kind that belongs to none of the
rules, the difference is *unexplained*: one of the two is wrong, or a rule is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from differential.cases import Case, draw
from differential.engines import Outcome, ours
from differential.rules import ALL_OR_NOTHING, OPTIONS, RULES, Rule

Engine = Callable[[Case], Outcome]


class Verdict(StrEnum):
    """What an engine made of a patch, against what it was meant to do."""

    RIGHT = "right"
    REFUSED = "refused, nothing changed"
    HALF = "refused, but files had changed"
    WRONG_TEXT = "wrong: other text"
    WRONG_BYTES = "wrong: terminators, final newline or mode"
    OTHERWISE = "as the text says, not as it was meant"


def judge(case: Case, outcome: Outcome) -> Verdict:
    """The verdict on an outcome."""
    if not outcome.done:
        return Verdict.REFUSED if outcome.tree == case.before else Verdict.HALF
    if outcome.tree == case.meant:
        return Verdict.RIGHT
    if case.doubt:
        return Verdict.OTHERWISE
    alike = _words(outcome) == _words(Outcome(True, case.meant))
    return Verdict.WRONG_BYTES if alike else Verdict.WRONG_TEXT


def _words(outcome: Outcome) -> dict[str, list[bytes]]:
    """The contents of the lines of all files, whatever ends them."""
    return {
        path: data.removesuffix(b"\n").replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        for path, (data, _) in outcome.tree.items()
    }


def agree(one: Outcome, other: Outcome) -> bool:
    """Whether two engines did the same, byte for byte."""
    return one.done == other.done and one.tree == other.tree


@dataclass(frozen=True)
class Compared:
    """A case and what came of it. ``causes``: names of rules; empty: the same, or unexplained."""

    case: Case
    ours: Outcome
    theirs: Outcome
    causes: tuple[str, ...] = ()

    @property
    def same(self) -> bool:
        """Whether there is no difference."""
        return agree(self.ours, self.theirs)


def compare(seed: str, codex: Engine, **options: object) -> Compared:
    """Draw a case, have both carry it out, and explain the difference."""
    case = draw(seed)
    found = Compared(case, ours(case, **options), codex(case))
    if found.same:
        return found
    return Compared(case, found.ours, found.theirs, _causes(found, codex, options))


def _causes(found: Compared, codex: Engine, options: Mapping[str, object]) -> tuple[str, ...]:
    if not found.ours.done and not found.theirs.done:
        return (ALL_OR_NOTHING,)  # ours never changes anything when it refuses
    names = [name for name, (given, _) in OPTIONS.items() if not set(given) <= set(options)]
    names += _removable(found.case)
    if not _agree_without(found.case, names, codex, options):
        return ()
    for name in list(names):
        fewer = [each for each in names if each != name]
        if _agree_without(found.case, fewer, codex, options):
            names = fewer
    names = [name for name in names if name in OPTIONS or name in found.case.traits]
    kinds = {kind for name in names for kind in rule_of(name).kinds}
    return tuple(names) if found.ours.done or found.ours.kinds & kinds else ()


def _removable(case: Case) -> list[str]:
    """The traits of a case that have a rule, and those that come up when these are taken away."""
    found: set[str] = set()
    while not found >= case.traits & RULES.keys():
        found |= case.traits & RULES.keys()
        case = draw(case.seed, found)
    return [name for name in RULES if name in found]


def _agree_without(
    case: Case, names: Sequence[str], codex: Engine, options: Mapping[str, object]
) -> bool:
    """Whether the two agree over a case that lacks these traits, with these options."""
    more = {k: value for name in names if name in OPTIONS for k, value in OPTIONS[name][0].items()}
    without = set(names) - set(OPTIONS)
    changed = draw(case.seed, without) if without else case
    mine, theirs = ours(changed, **{**options, **more}), codex(changed)
    return agree(mine, theirs) or (not mine.done and not theirs.done)


def rule_of(name: str) -> Rule:
    """The rule behind the name of a trait or an option."""
    return OPTIONS[name][1] if name in OPTIONS else RULES[name]
