"""Typography folded (docs/dialects.md), by whole user-perceived characters."""

from __future__ import annotations

import unicodedata
from array import array
from collections.abc import Iterator
from typing import NamedTuple

from stetd.editing import time_limit

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
#: Characters of a line that are looked at before the time is.
_UNCHECKED = 10_000


class Folded(NamedTuple):
    """A folded text; ``aligned``: its code points correspond one to one to the original's."""

    text: str
    aligned: bool


def fold(text: str) -> Folded:
    """Fold a text whose lines all end with ``\\n``."""
    if text.isascii():
        return Folded(text, aligned=True)
    plain = text
    for char, fold_to in TABLE.items():
        if char in plain:
            plain = plain.replace(char, fold_to)
    composed = unicodedata.normalize("NFC", plain)
    if composed == plain:
        return Folded(plain, aligned="\u2026" not in text)
    if not SINGLETONS.isdisjoint(plain):
        composed = "\n".join(map(_composed, plain.split("\n")))
    return Folded(composed, aligned=False)


def folded_text(text: str) -> str:
    """The folded text alone."""
    return fold(text).text


def folded_columns(line: str) -> array[int]:
    """The original column for each folded column; -1 inside a character."""
    columns = array("q")
    for number, (start, end) in enumerate(_characters(line)):
        if not number % _UNCHECKED:
            time_limit.check_time()
        columns.append(start)
        columns.extend([-1] * (len(_folded_character(line[start:end])) - 1))
    columns.append(len(line))
    return columns


def _characters(line: str) -> Iterator[tuple[int, int]]:
    """The begin and end of each character of a line, with its combining marks."""
    start = 0
    for end in range(1, len(line) + 1):
        if end == len(line) or line[end] < "\u0300" or not joins(line[end]):
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


def joins(char: str) -> bool:
    """Whether a code point is part of the character before it."""
    return unicodedata.combining(char) != 0 or char in JOINING_STARTERS
