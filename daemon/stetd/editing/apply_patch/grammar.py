"""Parses a patch: from its lines to its operations.

    patch     = (operation | environment | blank)* "*** End Patch"
    operation = add | delete | update
    add       = "*** Add File: " path (("+" text)* | "<<EOF" text* "EOF") "*** End of File"?
    delete    = "*** Delete File: " path
    update    = "*** Update File: " path move? leftover* hunk* move? ("*** End of File")?
    move      = "*** Move to: " path                     at most one; hunks, a move, or both
    hunk      = place* line+ "*** End of File"?          the first hunk may do without a place
    place     = "@@" | "@@ " text | "@@ -1,3 +1,3 @@" text?
    line      = (" " | "-" | "+") text | "" | "\\ No newline at end of file"
    leftover  = "diff --git ..", "index ..", ("--- a/x"? "+++ b/x")        before a line "@@"
    environment = "*** Environment ID:" text             ignored

A line without a sign is refused, not guessed at, except an empty line: inside a hunk it is an empty
context line, between operations it is ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import takewhile
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from stet.wire.failures import Kind, Refused, refuse
from stetd.editing.matching.rungs import Run
from stetd.editing.refusals import Subject, visible
from stetd.editing.text import WHITE_SPACE, is_blank

CONTEXT, REMOVED, ADDED = " ", "-", "+"
BOM = "\ufeff"


class HunkLine(msgspec.Struct, frozen=True):
    """A line of a hunk: its sign, its content, its line number in the request."""

    sign: str
    text: str
    number: int
    #: ``\\n``, or another terminator that an added line is to have.
    end: str = "\n"
    #: The line was empty and had no sign.
    bare: bool = False
    #: Git's remark follows: no newline at the end of the file.
    unended: bool = False


class Hunk(msgspec.Struct, frozen=True, dict=True):
    """A hunk as it was sent; ``line``: its first line in the request."""

    line: int
    #: Its index among the edits of the call, from 0, and among its operation's hunks, from 1.
    index: int
    number: int
    #: The texts after ``@@``, outermost first.
    anchors: tuple[str, ...]
    lines: tuple[HunkLine, ...]
    end_of_file: bool = False
    #: Old start and old length of Git's ``@@ -1,3 +1,3 @@``.
    range: tuple[int, int] | None = None

    @cached_property
    def old(self) -> tuple[str, ...]:
        """The lines that the file must have."""
        return tuple(line.text for line in self.lines if line.sign != ADDED)

    @cached_property
    def run(self) -> Run:
        """The old lines, to search for."""
        return Run(self.old)

    @cached_property
    def lead(self) -> int:
        """The number of empty lines without a sign at the beginning."""
        return _count(line.bare for line in self.lines)

    @property
    def variants(self) -> Sequence[tuple[int, Hunk]]:
        """The hunk as it is, then with droppable lines left out at so many edges."""
        return (0, self), *self._reduced

    @cached_property
    def _reduced(self) -> Sequence[tuple[int, Hunk]]:
        tail = _count(line.bare for line in reversed(self.lines))
        edges = [(self.lead, 0), (0, tail), (self.lead, tail)]
        if self.end_of_file:
            blank = (line.sign == CONTEXT and is_blank(line.text) for line in reversed(self.lines))
            edges.append((0, _count(blank)))
        variants = (
            (
                bool(head) + bool(foot),
                replace(self, lines=self.lines[head : len(self.lines) - foot]),
            )
            for head, foot in dict.fromkeys(edges)
            if head or foot
        )
        return [(dropped, variant) for dropped, variant in variants if variant.old]

    def without_bom(self) -> Hunk:
        """The hunk without a byte order mark at the beginning of its lines."""
        lines = (replace(line, text=line.text.removeprefix(BOM)) for line in self.lines)
        return replace(self, lines=tuple(lines))


def _count(flags: Iterable[bool]) -> int:
    """The number of set flags at the beginning."""
    return sum(1 for _ in takewhile(bool, flags))


class Header(msgspec.Struct, frozen=True):
    """An operation's line, the index of its first edit in the call, and its file."""

    line: int
    index: int
    path: str
    #: The path with the blanks around it that are left out of ``path``.
    spelled: str


class Add(Header, frozen=True):
    """``*** Add File``; ``text`` is the content."""

    text: str


