"""Folding of typographic characters, and the way back to the original offsets.

The table is DIALECTS.md 0 in full: dashes, quotes, spaces and the ellipsis, and composed
against decomposed characters (NFC against NFD). Nothing else folds: no guillemets, no
look-alikes of other scripts, no case, no compatibility forms. A tab is not a space.

Folding works on *characters* as a reader sees them: one code point with everything that
combines with it. Such a character folds on its own whatever stands beside it, so offsets
between characters can be mapped back; offsets inside one cannot, and a match that begins or
ends there (in an ellipsis, between a letter and its accent) is none.

Code points that merely have a canonical equivalent of one code point (the Kelvin and Ohm
signs) are left alone: they are look-alikes as far as an edit is concerned.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import msgspec

from stetd.editing.text import starts_of_lines

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

#: Code points of combining class 0 that still join what stands before them: vowel signs and
#: length marks that compose, the conjoining Hangul vowels and finals, and three Tibetan
#: signs that decompose into marks. (A test derives this list from unicodedata.)
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
#: Everything that joins or changes its length lies beyond Latin.
_NOT_LATIN = re.compile("[^\x00-\u02ff]+")


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


@dataclass(frozen=True)
class Folded:
    """A text whose lines end with ``\\n`` (``source``), and the same folded (``text``).

    ``aligned``: every code point folded to one in its own place.
    """

    source: str
    text: str
    aligned: bool

    def original(self, offset: int) -> int | None:
        """The offset in ``source`` of an offset in ``text``; None inside a character."""
        if self.aligned:
            return None if _splits_character(self.source, offset) else offset
        row = bisect_right(self._text_starts, offset) - 1
        if row not in self._spans:
            self._spans[row] = _Spans.of(self._source_lines[row])
        column = self._spans[row].original(offset - self._text_starts[row])
        return None if column is None else self._source_starts[row] + column

    @cached_property
    def _spans(self) -> dict[int, _Spans]:
        """The lines that have been asked about."""
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


class _Spans(msgspec.Struct, frozen=True):
    """The characters of a line that are more than one code point, before or after folding.

    Where each begins and ends in the folded line and in the original, in order.
    """

    starts: list[int]
    ends: list[int]
    original_starts: list[int]
    original_ends: list[int]

    @classmethod
    def of(cls, line: str) -> _Spans:
        """Fold the line character by character."""
        spans = cls([], [], [], [])
        folded = kept = 0
        for start, end in _characters(line):
            length = len(_folded_character(line[start:end]))
            if length == end - start == 1:
                continue
            folded += start - kept
            spans.starts.append(folded)
            folded += length
            spans.ends.append(folded)
            spans.original_starts.append(start)
            spans.original_ends.append(end)
            kept = end
        return spans

    def original(self, column: int) -> int | None:
        """The original column of a folded one; None inside a character."""
        index = bisect_right(self.starts, column) - 1
        if index < 0:
            return column
        if column == self.starts[index]:
            return self.original_starts[index]
        if column < self.ends[index]:
            return None
        return self.original_ends[index] + column - self.ends[index]


def _characters(line: str) -> Iterator[tuple[int, int]]:
    """Where the characters of a line begin and end, save those that are Latin and alone."""
    for run in _NOT_LATIN.finditer(line):
        start, end = run.span()
        if start and _joins(line[start]):
            start -= 1
        while start < end:
            following = start + 1
            while following < end and _joins(line[following]):
                following += 1
            yield start, following
            start = following


def _folded_character(character: str) -> str:
    plain = TABLE.get(character[0], character[0]) + character[1:]
    return plain if SINGLETONS.intersection(plain) else unicodedata.normalize("NFC", plain)


def _composed(line: str) -> str:
    """A line in NFC, singletons left alone; its table characters are folded already."""
    if SINGLETONS.isdisjoint(line):
        return unicodedata.normalize("NFC", line)
    pieces: list[str] = []
    kept = 0
    for start, end in _characters(line):
        pieces += line[kept:start], _folded_character(line[start:end])
        kept = end
    return "".join([*pieces, line[kept:]])


def _splits_character(text: str, offset: int) -> bool:
    """Whether a boundary at ``offset`` would part a code point from what it combines with."""
    if not 0 < offset < len(text) or text[offset] < "\u0300":
        return False
    return _joins(text[offset]) and text[offset - 1] != "\n"


def _joins(char: str) -> bool:
    return unicodedata.combining(char) != 0 or char in JOINING_STARTERS
