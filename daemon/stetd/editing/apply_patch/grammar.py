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
    leftover  = "diff --git ..", "index ..", "--- a/x" with "+++ b/x"      before a line "@@"
    environment = "*** Environment ID:" text             ignored

A line without a sign is refused, not guessed at, except an empty line: inside a hunk it is an empty
context line, between operations it is ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import takewhile
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

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

    @property
    def new(self) -> tuple[str, ...]:
        """The lines of the file afterwards."""
        return tuple(line.text for line in self.lines if line.sign != REMOVED)

    @property
    def changes(self) -> bool:
        """Whether the hunk has more than context."""
        return any(line.sign != CONTEXT for line in self.lines)

    @property
    def forgotten(self) -> int | None:
        """The line of the request of a blank line between added ones that has no sign."""
        inner = zip(self.lines, self.lines[1:], self.lines[2:], strict=False)
        bare = (b.number for a, b, c in inner if b.bare and a.sign == c.sign == ADDED)
        return next(bare, None)

    def without_bom(self) -> Hunk:
        """The hunk without a byte order mark at the beginning of its lines."""
        lines = (replace(line, text=line.text.removeprefix(BOM)) for line in self.lines)
        return replace(self, lines=tuple(lines))

    @cached_property
    def variants(self) -> Sequence[Variant]:
        """The hunk as it is, then with droppable lines left out, the fewest first."""
        lead = _count(line.bare for line in self.lines)
        tail = _count(line.bare for line in reversed(self.lines)) if lead < len(self.lines) else 0
        edges = [(0, 0), (lead, 0), (0, tail), (lead, tail)]
        if self.end_of_file:
            blank = (line.sign == CONTEXT and is_blank(line.text) for line in reversed(self.lines))
            edges.append((0, _count(blank)))
        variants: dict[tuple[HunkLine, ...], Variant] = {}
        for head, foot in dict.fromkeys(edges):
            lines = self.lines[head : len(self.lines) - foot]
            size = sum(line.sign != ADDED for line in lines)
            if size:
                cost = bool(head) + bool(foot)
                variants.setdefault(lines, Variant(self, lines, size, lead - head, cost))
        return list(variants.values())


def _count(flags: Iterable[bool]) -> int:
    """The number of set flags at the beginning."""
    return sum(1 for _ in takewhile(bool, flags))


class Variant(msgspec.Struct, frozen=True, dict=True):
    """A hunk without some lines at its edges."""

    hunk: Hunk
    lines: tuple[HunkLine, ...]
    #: How many lines of the file it covers; if it only adds, the line after which it does, if any.
    size: int
    #: The number of lines without a sign that are left at the beginning.
    kept: int = 0
    #: The number of edges at which lines were dropped.
    cost: int = 0

    @cached_property
    def run(self) -> Run:
        """The old lines."""
        return Run([line.text for line in self.lines if line.sign != ADDED])


class Header(msgspec.Struct, frozen=True):
    """An operation's line, the index of its first edit in the call, and its file."""

    line: int
    index: int
    path: str


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
_FENCE = re.compile(r"(`{3,}|~{3,})[ \t]*[\w+.-]*")
#: Groups: quotation mark, word.
HEREDOC = re.compile(r"<<[ \t]*(['\"]?)(\w+)\1")
_SHELL_LINE = re.compile(r"(?:\$[ \t]+)?(?:apply_patch|applypatch)?[ \t]*" + HEREDOC.pattern)


class PatchLine(NamedTuple):
    """A line of the request: its number from 1, its content, its terminator."""

    number: int
    text: str
    end: str


class Malformed(Exception):
    """The text is no valid patch: the line, what was received, what was expected."""

    def __init__(self, line: int, sentence: str) -> None:
        super().__init__(sentence)
        self.line, self.sentence = line, sentence


def unexpected(line: PatchLine, expected: str) -> Malformed:
    """The error about a line that does not belong there."""
    return Malformed(line.number, f"received {visible(line.text)}; expected {expected}.")


