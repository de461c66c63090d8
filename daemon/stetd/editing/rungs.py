"""The rungs of the matching ladder: where a text stands when one thing is relaxed.

A rung answers with places; it never chooses among them. Ladder and choice are matching's.

=================== ======================================= ====================
rung                a place is                              compares
=================== ======================================= ====================
exact               any stretch that splits no ``\\r\\n``     characters
line_endings        any stretch                             terminators alike
trailing_space      whole lines                             ends of lines cut
indent              whole lines, one uniform change         indentation cut
typography          any stretch of whole characters         folded
indent+typography   whole lines, one uniform change or none folded, both cut
trim_edges          whole lines (by the rungs above)        in matching
=================== ======================================= ====================

All rungs below exact also ignore how lines are terminated, and forgive a final newline that
the file's last line lacks. Rungs below line_endings need a line in the text that is not
blank: white space alone would fit anywhere.

A whole-line place takes the last line's terminator exactly when the text ends with one, and
always its trailing space.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice

from stetd.editing.indentation import Change
from stetd.editing.normal_forms import (
    KeyedLines,
    NormalForms,
    bare,
    fold_line,
    indentation_of,
    without_indentation,
    without_trailing_space,
)
from stetd.editing.text import Document, is_blank, split_lines, with_newlines
from stetd.editing.typography import folded_text

#: More places than this are not listed.
PLACES = 1000
#: How many lines are compared for their indentation before a text counts as ambiguous.
_INDENTATIONS = 500_000


class Rung(StrEnum):
    """The rungs, in the order in which they are tried."""

    EXACT = "exact"
    LINE_ENDINGS = "line_endings"
    TRAILING_SPACE = "trailing_space"
    INDENT = "indent"
    TYPOGRAPHY = "typography"
    INDENT_TYPOGRAPHY = "indent+typography"
    TRIM_EDGES = "trim_edges"


@dataclass(frozen=True, slots=True)
class Place:
    """One place where a text stands: ``document.text[start:end]``.

    ``forgiven``: the text's final newline is one that the file's last line lacks.
    ``change``: how the indentation differs, for the rungs that relax it.
    """

    start: int
    end: int
    forgiven: bool = False
    change: Change | None = None


@dataclass(frozen=True)
class Wanted:
    """The text that is looked for, as lines."""

    text: str
    lines: list[str]
    terminated: bool

    @classmethod
    def of(cls, text: str) -> Wanted:
        """Split a text that is not empty."""
        lines, terminators = split_lines(text)
        return cls(text, lines, bool(terminators[-1]))

    @property
    def blank(self) -> bool:
        """Whether there is white space only."""
        return all(map(is_blank, self.lines))


Finder = Callable[[Document, Wanted], list[Place]]


def _occurrences(text: str, wanted: str) -> Iterator[int]:
    """Every offset at which ``wanted`` begins, overlapping ones too."""
    at = text.find(wanted)
    while at >= 0:
        yield at
        at = text.find(wanted, at + 1)


def exact(document: Document, wanted: Wanted) -> list[Place]:
    """The text itself. A stretch that splits a ``\\r\\n`` is left to the next rung."""
    places = (Place(at, at + len(wanted.text)) for at in _occurrences(document.text, wanted.text))
    if "\r" in document.text and (wanted.text[0] == "\n" or wanted.text[-1] == "\r"):
        split = document.splits_terminator
        places = (place for place in places if not split(place.start) and not split(place.end))
    return list(islice(places, PLACES))


def line_endings(document: Document, wanted: Wanted) -> list[Place]:
    """The text with every terminator, in it and in the file, taken as ``\\n``."""
    return _stretches(
        document, document.lf_text, with_newlines(wanted.text), document.offset_from_lf
    )


def typography(document: Document, wanted: Wanted) -> list[Place]:
    """Any stretch of whole characters that folds to what the text folds to."""
    folded = NormalForms.of(document).folded

    def original(offset: int) -> int | None:
        in_lf = folded.original(offset)
        return None if in_lf is None else document.offset_from_lf(in_lf)

    if wanted.blank:
        return []
    return _stretches(document, folded.text, folded_text(with_newlines(wanted.text)), original)


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


def _runs(document: Document, wanted: Wanted, keyed: KeyedLines, keys: list[str]) -> list[Place]:
    """Whole-line places of a run of keys."""
    return [_lines_place(document, wanted, first) for first in keyed.find(keys, PLACES)]


def _lines_place(
    document: Document, wanted: Wanted, first: int, change: Change | None = None
) -> Place:
    """The place of whole lines that begins with line ``first`` (from 0)."""
    last = first + len(wanted.lines) - 1
    content_end = document.content_end(last)
    end = document.line_end(last) if wanted.terminated else content_end
    forgiven = wanted.terminated and end == content_end
    return Place(document.line_starts[first], end, forgiven, change)


def whole_lines(document: Document, wanted: Wanted) -> list[Place]:
    """Whole lines that are the same but for their terminators."""
    return _runs(document, wanted, NormalForms.of(document).whole, wanted.lines)


def trailing_space(document: Document, wanted: Wanted) -> list[Place]:
    """Whole lines that differ in white space at their ends."""
    forms = NormalForms.of(document)
    if not stands_bare(forms, wanted):
        return []
    keys = [without_trailing_space(line) for line in wanted.lines]
    return _runs(document, wanted, forms.without_trailing_space, keys)


def typographic_lines(document: Document, wanted: Wanted) -> list[Place]:
    """Whole lines that differ in typography."""
    forms = NormalForms.of(document)
    if not stands_bare(forms, wanted):
        return []
    return _runs(document, wanted, forms.typographic, [fold_line(line) for line in wanted.lines])


def indent(document: Document, wanted: Wanted) -> list[Place]:
    """Whole lines that differ by one uniform change of indentation."""
    forms = NormalForms.of(document)
    if not stands_bare(forms, wanted):
        return []
    keys = [without_indentation(line) for line in wanted.lines]
    return _uniform(
        document, wanted, forms.without_indentation, keys, (wanted.lines, document.lines)
    )


def indent_and_typography(document: Document, wanted: Wanted) -> list[Place]:
    """Whole lines that differ by typography, trailing space, and one change of indentation."""
    forms = NormalForms.of(document)
    if not stands_bare(forms, wanted):
        return []
    folded = [fold_line(line) for line in wanted.lines]
    keys = [bare(line) for line in folded]
    return _uniform(document, wanted, forms.bare, keys, (folded, forms.folded_lines))


def stands_bare(forms: NormalForms, wanted: Wanted) -> bool:
    """Whether the text stands in the form that forgives most; if not, no rung need look."""
    if wanted.blank:
        return False
    keys = [bare(fold_line(line)) for line in wanted.lines]
    return next(forms.bare.find(keys, 1), None) is not None


def _uniform(
    document: Document,
    wanted: Wanted,
    keyed: KeyedLines,
    keys: list[str],
    lines: tuple[Sequence[str], Sequence[str]],
) -> list[Place]:
    """The runs of keys whose indentation changed uniformly.

    Work is bounded: a run that stands too often to be looked at everywhere counts as a
    place wherever it stands, which makes the text ambiguous and the edit refused.
    """
    wanted_lines, document_lines = lines
    filled = [index for index, line in enumerate(wanted_lines) if not is_blank(line)]
    text = tuple(indentation_of(wanted_lines[index]) for index in filled)
    most = max(2, _INDENTATIONS // len(keys))
    firsts = list(keyed.find(keys, most + 1))
    places: list[Place] = []
    for first in firsts:
        found = tuple(indentation_of(document_lines[first + index]) for index in filled)
        change = Change(text, found)
        if len(firsts) > most or change.uniform:
            places.append(_lines_place(document, wanted, first, change))
            if len(places) >= PLACES:
                break
    return places
