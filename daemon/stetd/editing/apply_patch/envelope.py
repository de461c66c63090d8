"""The outside of a patch: its lines, and what may be wrapped around them.

    wrapped  = fence? heredoc? envelope          (or the heredoc outside the fence)
    fence    = three or more backticks or tildes, a word or nothing; the same signs close it
    heredoc  = ("$")? ("apply_patch" | "applypatch")? "<<" WORD, 'WORD' or "WORD" .. WORD
    envelope = "*** Begin Patch" .. "*** End Patch"

Each of these stands alone on its line; white space around it, and blank lines around them
all, are ignored. Anything else outside is refused with the line that was received. A shell
line that does more (``cd src && apply_patch <<EOF``) is refused too: the daemon runs nothing,
and the paths of the patch would mean other files.

Lines of a patch end with ``\\n`` or ``\\r\\n``. How ``*** Begin Patch`` ends is how the patch is
written: where that is ``\\r\\n``, all ``\\r\\n`` are taken for ``\\n``. Elsewhere a ``\\r\\n`` is
kept with its line. A patch without any ``\\n`` is one with lone ``\\r``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from stetd.editing.refusals import visible
from stetd.editing.text import WHITE_SPACE, is_blank

BEGIN = "*** Begin Patch"
END = "*** End Patch"

_FENCE = re.compile(r"(`{3,}|~{3,})[ \t]*[\w+.-]*")
#: Groups: quotation mark, word.
HEREDOC = re.compile(r"<<[ \t]*(['\"]?)(\w+)\1")
_SHELL_LINE = re.compile(r"(?:\$[ \t]+)?(?:apply_patch|applypatch)?[ \t]*" + HEREDOC.pattern)
_BOM = "\ufeff"


class PatchLine(NamedTuple):
    """A line of the request: its number from 1, its content, how it ends."""

    number: int
    text: str
    end: str


class Malformed(Exception):
    """A text that is no patch: at which line, what was received, what was expected."""

    def __init__(self, line: int, sentence: str) -> None:
        super().__init__(sentence)
        self.line = line
        self.sentence = sentence


def unexpected(line: PatchLine, expected: str) -> Malformed:
    """The error over a line that does not belong where it stands."""
    return Malformed(line.number, f"received {visible(line.text)}; expected {expected}.")


def stripped(line: PatchLine) -> str:
    """The line's content without white space around it."""
    return line.text.strip(WHITE_SPACE)


def unwrap(text: str) -> Sequence[PatchLine]:
    """The lines from ``*** Begin Patch``, which is left out, to ``*** End Patch``, which is not.

    Raises Malformed.
    """
    lines = _without_blank_edges(_lines(text.removeprefix(_BOM)))
    if not lines:
        raise Malformed(1, f'received no text; expected "{BEGIN}".')
    lines = _unwrapped(lines)
    if stripped(lines[0]) != BEGIN:
        raise unexpected(lines[0], f'"{BEGIN}" as the first line')
    if len(lines) == 1 or stripped(lines[-1]) != END:
        raise _unended(lines)
    ends_alike = lines[0].end == "\r\n"
    inside = [line._replace(end="\n") for line in lines[1:]] if ends_alike else list(lines[1:])
    inside[-1] = inside[-1]._replace(text=END)
    return inside


def _lines(text: str) -> list[PatchLine]:
    """All lines of the request; one without ``\\n`` is taken for one with lone ``\\r``."""
    if "\n" not in text:
        text = text.replace("\r", "\n")
    contents = text.split("\n")
    lines = [
        PatchLine(number, content[:-1], "\r\n")
        if content.endswith("\r")
        else PatchLine(number, content, "\n")
        for number, content in enumerate(contents, 1)
    ]
    if not lines[-1].text:
        lines.pop()
    return lines


def _without_blank_edges(lines: Sequence[PatchLine]) -> Sequence[PatchLine]:
    start, end = 0, len(lines)
    while start < end and is_blank(lines[start].text):
        start += 1
    while start < end and is_blank(lines[end - 1].text):
        end -= 1
    return lines[start:end]


def _unwrapped(lines: Sequence[PatchLine]) -> Sequence[PatchLine]:
    """The lines inside at most one fence and one heredoc."""
    forms = {_FENCE: "the fence", _SHELL_LINE: "the heredoc"}
    while True:
        opening = stripped(lines[0])
        form = next((each for each in forms if each.fullmatch(opening)), None)
        if form is None:
            return lines
        what = forms.pop(form)
        found = form.fullmatch(opening)
        assert found, "BUG: a pattern matches once only"
        closing = found[1] if form is _FENCE else found[2]
        last = lines[-1]
        if len(lines) == 1 or not _closes(stripped(last), closing, fence=form is _FENCE):
            raise unexpected(last, f'"{closing}", which ends {what} of line {lines[0].number}')
        lines = _without_blank_edges(lines[1:-1])
        if not lines:
            raise unexpected(last, f'"{BEGIN}"')


def _closes(text: str, closing: str, *, fence: bool) -> bool:
    if not fence:
        return text == closing
    return len(text) >= len(closing) and not text.strip(closing[0])


def _unended(lines: Sequence[PatchLine]) -> Malformed:
    """The error over a patch whose last line is not its end."""
    ends = [index for index, line in enumerate(lines) if line.text.rstrip(WHITE_SPACE) == END]
    if not ends:
        return unexpected(lines[-1], f'"{END}" as the last line')
    after = _without_blank_edges(lines[ends[-1] + 1 :])
    return unexpected(after[0], f'nothing after "{END}" in line {lines[ends[-1]].number}')
