"""Applies a patch to files: the hunks of an update to one text, and all operations.

*Marks* are the lines of the new text that a hunk has changed. They move if a later operation of the
patch changes the file again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Container, Iterable, Iterator, Sequence
from operator import itemgetter

import msgspec
from msgspec.structs import replace

from stet.wire.failures import Failure, Kind, Refused, refuse
from stet.wire.results import EditReport
from stetd.editing import refusals
from stetd.editing.apply_patch.grammar import ADDED, REMOVED, Hunk, subject_of
from stetd.editing.apply_patch.hunks import Group, Placed, Placer, overlap
from stetd.editing.edits import PlannedFile, SourceFile, World, followed
from stetd.editing.matching import locating
from stetd.editing.matching.line_replacement import IndentChange
from stetd.editing.matching.rungs import Rung
from stetd.editing.refusals import Subject, visible
from stetd.editing.text import Document, indentation_of, is_blank, joined

_SHIFTED = (Rung.INDENT, Rung.INDENT_TYPOGRAPHY)


def write(file: SourceFile, placed: Placed) -> Iterator[Group]:
    """The changes of a hunk, in order, with the file's indentation and terminators.

    Raises Refused if the indentation of its added lines is not certain.
    """
    indented = _indented(file.document, placed)
    if indented is None:
        line, removes = placed.start + 1, any(line.sign == REMOVED for line in placed.hunk.lines)
        failure = subject_of(placed.hunk, file.path).failure(
            Kind.OLD_TEXT_NOT_FOUND,
            f"the hunk stands at line {line} of {file.path} with other indentation, and not by one "
            "change for all lines, so how to indent the added lines can't be told. Send the lines "
            "with the indentation that they have in the file"
            f"{'' if removes else ', each unchanged one after a space'}.",
            line=line,
        )
        raise Refused(failure)
    texts = iter(indented)
    for group in placed.groups:
        added = tuple(
            replace(line, text=next(texts), end=_terminator(file.document, group, number, line.end))
            for number, line in enumerate(group.added)
        )
        yield replace(group, added=added)


def _terminator(document: Document, group: Group, number: int, given: str) -> str:
    """The terminator of an added line: that of the line in its place, or before other lines."""
    if given != "\n" or document.eol in ("lf", "none"):
        return given
    last = group.end - 1 if group.end > group.start else max(0, group.start - 1)
    place = min(group.start + number, last)
    own = document.text[document.content_end(place) : document.line_end(place)]
    return own or document.terminator_near(len(document.text))


def _indented(document: Document, placed: Placed) -> Sequence[str] | None:
    """The added lines with the file's indentation; None if that is not certain."""
    groups = placed.groups
    given = [line.text for group in groups for line in group.added]
    if placed.rung not in _SHIFTED:
        return given
    pairs = list(_pairs(document, placed))
    around = document.indentations_around(placed.start, placed.end)
    whole = IndentChange(*zip(*(pair for _, pair in pairs), strict=True))
    new = [line for line in placed.hunk.lines if line.sign != REMOVED]
    if whole.verbatim == ("", " ") and len(new) == len(placed.hunk.lines):
        return None  # the space that is their sign was left out before all of them
    if whole.uniform:
        signs = (line.sign for line in new if not is_blank(line.text))
        if next(signs, "") == ADDED and whole.already_in(given):
            return None
        return whole.shift(given, around)
    shifted: list[str] = []
    for group in groups:
        texts = [line.text for line in group.added]
        change = _change_near(pairs, group)
        known = change and all(is_blank(t) or indentation_of(t) in change.text for t in texts)
        lines = change.shift(texts, around) if change and known else None
        if lines is None and not all(map(is_blank, texts)):
            return None
        shifted += lines or texts
    return shifted


def _pairs(document: Document, placed: Placed) -> Iterator[tuple[int, tuple[str, str]]]:
    """For each old line that is not blank: its line in the file, and both indentations."""
    at = placed.start
    for line in placed.hunk.lines:
        if line.sign == ADDED:
            continue
        if not is_blank(line.text):
            yield at, (indentation_of(line.text), indentation_of(document.lines[at]))
        at += 1


def _change_near(pairs: Sequence[tuple[int, tuple[str, str]]], group: Group) -> IndentChange | None:
    """The change of indentation that the lines around a group have in common."""
    low = bisect_left(pairs, group.start, key=itemgetter(0))
    high = bisect_left(pairs, group.end, key=itemgetter(0))
    near = [pair for _, pair in pairs[max(0, low - 1) : high + 1]]
    # One line alone may be the very one whose indentation was got wrong.
    change = IndentChange(*zip(*near, strict=True)) if len(near) > 1 else None
    return change if change and change.uniform else None


