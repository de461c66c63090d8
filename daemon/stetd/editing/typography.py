"""Folding of typographic characters, and the way back to the original offsets.

The table is DIALECTS.md 0 in full: dashes, quotes, spaces and the ellipsis, and composed
against decomposed characters (NFC against NFD). Nothing else folds: no guillemets, no
look-alikes of other scripts, no case, no compatibility forms. A tab is not a space.

Folding works on *units*: one table character, or a base character with everything that
combines with it. A unit folds on its own whatever stands beside it, so offsets between
units can be mapped back; offsets inside one cannot, and a match that begins or ends there
(in an ellipsis, between a letter and its accent) is none.

Characters that merely have a canonical equivalent of one character (the Kelvin and Ohm
signs) are left alone: they are look-alikes as far as an edit is concerned.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from dataclasses import dataclass
from functools import cache

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
_TRANSLATION = str.maketrans(TABLE)

#: Characters of combining class 0 that still join what stands before them: vowel signs and
#: length marks that compose, the conjoining Hangul vowels and finals, and three Tibetan
#: signs that decompose into marks. (A test derives this list from unicodedata.)
JOINING_STARTERS = (
    "\u09be\u09d7\u0b3e\u0b56\u0b57\u0bbe\u0bd7\u0cc2\u0cd5\u0cd6\u0d3e\u0d57\u0dcf\u0ddf"
    "\u0f73\u0f75\u0f81\u0fb5\u0fb7\u102e\u1b35"
    "\U00011127\U0001133e\U00011357\U000114b0\U000114ba\U000114bd\U000115af\U00011930"
    + "".join(map(chr, range(0x1161, 0x1176)))
    + "".join(map(chr, range(0x11A8, 0x11C3)))
)
_FIRST_MARK, _AFTER_LAST_MARK = 0x300, 0x1F000


@dataclass(frozen=True, slots=True)
class Folded:
    """A text with its typography folded.

    The four lists describe, in order, the units that are not one plain character: where
    each begins and ends in the folded ``text`` and in the original.
    """

    text: str
    starts: list[int]
    ends: list[int]
    original_starts: list[int]
    original_ends: list[int]

    def original(self, offset: int) -> int | None:
        """The original offset of an offset in ``text``; None inside a unit."""
        index = bisect_right(self.starts, offset) - 1
        if index < 0:
            return offset
        if offset == self.starts[index]:
            return self.original_starts[index]
        if offset < self.ends[index]:
            return None
        return self.original_ends[index] + offset - self.ends[index]


def fold(text: str) -> Folded:
    """Fold a text whose lines all end with ``\\n``; linear in its length."""
    folded = Folded(text, [], [], [], [])
    if text.isascii():
        return folded
    pieces: list[str] = []
    kept = length = 0
    for found in _units().finditer(text):
        start, end = _widened(text, found, kept)
        unit = unicodedata.normalize("NFC", text[start:end].translate(_TRANSLATION))
        pieces += text[kept:start], unit
        length += start - kept
        folded.starts.append(length)
        length += len(unit)
        folded.ends.append(length)
        folded.original_starts.append(start)
        folded.original_ends.append(end)
        kept = end
    if not pieces:
        return folded
    pieces.append(text[kept:])
    return Folded("".join(pieces), *_lists(folded))


def folded_text(text: str) -> str:
    """The folded text alone."""
    return fold(text).text


def _lists(folded: Folded) -> tuple[list[int], list[int], list[int], list[int]]:
    return folded.starts, folded.ends, folded.original_starts, folded.original_ends


def _widened(text: str, found: re.Match[str], kept: int) -> tuple[int, int]:
    """The whole unit of a find: marks take in the character that they combine with."""
    start, end = found.span()
    if text[start] not in TABLE and start > kept and text[start - 1] != "\n":
        start -= 1
    return start, end


@cache
def _units() -> re.Pattern[str]:
    """Finds table characters with their marks, and marks whose base is a plain character.

    One character class first, because the regular expression engine skips to its members
    quickly; a pattern that began with "any character" would be tried at every offset.
    """
    marks = [
        chr(code)
        for code in range(_FIRST_MARK, _AFTER_LAST_MARK)
        if unicodedata.combining(chr(code))
    ]
    joining = _char_class([*marks, *JOINING_STARTERS])
    return re.compile(f"[{_char_class(list(TABLE))}{joining}][{joining}]*")


def _char_class(chars: list[str]) -> str:
    """The inside of a character class, neighbours joined to ranges."""
    ranges: list[list[int]] = []
    for code in sorted(map(ord, chars)):
        if ranges and code == ranges[-1][1] + 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in ranges)
