"""A file's text: lines with their own terminators, and a decoding that preserves all bytes.

A line ends with ``\\n``, ``\\r\\n`` or a lone ``\\r`` and nothing else, and white space is Unicode
White_Space (docs/dialects.md): Python's ``splitlines`` and ``strip`` take more, and are not used.
Bytes that are not UTF-8 become lone surrogates and turn back into the same bytes.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate

from stetd.editing.typography import Folded, fold, folded_columns, joins

#: Unicode White_Space (PropList) without U+000A and U+000D, which end lines.
WHITE_SPACE = (
    "\t\x0b\x0c \x85\xa0\u1680"
    "\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
INDENTATION = " \t"
TERMINATOR = re.compile(r"\r\n|\n|\r")
#: A word of a text.
WORD = re.compile(r"\w+")
_BOM = b"\xef\xbb\xbf"
_BARE_NEWLINE = re.compile(r"(?<!\r)\n")
_ESCAPED_BYTE = re.compile("[\udc80-\udcff]")
_BINARY_WINDOW = 8 * 1024
#: Lines around a place that show the file's unit of indentation.
_NEIGHBOURHOOD = 40
#: Keys that are searched one by one before the bare form is derived.
_TRIED_ALONE = 16


def looks_binary(data: bytes) -> bool:
    """Whether a NUL is in the first 8 KiB (Git's rule)."""
    return b"\0" in data[:_BINARY_WINDOW]


def is_blank(line: str) -> bool:
    """Whether a line is empty or has only white space."""
    return not line.strip(WHITE_SPACE)


def indentation_of(line: str) -> str:
    """The leading spaces and tabs of a line; a blank line has none."""
    content = line.lstrip(INDENTATION)
    return "" if is_blank(content) else line[: len(line) - len(content)]


def without_indentation(line: str) -> str:
    """The line without indentation, but with trailing space; "" for a blank line."""
    content = line.lstrip(INDENTATION)
    return "" if is_blank(content) else content


def without_trailing_space(line: str) -> str:
    """The line without white space at its end."""
    return line.rstrip(WHITE_SPACE)


def bare(folded_line: str) -> str:
    """A folded line without indentation and trailing space."""
    return folded_line.rstrip(WHITE_SPACE).lstrip(INDENTATION)


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
    """The text of one file as a call read it, and its forms, each derived at first use.

    Tolerant rungs compare lines *folded* (typography normalised) or *bare* (folded, without
    indentation and trailing space). Lines that any rung finds are also found in the bare form, so
    one linear search finds the candidates of all rungs.
    """

    def __init__(self, bom: bool, text: str) -> None:
        #: Whether the file begins with EF BB BF, which is not part of ``text``.
        self.bom = bom
        self.text = text
        #: Of the lines that have been asked about: original columns by folded ones.
        self._folded_columns: dict[int, array[int]] = {}

    @classmethod
    def from_bytes(cls, data: bytes) -> Document:
        """Decode a file. Never fails, and ``to_bytes`` of its text reproduces the bytes."""
        bom = data.startswith(_BOM)
        body = data[len(_BOM) :] if bom else data
        return cls(bom, body.decode("utf-8", "surrogateescape"))

    def to_bytes(self, text: str) -> bytes:
        """The file's bytes with this text: its BOM, if it has one, and the text."""
        body = text.encode("utf-8", "surrogateescape")
        return _BOM + body if self.bom else body

    def begun(self, new: str, at: int) -> str:
        """New text for an offset: at the beginning without a BOM if the file has one already."""
        return new.removeprefix("\ufeff") if self.bom and at == 0 else new

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
        if offset >= len(self.lf_text):
            return len(self.text)
        if "\r" not in self.text:
            return offset
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

    def indentations_around(self, first: int, end: int) -> list[str]:
        """The indentations of non-blank lines from ``first`` to ``end`` (exclusive) and around."""
        lines = self.lines[max(0, first - _NEIGHBOURHOOD) : end + _NEIGHBOURHOOD]
        return [indentation_of(line) for line in lines if not is_blank(line)]

    # -- forms that tolerant rungs compare

    @cached_property
    def _folded(self) -> Folded:
        return fold(self.lf_text)

    @property
    def folded(self) -> str:
        """``lf_text`` with its typography folded."""
        return self._folded.text

    @cached_property
    def folded_lines(self) -> list[str]:
        """The lines with their typography folded."""
        if self.folded is self.lf_text:
            return self.lines
        return self.folded.split("\n")[: self.line_count]

    @cached_property
    def folded_starts(self) -> list[int]:
        """The offset in ``folded`` at which each line begins."""
        return starts_of_lines(self.folded_lines)

    def offset_from_folded(self, offset: int) -> int | None:
        """The offset in ``text`` of one in ``folded``; None inside a character."""
        if offset >= len(self.folded):
            return len(self.text)
        if self._folded.aligned:
            before, char = self.lf_text[offset - 1 : offset], self.lf_text[offset]
            inside = before not in ("", "\n") and joins(char)
            return None if inside else self.offset_from_lf(offset)
        row = bisect_right(self.folded_starts, offset) - 1
        if row not in self._folded_columns:
            self._folded_columns[row] = folded_columns(self.lines[row])
        column = self._folded_columns[row][offset - self.folded_starts[row]]
        return None if column < 0 else self.line_starts[row] + column

    @cached_property
    def words(self) -> frozenset[str]:
        """Every word of the folded text."""
        return frozenset(WORD.findall(self.folded))

    @cached_property
    def bare_lines(self) -> list[str]:
        """The bare lines."""
        return list(map(bare, self.folded_lines))

    @cached_property
    def _bare_starts(self) -> list[int]:
        return starts_of_lines(self.bare_lines)

    @cached_property
    def _bare_joined(self) -> str:
        return "\n".join(["", *self.bare_lines, ""])

    @cached_property
    def _joined(self) -> str:
        return "\n".join(["", *self.lines, ""])

    def find_bare(self, keys: Sequence[str], first: int = 0) -> Iterator[int]:
        """The lines (from 0), from ``first`` on, at which these bare ``keys`` begin."""
        if "_bare_joined" not in self.__dict__:
            longest = sorted(set(keys), key=len, reverse=True)[:_TRIED_ALONE]
            if not all(key in self.folded for key in longest):
                return iter(())
        return _find_runs(self._bare_joined, self._bare_starts, keys, first)

    def find_lines(self, lines: Sequence[str], first: int = 0) -> Iterator[int]:
        """The lines (from 0), from ``first`` on, at which these ``lines`` begin."""
        return _find_runs(self._joined, self.lf_starts, lines, first)


def _find_runs(
    joined: str, starts: Sequence[int], wanted: Sequence[str], first: int
) -> Iterator[int]:
    """The lines, from ``first`` (from 0) on, at which ``wanted`` begins; runs may overlap.

    ``joined``: all lines, each between ``\\n``; ``starts``: the offset of each one's first.
    """
    if first < len(starts):
        for at in occurrences(joined, "\n".join(["", *wanted, ""]), starts[first]):
            yield bisect_right(starts, at) - 1


def occurrences(text: str, wanted: str, start: int = 0, step: int = 1) -> Iterator[int]:
    """The offsets from ``start`` on at which ``wanted`` begins, at least ``step`` apart."""
    at = text.find(wanted, start)
    while at >= 0:
        yield at
        at = text.find(wanted, at + step)


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