def stripped(line: PatchLine) -> str:
    """The line's content without white space around it."""
    return line.text.strip(WHITE_SPACE)


def unwrap(text: str) -> Sequence[PatchLine]:
    """The lines after ``*** Begin Patch`` up to ``*** End Patch`` itself. Raises Malformed."""
    text = text.removeprefix(BOM)
    if "\n" not in text:
        text = text.replace("\r", "\n")
    all_lines = [
        PatchLine(number, content.removesuffix("\r"), "\r\n" if content.endswith("\r") else "\n")
        for number, content in enumerate(text.split("\n"), 1)
    ]
    lines = _without_blank_edges(all_lines)
    if not lines:
        raise Malformed(1, f'received no text; expected "{BEGIN}".')
    lines = _unwrapped(lines)
    if stripped(lines[0]) != BEGIN:
        raise unexpected(lines[0], f'"{BEGIN}" as the first line')
    if len(lines) == 1 or stripped(lines[-1]) != END:
        ends = [index for index, line in enumerate(lines) if line.text.rstrip(WHITE_SPACE) == END]
        if not ends:
            raise unexpected(lines[-1], f'"{END}" as the last line')
        after = _without_blank_edges(lines[ends[-1] + 1 :])
        raise unexpected(after[0], f'nothing after "{END}" in line {lines[ends[-1]].number}')
    ends_alike = lines[0].end == "\r\n"
    inside = [line._replace(end="\n") for line in lines[1:]] if ends_alike else list(lines[1:])
    inside[-1] = inside[-1]._replace(text=END)
    return inside


def _without_blank_edges(lines: Sequence[PatchLine]) -> Sequence[PatchLine]:
    start, end = 0, len(lines)
    while start < end and is_blank(lines[start].text):
        start += 1
    while start < end and is_blank(lines[end - 1].text):
        end -= 1
    return lines[start:end]


def _unwrapped(lines: Sequence[PatchLine]) -> Sequence[PatchLine]:
    forms = {"the fence": _FENCE, "the heredoc": _SHELL_LINE}
    while True:
        opening = stripped(lines[0])
        matches = {what: form.fullmatch(opening) for what, form in forms.items()}
        what, found = next(((what, match) for what, match in matches.items() if match), ("", None))
        if found is None:
            return lines
        last, text = lines[-1], stripped(lines[-1])
        if forms.pop(what) is _FENCE:
            closing = found[1]
            closes = len(text) >= len(closing) and not text.strip(closing[0])
        else:
            closing = found[2]
            closes = text == closing
        if len(lines) == 1 or not closes:
            raise unexpected(last, f'"{closing}", which ends {what} of line {lines[0].number}')
        lines = _without_blank_edges(lines[1:-1])
        if not lines:
            raise unexpected(last, f'"{BEGIN}"')


END_OF_FILE = "*** End of File"
#: Git's line numbers. Groups: old start, old length, the text after them.
RANGE = re.compile(r"@@+ -(\d{1,9})(?:,(\d{1,9}))?(?: [-+]\d+(?:,\d+)?)+ @@+(?: ?(.*))?")