class Delete(Header, frozen=True):
    """``*** Delete File``."""


class Update(Header, frozen=True):
    """``*** Update File``; without hunks there is a ``move_to``."""

    hunks: tuple[Hunk, ...]
    move_to: str | None = None


Operation = Add | Delete | Update


def subject_of(edit: Hunk | Operation, path: str) -> Subject:
    """What failures and notes call a hunk or an operation on the file at ``path``."""
    if isinstance(edit, Hunk):
        what = f"{path}, hunk {edit.number}"
    else:
        what = f"{type(edit).__name__} File {path}"
    name = f"{what} (line {edit.line} of the patch)"
    return Subject("edit", edit.index, path, "the hunk", "what it adds", name)


BEGIN = "*** Begin Patch"
END = "*** End Patch"
END_OF_FILE = "*** End of File"
ADD, DELETE, UPDATE = "*** Add File:", "*** Delete File:", "*** Update File:"
MOVE = "*** Move to:"
_ENVIRONMENT = "*** Environment ID:"
_MARK = "***"
_PLACE = "@@"
_SIGNS = (CONTEXT, REMOVED, ADDED)
_OPERATION = f'"{ADD} <path>", "{DELETE} <path>", "{UPDATE} <path>" or "{END}"'
_HUNK_LINE = 'a line that begins with " ", "-" or "+", a line "@@", or the next "*** " line'
_FENCE = re.compile(r"(?P<end>`{3,}|~{3,})[ \t]*[\w+.-]*")
_HEREDOC = re.compile(r"<<[ \t]*(['\"]?)(?P<end>\w+)\1")
_SHELL_LINE = re.compile(r"(?:\$[ \t]+)?(?:apply_patch|applypatch)?[ \t]*" + _HEREDOC.pattern)
#: Git's line numbers. Groups: old start, old length, the text after them.
_RANGE = re.compile(r"@@+ -(\d{1,9})(?:,(\d{1,9}))?(?: [-+]\d+(?:,\d+)?)+ @@+(?: ?(.*))?")
_NO_NEWLINE = re.compile(r"\\ ?[Nn]o newline at end of (?:file|line).*")
_QUOTED = re.compile(r"([\"'`]).+\1")
_LEFTOVER = re.compile(r"diff --git .*|index [0-9a-f]{4,}\.\.[0-9a-f]{4,}.*")
_NAMES = re.compile(
    r"(?:--- (?:a/\S.*|/dev/null(?:\t.*)?)\n)?\+\+\+ (?:b/\S.*|/dev/null(?:\t.*)?)(?=\n|\Z)"
)


class PatchLine(NamedTuple):
    """A line of the request: its number from 1, its content, its terminator."""

    number: int
    text: str
    end: str


def _malformed(line: int, sentence: str) -> Refused:
    """The text is no valid patch; ``sentence``: what was received, and what was expected."""
    return refuse(Kind.PARSE_ERROR, f"line {line} of the patch: {sentence}", line=line)


def _unexpected(line: PatchLine, expected: str) -> Refused:
    return _malformed(line.number, f"received {visible(line.text)}; expected {expected}.")


def _stripped(line: PatchLine) -> str:
    return line.text.strip(WHITE_SPACE)


def parse(text: str) -> list[Operation]:
    """The operations of a patch, in order. Raises Refused, and nothing else."""
    return _Parser(_unwrap(text)).operations()


def _unwrap(text: str) -> Sequence[PatchLine]:
    """The lines after ``*** Begin Patch`` up to ``*** End Patch`` itself. Raises Refused."""
    text = text.removeprefix(BOM)
    if "\n" not in text:
        text = text.replace("\r", "\n")
    all_lines = [
        PatchLine(number, content.removesuffix("\r"), "\r\n" if content.endswith("\r") else "\n")
        for number, content in enumerate(text.split("\n"), 1)
    ]
    lines = _without_blank_edges(all_lines)
    if not lines:
        raise _malformed(1, f'received no text; expected "{BEGIN}".')
    lines = _unwrapped(lines)
    if _stripped(lines[0]) != BEGIN:
        raise _unexpected(lines[0], f'"{BEGIN}" as the first line')
    if len(lines) == 1 or _stripped(lines[-1]) != END:
        ends = [index for index, line in enumerate(lines) if line.text.rstrip(WHITE_SPACE) == END]
        if not ends:
            raise _unexpected(lines[-1], f'"{END}" as the last line')
        after = _without_blank_edges(lines[ends[-1] + 1 :])
        raise _unexpected(after[0], f'nothing after "{END}" in line {lines[ends[-1]].number}')
    ends_alike = lines[0].end == "\r\n"
    inside = [line._replace(end="\n") for line in lines[1:]] if ends_alike else list(lines[1:])
    inside[-1] = inside[-1]._replace(text=END)
    return inside


