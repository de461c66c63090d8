"""The rungs of the matching ladder (docs/dialects.md): each lists places and does not choose.

Rungs below ``line_endings`` need a line that is not blank; rungs that let indentation differ need a
word.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from functools import cached_property
from itertools import islice
from typing import NamedTuple, TypeVar

import msgspec

from stetd.editing import time_limit
from stetd.editing.matching.line_replacement import IndentChange, Place
from stetd.editing.text import (
    Document,
    bare,
    indentation_of,
    is_blank,
    occurrences,
    split_lines,
    with_newlines,
    without_indentation,
    without_trailing_space,
)
from stetd.editing.typography import folded_text

#: Places that are listed at most; a count that reaches it may be too low.
MOST_PLACES = 1_000
#: Candidates, and lines of candidates, that are tried; with more no place is unique.
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


AnyPlace = TypeVar("AnyPlace", bound=Place)


class Run:
    """The lines (at least one) to search for, in the forms that the rungs compare."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines

    @cached_property
    def folded_lines(self) -> list[str]:
        """The lines with their typography folded."""
        return list(map(folded_text, self.lines))

    @cached_property
    def bare(self) -> list[str]:
        """The bare lines, which every rung compares at least."""
        return list(map(bare, self.folded_lines))

    @cached_property
    def blank(self) -> bool:
        """Whether all lines are blank."""
        return all(map(is_blank, self.lines))

    @property
    def has_word(self) -> bool:
        """Whether there is a word: a lone bracket occurs anywhere with other indentation."""
        return any(map(str.isalnum, "".join(self.lines)))

    def change_at(
        self, first: int, own: Sequence[str], found: Sequence[str]
    ) -> IndentChange | None:
        """The change of indentation at line ``first``; None if it is not uniform.

        ``own``, ``found``: these lines and the file's, in the compared form.
        """
        filled = [index for index, line in enumerate(own) if not is_blank(line)]
        change = IndentChange(
            tuple(indentation_of(own[index]) for index in filled),
            tuple(indentation_of(found[first + index]) for index in filled),
        )
        # A place with tabs and spaces mixed counts, too: the text may have been copied from there.
        return change if change.uniform or change.even else None