class Mark(msgspec.Struct, frozen=True):
    """Lines ``first`` to ``last`` (exclusive, from 0) are the result of an edit."""

    subject: Subject
    first: int
    last: int
    rung: Rung

    def moved(self, written: Sequence[Group]) -> Mark:
        """The mark after further changes, which are in order."""
        first, last = _moved(self.first, written), _moved(self.last, written, ends=True)
        return replace(self, first=first, last=last)


class Node(SourceFile, frozen=True):
    """The file at a path in the middle of a patch."""

    #: The file's path before the patch; None for a new file.
    origin: str | None = None
    marks: tuple[Mark, ...] = ()


def update(node: Node, hunks: Sequence[Hunk], known: int, *, first: bool) -> tuple[Node, list[str]]:
    """Apply ``hunks`` to a file; and the warnings. ``known``: the patch's failures before.

    Raises Refused, with all failures that are no consequence of another.
    """
    document = node.document
    placer = Placer(node, hunks, first=first)
    failures: list[Failure] = []
    written: list[Group] = []
    failed = 0
    for hunk in hunks:
        try:
            placed = placer.place(hunk)
            if placed is not None:
                written += write(node, placed)
                continue
            explain = known + len(failures) < refusals.EXPLAINED_MISSES
            failures.append(_miss(node, hunk, explain=explain))
        except Refused as refused:
            # The failure of an earlier hunk may be the cause of other problems.
            if not failures:
                failures += refused.failures
        failed += 1
        if failed == refusals.MOST_FAILED:
            break
    begins = {placed.hunk.index: placed.start for placed in placer.placed}
    # Insertions come before a replacement of the line; others by the places of their hunks.
    written.sort(key=lambda each: (each.start, each.end > each.start, begins[each.hunk.index]))
    failures += _repetitions(node.path, written)
    if failures:
        raise Refused(*failures)
    marks = list(_marks(node.path, placer.placed, written))
    warnings = list(_warnings(document, placer.placed, written, marks))
    data = document.to_bytes(_text(document, written))
    marks[:0] = (mark.moved(written) for mark in node.marks)
    return replace(node, data=data, marks=tuple(marks)), warnings


def _miss(node: Node, hunk: Hunk, *, explain: bool) -> Failure:
    """The failure of a hunk whose old lines are absent; ``explain``: with the nearest passage."""
    old = "".join(f"{line}\n" for line in hunk.old)
    new = "".join(f"{line.text}\n" for line in hunk.lines if line.sign != REMOVED)
    subject = subject_of(hunk, node.path)
    failure = locating.explained_miss(subject, node.document, old, new, explain=explain)
    for above, line, below in zip(hunk.lines, hunk.lines[1:], hunk.lines[2:], strict=False):
        if line.bare and above.sign == below.sign == ADDED:
            advice = (
                f"Line {line.number} of the patch is empty, so it is an unchanged blank line; "
                'expected "+" also before a blank line that is added.'
            )
            return replace(failure, message=f"{failure.message}\n{advice}")
    return failure


def _repetitions(path: str, written: Iterable[Group]) -> Iterator[Failure]:
    """The same lines added twice at one place."""
    seen: dict[tuple[int, tuple[str, ...]], Hunk] = {}
    for each in written:
        if each.end > each.start or not each.added:
            continue
        other = seen.setdefault((each.start, each.lines), each.hunk)
        if other is not each.hunk:
            first, second = sorted((other, each.hunk), key=lambda one: one.index)
            yield overlap(second, first, path, each.start + 1, repeated=True)


def _text(document: Document, written: Sequence[Group]) -> str:
    """Apply ordered changes without overlaps to the text."""
    pieces: list[str] = []
    done = 0
    for each in written:
        assert each.start >= done, "BUG: overlapping changes reached assembly"
        pieces.append(document.text[document.line_start(done) : document.line_start(each.start)])
        last = next((piece for piece in reversed(pieces) if piece), "\n")
        if each.start == document.line_count and each.added and last[-1] not in "\r\n":
            pieces.append(document.terminator_near(len(document.text)))
        pieces += each.lines
        done = each.end
    pieces.append(document.text[document.line_start(done) :])
    text = joined(pieces)
    at_end = written and written[-1].end == document.line_count
    if at_end and written[-1].unended and text.endswith(written[-1].lines[-1]):
        return text.removesuffix("\n").removesuffix("\r")
    return text


def _marks(path: str, placed: Sequence[Placed], written: Sequence[Group]) -> Iterator[Mark]:
    """The lines that each hunk changed, or all its lines if it changes none."""
    spans: dict[int, tuple[int, int]] = {}
    grown = 0
    for each in written:
        start = each.start + grown
        first = spans.get(each.hunk.index, (start,))[0]
        spans[each.hunk.index] = first, start + len(each.added)
        grown += len(each.added) - (each.end - each.start)
    for one in placed:
        subject = subject_of(one.hunk, path)
        if one.hunk.index in spans:
            yield Mark(subject, *spans[one.hunk.index], one.rung)
        else:
            yield Mark(subject, one.start, one.end, one.rung).moved(written)


