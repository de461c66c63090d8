"""A file's text: lines with their own terminators, and a decoding that preserves all bytes.

A line ends with ``\\n``, ``\\r\\n`` or a lone ``\\r`` and nothing else, and white space is Unicode
White_Space (docs/dialects.md): Python's ``splitlines`` and ``strip`` take more, and are not used.
Bytes that are not UTF-8 become lone surrogates and turn back into the same bytes.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any, TypeVar

Form = TypeVar("Form")
#: Unicode White_Space (PropList) without U+000A and U+000D, which end lines.
WHITE_SPACE = (
    "\t\x0b\x0c \x85\xa0\u1680"
    "\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
TERMINATOR = re.compile(r"\r\n|\n|\r")
_BOM = b"\xef\xbb\xbf"
_BARE_NEWLINE = re.compile(r"(?<!\r)\n")
_ESCAPED_BYTE = re.compile("[\udc80-\udcff]")
_BINARY_WINDOW = 8 * 1024


def looks_binary(data: bytes) -> bool:
    """Whether a NUL is in the first 8 KiB (Git's rule)."""
    return b"\0" in data[:_BINARY_WINDOW]


def is_blank(line: str) -> bool:
    """Whether a line is empty or has only white space."""
    return not line.strip(WHITE_SPACE)


def with_newlines(text: str) -> str:
    """The text with every terminator written as ``\\n``."""
    if "\r" not in text:
        return text
    return text.replace("\r\n", "\n").replace("\r", "\n")


def presentable(text: str) -> str:
    """The text as valid Unicode: bytes that are not UTF-8 become U+FFFD."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def split_lines(text: str) -> tuple[list[str], list[str]]:
    """Contents and terminators of the lines; only the last may lack one. "" has no lines."""
    contents = with_newlines(text).split("\n")
    terminators = TERMINATOR.findall(text) if "\r" in text else ["\n"] * (len(contents) - 1)
    if contents[-1]:
        terminators.append("")
    else:
        contents.pop()
    return contents, terminators


def whole_lines(text: str) -> list[str]:
    """The lines with their terminators."""
    return [content + end for content, end in zip(*split_lines(text), strict=True)]


def joined(pieces: Iterable[str], before: str = "") -> str:
    """The pieces as one text that follows ``before``, with as many lines as they have.

    A ``\\n`` at the beginning of a piece becomes ``\\r`` after a ``\\r``: else the two would be one
    terminator.
    """
    texts: list[str] = []
    for piece in pieces:
        if piece.startswith("\n") and before.endswith("\r"):
            piece = "\r" + (piece if piece.startswith("\n\n") else piece[1:])
        texts.append(piece)
        before = texts[-1] or before
    return "".join(texts)


def adopt_terminators(text: str, terminator: str) -> str:
    """New text for a place whose lines end with ``terminator``: a bare ``\\n`` becomes it."""
    if terminator == "\n" or "\n" not in text:
        return text
    return _BARE_NEWLINE.sub(terminator, text)


def joins_lines(text: str, start: int, end: int, new: str) -> bool:
    """Whether ``new`` for ``text[start:end]`` lacks a terminator at an edge and joins lines."""
    before, after = text[max(0, start - 1) : start], text[end : end + 1]
    up = text[start] in "\r\n" and before not in "\r\n" and (new or after)[:1] not in "\r\n"
    down = text[end - 1] in "\r\n" and after not in "\r\n" and (new or before)[-1:] not in "\r\n"
    return up or down


class Document:
    """The text of one file as a call read it, with a cache of derived forms.

    Forms refer to their document. The garbage collector frees such a circle only if it is no struct
    of msgspec: a struct of strings is not tracked.
    """

    def __init__(self, bom: bool, text: str) -> None:
        #: Whether the file begins with EF BB BF, which is not part of ``text``.
        self.bom = bom
        self.text = text

    @classmethod
    def from_bytes(cls, data: bytes) -> Document:
        """Decode a file. Never fails, and ``to_bytes`` of its text reproduces the bytes."""
        bom = data.startswith(_BOM)
        body = data[len(_BOM) :] if bom else data
        return cls(bom, body.decode("utf-8", "surrogateescape"))

    @cached_property
    def _forms(self) -> dict[Any, Any]:
        """The forms that other modules have derived, by class."""
        return {}

    def form(self, kind: Callable[[Document], Form]) -> Form:
        """A form that another module derives from the document; cached."""
        if kind not in self._forms:
            self._forms[kind] = kind(self)
        form: Form = self._forms[kind]
        return form

    def to_bytes(self, text: str) -> bytes:
        """The file's bytes with this text: its BOM, if it has one, and the text."""
        body = text.encode("utf-8", "surrogateescape")
        return _BOM + body if self.bom else body

    @cached_property
    def lf_text(self) -> str:
        """The text with every terminator written as ``\\n``; see :meth:`offset_from_lf`."""
        return with_newlines(self.text)

    @cached_property
    def lines(self) -> list[str]:
        """The contents of the lines, without terminators."""
        contents = self.lf_text.split("\n")
        if not contents[-1]:
            contents.pop()
        return contents

    @cached_property
    def lf_starts(self) -> list[int]:
        """The offset in ``lf_text`` at which each line begins."""
        return starts_of_lines(self.lines)

    @cached_property
    def line_starts(self) -> list[int]:
        """The offset in ``text`` at which each line begins."""
        if "\r" not in self.text:
            return self.lf_starts
        starts = [0, *(end.end() for end in TERMINATOR.finditer(self.text))]
        return starts[: len(self.lines)]

    @property
    def line_count(self) -> int:
        """How many lines there are: ``""`` has none, ``"a"`` and ``"a\\n"`` have one."""
        return len(self.lines)

    def line_at(self, offset: int) -> int:
        """The number, from 1, of the line at ``offset``; after a final newline one more."""
        if offset >= len(self.text) and self.text.endswith(("\n", "\r")):
            return self.line_count + 1
        return max(1, bisect_right(self.line_starts, offset))

    def content_end(self, index: int) -> int:
        """The offset after the content, before the terminator, of line ``index`` (from 0)."""
        return self.line_starts[index] + len(self.lines[index])

    def line_start(self, index: int) -> int:
        """The offset of line ``index`` (from 0); the text's end after the last line."""
        return self.line_starts[index] if index < self.line_count else len(self.text)

    def line_end(self, index: int) -> int:
        """The offset after the terminator, if any, of line ``index`` (from 0)."""
        return self.line_start(index + 1)

    def offset_from_lf(self, offset: int) -> int:
        """The offset in ``text`` of one in ``lf_text``: never between ``\\r`` and ``\\n``."""
        if "\r" not in self.text:
            return offset
        if offset >= len(self.lf_text):
            return len(self.text)
        index = bisect_right(self.lf_starts, offset) - 1
        return self.line_starts[index] + offset - self.lf_starts[index]

    @cached_property
    def eol(self) -> str:
        """The kind of line ends: ``lf``, ``crlf``, ``cr``, ``mixed``, or ``none``."""
        pairs = self.text.count("\r\n")
        counts = {
            "lf": self.text.count("\n") - pairs,
            "crlf": pairs,
            "cr": self.text.count("\r") - pairs,
        }
        used = [name for name, count in counts.items() if count]
        return used[0] if len(used) == 1 else "mixed" if used else "none"

    def terminator_near(self, offset: int) -> str:
        """The terminator for new text at ``offset``: its line's, else that before, else ``\\n``."""
        if "\r" not in self.text:
            return "\n"
        own = TERMINATOR.search(self.text, offset - self.splits_terminator(offset))
        if own is not None:
            return own.group()
        end = max(self.text.rfind("\n", 0, offset), self.text.rfind("\r", 0, offset)) + 1
        if not end:
            return "\n"
        return "\r\n" if self.text.endswith("\r\n", 0, end) else self.text[end - 1]

    def splits_terminator(self, offset: int) -> bool:
        """Whether ``offset`` lies between the ``\\r`` and the ``\\n`` of one terminator."""
        return 0 < offset < len(self.text) and self.text[offset - 1 : offset + 1] == "\r\n"

    def undecodable(self, start: int, end: int) -> int | None:
        """The offset of the first byte in ``text[start:end]`` that is not UTF-8."""
        found = _ESCAPED_BYTE.search(self.text, start, end)
        return found.start() if found else None


def starts_of_lines(lines: list[str]) -> list[int]:
    """The offset of each line, if all terminators are one character."""
    return list(accumulate([len(line) + 1 for line in lines[:-1]], initial=0)) if lines else []


def common_ends(old: Sequence[str], new: Sequence[str]) -> tuple[int, int]:
    """The lengths of the common beginning and of the common end of two texts."""
    shorter = min(len(old), len(new))
    head = next((n for n in range(shorter) if old[n] != new[n]), shorter)
    room = shorter - head
    tail = next((n for n in range(room) if old[-1 - n] != new[-1 - n]), room)
    return head, tail