class Search(Run):
    """The search for one text (not empty) in one document, rung by rung."""

    def __init__(self, document: Document, wanted: str) -> None:
        super().__init__(split_lines(wanted)[0])
        self.document = document
        self.wanted = wanted
        self.terminated = wanted.endswith(("\n", "\r"))
        self._most = min(_CANDIDATES, 1 + _CANDIDATE_LINES // len(self.lines))

    @cached_property
    def _found(self) -> list[int]:
        found = () if self.blank else self.document.find_bare(self.bare)
        return list(islice(found, self._most + 1))

    @property
    def candidates(self) -> list[int]:
        """The first lines (from 0) of runs that a whole-line rung may accept."""
        return self._found[: self._most]

    @property
    def too_many(self) -> bool:
        """Whether there are more candidates than are listed."""
        return len(self._found) > self._most

    def whole_lines(self, first: int, change: IndentChange | None = None) -> Place:
        """The place of whole lines that begins with line ``first`` (from 0)."""
        last = first + len(self.lines) - 1
        end_of = self.document.line_end if self.terminated else self.document.content_end
        return Place(self.document.line_starts[first], end_of(last), change)


Finder = Callable[[Search], list[Place]]


def exact(search: Search) -> list[Place]:
    """The text itself. A stretch that splits a ``\\r\\n`` is left to the next rung."""
    return list(islice(_exact_places(search.document, search.wanted), MOST_PLACES))


def _exact_places(document: Document, wanted: str) -> Iterator[Place]:
    places = (Place(at, at + len(wanted)) for at in occurrences(document.text, wanted))
    split = document.splits_terminator
    return (place for place in places if not split(place.start) and not split(place.end))


def may_mean_other_terminators(document: Document, wanted: str) -> bool:
    """Whether the text may have other terminators at the meant place: a reader sees none."""
    unseen = "\n" in wanted and "\r" not in wanted and "\r" in document.text
    return unseen and document.eol == "mixed"


def line_endings(search: Search) -> list[Place]:
    """The text with every terminator, in it and in the file, taken as ``\\n``."""
    document = search.document
    return _stretches(document.lf_text, with_newlines(search.wanted), document.offset_from_lf)


def typography(search: Search) -> list[Place]:
    """Any range of whole characters with the same folded form as the text."""
    if search.blank:
        return []
    document, wanted = search.document, folded_text(with_newlines(search.wanted))
    return _stretches(document.folded, wanted, document.offset_from_folded)


def _stretches(text: str, wanted: str, original: Callable[[int], int | None]) -> list[Place]:
    """The places of ``wanted`` in a form of the document; ``original`` maps offsets back."""
    # A text of whole lines may end with a newline that the file's last line lacks.
    padding = "" if text.endswith("\n") or wanted == "\n" else "\n"
    places: list[Place] = []
    for at in occurrences(text + padding, wanted):
        start, end = original(at), original(at + len(wanted))
        if start is not None and end is not None:
            places.append(Place(start, end))
            if len(places) >= MOST_PLACES:
                break
    return places


class WholeLines(msgspec.Struct, frozen=True):
    """A rung for whole lines whose keys are equal, as their bare forms are anyway."""

    #: The part of a line that is compared.
    key: Callable[[str], str] = lambda _: ""
    #: Whether the typography is folded.
    folded: bool = False
    #: Whether the indentation may differ; ``uniform``: by one change for all lines.
    indented: bool = False
    uniform: bool = True

    def accepted(
        self, document: Document, run: Run, candidates: Iterable[int]
    ) -> Iterator[tuple[int, IndentChange | None]]:
        """The first lines of places among ``candidates``, and each one's uniform change."""
        ours, theirs = run.lines, document.lines
        if self.folded:
            ours, theirs = run.folded_lines, document.folded_lines
        keys, shifted = list(map(self.key, ours)), self.indented and self.uniform
        for first in candidates if run.has_word or not self.indented else ():
            time_limit.check_time()
            if all(self.key(theirs[first + n]) == key for n, key in enumerate(keys)):
                change = run.change_at(first, ours, theirs) if shifted else None
                if change or not shifted:
                    yield first, change

    def __call__(self, search: Search) -> list[Place]:
        """The places of a text."""
        found = self.accepted(search.document, search, search.candidates)
        places = [search.whole_lines(first, change) for first, change in found]
        if places and search.too_many:  # there may be more places among those not tried
            places = [search.whole_lines(first) for first in search.candidates]
        return places[:MOST_PLACES]


terminators = WholeLines(str)
trailing_space = WholeLines(without_trailing_space)
indent = WholeLines(without_indentation, indented=True)
typographic_lines = WholeLines(str, folded=True)
indent_and_typography = WholeLines(folded=True, indented=True)


def nth_place(document: Document, wanted: str, number: int) -> tuple[Rung, Sequence[Place], int]:
    """Occurrence ``number`` (from 1) alone, and its number; else the first ones, and their count.

    Exact ones, or if there are none, those by line endings.
    """
    found: list[Place] = []
    count = 0
    unseen = may_mean_other_terminators(document, wanted)
    for place in () if unseen else _exact_places(document, wanted):
        time_limit.check_time()
        count += 1
        if count == number:
            return Rung.EXACT, [place], count
        if count <= MOST_PLACES:
            found.append(place)
    if count:
        return Rung.EXACT, found, count
    found = line_endings(Search(document, wanted))
    return Rung.LINE_ENDINGS, found[number - 1 : number] or found, min(number, len(found))


def nearest(search: Search, rung: Rung, places: Sequence[Place], line: int) -> list[Place]:
    """The place nearest to ``line`` of the ``places`` of a ``rung``; as nearest_of.

    With 1,000 places or more none is chosen, unless they are exact and can all be listed.
    """
    if len(places) >= MOST_PLACES:
        if rung is not Rung.EXACT or "\r" in search.document.text:
            return list(places)
        middle = search.document.line_start(line - 1)
        before, after = deque[Place](maxlen=2), list[Place]()  # two on each side are enough
        for place in _exact_places(search.document, search.wanted):
            time_limit.check_time()
            (before if place.start < middle else after).append(place)
            if len(after) == 2:
                break
        places = [*before, *after]
    return nearest_of(search.document, places, line)


def nearest_of(document: Document, places: Sequence[AnyPlace], line: int) -> list[AnyPlace]:
    """The place whose first line is nearest; several if equally near, or around the line."""
    firsts = [document.line_at(place.start) for place in places]
    least = min(abs(first - line) for first in firsts)
    return [
        place
        for place, first in zip(places, firsts, strict=True)
        if abs(first - line) == least
        or first <= line <= document.line_at(max(place.start, place.end - 1))
    ]


# -- hunks of apply_patch


_HUNK_RUNGS = (
    (Rung.TRAILING_SPACE, trailing_space),
    # Twice: places with one uniform change come first.
    (Rung.INDENT, WholeLines(bare, indented=True)),
    (Rung.INDENT, WholeLines(bare, indented=True, uniform=False)),
    (Rung.TYPOGRAPHY, WholeLines(without_trailing_space, folded=True)),
    (Rung.INDENT_TYPOGRAPHY, WholeLines(indented=True)),
)


class Found(NamedTuple):
    """The places of a hunk by one rung: their first lines, from 0, ascending, 1,000 at most."""

    rung: Rung
    places: list[int]
    #: Whether these are all places after the beginning of the search.
    all: bool


def climb(document: Document, run: Run, first: int = 0) -> Iterator[Found]:
    """The places of ``run`` from line ``first`` on, for each rung that finds any, in order."""
    time_limit.check_time()
    exact = list(islice(document.find_lines(run.lines, first), MOST_PLACES))
    if exact:
        yield Found(Rung.EXACT, exact, len(exact) < MOST_PLACES)
    if run.blank:
        return
    candidates = list(islice(document.find_bare(run.bare, first), _CANDIDATES + 1))
    for rung, rule in _HUNK_RUNGS if candidates else ():
        found = [place for place, _ in rule.accepted(document, run, candidates)]
        if found:
            sure = len(candidates) <= _CANDIDATES and len(found) < MOST_PLACES
            yield Found(rung, found[:MOST_PLACES], sure)
