"""Carrying out arranged changes: the new text, and where each edit stands in it.

Pure assembly. Whether the changes fit together was decided in ``planning``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate

import msgspec

from stet.wire.results import EditReport
from stetd.editing.planning import Change, LocatedEdit


class Applied(msgspec.Struct, frozen=True):
    """``text`` after the changes; ``places``: where each change stands in it, (start, end)."""

    text: str
    places: tuple[tuple[int, int], ...]


def apply_changes(text: str, changes: Sequence[Change]) -> Applied:
    """``text`` with ``changes`` carried out; they are in order and do not overlap."""
    pieces: list[str] = []
    places: list[tuple[int, int]] = []
    position = length = 0
    for change in changes:
        assert position <= change.start, "BUG: overlapping changes reached assembly"
        pieces += (text[position : change.start], change.text)
        length += change.start - position
        places.append((length, length + len(change.text)))
        length += len(change.text)
        position = change.end
    pieces.append(text[position:])
    return Applied("".join(pieces), tuple(places))


def report_edits(
    path: str, edits: Sequence[LocatedEdit], changes: Sequence[Change], applied: Applied
) -> tuple[EditReport, ...]:
    """One report an edit, in the order of the call: the lines where its text now stands.

    An edit that only removes is reported at the line that follows what is gone (the last
    line, at the end of the file).
    """
    spans = _spans(edits, changes, applied)
    last_offset = max(0, len(applied.text) - 1)
    ends = {
        index: (min(start, last_offset), min(max(start, end - 1), last_offset))
        for index, (start, end) in spans.items()
    }
    lines = line_numbers(applied.text, (offset for pair in ends.values() for offset in pair))
    reports = []
    for edit in sorted(edits, key=lambda each: each.index):
        first, last = ends[edit.index]
        reports.append(EditReport(edit.index, path, lines[first], lines[last], edit.rung))
    return tuple(reports)


def line_numbers(text: str, offsets: Iterable[int]) -> Mapping[int, int]:
    """The line, from 1, that holds each of ``offsets``.

    Counts terminators and splits nothing: a Document would list every line of a large file
    to tell the place of one edit.
    """
    numbers: dict[int, int] = {}
    ended = position = 0
    returns = "\r" in text
    for offset in sorted(set(offsets)):
        ended += text.count("\n", position, offset)
        if returns:
            ended += text.count("\r", position, offset)
            ended -= text.count("\r\n", max(0, position - 1), offset)
        inside_pair = text[max(0, offset - 1) : offset + 1] == "\r\n"
        numbers[offset] = ended - inside_pair + 1
        position = offset
    return numbers


def _spans(
    edits: Sequence[LocatedEdit], changes: Sequence[Change], applied: Applied
) -> Mapping[int, tuple[int, int]]:
    """Where each edit's replacement stands in the new text, context that it kept included."""
    if len(edits) == len(changes) == 1 and (
        (edits[0].start, edits[0].end) == (changes[0].start, changes[0].end)
    ):
        return {edits[0].index: applied.places[0]}
    ends = [change.end for change in changes]
    growth = [0, *accumulate(len(each.text) - (each.end - each.start) for each in changes)]
    own: dict[int, list[int]] = {}
    for number, change in enumerate(changes):
        own.setdefault(change.index, []).append(number)

    def moved(offset: int) -> int:
        return offset + growth[bisect_right(ends, offset)]

    spans: dict[int, tuple[int, int]] = {}
    for edit in edits:
        numbers = own.get(edit.index, [])
        if numbers and changes[numbers[0]].start == edit.start:
            start = applied.places[numbers[0]][0]
        else:
            start = moved(edit.start)
        if numbers and changes[numbers[-1]].end == edit.end:
            end = applied.places[numbers[-1]][1]
        else:
            end = moved(edit.end - 1) + 1 if edit.end > edit.start else start
        spans[edit.index] = (start, max(start, end))
    return spans
