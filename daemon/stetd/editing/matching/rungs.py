"""The rungs of the matching ladder: where a text stands when one thing is relaxed (DIALECTS.md 0).

A rung answers with places and never chooses. All below ``exact`` also ignore terminators and
forgive a final newline that the file's last line lacks. Below ``line_endings`` a text needs a
line that is not blank (white space alone fits anywhere); where indentation may differ, a word.
A whole-line place takes the last line's terminator exactly when the text ends with one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import islice

import msgspec

from stetd.editing import patience
from stetd.editing.matching.line_replacement import Change
from stetd.editing.matching.normal_forms import (
    NormalForms,
    bare,
    folded_text,
    indentation_of,
    without_indentation,
    without_trailing_space,
)
from stetd.editing.text import Document, is_blank, split_lines, with_newlines

#: More places than this are not listed.
PLACES = 1000
#: At most so many candidates, and lines of candidates, are looked at. What a rung finds
#: among the first of more than that can't be called unique, and counts as ambiguous.
_CANDIDATES = 2_000
_CANDIDATE_LINES = 50_000


class Rung(StrEnum):
    """The rungs, in the order in which they are tried."""

    EXACT = "exact"
    LINE_ENDINGS = "line_endings"
    TRAILING_SPACE = "trailing_space"
    INDENT = "indent"
    TYPOGRAPHY = "typography"
    INDENT_TYPOGRAPHY = "indent+typography"
    TRIM_EDGES = "trim_edges"


class Place(msgspec.Struct, frozen=True):
    """One place where a text stands: ``document.text[start:end]``.

    ``forgiven``: the text's final newline is one that the file's last line lacks.
    ``change``: how the indentation differs, for the rungs that relax it.
    """

    start: int
    end: int
    forgiven: bool = False
    change: Change | None = None


@dataclass(frozen=True)
class Search:
    """One text (not empty) that is looked for in one document, by rung after rung."""

    document: Document
    wanted: str

    @cached_property
    def forms(self) -> NormalForms:
        """The document's normal forms."""
        return self.document.form(NormalForms)

    @cached_property
    def lines(self) -> list[str]:
        """The contents of the text's lines."""
        return split_lines(self.wanted)[0]

    @cached_property
    def folded_lines(self) -> list[str]:
        """The text's lines with their typography folded."""
        return [folded_text(line) for line in self.lines]

    @property
    def terminated(self) -> bool:
        """Whether the text ends with a terminator."""
        return self.wanted.endswith(("\n", "\r"))

    @cached_property
    def blank(self) -> bool:
        """Whether there is white space only."""
        return all(map(is_blank, self.lines))

    @property
    def telling(self) -> bool:
        """Whether there is a word: a lone bracket stands anywhere, with other indentation."""
        return any(map(str.isalnum, self.wanted))

    @cached_property
    def _candidates(self) -> list[int]:
        """The first lines (from 0) of all runs that some whole-line rung may accept."""
        if self.blank:
            return []
        keys = [bare(line) for line in self.folded_lines]
        return list(islice(self.forms.find_bare(keys), self._most + 1))

    @property
    def _most(self) -> int:
        return min(_CANDIDATES, 1 + _CANDIDATE_LINES // len(self.lines))

    @property
    def candidates(self) -> list[int]:
        """Those of them that are looked at."""
        return self._candidates[: self._most]

    @property
    def too_many(self) -> bool:
        """Whether there are more."""
        return len(self._candidates) > self._most

    def whole_lines(self, first: int, change: Change | None = None) -> Place:
        """The place of whole lines that begins with line ``first`` (from 0)."""
        last = first + len(self.lines) - 1
        content_end = self.document.content_end(last)
        end = self.document.line_end(last) if self.terminated else content_end
        forgiven = self.terminated and end == content_end
        return Place(self.document.line_starts[first], end, forgiven, change)


Finder = Callable[[Search], list[Place]]


def exact(search: Search) -> list[Place]:
    """The text itself. A stretch that splits a ``\\r\\n`` is left to the next rung."""
    return list(islice(_exact_places(search.document, search.wanted), PLACES))


def _exact_places(document: Document, wanted: str) -> Iterator[Place]:
    places = (Place(at, at + len(wanted)) for at in _occurrences(document.text, wanted))
    if "\r" not in document.text or not (wanted[0] == "\n" or wanted[-1] == "\r"):
        return places
    split = document.splits_terminator
    return (place for place in places if not split(place.start) and not split(place.end))


def line_endings(search: Search) -> list[Place]:
    """The text with every terminator, in it and in the file, taken as ``\\n``."""
    document = search.document
    return _stretches(
        document, document.lf_text, with_newlines(search.wanted), document.offset_from_lf
    )


def typography(search: Search) -> list[Place]:
    """Any stretch of whole characters that folds to what the text folds to."""
    if search.blank:
        return []
    document, folded = search.document, search.forms.folded

    def original(offset: int) -> int | None:
        in_lf = folded.original(offset)
        return None if in_lf is None else document.offset_from_lf(in_lf)

    return _stretches(document, folded.text, folded_text(with_newlines(search.wanted)), original)


def _occurrences(text: str, wanted: str) -> Iterator[int]:
    """Every offset at which ``wanted`` begins, overlapping ones too."""
    at = text.find(wanted)
    while at >= 0:
        yield at
        at = text.find(wanted, at + 1)


def _stretches(
    document: Document, text: str, wanted: str, original: Callable[[int], int | None]
) -> list[Place]:
    """Places of ``wanted`` in a form of the document; ``original`` maps offsets back."""
    places: list[Place] = []
    for at in _occurrences(text, wanted):
        start, end = original(at), original(at + len(wanted))
        if start is not None and end is not None:
            places.append(Place(start, end))
            if len(places) >= PLACES:
                return places
    unterminated = wanted[:-1]
    if wanted.endswith("\n") and unterminated and not text.endswith("\n"):
        start = original(len(text) - len(unterminated)) if text.endswith(unterminated) else None
        if start is not None:
            places.append(Place(start, len(document.text), forgiven=True))
    return places


def terminators(search: Search) -> list[Place]:
    """Whole lines that are the same but for their terminators."""
    return _equal_lines(search, search.document.lines, search.lines)


def trailing_space(search: Search) -> list[Place]:
    """Whole lines that differ in white space at their ends."""
    return _equal_lines(search, search.document.lines, search.lines, without_trailing_space)


def typographic_lines(search: Search) -> list[Place]:
    """Whole lines that differ in typography."""
    return _equal_lines(search, search.forms.folded_lines, search.folded_lines)


def indent(search: Search) -> list[Place]:
    """Whole lines that differ by one uniform change of indentation."""
    if not search.telling:
        return []
    lines, wanted = search.document.lines, search.lines
    alike = [without_indentation(line) for line in wanted]
    firsts = [
        first for first in search.candidates if _alike(lines, first, alike, without_indentation)
    ]
    return _uniform(search, firsts, lines, wanted)


def indent_and_typography(search: Search) -> list[Place]:
    """Whole lines that differ by typography, trailing space, and one change of indentation."""
    if not search.telling:
        return []
    return _uniform(search, search.candidates, search.forms.folded_lines, search.folded_lines)


def _equal_lines(
    search: Search,
    lines: Sequence[str],
    wanted: Sequence[str],
    key: Callable[[str], str] = str,
) -> list[Place]:
    alike = [key(line) for line in wanted]
    firsts = (first for first in search.candidates if _alike(lines, first, alike, key))
    return _unless_unsure(search, [search.whole_lines(first) for first in islice(firsts, PLACES)])


def _alike(
    lines: Sequence[str], first: int, keys: Sequence[str], key: Callable[[str], str]
) -> bool:
    return all(key(lines[first + index]) == wanted for index, wanted in enumerate(keys))


def _uniform(
    search: Search, firsts: Sequence[int], lines: Sequence[str], wanted: Sequence[str]
) -> list[Place]:
    filled = [index for index, line in enumerate(wanted) if not is_blank(line)]
    text = tuple(indentation_of(wanted[index]) for index in filled)
    places: list[Place] = []
    for first in firsts:
        found = tuple(indentation_of(lines[first + index]) for index in filled)
        change = Change(text, found)
        if change.uniform:
            places.append(search.whole_lines(first, change))
            if len(places) >= PLACES:
                break
    return _unless_unsure(search, places)


def _unless_unsure(search: Search, places: list[Place]) -> list[Place]:
    """The places; all candidates when there may be more places among those not looked at."""
    if places and search.too_many:
        return [search.whole_lines(first) for first in search.candidates[:PLACES]]
    return places


class TooFew(msgspec.Struct, frozen=True):
    """A text that stands less often than was asked for: ``count`` times.

    ``lines``: the 1-based lines of its places, ascending, 1,000 at most.
    """

    count: int
    lines: tuple[int, ...]


def nth_place(document: Document, wanted: str, number: int) -> tuple[Rung, Place] | TooFew:
    """Occurrence ``number`` (from 1) of ``wanted``, which is not empty, overlapping ones counted.

    Counted are exact occurrences, or, if there is none, those in which only line terminators
    differ: these can not be seen, and a text of several lines would stand nowhere in a file
    with CRLF. No rung below that is tried.
    """
    count = 0
    lines: list[int] = []
    for place in _exact_places(document, wanted):
        count += 1
        if count == number:
            return Rung.EXACT, place
        if count <= PLACES:
            lines.append(document.line_at(place.start))
        patience.go_on()
    if not count:
        others = line_endings(Search(document, wanted))
        if number <= len(others):
            return Rung.LINE_ENDINGS, others[number - 1]
        count, lines = len(others), [document.line_at(place.start) for place in others]
    return TooFew(count, tuple(lines))


def nearest(search: Search, rung: Rung, places: Sequence[Place], line: int) -> list[Place]:
    """The one of several ``places`` (all that ``rung`` has found) nearest to ``line``.

    More than one when that is no choice. Rungs list no more than 1,000 places: of a longer list
    none is chosen, unless the text is exact and all its places can be listed.
    """
    if len(places) >= PLACES:
        if rung is not Rung.EXACT or "\r" in search.document.text:
            return list(places)
        places = list(_exact_places(search.document, search.wanted))
        starts = [*search.document.line_starts, len(search.document.text)]
        middle = starts[min(line, len(starts)) - 1]
        at = bisect_left([place.start for place in places], middle)
        places = places[max(0, at - 2) : at + 2]  # two before the line, two in or after it
    return nearest_of(search.document, places, line)


def nearest_of(document: Document, places: Sequence[Place], line: int) -> list[Place]:
    """The one of ``places`` whose first line is nearest to ``line``.

    More than one when another's first line is as near, or the line lies inside another place.
    """
    firsts = [document.line_at(place.start) for place in places]
    least = min(abs(first - line) for first in firsts)
    return [
        place
        for place, first in zip(places, firsts, strict=True)
        if abs(first - line) == least
        or first <= line <= document.line_at(max(place.start, place.end - 1))
    ]