def _warnings(
    document: Document, placed: Sequence[Placed], written: Sequence[Group], marks: Sequence[Mark]
) -> Iterator[str]:
    """Warnings about hunks out of order, without their ``@@`` line, or without an effect."""
    for one, mark in zip(placed, marks, strict=True):
        label = mark.subject.label
        if one.early:
            yield (
                f"{label}: stands before the hunk above it in the file, at line "
                f"{mark.first + 1}, and was applied there."
            )
        if one.described:
            yield (
                f"{label}: no line of the file reads {visible(one.hunk.anchors[-1])}, so the "
                "lines were added at its end."
            )
    idle = {each.hunk.index for each in written}
    for each in written:
        there = document.text[document.line_start(each.start) : document.line_start(each.end)]
        if there != "".join(each.lines) or each.unended:
            idle.discard(each.hunk.index)
    yield from (refusals.idle_warning(m.subject) for m in marks if m.subject.index in idle)


def _moved(line: int, written: Sequence[Group], *, ends: bool = False) -> int:
    """The line's number after changes; ``ends``: it is the exclusive end of a range."""
    grown = 0
    for each in written:
        inserts = each.start == each.end
        if each.end > line or (inserts and ends and each.end == line):
            if each.start < line:
                return each.start + grown + (len(each.added) if ends else 0)
            break
        grown += len(each.added) - (each.end - each.start)
    return line + grown


class Composition(msgspec.Struct):
    """The files that a patch touches, on top of an unchanged world."""

    world: World
    #: The files now by canonical path, in the order in which the patch touched them.
    nodes: dict[str, Node] = {}
    _before: dict[str, SourceFile] = {}

    def own(self, path: str) -> str:
        """The canonical path of ``path`` itself, which is in ``nodes`` then. Raises Refused."""
        try:
            source = self.world.look(path)
        except Refused as refusal:
            removed = any(
                node.data is None and self._before[node.path].data is not None
                for node in self.nodes.values()
            )
            # A directory at the path would still exist after its files are deleted.
            if removed and refusal.message.endswith("is not a directory"):
                raise refuse(
                    Kind.NOT_A_FILE,
                    f"{refusal}. If this patch removes what is in the way, send it in two calls, "
                    "one after the other.",
                    path=path,
                ) from refusal
            raise
        if source.path not in self.nodes:
            self._before[source.path] = source
            origin = None if source.data is None else source.path
            self.nodes[source.path] = Node(source.path, source.data, source.mode, origin)
        return source.path

    def followed(self, path: str) -> str:
        """The canonical path of ``path`` with links followed. Raises Refused."""
        return followed(path, self.world.root, lambda each: self.nodes[self.own(each)]).path

    def changed(self) -> Iterator[tuple[str, PlannedFile]]:
        """The changed files, each with ``A``, ``M`` or ``D``; "" for the old path of a move."""
        moved = {node.origin: path for path, node in self.nodes.items() if node.origin != path}
        planned = {path: file for path in self.nodes if (file := self._planned(path, moved))}
        for path, file in planned.items():
            if file.after is None:
                # A file may be moved to the place of an equal one: then only the old path changes.
                status = "" if moved.get(path) in planned else "D"
            else:
                status = "A" if file.before is None and self.nodes[path].origin is None else "M"
            yield status, file

    def _planned(self, path: str, moved: Container[str | None]) -> PlannedFile | None:
        """The changes of a path; None without any. ``moved``: paths whose files were moved."""
        node, before = self.nodes[path], self._before[path]
        old_path = node.origin if node.origin != path else None
        # What an earlier call of a transaction has made has no mode yet.
        other = path in moved or old_path is not None
        new = other and node.data is not None and node.mode is None
        same_mode = node.is_link == before.is_link and node.mode in (None, before.mode)
        if node.data == before.data and same_mode and not new:
            return None
        # Without a mode, what is in a link's place is a file.
        mode = node.mode if node.is_link or node.mode != before.mode else None
        return PlannedFile(path, before.data, node.data, old_path, mode, new)

    def reports(self) -> list[tuple[Subject, EditReport]]:
        """A report for each edit of the patch, with its lines in the result, in order."""
        reports = []
        for path, node in self.nodes.items():
            if node.data is None or not node.marks:
                continue
            count = max(1, node.document.line_count)
            for mark in node.marks:
                first = min(mark.first + 1, count)
                last = min(max(first, mark.last), count)
                report = EditReport(mark.subject.index, path, first, last, mark.rung.value)
                reports.append((mark.subject, report))
        return sorted(reports, key=lambda each: each[1].index)
