"""From located edits to the changes that carry them out, for every dialect.

An edit says which stretch of the original text it matched and what is to stand there. This
module decides whether several edits of one call can all take effect, and in which order
insertions at one place go in. Nothing is located here (``matching``) and nothing is
assembled (``applying``).

What counts as the same bytes
    Edits may share context. An edit's matched text is compared, line by line, with what
    replaces it; the lines that stay are context, the others are its *changes*. Two edits
    overlap when their changes do. Inside a line no such comparison is made, except that two
    edits may meet in text that both keep at their edges: of ``foo`` to ``foobar`` and ``foo``
    to ``foobaz`` neither keeps anything, and both could otherwise be carried out, as
    ``foobarbaz``, which nobody asked for.

Insertions at one place
    go in as the call lists them; what is put at the beginning of the file comes before all
    others there, what is put at its end after them. The same text twice at one place is an
    overlap: a patch that was sent twice by mistake must not insert twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from enum import IntEnum

import msgspec
from msgspec.structs import replace

from stetd.editing import patience
from stetd.editing.text import TERMINATOR, split_lines

#: Products of line counts above this are not aligned (difflib is quadratic at worst): the
#: stretch from the first to the last line that differs then counts as changed.
_ALIGNED_CELLS = 40_000


class Rank(IntEnum):
    """Where an insertion goes among others at the same offset."""

    AT_BEGINNING = 0
    IN_TEXT = 1
    AT_END = 2


class LocatedEdit(msgspec.Struct, frozen=True):
    """An edit at its place: ``start``..``end`` of the original text becomes ``replacement``.

    ``index`` is the edit's place in the call, from 0; ``rung`` is what its report will say.
    """

    index: int
    start: int
    end: int
    replacement: str
    rung: str
    rank: Rank = Rank.IN_TEXT


class Change(msgspec.Struct, frozen=True):
    """Text that really changes: ``start``..``end`` of the original becomes ``text``."""

    start: int
    end: int
    text: str
    index: int
    rank: Rank = Rank.IN_TEXT

    @property
    def inserts(self) -> bool:
        """Whether nothing is taken away."""
        return self.start == self.end


class Overlap(msgspec.Struct, frozen=True):
    """Edit ``index`` and the earlier edit ``other`` can not both take effect at ``offset``."""

    index: int
    other: int
    offset: int
    identical: bool


class Arrangement(msgspec.Struct, frozen=True):
    """The changes of a call in the order of the text; of use only without ``overlaps``."""

    changes: tuple[Change, ...]
    overlaps: tuple[Overlap, ...]


def arrange(text: str, edits: Sequence[LocatedEdit]) -> Arrangement:
    """The changes that carry out ``edits`` on ``text``, and what stands in their way."""
    if len(edits) == 1:
        return Arrangement((_whole(edits[0]),), ())
    changes: list[Change] = []
    for group in _touching(edits):
        if len(group) == 1:
            changes.append(_whole(group[0]))
        else:
            for edit in _without_shared_edges(text, group):
                changes.extend(_narrowed(text, edit))
    changes.sort(key=_order)
    return Arrangement(tuple(changes), (*_collisions(changes), *_repetitions(changes)))


def changed_parts(old: str, new: str) -> Iterator[tuple[int, int, int, int]]:
    """The stretches in which ``new`` differs from ``old``, by whole lines, in order.

    Yields (start, end) in ``old`` and (start, end) in ``new``. If neither text ends with a
    terminator, their last lines are compared as if both did.
    """
    patience.go_on()
    tail = _open_end(old, new)
    before, after = _whole_lines(old + tail), _whole_lines(new + tail)
    old_at, new_at = _offsets(before), _offsets(after)
    for i1, i2, j1, j2 in _differing_lines(before, after):
        start, end, new_start, new_end = old_at[i1], old_at[i2], new_at[j1], new_at[j2]
        if tail and i2 == len(before):
            # The borrowed terminator is no part of either text. Lines that are added or
            # removed at the end bring or take the terminator *before* them instead.
            end, new_end = end - len(tail), new_end - len(tail)
            if i1 == i2 or j1 == j2:
                start, new_start = start - len(tail), new_start - len(tail)
        yield start, end, new_start, new_end


def _touching(edits: Sequence[LocatedEdit]) -> Iterator[list[LocatedEdit]]:
    """``edits`` in the order of the text, in groups whose ranges meet or touch."""
    group: list[LocatedEdit] = []
    reach = -1
    for edit in sorted(edits, key=lambda each: (each.start, each.end)):
        if group and edit.start > reach:
            yield group
            group = []
        group.append(edit)
        reach = max(reach, edit.end)
    if group:
        yield group


def _without_shared_edges(text: str, group: list[LocatedEdit]) -> Iterator[LocatedEdit]:
    """``group`` with text that two neighbours both keep, where they meet, left to the second."""
    for edit, following in zip(group, [*group[1:], None], strict=True):
        if following is not None and edit.start < following.start < edit.end < following.end:
            shared = text[following.start : edit.end]
            if edit.replacement.endswith(shared) and following.replacement.startswith(shared):
                kept = len(edit.replacement) - len(shared)
                yield replace(edit, end=following.start, replacement=edit.replacement[:kept])
                continue
        yield edit


def _whole(edit: LocatedEdit) -> Change:
    return Change(edit.start, edit.end, edit.replacement, edit.index, edit.rank)


def _narrowed(text: str, edit: LocatedEdit) -> Iterator[Change]:
    """The changes of ``edit``, without the lines that it keeps."""
    if edit.start == edit.end:
        yield _whole(edit)
        return
    parts = changed_parts(text[edit.start : edit.end], edit.replacement)
    for start, end, new_start, new_end in parts:
        new = edit.replacement[new_start:new_end]
        yield Change(edit.start + start, edit.start + end, new, edit.index, edit.rank)


def _order(change: Change) -> tuple[int, bool, int, int]:
    """By place; at one place insertions come first, by rank and then as the call lists them."""
    return change.start, not change.inserts, change.rank, change.index


def _collisions(changes: Iterable[Change]) -> Iterator[Overlap]:
    """Changes, in order, that begin inside the one that reaches furthest."""
    furthest: Change | None = None
    for change in changes:
        if furthest and change.start < furthest.end and change.index != furthest.index:
            first, second = sorted((furthest.index, change.index))
            yield Overlap(second, first, change.start, identical=False)
        if furthest is None or change.end > furthest.end:
            furthest = change


def _repetitions(changes: Iterable[Change]) -> Iterator[Overlap]:
    """Insertions of the same text at the same place by different edits."""
    seen: dict[tuple[int, str], int] = {}
    for change in changes:
        if not change.inserts or not change.text:
            continue
        other = seen.setdefault((change.start, change.text), change.index)
        if other != change.index:
            first, second = sorted((other, change.index))
            yield Overlap(second, first, change.start, identical=True)


def _open_end(old: str, new: str) -> str:
    """The terminator to lend to both texts when neither ends with one, else nothing."""
    if not old or not new or old[-1] in "\r\n" or new[-1] in "\r\n":
        return ""
    found = TERMINATOR.search(new) or TERMINATOR.search(old)
    return found.group() if found else "\n"


def _whole_lines(text: str) -> list[str]:
    """The lines of ``text`` with their terminators."""
    return [content + terminator for content, terminator in zip(*split_lines(text), strict=True)]


def _offsets(lines: Sequence[str]) -> list[int]:
    """Where each line begins, and where the last one ends."""
    offsets = [0]
    for line in lines:
        offsets.append(offsets[-1] + len(line))
    return offsets


def _differing_lines(
    before: Sequence[str], after: Sequence[str]
) -> Iterator[tuple[int, int, int, int]]:
    """Ranges of line numbers, from 0, in which two lists of lines differ."""
    shorter = min(len(before), len(after))
    head = next((n for n in range(shorter) if before[n] != after[n]), shorter)
    room = shorter - head
    tail = next((n for n in range(room) if before[-1 - n] != after[-1 - n]), room)
    old, new = before[head : len(before) - tail], after[head : len(after) - tail]
    if not old and not new:
        return
    if not old or not new or len(old) * len(new) > _ALIGNED_CELLS:
        yield head, head + len(old), head, head + len(new)
        return
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            yield head + i1, head + i2, head + j1, head + j2
