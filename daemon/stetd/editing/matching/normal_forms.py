"""Normal forms of a document's lines, which tolerant rungs compare.

*Folded*: typography is normalised (docs/dialects.md), by whole user-perceived characters. *Bare*:
folded, without indentation and trailing space. Lines that any rung finds are also found in the bare
form, so one linear search finds the candidates of all rungs.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property

import msgspec

from stetd.editing.text import WHITE_SPACE, Document, is_blank, starts_of_lines

_FOLDS = {
    "-": "\u2010\u2011\u2012\u2013\u2014\u2015\u2212",
    "'": "\u2018\u2019\u201a\u201b\u2032",
    '"': "\u201c\u201d\u201e\u201f\u2033",
    " ": (
        "\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
        "\u202f\u205f\u3000"
    ),
    "...": "\u2026",
}
TABLE = {char: plain for plain, chars in _FOLDS.items() for char in chars}
#: Code points of combining class 0 that still combine with the one before. (A test derives them.)
JOINING_STARTERS = frozenset(
    "\u09be\u09d7\u0b3e\u0b56\u0b57\u0bbe\u0bd7\u0cc2\u0cd5\u0cd6\u0d3e\u0d57\u0dcf\u0ddf"
    "\u0f73\u0f75\u0f81\u0fb5\u0fb7\u102e\u1b35"
    "\U00011127\U0001133e\U00011357\U000114b0\U000114ba\U000114bd\U000115af\U00011930"
    + "".join(map(chr, range(0x1161, 0x1176)))
    + "".join(map(chr, range(0x11A8, 0x11C3)))
)
#: Code points whose canonical equivalent is one other code point. (A test derives them.)
SINGLETONS = frozenset(
    "\u0340\u0341\u0343\u0374\u037e\u0387\u1f71\u1f73\u1f75\u1f77\u1f79\u1f7b\u1f7d\u1fbb\u1fbe"
    "\u1fc9\u1fcb\u1fd3\u1fdb\u1fe3\u1feb\u1fee\u1fef\u1ff9\u1ffb\u1ffd\u2000\u2001\u2126\u212a"
    "\u212b\u2329\u232a\ufa10\ufa12\ufa20\ufa22\ufa25\ufa26"
    + "".join(map(chr, range(0xF900, 0xFA0E)))
    + "".join(map(chr, range(0xFA15, 0xFA1F)))
    + "".join(map(chr, range(0xFA2A, 0xFA6E)))
    + "".join(map(chr, range(0xFA70, 0xFADA)))
    + "".join(map(chr, range(0x2F800, 0x2FA1E)))
)


def fold(text: str) -> Folded:
    """Fold a text whose lines all end with ``\\n``."""
    if text.isascii():
        return Folded(text, text, aligned=True)
    plain = text
    for char, fold_to in TABLE.items():
        if char in plain:
            plain = plain.replace(char, fold_to)
    composed = unicodedata.normalize("NFC", plain)
    if composed != plain:
        if not SINGLETONS.isdisjoint(plain):
            composed = "\n".join(map(_composed, plain.split("\n")))
        return Folded(text, composed, aligned=False)
    return Folded(text, plain, aligned="\u2026" not in text)


def folded_text(text: str) -> str:
    """The folded text alone."""
    return fold(text).text


class Folded(msgspec.Struct, frozen=True, dict=True):
    """A text and its folded form; ``aligned``: code points correspond one to one."""

    source: str
    text: str
    aligned: bool

    def original(self, offset: int) -> int | None:
        """The offset in ``source`` for one in ``text``; None inside a character."""
        if self.aligned:
            text = self.source
            inside = (
                0 < offset < len(text) and text[offset] >= "\u0300" and text[offset - 1] != "\n"
            )
            return None if inside and _joins(text[offset]) else offset
        row = bisect_right(self._text_starts, offset) - 1
        if row not in self._columns:
            self._columns[row] = _columns(self._source_lines[row])
        column = self._columns[row].get(offset - self._text_starts[row])
        return None if column is None else self._source_starts[row] + column

    @cached_property
    def _columns(self) -> dict[int, dict[int, int]]:
        """Of the lines that have been asked about: original columns by folded ones."""
        return {}

    @cached_property
    def _source_lines(self) -> list[str]:
        return self.source.split("\n")

    @cached_property
    def _source_starts(self) -> list[int]:
        return starts_of_lines(self._source_lines)

    @cached_property
    def _text_starts(self) -> list[int]:
        return starts_of_lines(self.text.split("\n"))


def _columns(line: str) -> dict[int, int]:
    """The original column for each folded column that is not inside a character."""
    columns: dict[int, int] = {}
    folded = 0
    for start, end in _characters(line):
        columns[folded] = start
        folded += len(_folded_character(line[start:end]))
    columns[folded] = len(line)
    return columns


def _characters(line: str) -> Iterator[tuple[int, int]]:
    """The begin and end of each character of a line, with its combining marks."""
    start = 0
    for end in range(1, len(line) + 1):
        if end == len(line) or line[end] < "\u0300" or not _joins(line[end]):
            yield start, end
            start = end


def _folded_character(character: str) -> str:
    if character < "\u0300" and len(character) == 1:
        return TABLE.get(character, character)
    plain = TABLE.get(character[0], character[0]) + character[1:]
    return plain if SINGLETONS.intersection(plain) else unicodedata.normalize("NFC", plain)


def _composed(line: str) -> str:
    """A line in NFC, without composing singletons; typography is folded before."""
    if SINGLETONS.isdisjoint(line):
        return unicodedata.normalize("NFC", line)
    return "".join(_folded_character(line[start:end]) for start, end in _characters(line))


def _joins(char: str) -> bool:
    return unicodedata.combining(char) != 0 or char in JOINING_STARTERS


INDENTATION = " \t"
#: A word of a text.
WORD = re.compile(r"\w+")
#: Lines around a place that show the file's unit of indentation.
_NEIGHBOURHOOD = 40
#: Keys that are searched one by one before the bare form is derived.
_TRIED_ALONE = 16


def indentation_of(line: str) -> str:
    """The leading spaces and tabs of a line; a blank line has none."""
    content = line.lstrip(INDENTATION)
    return "" if is_blank(content) else line[: len(line) - len(content)]


def without_indentation(line: str) -> str:
    """The line without indentation, but with trailing space; "" for a blank line."""
    content = line.lstrip(INDENTATION)
    return "" if is_blank(content) else content


def indentations_around(document: Document, first: int, end: int) -> list[str]:
    """The indentations of non-blank lines from ``first`` to ``end`` (exclusive) and around."""
    lines = document.lines[max(0, first - _NEIGHBOURHOOD) : end + _NEIGHBOURHOOD]
    return [indentation_of(line) for line in lines if not is_blank(line)]


def without_trailing_space(line: str) -> str:
    """The line without white space at its end."""
    return line.rstrip(WHITE_SPACE)


def bare(folded_line: str) -> str:
    """A folded line without indentation and trailing space."""
    return folded_line.rstrip(WHITE_SPACE).lstrip(INDENTATION)


class NormalForms(msgspec.Struct, frozen=True, dict=True):
    """All forms of one document, each derived at first use."""

    document: Document

    @cached_property
    def joined(self) -> str:
        """The lines as one text, each after and before a ``\n``."""
        text = self.document.lf_text
        return f"\n{text}" if text.endswith("\n") else f"\n{text}\n"

    @cached_property
    def folded(self) -> Folded:
        """``document.lf_text`` with its typography folded."""
        return fold(self.document.lf_text)

    @cached_property
    def folded_lines(self) -> list[str]:
        """The lines with their typography folded; one for each line of the document."""
        if self.folded.text is self.document.lf_text:
            return self.document.lines
        return self.folded.text.split("\n")[: self.document.line_count]

    @cached_property
    def folded_starts(self) -> list[int]:
        """The offset in ``folded.text`` at which each line begins."""
        return starts_of_lines(self.folded_lines)

    @cached_property
    def bare_lines(self) -> list[str]:
        """The lines folded, without indentation and trailing space."""
        return list(map(bare, self.folded_lines))

    @cached_property
    def bare_joined(self) -> str:
        """The bare lines as one text, each after and before a ``\n``."""
        return "\n".join(["", *self.bare_lines, ""])

    @cached_property
    def bare_starts(self) -> list[int]:
        """The offset in ``bare_joined`` of the ``\n`` before each line."""
        return starts_of_lines(self.bare_lines)

    @cached_property
    def words(self) -> frozenset[str]:
        """Every word of the document."""
        return frozenset(WORD.findall(self.folded.text))

    def find_bare(self, keys: Sequence[str], first: int = 0) -> Iterator[int]:
        """The indexes of the lines, from ``first`` (from 0) on, at which these bare keys begin."""
        if "bare_joined" not in self.__dict__:
            longest = sorted(set(keys), key=len, reverse=True)[:_TRIED_ALONE]
            if not all(key in self.folded.text for key in longest):
                return
        yield from find_runs(self.bare_joined, self.bare_starts, keys, first)


def find_runs(joined: str, starts: list[int], keys: Sequence[str], first: int) -> Iterator[int]:
    """The lines, from ``first`` (from 0) on, at which these keys begin; runs may overlap.

    ``joined``: the keys of all lines, each between ``\\n``; ``starts``: the offset of each line's.
    """
    wanted = "\n".join(["", *keys, ""])
    at = joined.find(wanted, starts[first]) if first < len(starts) else -1
    while at >= 0:
        yield bisect_right(starts, at) - 1
        at = joined.find(wanted, at + 1)
