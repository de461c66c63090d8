"""An update's hunks on one text: place all, write all, put the new text together.

*Marks* are the lines of the new text that a hunk has changed. A later operation of the patch may
change the file again, and then moves them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec
from msgspec.structs import replace

from stetd.editing.apply_patch.grammar import ADDED, Hunk
from stetd.editing.apply_patch.hunks import Group, Placed, Placer, Problem, Reason
from stetd.editing.matching.line_replacement import Change
from stetd.editing.matching.normal_forms import indentation_of, indentations_around
from stetd.editing.matching.rungs import Rung
from stetd.editing.text import Document, is_blank

_SHIFTED = (Rung.INDENT, Rung.INDENT_TYPOGRAPHY)


class Written(msgspec.Struct, frozen=True):
    """Lines ``start`` to ``end`` (not included, from 0) become ``lines``, with terminators."""

    placed: Placed
    start: int
    end: int
    lines: tuple[str, ...]
    #: Whether the last of them has none if the file ends with it.
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
    groups = placed.groups
    given = [[line.text for line in group.added] for group in groups]
    if placed.rung not in _SHIFTED:
        return given
    pairs = list(_pairs(document, placed))
    around = indentations_around(document, placed.start, placed.end)
    whole = Change(*zip(*(pair for _, pair in pairs), strict=True))
    if whole.uniform:
        flat = whole.shift([text for texts in given for text in texts], around)
        if flat is None:
            return None
        rest = iter(flat)
        return [[next(rest) for _ in texts] for texts in given]
    shifted = []
    for group, texts in zip(groups, given, strict=True):
        change = _change_near(pairs, group)
        known = change and all(is_blank(t) or indentation_of(t) in change.text for t in texts)
        lines = change.shift(texts, around) if change and known else None
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


#: Problems that the failure of a hunk before may be the cause of.
_DEPENDENT = frozenset(Reason) - {Reason.ABSENT}
#: After so many failed hunks the others are not looked at.
MOST_FAILED = 200


class Mark(msgspec.Struct, frozen=True):
    """Lines ``first`` to ``last`` (not included, from 0) are what edit ``index`` has left."""

    index: int
    first: int
    last: int
    rung: str

    def moved(self, written: Sequence[Written]) -> Mark:
        """Where these lines are after further changes, which are in order."""
        first, last = _moved(self.first, written), _moved(self.last, written, ends=True)
        return replace(self, first=first, last=last)


class Updated(msgspec.Struct, frozen=True):
    """The new text, where the hunks were placed, and what they changed."""

    text: str
    placed: tuple[Placed, ...]
    written: tuple[Written, ...]
    marks: tuple[Mark, ...]
    #: Hunks that put in what stood there.
    idle: tuple[Hunk, ...]


def update(
    document: Document, hunks: Sequence[Hunk], *, first: bool = False
) -> Updated | list[Problem]:
    """Carry out ``hunks`` on a text; or every problem that is no consequence of another."""
    placer = Placer(document, hunks, first=first)
    problems: list[Problem] = []
    written: list[Written] = []
    failed = 0
    for hunk in hunks:
        found = placer.place(hunk)
        if isinstance(found, Placed):
            changes = write(document, found)
            if changes is None:
                found = Problem(Reason.SHIFT, hunk, (found.start,), found.rung)
            else:
                written += changes
        if isinstance(found, Problem):
            failed += 1
            if not problems or found.reason not in _DEPENDENT:
                problems.append(found)
            if failed == MOST_FAILED:
                break
    written.sort(key=lambda each: each.order)
    problems += _repetitions(written)
    if problems:
        return problems
    idle = _idle(placer.placed, document, written)
    return Updated(
        _text(document, written),
        tuple(placer.placed),
        tuple(written),
        tuple(_marks(placer.placed, written)),
        tuple(each for each in hunks if each.index in idle),
    )


def _repetitions(written: Iterable[Written]) -> list[Problem]:
    """The same lines added twice at one place."""
    problems: list[Problem] = []
    seen: dict[tuple[int, tuple[str, ...]], Hunk] = {}
    for each in written:
        if each.end > each.start or not each.lines:
            continue
        hunk = each.placed.hunk
        other = seen.setdefault((each.start, each.lines), hunk)
        if other is not hunk:
            first, second = sorted((other, hunk), key=lambda one: one.index)
            problem = Problem(Reason.OVERLAP, second, (each.start,), other=first, identical=True)
            problems.append(problem)
    return problems


def _text(document: Document, written: Sequence[Written]) -> str:
    """The text with the changes carried out; they are in order and do not overlap."""
    pieces: list[str] = []
    done = 0
    for each in written:
        assert each.start >= done, "BUG: overlapping changes reached assembly"
        pieces.append(document.text[_offset(document, done) : _offset(document, each.start)])
        last = next((piece for piece in reversed(pieces) if piece), "\n")
        if each.start == document.line_count and each.lines and last[-1] not in "\r\n":
            pieces.append(document.terminator_near(len(document.text)))
        added, last = "".join(each.lines), next(filter(None, reversed(pieces)), "")
        if added.startswith("\n") and last.endswith("\r"):
            added = "\r" + added[1:]  # the two would become one terminator
        pieces.append(added)
        done = each.end
    pieces.append(document.text[_offset(document, done) :])
    text = "".join(pieces)
    at_end = written and written[-1].end == document.line_count
    if at_end and written[-1].unended and text.endswith(written[-1].lines[-1]):
        return text.removesuffix("\n").removesuffix("\r")
    return text


def _offset(document: Document, line: int) -> int:
    """Where a line begins; the end of the text for the line after the last."""
    return document.line_starts[line] if line < document.line_count else len(document.text)


def _marks(placed: Sequence[Placed], written: Sequence[Written]) -> Iterator[Mark]:
    """The lines that each hunk changed; those it covers where it changes none."""
    own: dict[int, list[tuple[int, int]]] = {}
    grown = 0
    for each in written:
        start = each.start + grown
        own.setdefault(each.placed.hunk.index, []).append((start, start + len(each.lines)))
        grown += len(each.lines) - (each.end - each.start)
    for each_placed in placed:
        hunk, rung = each_placed.hunk, each_placed.rung.value
        if hunk.index in own:
            spans = own[hunk.index]
            yield Mark(hunk.index, spans[0][0], spans[-1][1], rung)
        else:
            yield Mark(hunk.index, each_placed.start, each_placed.end, rung).moved(written)


def _moved(line: int, written: Sequence[Written], *, ends: bool = False) -> int:
    """Where a line is after changes; ``ends``: it is the first one that is not meant."""
    grown = 0
    for each in written:
        inserts = each.start == each.end
        if each.end > line or (inserts and ends and each.end == line):
            if each.start < line:
                return each.start + grown + (len(each.lines) if ends else 0)
            break
        grown += len(each.lines) - (each.end - each.start)
    return line + grown


def _idle(placed: Sequence[Placed], document: Document, written: Iterable[Written]) -> set[int]:
    idle = {each.hunk.index for each in placed if each.hunk.changes}
    for each in written:
        there = document.text[_offset(document, each.start) : _offset(document, each.end)]
        if there != "".join(each.lines) or each.unended:
            idle.discard(each.placed.hunk.index)
    return idle
