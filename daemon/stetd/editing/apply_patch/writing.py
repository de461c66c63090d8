"""What a hunk at its place changes: the text for every group of its added lines.

Context lines keep the bytes of the file. An added line is written as it was sent, but for

its indentation
    Where the hunk matched with other indentation, added lines get the change that its old
    lines show: one for the whole hunk, if there is one. Else a group of added lines gets the
    change that the lines around it agree on: those it replaces, and the nearest line that is
    not blank on either side; at least two must, and the added lines have no other indentation
    than these. Without such a change the hunk is refused. Blank lines gain nothing.

its terminator
    That of the line which it replaces, in order; what is added beyond these, or replaces
    nothing, takes that of the line before; at the beginning of a file that of the line after.

Lines at the end of a file get a terminator, unless Git's remark says that there is none; so
does a last line without one before lines that are put after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from stetd.editing.apply_patch.operations import ADDED
from stetd.editing.apply_patch.placed import Group, Placed
from stetd.editing.matching.indentation import Change
from stetd.editing.matching.normal_forms import INDENTATION, indentation_of
from stetd.editing.matching.rungs import Rung
from stetd.editing.text import Document, is_blank

_SHIFTED = (Rung.INDENT, Rung.INDENT_TYPOGRAPHY)
#: How many lines around a place tell the file's unit of indentation.
_NEIGHBOURHOOD = 40


class Written(msgspec.Struct, frozen=True):
    """Lines ``start`` to ``end`` (not included, from 0) become ``lines``, with terminators.

    ``unended``: the last of them has none if the file ends with it.
    """

    placed: Placed
    start: int
    end: int
    lines: tuple[str, ...]
    unended: bool

    @property
    def order(self) -> tuple[int, bool, int, int]:
        """Insertions come before what replaces the line; else as the places of their hunks."""
        return self.start, self.end > self.start, self.placed.start, self.placed.hunk.index


def write(document: Document, placed: Placed) -> list[Written] | None:
    """The changes of a hunk, in order; None when its added lines can't be indented."""
    indented = _indented(document, placed)
    if indented is None:
        return None
    return [
        Written(
            placed,
            group.start,
            group.end,
            tuple(_terminated(document, group, contents)),
            unended=bool(group.added) and group.added[-1].unended,
        )
        for group, contents in zip(placed.groups, indented, strict=True)
    ]


def _terminated(document: Document, group: Group, contents: Sequence[str]) -> Iterator[str]:
    for number, (line, content) in enumerate(zip(group.added, contents, strict=True)):
        if line.end != "\n":
            yield content + line.end
        elif group.end > group.start:
            yield content + _terminator(document, min(group.start + number, group.end - 1))
        else:
            yield content + _terminator(document, max(0, group.start - 1))


def _terminator(document: Document, line: int) -> str:
    """How a line ends, or how it would if it were not the last."""
    if document.eol in ("lf", "none") or line >= document.line_count:
        return "\n"
    own = document.text[document.content_end(line) : document.line_end(line)]
    return own or document.terminator_near(len(document.text))


def _indented(document: Document, placed: Placed) -> list[list[str]] | None:
    """The contents of each group's added lines, with the indentation of the place."""
    groups = placed.groups
    given = [[line.text for line in group.added] for group in groups]
    if placed.rung not in _SHIFTED:
        return given
    pairs = list(_pairs(document, placed))
    around = _indentations_around(document, placed)
    whole = Change(*zip(*(pair for _, pair in pairs), strict=True))
    if whole.uniform:
        flat = _shifted(whole, [text for texts in given for text in texts], around)
        if flat is None:
            return None
        rest = iter(flat)
        return [[next(rest) for _ in texts] for texts in given]
    shifted = []
    for group, texts in zip(groups, given, strict=True):
        change = _change_near(pairs, group)
        known = change and all(is_blank(t) or indentation_of(t) in change.text for t in texts)
        lines = _shifted(change, texts, around) if change and known else None
        if lines is None and not all(map(is_blank, texts)):
            return None
        shifted.append(texts if lines is None else lines)
    return shifted


def _pairs(document: Document, placed: Placed) -> Iterator[tuple[int, tuple[str, str]]]:
    """Of each old line that is not blank: its line in the file, both indentations."""
    at = placed.start
    for line in placed.lines:
        if line.sign == ADDED:
            continue
        if not is_blank(line.text):
            yield at, (indentation_of(line.text), indentation_of(document.lines[at]))
        at += 1


def _change_near(pairs: Sequence[tuple[int, tuple[str, str]]], group: Group) -> Change | None:
    """The change of indentation on which the lines around a group agree."""
    before = [pair for at, pair in pairs if at < group.start][-1:]
    inside = [pair for at, pair in pairs if group.start <= at < group.end]
    after = [pair for at, pair in pairs if at >= group.end][:1]
    near = before + inside + after
    # One line alone may be the very one whose indentation was got wrong.
    change = Change(*zip(*near, strict=True)) if len(near) > 1 else None
    return change if change and change.uniform else None


def _shifted(change: Change, texts: Sequence[str], around: Sequence[str]) -> list[str] | None:
    filled = [text for text in texts if not is_blank(text)]
    indentations = change.apply([indentation_of(text) for text in filled], around) if filled else []
    if indentations is None:
        return None
    following = iter(indentations)
    return [
        text if is_blank(text) else next(following) + text.lstrip(INDENTATION) for text in texts
    ]


def _indentations_around(document: Document, placed: Placed) -> list[str]:
    first = max(0, placed.start - _NEIGHBOURHOOD)
    lines = document.lines[first : placed.end + _NEIGHBOURHOOD]
    return [indentation_of(line) for line in lines if not is_blank(line)]
