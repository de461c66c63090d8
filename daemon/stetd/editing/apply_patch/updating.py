"""Applies a patch to files: the hunks of an update to one text, and all operations.

*Marks* are the lines of the new text that a hunk has changed. They move if a later operation of the
patch changes the file again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec
from msgspec.structs import replace

from stet.wire.failures import Kind, Refused, refuse
from stet.wire.results import EditReport
from stetd.editing import refusals
from stetd.editing.apply_patch.grammar import ADDED, REMOVED, Hunk
from stetd.editing.apply_patch.hunks import Group, Placed, Placer, Problem, Reason
from stetd.editing.edits import PlannedFile, SourceFile, World
from stetd.editing.matching.line_replacement import IndentChange
from stetd.editing.matching.normal_forms import indentation_of, indentations_around
from stetd.editing.matching.rungs import Rung
from stetd.editing.paths import files_above
from stetd.editing.text import Document, is_blank, joined

_SHIFTED = (Rung.INDENT, Rung.INDENT_TYPOGRAPHY)


def write(document: Document, placed: Placed) -> Iterator[Group]:
    """The changes of a hunk, in order, with the file's indentation and terminators.

    Raises Problem if the indentation of its added lines is not certain.
    """
    indented = _indented(document, placed)
    if indented is None:
        raise Problem(Reason.SHIFT, placed.hunk, (placed.start,), placed.rung)
    for group, texts in zip(placed.groups, indented, strict=True):
        ends = _terminators(document, group)
        lines = zip(group.added, texts, ends, strict=True)
        added = tuple(replace(line, text=text, end=end) for line, text, end in lines)
        yield replace(group, added=added)


def _terminators(document: Document, group: Group) -> Iterator[str]:
    """The terminator of each added line: that of the line in its place, or before other lines."""
    last = group.end - 1 if group.end > group.start else max(0, group.start - 1)
    for number, line in enumerate(group.added):
        place = min(group.start + number, last)
        if line.end != "\n" or document.eol in ("lf", "none") or place >= document.line_count:
            yield line.end
        else:
            own = document.text[document.content_end(place) : document.line_end(place)]
            yield own or document.terminator_near(len(document.text))


def _indented(document: Document, placed: Placed) -> list[list[str]] | None:
    groups = placed.groups
    given = [[line.text for line in group.added] for group in groups]
    if placed.rung not in _SHIFTED:
        return given
    pairs = list(_pairs(document, placed))
    around = indentations_around(document, placed.start, placed.end)
    whole = IndentChange(*zip(*(pair for _, pair in pairs), strict=True))
    if whole.verbatim == ("", " ") and all(line.sign != REMOVED for line in placed.variant.lines):
        return None  # the space that is their sign was left out before all of them
    if whole.uniform:
        added = [text for texts in given for text in texts]
        new = (line for line in placed.variant.lines if line.sign != REMOVED)
        signs = (line.sign for line in new if not is_blank(line.text))
        if next(signs, "") == ADDED and whole.already_in(added):
            return None
        flat = whole.shift(added, around)
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
    """For each old line that is not blank: its line in the file, and both indentations."""
    at = placed.start
    for line in placed.variant.lines:
        if line.sign == ADDED:
            continue
        if not is_blank(line.text):
            yield at, (indentation_of(line.text), indentation_of(document.lines[at]))
        at += 1


def _change_near(pairs: Sequence[tuple[int, tuple[str, str]]], group: Group) -> IndentChange | None:
    """The change of indentation that the lines around a group have in common."""
    before = [pair for at, pair in pairs if at < group.start][-1:]
    inside = [pair for at, pair in pairs if group.start <= at < group.end]
    after = [pair for at, pair in pairs if at >= group.end][:1]
    near = before + inside + after
    # One line alone may be the very one whose indentation was got wrong.
    change = IndentChange(*zip(*near, strict=True)) if len(near) > 1 else None
    return change if change and change.uniform else None


class Mark(msgspec.Struct, frozen=True):
    """Lines ``first`` to ``last`` (exclusive, from 0) are the result of edit ``index``."""

    index: int
    first: int
    last: int
    rung: str

    def moved(self, written: Sequence[Group]) -> Mark:
        """The mark after further changes, which are in order."""
        first, last = _moved(self.first, written), _moved(self.last, written, ends=True)
        return replace(self, first=first, last=last)


class Node(SourceFile, frozen=True):
    """The file at a path in the middle of a patch."""

    #: The file's path before the patch; None for a new file.
    origin: str | None = None
    marks: tuple[Mark, ...] = ()


class Updated(msgspec.Struct, frozen=True):
    """The new text, the places of the hunks, and their changes."""

    text: str
    placed: tuple[Placed, ...]
    #: Marks of earlier updates (moved) and of this one.
    marks: tuple[Mark, ...]
    #: Hunks that change nothing.
    idle: tuple[Hunk, ...]


def update(node: Node, hunks: Sequence[Hunk], *, first: bool) -> Updated | list[Problem]:
    """Apply ``hunks`` to a file; or give all problems that are no consequence of another."""
    document = node.document
    placer = Placer(document, hunks, first=first)
    problems: list[Problem] = []
    written: list[Group] = []
    failed = 0
    for hunk in hunks:
        try:
            written += write(document, placer.place(hunk))
        except Problem as problem:
            failed += 1
            # The failure of an earlier hunk may be the cause of other problems.
            if not problems or problem.reason is Reason.ABSENT:
                problems.append(problem)
            if failed == refusals.MOST_FAILED:
                break
    begins = {placed.hunk.index: placed.start for placed in placer.placed}

    def order(each: Group) -> tuple[int, bool, int, int]:
        # Insertions come before a replacement of the line; others by the places of their hunks.
        return each.start, each.end > each.start, begins[each.hunk.index], each.hunk.index

    written.sort(key=order)
    problems += _repetitions(written)
    if problems:
        return problems
    idle = {each.hunk.index for each in placer.placed if each.hunk.changes}
    for change in written:
        there = document.text[document.line_start(change.start) : document.line_start(change.end)]
        if there != "".join(change.lines) or change.unended:
            idle.discard(change.hunk.index)
    return Updated(
        _text(document, written),
        tuple(placer.placed),
        (*(mark.moved(written) for mark in node.marks), *_marks(placer.placed, written)),
        tuple(each for each in hunks if each.index in idle),
    )


def _repetitions(written: Iterable[Group]) -> list[Problem]:
    """The same lines added twice at one place."""
    problems: list[Problem] = []
    seen: dict[tuple[int, tuple[str, ...]], Hunk] = {}
    for each in written:
        if each.end > each.start or not each.added:
            continue
        hunk = each.hunk
        other = seen.setdefault((each.start, each.lines), hunk)
        if other is not hunk:
            first, second = sorted((other, hunk), key=lambda one: one.index)
            problems.append(Problem(Reason.REPEATED, second, (each.start,), other=first))
    return problems


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


def _marks(placed: Sequence[Placed], written: Sequence[Group]) -> Iterator[Mark]:
    """The lines that each hunk changed, or all its lines if it changes none."""
    own: dict[int, list[tuple[int, int]]] = {}
    grown = 0
    for each in written:
        start = each.start + grown
        own.setdefault(each.hunk.index, []).append((start, start + len(each.added)))
        grown += len(each.added) - (each.end - each.start)
    for each_placed in placed:
        hunk, rung = each_placed.hunk, each_placed.rung.value
        if hunk.index in own:
            spans = own[hunk.index]
            yield Mark(hunk.index, spans[0][0], spans[-1][1], rung)
        else:
            yield Mark(hunk.index, each_placed.start, each_placed.end, rung).moved(written)


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


_MOST_LINKS = 40


class Composition(msgspec.Struct):
    """The files that a patch touches, on top of an unchanged world."""

    world: World
    #: Paths with a failure, whose later content is unknown.
    tainted: set[str] = set()
    _nodes: dict[str, Node] = {}
    _found: dict[str, SourceFile] = {}

    def own(self, path: str) -> str:
        """The canonical path of ``path`` itself. Raises Refused."""
        try:
            source = self.world.look(path)
        except Refused as refusal:
            removed = any(node.data is None for node in self._nodes.values())
            # A directory at the path would still exist after its files are deleted.
            if removed and refusal.message.endswith("is not a directory"):
                raise refuse(
                    Kind.NOT_A_FILE,
                    f"{refusal}. If this patch removes what is in the way, send it in two calls, "
                    "one after the other.",
                    path=path,
                ) from refusal
            raise
        self._found.setdefault(source.path, source)
        return source.path

    def followed(self, path: str) -> str:
        """The canonical path of ``path`` with links followed. Raises Refused."""
        spelled = path
        for _ in range(_MOST_LINKS):
            own = self.own(spelled)
            node = self.node(own)
            if not node.is_link:
                return own
            spelled = node.leads_to(self.world.root)
        raise refuse(Kind.NOT_A_FILE, f"{path}: too many symbolic links", path=path)

    def node(self, path: str) -> Node:
        """The file at a canonical path now."""
        if path not in self._nodes:
            source = self._found[path]
            origin = path if source.data is not None else None
            self._nodes[path] = Node(path, source.data, source.mode, origin)
        return self._nodes[path]

    def put(self, node: Node) -> None:
        """Set the file at a node's path."""
        self.node(node.path)
        self._nodes[node.path] = node

    def move(self, source: str, target: str) -> None:
        """Move the file at ``source`` to ``target``; ``source`` has no file then."""
        self.put(replace(self.node(source), path=target))
        self.put(Node(source, None))

    # -- the outcome

    def planned(self) -> Iterator[PlannedFile]:
        """The changed files, in the order in which the patch touched them."""
        moved = self._moved()
        for path, node in self._nodes.items():
            source = self._found[path]
            mode = node.mode if node.mode != source.mode else None
            new = path in moved and node.data is not None and node.mode is None
            same_kind = node.is_link == source.is_link and mode is None and not new
            if node.data == source.data and (same_kind or node.data is None):
                continue
            # The old path of a moved file, if it has no file now.
            old_path = node.origin if source.data is None and node.origin != path else None
            if old_path is not None and self._nodes[old_path].data is not None:
                old_path = None
            yield PlannedFile(path, source.data, node.data, old_path, mode, new)

    def _moved(self) -> set[str | None]:
        """The paths of files that were moved away."""
        return {node.origin for path, node in self._nodes.items() if node.origin != path}

    def statuses(self, planned: Iterable[PlannedFile]) -> Iterator[tuple[str, str]]:
        """``A``, ``M`` or ``D``, and the path of each changed file; for a move M and the target."""
        moved = self._moved()
        for file in planned:
            if file.after is not None:
                new = file.before is None and self._nodes[file.path].origin is None
                yield "A" if new else "M", file.path
            elif file.path not in moved:
                yield "D", file.path

    def reports(self) -> list[EditReport]:
        """A report for each edit of the patch, with its lines in the result, in order."""
        reports = []
        for path, node in self._nodes.items():
            if node.data is None or not node.marks:
                continue
            count = max(1, node.document.line_count)
            for mark in node.marks:
                first = min(mark.first + 1, count)
                last = min(max(first, mark.last), count)
                reports.append(EditReport(mark.index, path, first, last, mark.rung))
        return sorted(reports, key=lambda report: report.index)

    def made_below_files(self) -> Iterator[tuple[str, str]]:
        """Pairs of a file and another file above it that the patch would both leave."""
        return files_above(path for path, node in self._nodes.items() if node.data is not None)
