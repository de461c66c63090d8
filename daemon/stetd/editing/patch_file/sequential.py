"""Edits that are made one after the other, each in the text that the one before it leaves.

Line numbers are told for the *final* text, so the place of an edit moves with every later
one: what is written before it shifts it, what is written inside it grows it, and what replaces
it takes its place. Only the characters that an edit really changes count (what old and new
text have in common at their ends stays), so that edits may share context lines.

``patch`` works differently, on the original text (``planning``, ``applying``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from stet.wire.results import EditReport
from stetd.editing.applying import line_numbers


class Step(msgspec.Struct, frozen=True):
    """One edit: ``start``..``end`` of the text it is made in becomes ``replacement``.

    ``rung`` and ``score`` are what its report will say.
    """

    index: int
    start: int
    end: int
    replacement: str
    rung: str
    score: float | None = None


@dataclass(slots=True)
class Landed:
    """Where a step's text stands in the text as it is by now: ``start``..``end``.

    ``changed_start``..``changed_end`` is the part that it really changed; ``removed`` is what
    stood there before; ``changed_by`` is the index of the last later step that changed that
    part again.
    """

    step: Step
    removed: str
    start: int
    end: int
    changed_start: int
    changed_end: int
    changed_by: int | None = None

    @property
    def idle(self) -> bool:
        """Whether the step changes nothing."""
        return self.removed == self.step.replacement


@dataclass(slots=True)
class Succession:
    """A text in which steps are made, and where each of them has landed."""

    text: str
    landed: list[Landed]

    @classmethod
    def of(cls, text: str) -> Succession:
        """No step made yet."""
        return cls(text, [])

    def make(self, step: Step) -> None:
        """Make a step in the text as it is."""
        removed = self.text[step.start : step.end]
        head, tail = _common_ends(removed, step.replacement)
        start, end = step.start + head, step.end - tail
        growth = len(step.replacement) - len(removed)
        for earlier in self.landed:
            _move(earlier, step.index, start, end, growth)
        landed_end = step.start + len(step.replacement)
        self.landed.append(Landed(step, removed, step.start, landed_end, start, landed_end - tail))
        self.text = "".join((self.text[: step.start], step.replacement, self.text[step.end :]))


def _common_ends(old: str, new: str) -> tuple[int, int]:
    """How many characters two texts have in common at the beginning, and then at the end."""
    shorter = min(len(old), len(new))
    head = next((n for n in range(shorter) if old[n] != new[n]), shorter)
    room = shorter - head
    tail = next((n for n in range(room) if old[-1 - n] != new[-1 - n]), room)
    return head, tail


def _move(landed: Landed, by: int, start: int, end: int, growth: int) -> None:
    """Follow a later change of ``start``..``end``, which makes the text longer by ``growth``."""

    def opening(offset: int) -> int:
        return offset + growth if offset >= end else min(offset, start)

    def closing(offset: int) -> int:
        return offset if offset <= start else max(offset, end) + growth

    if landed.changed_start < end and start < landed.changed_end:
        landed.changed_by = by
    landed.start, landed.end = opening(landed.start), closing(landed.end)
    landed.changed_start = opening(landed.changed_start)
    landed.changed_end = closing(landed.changed_end)
    # Of a removal nothing is left that could hold what is inserted at its place.
    landed.end = max(landed.start, landed.end)
    landed.changed_end = max(landed.changed_start, landed.changed_end)


def changed_lines(text: str, landed: Sequence[Landed]) -> list[int]:
    """For each step the line of the final ``text`` in which what it changed begins."""
    final = max(0, len(text) - 1)
    starts = [min(each.changed_start, final) for each in landed]
    lines = line_numbers(text, starts)
    return [lines[start] for start in starts]


def report_steps(path: str, text: str, landed: Sequence[Landed]) -> tuple[EditReport, ...]:
    """One report a step: the lines of the final ``text`` where what it has written stands.

    A step that only removes is reported at the line that follows what is gone (the last line,
    at the end of the text).
    """
    final = max(0, len(text) - 1)
    ends = [(min(each.start, final), min(max(each.start, each.end - 1), final)) for each in landed]
    lines = line_numbers(text, (offset for pair in ends for offset in pair))
    return tuple(
        EditReport(
            each.step.index, path, lines[first], lines[last], each.step.rung, score=each.step.score
        )
        for each, (first, last) in zip(landed, ends, strict=True)
    )