class HunkReader:
    """Collects the lines of an update into hunks."""

    def __init__(self, first_index: int) -> None:
        self.hunks: list[Hunk] = []
        #: ``*** End of File`` was read, and no hunk has begun since.
        self.ended = False
        self._first_index = first_index
        self._places: list[PatchLine] = []
        self._anchors: list[str] = []
        self._range: tuple[int, int] | None = None
        self._lines: list[HunkLine] = []

    def place(self, line: PatchLine) -> None:
        """Read ``@@``, with or without a text."""
        if any(not each.bare for each in self._lines):
            self.close(line)
        self._lines.clear()
        self.ended = False
        self._places.append(line)
        found = RANGE.fullmatch(line.text.rstrip(WHITE_SPACE))
        if found:
            self._range = int(found[1]), int(found[2] or 1)
        anchor = found[3] or "" if found else line.text[2:].removeprefix(" ")
        if not is_blank(anchor):
            self._anchors.append(anchor)

    def line(self, line: PatchLine) -> None:
        """Read a line with a sign."""
        self._refuse_after_end(line)
        *inner, last = line.text[1:].split("\r")
        sign = line.text[0]
        self._lines += (HunkLine(sign, text, line.number, "\r") for text in inner)
        self._lines.append(HunkLine(sign, last, line.number, line.end))

    def blank(self, line: PatchLine) -> None:
        """Read an empty line."""
        if not self.ended:
            self._lines.append(HunkLine(CONTEXT, "", line.number, bare=True))

    def unended(self, line: PatchLine) -> None:
        """Read Git's remark about the line before."""
        self._refuse_after_end(line)
        if not self._lines:
            raise unexpected(line, "a line of a hunk before it")
        self._lines[-1] = replace(self._lines[-1], unended=True)

    def end_of_file(self, line: PatchLine | None = None) -> None:
        """Read ``*** End of File``: the last hunk is at the end."""
        if line is not None and not self.hunks:
            raise unexpected(line, f"a hunk before {visible(END_OF_FILE)}")
        self.ended = True
        if self.hunks:
            self.hunks[-1] = replace(self.hunks[-1], end_of_file=True)

    def close(self, following: PatchLine) -> None:
        """End the present hunk, if there is one."""
        lines = self._lines
        if all(line.bare for line in lines):
            if self._places:
                place = self._places[-1]
                raise unexpected(
                    following, f"a line of the hunk {visible(place.text)} in line {place.number}"
                )
            return
        start = self._places[0].number if self._places else lines[0].number
        count, anchors = len(self.hunks), tuple(self._anchors)
        index, kept = self._first_index + count, _normalized(lines)
        self.hunks.append(Hunk(start, index, count + 1, anchors, kept, range=self._range))
        self._places, self._anchors, self._lines, self._range = [], [], [], None

    def _refuse_after_end(self, line: PatchLine) -> None:
        if self.ended:
            raise unexpected(line, f'a line "@@" before another hunk, after "{END_OF_FILE}"')


def _normalized(lines: Sequence[HunkLine]) -> tuple[HunkLine, ...]:
    """The lines of a hunk without empty ones that can't be meant, with final terminators."""
    if all(line.end == "\r\n" or line.bare for line in lines):
        lines = [replace(line, end="\n") for line in lines]
    if any(line.sign != ADDED and not line.bare for line in lines):
        return tuple(lines)
    first = next(index for index, line in enumerate(lines) if not line.bare)
    last = next(index for index in range(len(lines) - 1, -1, -1) if not lines[index].bare)
    inner = lines[first : last + 1]
    forgotten = next((line for line in inner if line.bare), None)
    if forgotten is not None:
        raise Malformed(
            forgotten.number,
            'received "" among added lines; expected "+" also before a blank line that is added.',
        )
    return tuple(inner)


ADD, DELETE, UPDATE = "*** Add File:", "*** Delete File:", "*** Update File:"
MOVE = "*** Move to:"
_ENVIRONMENT = "*** Environment ID:"
_MARK = "***"
_OPERATION = f'"{ADD} <path>", "{DELETE} <path>", "{UPDATE} <path>" or "{END}"'
_HUNK_LINE = 'a line that begins with " ", "-" or "+", a line "@@", or the next "*** " line'
_NO_NEWLINE = re.compile(r"\\ ?[Nn]o newline at end of (?:file|line).*")
_QUOTED = re.compile(r"([\"'`]).+\1")
_LEFTOVER = re.compile(r"diff --git .*|index [0-9a-f]{4,}\.\.[0-9a-f]{4,}.*")
_OLD_NAME = re.compile(r"--- (?:a/\S.*|/dev/null)(?:\t.*)?")
_NEW_NAME = re.compile(r"\+\+\+ (?:b/\S.*|/dev/null)(?:\t.*)?")