def _without_blank_edges(lines: Sequence[PatchLine]) -> Sequence[PatchLine]:
    head = _count(is_blank(line.text) for line in lines)
    tail = _count(is_blank(line.text) for line in reversed(lines[head:]))
    return lines[head : len(lines) - tail]


def _unwrapped(lines: Sequence[PatchLine]) -> Sequence[PatchLine]:
    """The lines inside of a fence, of a heredoc, or of one in the other."""
    forms = {_FENCE: "the fence", _SHELL_LINE: "the heredoc"}
    while True:
        opening, last = _stripped(lines[0]), lines[-1]
        found = next(filter(None, (form.fullmatch(opening) for form in forms)), None)
        if found is None:
            return lines
        what, end, text = forms.pop(found.re), found["end"], _stripped(last)
        closes = text == end or (
            found.re is _FENCE and text.startswith(end) and not text.strip(end[0])
        )
        if len(lines) == 1 or not closes:
            raise _unexpected(last, f'"{end}", which ends {what} of line {lines[0].number}')
        lines = _without_blank_edges(lines[1:-1])
        if not lines:
            raise _unexpected(last, f'"{BEGIN}"')


class _Parser:
    """Reads lines of which the last is ``*** End Patch``."""

    def __init__(self, lines: Sequence[PatchLine]) -> None:
        self._lines = lines
        self._at = 0

    def operations(self) -> list[Operation]:
        operations: list[Operation] = []
        index = 0
        while True:
            self._skip_blank()
            line = self._take()
            kind, spelled = _header(line)
            if kind == END:
                break
            if kind == _ENVIRONMENT:
                continue
            if kind not in (ADD, DELETE, UPDATE):
                raise _unexpected(line, _OPERATION)
            header = line.number, index, _path(line, kind, spelled), spelled
            operation: Operation
            if kind == ADD:
                operation = Add(*header, self._content())
            elif kind == DELETE:
                operation = Delete(*header)
            else:
                operation = self._update(header)
                index += max(0, len(operation.hunks) - 1)
            operations.append(operation)
            index += 1
        if self._at < len(self._lines):
            self._skip_blank()
            raise _unexpected(self._peek(), f'nothing after "{END}"')
        if not operations:
            raise _unexpected(line, f'an operation before "{END}": {_OPERATION}')
        return operations

    # -- Add

    def _content(self) -> str:
        self._skip_blank()
        heredoc = _HEREDOC.fullmatch(_stripped(self._peek()))
        return self._heredoc(heredoc["end"]) if heredoc else self._added_lines()

    def _heredoc(self, end: str) -> str:
        opening = self._take()
        content = self._take_while(lambda line: _stripped(line) != end)
        if self._at == len(self._lines):
            raise _malformed(
                opening.number,
                f'received {visible(opening.text)}; expected a line "{end}" after it, which ends '
                "the text.",
            )
        self._at += 1
        self._skip_end_of_file()
        return "".join(line.text + line.end for line in content)

    def _added_lines(self) -> str:
        # "--- /dev/null", "+++ b/x" and "@@ -0,0 +1,9 @@", if Git wrote the lines.
        names = self._names()
        numbered = _RANGE.fullmatch(self._lines[self._at + names].text) is not None
        if numbered or names > 1:
            self._at += names + numbered
        added = self._take_while(lambda line: line.text.startswith(ADDED))
        content = [line.text[1:] + line.end for line in added]
        if content and _NO_NEWLINE.fullmatch(self._peek().text):
            self._at += 1
            content[-1] = content[-1].rstrip("\r\n")
        blank = self._peek()
        self._skip_end_of_file()
        after = self._peek()
        if _header(after)[0] in ("", MOVE, END_OF_FILE):
            after = blank if after.text.startswith(ADDED) else after
            raise _unexpected(after, f'"+" before each line of the new file, or {_OPERATION}')
        return "".join(content)

    # -- Update

    def _update(self, header: tuple[int, int, str, str]) -> Update:
        _, index, path, _ = header
        self._skip_blank()
        before = self._move()
        if before:
            self._skip_end_of_file()
        self._skip_leftovers()
        hunks = self._hunks(index)
        after = self._move()
        if after and before:
            raise _unexpected(after, f'no second "{MOVE}"; the first is in line {before.number}')
        if after:
            self._end_move(hunks)
        move = before or after
        if not hunks and not move:
            raise _unexpected(self._peek(), f'a hunk of "{UPDATE} {path}", or "{MOVE} <path>"')
        target = _path(move, *_header(move)) if move else None
        return Update(*header, tuple(hunks), target)

    def _move(self) -> PatchLine | None:
        """The ``*** Move to`` that comes next, if there is one."""
        line = self._peek()
        kind, path = _header(line)
        if kind != MOVE or not line.text.startswith(_MARK):
            return None
        _path(line, kind, path)
        return self._take()

    def _end_move(self, hunks: list[Hunk]) -> None:
        """Read what may follow a move after the hunks: ``*** End of File``, but no hunk."""
        self._skip_blank()
        ended = bool(hunks) and hunks[-1].end_of_file
        if _stripped(self._peek()) == END_OF_FILE and not ended:
            self._at += 1
            if hunks:
                hunks[-1] = replace(hunks[-1], end_of_file=True)
            self._skip_blank()
        following = self._peek()
        if following.text.startswith((*_SIGNS, _PLACE)):
            raise _unexpected(
                following, f'no hunk after "{MOVE}", which stands before or after all'
            )

    def _skip_leftovers(self) -> None:
        """Skip the lines that Git writes above the first hunk."""
        self._skip_blank()
        self._take_while(lambda line: bool(_LEFTOVER.fullmatch(line.text)))
        names = self._names()
        if self._lines[self._at + names].text.startswith(_PLACE):
            self._at += names
        if self._peek().text.startswith(_SIGNS):
            # A blank line with its space belongs to a first hunk without "@@": otherwise lines that
            # are added after a blank line would go to the end of the file.
            while is_blank(self._lines[self._at - 1].text):
                self._at -= 1
            self._take_while(lambda line: _has_no_sign(line.text))

    def _names(self) -> int:
        """The number of lines ``--- a/x`` and ``+++ b/x``, or the latter alone, that come next."""
        lines = self._lines[self._at : self._at + 2]
        found = _NAMES.match("\n".join(line.text for line in lines))
        return found[0].count("\n") + 1 if found else 0

    def _hunks(self, index: int) -> list[Hunk]:
        """The hunks that come next; ``index``: of the first."""
        hunks: list[Hunk] = []
        while True:
            places, lines = self._hunk_lines()
            following = self._peek()
            kind = _PLACE if following.text.startswith(_PLACE) else _header(following)[0]
            if not kind and following.text.startswith(END_OF_FILE):
                raise _unexpected(following, f'"{END_OF_FILE}" alone on its line')
            if not kind:
                raise _unexpected(following, _HUNK_LINE)
            if any(not line.bare for line in lines):
                hunks.append(_hunk(index + len(hunks), len(hunks) + 1, places, lines))
            elif places:
                place = f"{visible(places[-1].text)} in line {places[-1].number}"
                raise _unexpected(following, f"a line of the hunk {place}")
            elif kind == END_OF_FILE:
                expected = _HUNK_LINE if hunks else f"a hunk before {visible(END_OF_FILE)}"
                raise _unexpected(following, expected)
            if kind == END_OF_FILE:
                hunks[-1] = replace(hunks[-1], end_of_file=True)
                self._end_hunk()
            elif kind != _PLACE:
                return hunks

    def _end_hunk(self) -> None:
        """Read ``*** End of File``, and check that no line of a hunk follows."""
        self._at += 1
        self._take_while(lambda line: _has_no_sign(line.text))
        line = self._peek()
        if line.text.startswith(_SIGNS) or _NO_NEWLINE.fullmatch(line.text):
            raise _unexpected(line, f'a line "@@" before another hunk, after "{END_OF_FILE}"')

    def _hunk_lines(self) -> tuple[list[PatchLine], list[HunkLine]]:
        """The lines ``@@`` and the other lines of a hunk, up to the next ``@@`` or ``***``."""
        places: list[PatchLine] = []
        lines: list[HunkLine] = []
        while True:
            line = self._peek()
            sign = line.text[:1]
            if line.text.startswith(_MARK):
                return places, lines
            if line.text.startswith(_PLACE):
                if not all(each.bare for each in lines):
                    return places, lines
                lines.clear()
                places.append(line)
            elif _has_no_sign(line.text):
                lines.append(HunkLine(CONTEXT, "", line.number, bare=True))
            elif sign in _SIGNS:
                *inner, last = line.text[1:].split("\r")
                lines += (HunkLine(sign, text, line.number, "\r") for text in inner)
                lines.append(HunkLine(sign, last, line.number, line.end))
            elif not _NO_NEWLINE.fullmatch(line.text):
                raise _unexpected(line, _HUNK_LINE)
            elif not lines:
                raise _unexpected(line, "a line of a hunk before it")
            else:
                lines[-1] = replace(lines[-1], unended=True)
            self._at += 1

    # -- lines

    def _peek(self) -> PatchLine:
        """The next line; at the end of the patch its last line."""
        return self._lines[min(self._at, len(self._lines) - 1)]

    def _take(self) -> PatchLine:
        self._at += 1
        return self._lines[self._at - 1]

    def _take_while(self, belongs: Callable[[PatchLine], bool]) -> Sequence[PatchLine]:
        start = self._at
        while self._at < len(self._lines) and belongs(self._lines[self._at]):
            self._at += 1
        return self._lines[start : self._at]

    def _skip_blank(self) -> None:
        self._take_while(lambda line: is_blank(line.text))

    def _skip_end_of_file(self) -> None:
        self._skip_blank()
        if _stripped(self._peek()) == END_OF_FILE:
            self._at += 1
            self._skip_blank()


