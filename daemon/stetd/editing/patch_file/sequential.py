"""Edits that are made one after the other, each in the text that the one before it leaves.

Line numbers are told for the *final* text, so the place of an edit moves with every later one.
Only the characters that an edit really changes count: edits may share context lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from stet.wire.results import EditReport
from stetd.editing.matching.near_miss import quoted
from stetd.editing.matching.normal_forms import INDENTATION
from stetd.editing.planning import LocatedEdit, line_numbers, line_spans
from stetd.editing.text import (
    WHITE_SPACE,
    Document,
    common_ends,
    is_blank,
    presentable,
    split_lines,
)


@dataclass(slots=True)
class Landed:
    """Where a step's text stands in the text as it is by now: ``start``..``end``."""

    step: LocatedEdit
    #: What stood there before.
    removed: str
    start: int
    end: int
    #: The part that it really changed, and the index of the last later step that changed this.
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
    landed: list[Landed] = field(default_factory=list)

    def make(self, step: LocatedEdit) -> None:
        """Make a step in the text as it is."""
        removed = self.text[step.start : step.end]
        head, tail = common_ends(removed, step.replacement)
        start, end = step.start + head, step.end - tail
        growth = len(step.replacement) - len(removed)
        for earlier in self.landed:
            _move(earlier, step.index, start, end, growth)
        landed_end = step.start + len(step.replacement)
        self.landed.append(Landed(step, removed, step.start, landed_end, start, landed_end - tail))
        self.text = "".join((self.text[: step.start], step.replacement, self.text[step.end :]))


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
    """One report a step: the lines of the final ``text`` where what it has written stands."""
    spans = line_spans(text, [(each.start, each.end) for each in landed])
    return tuple(
        EditReport(each.step.index, path, *span, each.step.rung, score=each.step.score)
        for each, span in zip(landed, spans, strict=True)
    )


#: A line is quoted up to so many characters, and shown up to so many.
_QUOTED = 60
_SHOWN_LINE = 200
#: Of a long change so many of its first and of its last lines are shown.
_SHOWN_ENDS = 10


def told(number: int, landed: Landed, report: EditReport, changed_line: int) -> str:
    """``  1. Line 42: <what changed>``: where the text was found, and where it begins to change."""
    notes = []
    if report.score is not None:
        notes.append(f"fuzzy match, score {report.score:.2f}")
    if landed.changed_by is not None:
        notes.append(f"changed again by change {landed.changed_by + 1}")
    note = f" ({'; '.join(notes)})" if notes else ""
    at = "" if landed.idle or changed_line == report.line else f" at line {changed_line}"
    return f"  {number}. Line {report.line}: {described(landed)}{at}{note}"


def described(landed: Landed) -> str:
    """What a change did, drawn from the lines in which its old and new text differ."""
    old, new = split_lines(landed.removed)[0], split_lines(landed.step.replacement)[0]
    head, tail = common_ends(old, new)
    old, new = old[head : len(old) - tail], new[head : len(new) - tail]
    if not old and not new:
        return "changed line endings" if not landed.idle else "changed nothing"
    if not old:
        return f"added {_told_lines(new)}"
    if not new:
        return f"removed {_told_lines(old)}"
    if len(old) == len(new) == 1:
        indented = len(old[0]) - len(old[0].lstrip(INDENTATION))
        shared = min(indented, common_ends(old[0], new[0])[0])
        return f"{_short(old[0][shared:])} became {_short(new[0][shared:])}"
    return f"replaced {_told_lines(old)} with {_told_lines(new)}"


def surroundings(document: Document, report: EditReport, around: int) -> Iterator[str]:
    """The lines of a change in the final text, and so many ``around`` it."""
    first = max(1, report.line - around)
    last = min(document.line_count, report.end_line + around)
    width = len(str(last))
    hidden = range(report.line + _SHOWN_ENDS, report.end_line + 1 - _SHOWN_ENDS)
    for number in range(first, last + 1):
        if number in hidden:
            if number == hidden.start:
                yield f"       {'':>{width}}| ... {len(hidden)} more lines"
            continue
        line = presentable(document.lines[number - 1])
        shown = line[:_SHOWN_LINE] + ("..." if len(line) > _SHOWN_LINE else "")
        mark = ">" if report.line <= number <= report.end_line else " "
        yield f"     {mark} {number:>{width}}| {shown}".rstrip(" ")


def _told_lines(lines: list[str]) -> str:
    """The text of one line; of several, their number and the first that is not blank."""
    if len(lines) == 1:
        return "a blank line" if is_blank(lines[0]) else _short(lines[0].strip(WHITE_SPACE))
    telling = next((line for line in lines if not is_blank(line)), None)
    if telling is None:
        return f"{len(lines)} blank lines"
    return f"{len(lines)} lines ({_short(telling.strip(WHITE_SPACE))} ...)"


def _short(text: str) -> str:
    return quoted(text if len(text) <= _QUOTED else f"{text[:_QUOTED]}...")
