"""The figures of the benchmark: counted as cases come in, and shown as text, Markdown or JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.table import aligned
from mutations.catalogue import ON_TRUST
from mutations.judging import Judged, Verdict, shown
from mutations.sending import dialects
from mutations.sources import versions
from stetd.editing.matching.rungs import Rung

#: How many wrong answers are shown whole.
_SHOWN_WRONG = 20
Table = list[tuple[str, ...]]


@dataclass
class Figures:
    """What was counted; ``wrong`` are the cases that must not be there."""

    seed: int
    verdicts: Counter[tuple[str, str, Verdict]] = field(default_factory=Counter)
    #: By dialect and rung: right answers, and those that no other rung would have given.
    rungs: Counter[tuple[str, str]] = field(default_factory=Counter)
    alone: Counter[tuple[str, str]] = field(default_factory=Counter)
    wrong: list[dict[str, object]] = field(default_factory=list)

    def add(self, judged: Judged, *, alone: bool) -> None:
        """Count a case. ``alone``: its right answer hung on its rung."""
        case = judged.case
        self.verdicts[case.mistake, case.dialect, judged.verdict] += 1
        if judged.verdict is Verdict.RIGHT:
            self.rungs[case.dialect, judged.answer.rung] += 1
            self.alone[case.dialect, judged.answer.rung] += alone
        if judged.verdict is Verdict.WRONG and case.mistake not in ON_TRUST:
            self.wrong.append(shown(judged))

    @property
    def cases(self) -> int:
        """How many were judged; not those that are taken on trust or left out."""
        return sum(
            count
            for (mistake, _, verdict), count in self.verdicts.items()
            if mistake not in ON_TRUST and verdict is not Verdict.LEFT_OUT
        )

    def of(self, verdict: Verdict, *, mistake: str = "", dialect: str = "") -> int:
        """How many of a verdict, of one mistake or else of all not taken on trust."""
        return sum(
            count
            for (its_mistake, its_dialect, its), count in self.verdicts.items()
            if its is verdict
            and dialect in ("", its_dialect)
            and (mistake == its_mistake if mistake else its_mistake not in ON_TRUST)
        )

    def mistakes(self) -> list[str]:
        """The mistakes that were made, in the order of the catalogue."""
        return list(dict.fromkeys(mistake for mistake, _, _ in self.verdicts))


def by_dialect(figures: Figures) -> Table:
    """A row a dialect."""
    table: Table = [("dialect", "cases", "right", "refused", "wrong")]
    for dialect in [*dialects(), ""]:
        table.append((dialect or "all", *_rates(figures, dialect=dialect)))
    return table


def by_mistake(figures: Figures) -> Table:
    """A row a mistake, over all dialects."""
    table: Table = [("what is wrong", "cases", "right", "refused", "wrong")]
    for mistake in figures.mistakes():
        if mistake not in ON_TRUST:
            table.append((mistake, *_rates(figures, mistake=mistake)))
    return table


def on_trust(figures: Figures) -> Table:
    """What the ladder takes for a mistake that it forgives, apart."""
    table: Table = [("taken on trust", "cases", "right", "refused", "wrong")]
    for mistake in ON_TRUST:
        if mistake in figures.mistakes():
            table.append((mistake, *_rates(figures, mistake=mistake)))
    return table


def by_rung(figures: Figures) -> Table:
    """A row a rung: right answers in each dialect, and those that only it gave."""
    table: Table = [("rung", *dialects(), "only this rung")]
    for rung in Rung:
        counts = [figures.rungs[dialect, rung.value] for dialect in dialects()]
        alone = sum(figures.alone[dialect, rung.value] for dialect in dialects())
        told = "-" if rung is Rung.EXACT else f"{alone:,}"
        table.append((rung.value, *(f"{count:,}" for count in counts), told))
    return table


def _rates(figures: Figures, *, mistake: str = "", dialect: str = "") -> tuple[str, ...]:
    right, refused, wrong = (
        figures.of(verdict, mistake=mistake, dialect=dialect)
        for verdict in (Verdict.RIGHT, Verdict.REFUSED, Verdict.WRONG)
    )
    cases = right + refused + wrong
    shares = (f"{100 * count / cases:.1f} %" if cases else "-" for count in (right, refused))
    return (f"{cases:,}", *shares, str(wrong))


def as_text(figures: Figures) -> str:
    """For people at a terminal."""
    parts = [f"{figures.cases:,} cases, {figures.of(Verdict.WRONG)} wrong (seed {figures.seed})"]
    parts += ("\n".join(aligned(table)) for table in _tables(figures))
    parts += ("WRONG " + json.dumps(case, indent=1) for case in figures.wrong[:_SHOWN_WRONG])
    return "\n\n".join(parts)


def as_markdown(figures: Figures) -> str:
    """For the README."""
    return "\n\n".join(map(_in_markdown, _tables(figures)))


def as_json(figures: Figures) -> str:
    """For programs."""
    everything = {
        "seed": figures.seed,
        "versions": versions(),
        "cases": figures.cases,
        "wrong": figures.of(Verdict.WRONG),
        "mistakes": {
            mistake: {
                dialect: {
                    verdict.value: figures.verdicts[mistake, dialect, verdict]
                    for verdict in Verdict
                }
                for dialect in dialects()
            }
            for mistake in figures.mistakes()
        },
        "rungs": {
            rung.value: {
                dialect: {
                    "right": figures.rungs[dialect, rung.value],
                    "only this rung": figures.alone[dialect, rung.value],
                }
                for dialect in dialects()
            }
            for rung in Rung
        },
        "wrong_cases": figures.wrong,
    }
    return json.dumps(everything, indent=2, ensure_ascii=False)


def _tables(figures: Figures) -> list[Table]:
    tables = [by_dialect(figures), by_rung(figures), by_mistake(figures), on_trust(figures)]
    return [table for table in tables if len(table) > 1]


def _in_markdown(table: Sequence[tuple[str, ...]]) -> str:
    head, *rows = table
    rule = ("---", *["--:"] * (len(head) - 1))
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, rule, *rows))