def parse(text: str) -> list[Operation]:
    """The operations of a patch, in order. Raises Malformed, and nothing else."""
    return _Parser(unwrap(text)).operations()


class _Parser:
    def __init__(self, lines: Sequence[PatchLine]) -> None:
        self._lines = lines
        self._at = 0
        #: The number of edits so far: each hunk, and each operation without hunks.
        self._edits = 0

    def operations(self) -> list[Operation]:
        operations: list[Operation] = []
        while True:
            self._skip_blank()
            line = self._take()
            kind, path = _header(line)
            if kind == END:
                if self._at < len(self._lines):
                    self._skip_blank()
                    raise unexpected(self._peek(), f'nothing after "{END}"')
                break
            if kind == _ENVIRONMENT:
                continue
            if kind not in (ADD, DELETE, UPDATE):
                raise unexpected(line, _OPERATION)
            _check_path(line, kind, path)
            if kind == ADD:
                operations.append(Add(line.number, self._edits, path, self._content()))
                self._edits += 1
            elif kind == DELETE:
                operations.append(Delete(line.number, self._edits, path))
                self._edits += 1
            else:
                operations.append(self._update(line, path))
        if not operations:
            raise unexpected(line, f'an operation before "{END}": {_OPERATION}')
        return operations

    def _update(self, head: PatchLine, path: str) -> Update:
        first = self._edits
        self._skip_blank()
        before = self._move()
        if before:
            self._skip_end_of_file()
        self._skip_leftovers()
        reader = HunkReader(first)
        while self._hunk_line(reader):
            pass
        reader.close(self._peek())
        after = self._move_after_hunks(before, reader)
        hunks = tuple(reader.hunks)
        if not hunks and not before and not after:
            raise unexpected(self._peek(), f'a hunk of "{UPDATE} {path}", or "{MOVE} <path>"')
        self._edits += len(hunks) or 1
        moves = before or after
        return Update(head.number, first, path, hunks, moves[1] if moves else None)

    # -- Add

    def _content(self) -> str:
        self._skip_blank()
        heredoc = HEREDOC.fullmatch(stripped(self._peek()))
        return self._heredoc(heredoc[2]) if heredoc else self._added_lines()

    def _heredoc(self, end: str) -> str:
        opening = self._take()
        content: list[str] = []
        while self._at < len(self._lines):
            line = self._take()
            if stripped(line) == end:
                self._skip_end_of_file()
                return "".join(content)
            content.append(line.text + line.end)
        raise Malformed(
            opening.number,
            f'received {visible(opening.text)}; expected a line "{end}" after it, which ends '
            "the text.",
        )

    def _added_lines(self) -> str:
        # "--- /dev/null", "+++ b/x" and "@@ -0,0 +1,9 @@", if Git wrote the lines.
        if self._names_follow():
            self._at += 2
        if RANGE.fullmatch(self._peek().text):
            self._at += 1
        content: list[str] = []
        while self._peek().text.startswith(ADDED):
            line = self._take()
            content.append(line.text[1:] + line.end)
        if content and _NO_NEWLINE.fullmatch(self._peek().text):
            self._take()
            content[-1] = content[-1].rstrip("\r\n")
        blank = self._peek()
        self._skip_end_of_file()
        after = self._peek()
        if _header(after)[0] in ("", MOVE, END_OF_FILE):
            after = blank if after.text.startswith(ADDED) else after
            raise unexpected(after, f'"+" before each line of the new file, or {_OPERATION}')
        return "".join(content)

    # -- Update

    def _hunk_line(self, reader: HunkReader) -> bool:
        """Read one line of hunks; False at their end."""
        line = self._peek()
        text = line.text
        if text.startswith(_MARK):
            kind = _header(line)[0]
            if kind == END_OF_FILE and not reader.ended:
                reader.close(line)
                reader.end_of_file(line)
                self._at += 1
                return True
            if text.startswith(END_OF_FILE) and kind != END_OF_FILE:
                raise unexpected(line, f'"{END_OF_FILE}" alone on its line')
            if kind in ("", END_OF_FILE):
                raise unexpected(line, _HUNK_LINE)
            return False
        self._at += 1
        if is_blank(text) and not text.startswith(CONTEXT):
            reader.blank(line)
        elif text.startswith("@@"):
            reader.place(line)
        elif _NO_NEWLINE.fullmatch(text):
            reader.unended(line)
        elif text[0] in (CONTEXT, REMOVED, ADDED):
            reader.line(line)
        else:
            raise unexpected(line, _HUNK_LINE)
        return True

    def _move(self) -> tuple[int, str] | None:
        """The line and path of a ``*** Move to`` that comes next, if there is one."""
        kind, path = _header(self._peek())
        if kind != MOVE or not self._peek().text.startswith(_MARK):
            return None
        line = self._take()
        _check_path(line, kind, path)
        return line.number, path

    def _move_after_hunks(
        self, before: tuple[int, str] | None, reader: HunkReader
    ) -> tuple[int, str] | None:
        """The move after the hunks, which ``*** End of File`` may follow."""
        line = self._peek()
        after = self._move()
        if not after:
            return None
        if before:
            raise unexpected(line, f'no second "{MOVE}"; the first is in line {before[0]}')
        self._skip_blank()
        if stripped(self._peek()) == END_OF_FILE and not reader.ended:
            self._at += 1
            reader.end_of_file()
            self._skip_blank()
        following = self._peek()
        if following.text.startswith((CONTEXT, REMOVED, ADDED, "@@")):
            raise unexpected(following, f'no hunk after "{MOVE}", which stands before or after all')
        return after

    def _skip_leftovers(self) -> None:
        """Skip the lines that Git writes above the first hunk."""
        self._skip_blank()
        begin = self._at
        while _LEFTOVER.fullmatch(self._peek().text):
            self._at += 1
        if self._names_follow() and self._lines[self._at + 2].text.startswith("@@"):
            self._at += 2
        if self._peek().text.startswith((CONTEXT, REMOVED, ADDED)):
            # A blank line with its space belongs to a first hunk without "@@": otherwise lines that
            # are added after a blank line would go to the end of the file.
            while is_blank(self._lines[self._at - 1].text):
                self._at -= 1
            while self._at < begin and not self._peek().text.startswith(CONTEXT):
                self._at += 1

    def _names_follow(self) -> bool:
        """Whether ``--- a/x`` and ``+++ b/x`` come next."""
        lines = zip((_OLD_NAME, _NEW_NAME), self._lines[self._at : self._at + 2], strict=False)
        return sum(bool(name.fullmatch(line.text)) for name, line in lines) == 2

    # -- lines

    def _peek(self) -> PatchLine:
        """The next line; at the end of the patch its last line."""
        return self._lines[min(self._at, len(self._lines) - 1)]

    def _take(self) -> PatchLine:
        self._at += 1
        return self._lines[self._at - 1]

    def _skip_blank(self) -> None:
        while self._at < len(self._lines) and is_blank(self._lines[self._at].text):
            self._at += 1

    def _skip_end_of_file(self) -> None:
        self._skip_blank()
        if stripped(self._peek()) == END_OF_FILE:
            self._at += 1
            self._skip_blank()


def _header(line: PatchLine) -> tuple[str, str]:
    """The kind of a ``*** `` line, and the text after the colon; ("", "") for other lines."""
    text = stripped(line)
    for kind in (ADD, DELETE, UPDATE, MOVE, _ENVIRONMENT):
        if text.startswith(kind):
            return kind, text[len(kind) :].strip(WHITE_SPACE)
    return (text, "") if text in (END, END_OF_FILE) else ("", "")


def _check_path(line: PatchLine, kind: str, path: str) -> None:
    if not path:
        raise unexpected(line, f'a path: "{kind} <path>"')
    if kind in (ADD, MOVE) and _QUOTED.fullmatch(path):
        raise unexpected(line, f'"{kind} {path[1:-1]}", without quotation marks')
