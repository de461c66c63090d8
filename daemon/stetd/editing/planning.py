"""From located edits to changes of the text, and to the new text.

Two edits overlap if their changes do; lines that an edit keeps are not part of its change. Within a
line there is no such comparison: ``foo`` to ``foobar`` and to ``foobaz`` must not become
``foobarbaz``. Insertions at one place are in the order of the call, but text added after a line
comes before text added before the next one. Inserting the same text twice is an overlap.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from enum import IntEnum
from itertools import accumulate

import msgspec
from msgspec.structs import replace

from stet.wire.results import EditReport
from stetd.editing import time_limit
from stetd.editing.text import TERMINATOR, common_ends, whole_lines

#: Product of line counts up to which texts are aligned; above it all lines between the first and
#: the last difference count as changed.
_ALIGNED_CELLS = 40_000


class Rank(IntEnum):
    """The order of insertions at the same offset."""

    AT_BEGINNING = 0
    IN_TEXT = 1
    AT_END = 2


class LocatedEdit(msgspec.Struct, frozen=True):
    """Edit ``index`` (from 0) at its place: ``start``..``end`` becomes ``replacement``.

    A *change* is a part of an edit that really changes, in the same form.
    """

    index: int
    start: int
    end: int
    replacement: str
    rung: str
    rank: Rank = Rank.IN_TEXT
    #: Similarity of the text at the place, for searches that let words differ.
    score: float | None = None


def arrange(text: str, edits: Sequence[LocatedEdit]) -> Sequence[LocatedEdit]:
    """The changes that carry out ``edits``, in the order of ``text``; none may overlap."""
    changes: list[LocatedEdit] = []
    for group in _touching(edits):
        if len(group) == 1:
            changes += group
        else:
            for edit in _without_shared_edges(text, group):
                changes.extend(_narrowed(text, edit))
    of = {edit.index: edit for edit in edits}

    def order(change: LocatedEdit) -> tuple[int, ...]:
        # At one offset insertions come first: by rank, then those of edits that end there, then of
        # edits that begin there, then in the order of the call.
        at, edit = change.start, of[change.index]
        side = (edit.end > at) + (edit.start >= at)
        return at, change.end > at, change.rank, side, change.index

    return sorted(changes, key=order)


def changed_parts(old: str, new: str) -> Iterator[tuple[int, int, int, int]]:
    """The ranges (in ``old``, in ``new``) that differ, by whole lines, in order."""
    time_limit.check_time()
    # If neither text ends with a terminator, both temporarily get one.
    tail = ""
    if old and new and old[-1] not in "\r\n" and new[-1] not in "\r\n":
        found = TERMINATOR.search(new) or TERMINATOR.search(old)
        tail = found.group() if found else "\n"
    before, after = whole_lines(old + tail), whole_lines(new + tail)
    old_at = list(accumulate(map(len, before), initial=0))
    new_at = list(accumulate(map(len, after), initial=0))
    for i1, i2, j1, j2 in _differing_lines(before, after):
        start, end, new_start, new_end = old_at[i1], old_at[i2], new_at[j1], new_at[j2]
        if tail and i2 == len(before):
            # The temporary terminator is part of neither text: lines that are added or removed at
            # the end add or remove the terminator *before* them instead.
            end, new_end = end - len(tail), new_end - len(tail)
            if i1 == i2 or j1 == j2:
                start, new_start = start - len(tail), new_start - len(tail)
        yield start, end, new_start, new_end


def _touching(edits: Sequence[LocatedEdit]) -> Iterator[list[LocatedEdit]]:
    """``edits`` in the order of the text, grouped if their ranges overlap or touch."""
    group: list[LocatedEdit] = []
    reach = -1
    for edit in sorted(edits, key=lambda each: (each.start, each.end, each.index)):
        if group and edit.start > reach:
            yield group
            group = []
        group.append(edit)
        reach = max(reach, edit.end)
    if group:
        yield group


def _without_shared_edges(text: str, group: list[LocatedEdit]) -> Iterator[LocatedEdit]:
    """``group`` with text that two overlapping neighbours keep removed from the first of them."""
    for edit, following in zip(group, [*group[1:], None], strict=True):
        if following is not None and edit.start < following.start < edit.end < following.end:
            shared = text[following.start : edit.end]
            if edit.replacement.endswith(shared) and following.replacement.startswith(shared):
                kept = len(edit.replacement) - len(shared)
                yield replace(edit, end=following.start, replacement=edit.replacement[:kept])
                continue
        yield edit


def _narrowed(text: str, edit: LocatedEdit) -> Iterator[LocatedEdit]:
    """The changes of ``edit``: its lines without those that it keeps."""
    if edit.start == edit.end:
        yield edit
        return
    parts = changed_parts(text[edit.start : edit.end], edit.replacement)
    for start, end, new_start, new_end in parts:
        new = edit.replacement[new_start:new_end]
        yield replace(edit, start=edit.start + start, end=edit.start + end, replacement=new)


def overlaps(changes: Sequence[LocatedEdit]) -> Mapping[tuple[int, int], tuple[int, bool]]:
    """For two edits (indices, the later first) that can't both take effect in ordered changes: the
    first offset, and whether they insert the same text there.
    """
    found: dict[tuple[int, int], tuple[int, bool]] = {}
    furthest: LocatedEdit | None = None
    for change in changes:
        if furthest and change.start < furthest.end and change.index != furthest.index:
            first, second = sorted((furthest.index, change.index))
            found.setdefault((second, first), (change.start, False))
        if furthest is None or change.end > furthest.end:
            furthest = change
    seen: dict[tuple[int, str], int] = {}
    for change in changes:
        if change.start < change.end or not change.replacement:
            continue
        other = seen.setdefault((change.start, change.replacement), change.index)
        if other != change.index:
            first, second = sorted((other, change.index))
            found.setdefault((second, first), (change.start, True))
    return found


def _differing_lines(
    before: Sequence[str], after: Sequence[str]
) -> Iterator[tuple[int, int, int, int]]:
    """Ranges of line numbers, from 0, in which two lists of lines differ."""
    head, tail = common_ends(before, after)
    old, new = before[head : len(before) - tail], after[head : len(after) - tail]
    if len(old) * len(new) > _ALIGNED_CELLS:
        yield head, head + len(old), head, head + len(new)
        return
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            yield head + i1, head + i2, head + j1, head + j2


def apply_changes(text: str, changes: Sequence[LocatedEdit]) -> str:
    """``text`` after ordered ``changes`` without overlaps."""
    time_limit.check_size(sum(len(change.replacement) for change in changes))
    pieces: list[str] = []
    position = 0
    for change in changes:
        assert position <= change.start, "BUG: overlapping changes reached assembly"
        pieces += (text[position : change.start], change.replacement)
        position = change.end
    pieces.append(text[position:])
    return "".join(pieces)


def report_edits(
    path: str, edits: Sequence[LocatedEdit], changes: Sequence[LocatedEdit], text: str
) -> tuple[EditReport, ...]:
    """One report per edit, in their order, with the lines of its result in ``text``."""
    lines = line_spans(text, _spans(edits, changes))
    return tuple(
        EditReport(edit.index, path, *span, edit.rung)
        for edit, span in zip(edits, lines, strict=True)
    )


def line_spans(text: str, spans: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The first and last line, from 1, of each range of ``text``."""
    final = max(0, len(text) - 1)
    ends = [(min(start, final), min(max(start, end - 1), final)) for start, end in spans]
    lines = line_numbers(text, (offset for pair in ends for offset in pair))
    return ((lines[first], lines[last]) for first, last in ends)


def line_numbers(text: str, offsets: Iterable[int]) -> Mapping[int, int]:
    """The line number, from 1, of each offset, without splitting the text into lines."""
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
    edits: Sequence[LocatedEdit], changes: Sequence[LocatedEdit]
) -> Iterator[tuple[int, int]]:
    """The range of each edit's replacement in the new text, with the context that it kept."""
    ends = [change.end for change in changes]
    growth = [0, *accumulate(len(each.replacement) - (each.end - each.start) for each in changes)]
    numbered = [*enumerate(changes)]
    starts = {(each.index, each.start): each.start + growth[n] for n, each in reversed(numbered)}
    finals = {(each.index, each.end): each.end + growth[n + 1] for n, each in numbered}

    def moved(offset: int) -> int:
        return offset + growth[bisect_right(ends, offset)]

    for edit in edits:
        start = starts.get((edit.index, edit.start), moved(edit.start))
        kept = moved(edit.end - 1) + 1 if edit.end > edit.start else start
        yield start, max(start, finals.get((edit.index, edit.end), kept))
