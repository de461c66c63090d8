"""Which of several places is meant: the n-th, or the one nearest to a line.

Occurrences are counted from the beginning of the text and with overlap: ``aa`` stands twice in
``aaa`` (DIALECTS.md 0). Lines count from 1, in the text in which the places stand.

The place nearest to a line is the one whose *first* line is nearest. That is no choice when
another's first line is as near (above and below, or in the same line), nor when the line lies
inside another place: then either could be meant.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import msgspec

from stetd.editing.matching import rungs
from stetd.editing.matching.rungs import PLACES, Place, Rung, Search
from stetd.editing.text import Document


class TooFew(msgspec.Struct, frozen=True):
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
    starts: list[int] = []
    for run in _exact_runs(document, wanted):
        if number <= count + run.count:
            at = run.start + (number - count - 1) * run.step
            return Rung.EXACT, Place(at, at + len(wanted))
        count += run.count
        starts += islice(run, PLACES - len(starts))
    if not count:
        others = rungs.line_endings(Search(document, wanted))
        if number <= len(others):
            return Rung.LINE_ENDINGS, others[number - 1]
        count, starts = len(others), [place.start for place in others]
    return TooFew(count, tuple(document.line_at(start) for start in starts))


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
    runs = _runs(text, wanted, middle)
    found = list(islice((at for run in runs for at in run), 2))
    end = middle
    for _ in range(2):
        end = text.rfind(wanted, 0, max(0, end + size - 1)) if end > 0 else -1
        if end >= 0:
            found.append(end)
    return [Place(at, at + size) for at in sorted(found)]


class _Run(msgspec.Struct, frozen=True):
    """``count`` occurrences, each ``step`` characters after the one before it."""

    start: int
    step: int
    count: int

    def __iter__(self) -> Iterator[int]:
        return (self.start + number * self.step for number in range(self.count))


def _exact_runs(document: Document, wanted: str) -> Iterator[_Run]:
    """All exact occurrences that split no ``\\r\\n``, as the exact rung has it."""
    text, size, split = document.text, len(wanted), document.splits_terminator
    may_split = "\r" in text and (wanted[0] == "\n" or wanted[-1] == "\r")
    for run in _runs(text, wanted):
        if not may_split:
            yield run
        else:
            whole = (at for at in run if not (split(at) or split(at + size)))
            yield from (_Run(at, size, 1) for at in whole)


def _runs(text: str, wanted: str, start: int = 0) -> Iterator[_Run]:
    """All places from ``start`` on at which ``wanted`` stands, overlapping ones too, in order.

    Linear. Searching again from the next character would not be: in a text of 100,000 equal
    lines a pattern of 50 of them stands everywhere, and each search reads all of it. So where
    a pattern fits onto itself ``step`` characters further on, only what that adds is compared.
    """
    at = text.find(wanted, start)
    step = _period(wanted) if at >= 0 else 0
    added = wanted[len(wanted) - step :]
    while at >= 0:
        count = 1 + _repetitions(text, at + len(wanted), added)
        yield _Run(at, step, count)
        at = text.find(wanted, at + (count - 1) * step + 1)


def _repetitions(text: str, at: int, block: str) -> int:
    """How many times ``block`` stands at ``at``, one after another; doubling, then halving."""
    size, count, times = len(block), 0, 1
    while text.startswith(block, at):
        at, count = at + len(block), count + times
        block, times = block * 2, times * 2
    while times > 1:
        times //= 2
        block = block[: times * size]
        if text.startswith(block, at):
            at, count = at + len(block), count + times
    return count


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
