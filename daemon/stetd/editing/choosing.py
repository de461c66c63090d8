"""Which of several places is meant: the n-th, or the one nearest to a line.

Occurrences are counted from the beginning of the text and with overlap: ``aa`` stands twice in
``aaa`` (DIALECTS.md 0). Lines count from 1, in the text in which the places stand.

The place nearest to a line is the one whose *first* line is nearest. That is no choice when
another's first line is as near (above and below, or in the same line), nor when the line lies
inside another place: then either could be meant.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from stetd.editing import rungs
from stetd.editing.rungs import PLACES, Place, Rung, Search
from stetd.editing.text import Document


@dataclass(frozen=True, slots=True)
class TooFew:
    """A text that stands less often than was asked for: ``count`` times.

    ``lines``: the 1-based lines of its places, ascending, 1,000 at most.
    """

    count: int
    lines: tuple[int, ...]


def nth_place(document: Document, wanted: str, number: int) -> tuple[Rung, Place] | TooFew:
    """Occurrence ``number`` (from 1) of ``wanted``, which is not empty.

    Counted are exact occurrences, or, if there is none, those in which only line terminators
    differ: these can not be seen, and a text of several lines would stand nowhere in a file
    with CRLF. No rung below that is tried.
    """
    count = 0
    lines: list[int] = []
    for place in _exact(document, wanted):
        count += 1
        if count == number:
            return Rung.EXACT, place
        if count <= PLACES:
            lines.append(place.start)
    if not count:
        others = rungs.line_endings(Search(document, wanted))
        if number <= len(others):
            return Rung.LINE_ENDINGS, others[number - 1]
        count, lines = len(others), [place.start for place in others]
    return TooFew(count, tuple(document.line_at(start) for start in lines))


def nearest(search: Search, rung: Rung, places: Sequence[Place], line: int) -> list[Place]:
    """The one of several ``places`` (all that ``rung`` has found) nearest to ``line``.

    More than one when that is no choice. Rungs list no more than 1,000 places; among those of
    a longer list the nearest is sought anew where that is exact text, and else not chosen.
    """
    if len(places) >= PLACES:
        if rung is not Rung.EXACT or "\r" in search.document.text:
            return list(places)
        places = _around(search.document, search.wanted, line)
    return nearest_of(search.document, places, line)


def nearest_of(document: Document, places: Sequence[Place], line: int) -> list[Place]:
    """The one of ``places`` nearest to ``line``; more than one when that is no choice."""
    firsts = [document.line_at(place.start) for place in places]
    least = min(abs(first - line) for first in firsts)
    return [
        place
        for place, first in zip(places, firsts, strict=True)
        if abs(first - line) == least or first <= line <= _last_line(document, place)
    ]


def _last_line(document: Document, place: Place) -> int:
    return document.line_at(max(place.start, place.end - 1))


def _around(document: Document, wanted: str, line: int) -> list[Place]:
    """Two exact occurrences that begin before a line, and two that begin in it or after it."""
    text, size = document.text, len(wanted)
    starts = document.line_starts
    middle = starts[line - 1] if line <= len(starts) else len(text)
    found = list(islice(occurrences(text, wanted, middle), 2))
    end = middle
    for _ in range(2):
        end = text.rfind(wanted, 0, max(0, end + size - 1)) if end > 0 else -1
        if end >= 0:
            found.append(end)
    return [Place(at, at + size) for at in sorted(found)]


def _exact(document: Document, wanted: str) -> Iterator[Place]:
    """All exact occurrences that split no ``\\r\\n``, as the exact rung has it."""
    size, split = len(wanted), document.splits_terminator
    may_split = "\r" in document.text and (wanted[0] == "\n" or wanted[-1] == "\r")
    for at in occurrences(document.text, wanted):
        if not (may_split and (split(at) or split(at + size))):
            yield Place(at, at + size)


def occurrences(text: str, wanted: str, start: int = 0) -> Iterator[int]:
    """Every offset from ``start`` on at which ``wanted`` begins, overlapping ones too.

    Linear. Searching again from the next character would not be: in a text of 100,000 equal
    lines a pattern of 50 of them stands everywhere, and each search reads all of it. So where
    a pattern repeats itself every ``period`` characters, only what a step of one period adds
    is compared.
    """
    size = len(wanted)
    at = text.find(wanted, start)
    period = _period(wanted) if at >= 0 else 0
    step = wanted[size - period :]
    while at >= 0:
        yield at
        following = text.startswith(step, at + size)
        at = at + period if following else text.find(wanted, at + 1)


def _period(wanted: str) -> int:
    """The least shift by which ``wanted`` fits onto itself; its length if there is none."""
    fits = [0] * len(wanted)  # how long a beginning of wanted ends at each of its characters
    length = 0
    for index in range(1, len(wanted)):
        while length and wanted[index] != wanted[length]:
            length = fits[length - 1]
        length += wanted[index] == wanted[length]
        fits[index] = length
    return len(wanted) - fits[-1]