def _has_no_sign(text: str) -> bool:
    """Whether a line is blank and has not even the space of an unchanged line."""
    return is_blank(text) and not text.startswith(CONTEXT)


def _hunk(index: int, number: int, places: Sequence[PatchLine], lines: Sequence[HunkLine]) -> Hunk:
    """The hunk of these lines, without empty ones that can't be meant, with final terminators."""
    anchors: list[str] = []
    numbers: tuple[int, int] | None = None
    for place in places:
        found = _RANGE.fullmatch(place.text.rstrip(WHITE_SPACE))
        if found:
            numbers = int(found[1]), int(found[2] or 1)
        anchor = found[3] or "" if found else place.text[2:].removeprefix(" ")
        if not is_blank(anchor):
            anchors.append(anchor)
    first = places[0].number if places else lines[0].number
    if all(line.end == "\r\n" or line.bare for line in lines):
        lines = [replace(line, end="\n") for line in lines]
    if all(line.sign == ADDED or line.bare for line in lines):
        filled = [index for index, line in enumerate(lines) if not line.bare]
        lines = lines[filled[0] : filled[-1] + 1]
        forgotten = next((line for line in lines if line.bare), None)
        if forgotten is not None:
            raise _malformed(
                forgotten.number,
                'received "" among added lines; expected "+" also before a blank line that is '
                "added.",
            )
    return Hunk(first, index, number, tuple(anchors), tuple(lines), range=numbers)


def _header(line: PatchLine) -> tuple[str, str]:
    """The kind of a ``*** `` line, and what follows its colon and a space; ("", "") for others."""
    text = _stripped(line)
    for kind in (ADD, DELETE, UPDATE, MOVE, _ENVIRONMENT):
        if text.startswith(kind):
            return kind, line.text.partition(kind)[2].removeprefix(" ")
    return (text, "") if text in (END, END_OF_FILE) else ("", "")


def _path(line: PatchLine, kind: str, spelled: str) -> str:
    path = spelled.strip(WHITE_SPACE)
    if not path:
        raise _unexpected(line, f'a path: "{kind} <path>"')
    if kind in (ADD, MOVE) and _QUOTED.fullmatch(path):
        raise _unexpected(line, f'"{kind} {path[1:-1]}", without quotation marks')
    return path
