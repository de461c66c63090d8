"""The matching ladder (docs/dialects.md): finds a text in a file, and what to write there.

A rung does not apply if the new text can't be written at its only place. A tolerant place is
refused if there are signs that another place was meant (scripts/mutation_benchmark has such traps).

The text that ``trim_edges`` leaves is less distinctive, so it must match whole lines and occur only
once even in its bare form. A dropped line must be foreign to the file: if the file has a word of
it, another place may have been meant, or the meant passage may be gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import dropwhile, groupby, takewhile
from operator import attrgetter

import msgspec
from msgspec.structs import replace
from rapidfuzz import fuzz

from stetd.editing import time_limit
from stetd.editing.matching import rungs
from stetd.editing.matching.line_replacement import Place, written_at
from stetd.editing.matching.rungs import Finder, Rung, Search
from stetd.editing.planning import LocatedEdit
from stetd.editing.text import (
    INDENTATION,
    WORD,
    Document,
    bare,
    is_blank,
    joins_lines,
    split_lines,
    whole_lines,
)
from stetd.editing.typography import folded_text

_LADDER: tuple[tuple[Rung, Finder], ...] = (
    (Rung.EXACT, rungs.exact),
    (Rung.LINE_ENDINGS, rungs.line_endings),
    (Rung.TRAILING_SPACE, rungs.trailing_space),
    (Rung.INDENT, rungs.indent),
    (Rung.TYPOGRAPHY, rungs.typography),
    (Rung.INDENT_TYPOGRAPHY, rungs.indent_and_typography),
)
#: The rungs for a trimmed text, which must match whole lines.
_WHOLE_LINES: tuple[tuple[Rung, Finder], ...] = (
    (Rung.TRIM_EDGES, rungs.terminators),
    (Rung.TRAILING_SPACE, rungs.trailing_space),
    (Rung.INDENT, rungs.indent),
    (Rung.TYPOGRAPHY, rungs.typographic_lines),
    (Rung.INDENT_TYPOGRAPHY, rungs.indent_and_typography),
)
#: Rungs that compare the text as it is.
_LITERAL = (Rung.EXACT, Rung.LINE_ENDINGS)
#: Rungs that also find a text within lines.
_STRETCHES = (Rung.EXACT, Rung.LINE_ENDINGS, Rung.TYPOGRAPHY)
_ENDS = ("\n", "\r")
_BOM = "\ufeff"
#: Lines that may be missing in the text before the blank lines at its end.
_FURTHER_OFF = 4
#: Characters of indentation before a place that are looked at: few lines are split for that.
_DEEPEST = 1_000
#: Similarity (0 to 100) above which two lines without a common word may differ only in words.
_LIKENESS = 50
#: Words that make a single line distinctive.
_DISTINCTIVE_WORDS = 3
#: What may be dropped at an edge, the least first.
_NOTHING, _BLANK_LINES, _SHARED_LINE = range(3)


class Trimmed(msgspec.Struct, frozen=True):
    """Old and new text after dropping lines at the edges."""

    old: str
    new: str
    #: The old text without blank lines at its edges, which must occur once.
    core: str
    #: How much is dropped: the sum of what is dropped at both edges.
    cost: int
    #: For the first and the last edge: the line that was dropped because both texts have it, or "";
    #: and whether the new text adds lines between the remainder and dropped blank lines.
    edges: tuple[tuple[str, bool], tuple[str, bool]]


def trimmings(old: str, new: str) -> Iterator[Trimmed]:
    """Every way to trim that leaves a text to search for."""
    for head, old_rest, new_rest, first in _trimmed_heads(whole_lines(old), whole_lines(new)):
        for tail, old_back, new_back, last in _trimmed_heads(old_rest[::-1], new_rest[::-1]):
            left, put = old_back[::-1], new_back[::-1]
            core = _without_outer_blanks(left)
            telling = left != put and any(map(str.isalnum, "".join(left)))
            if head == tail == _NOTHING or not core or ((first or last) and not telling):
                continue
            above = first, head == _BLANK_LINES and _grows(left, put)
            below = last, tail == _BLANK_LINES and _grows(old_back, new_back)
            yield Trimmed("".join(left), "".join(put), "".join(core), head + tail, (above, below))


def _trimmed_heads(
    old: list[str], new: list[str]
) -> Iterator[tuple[int, list[str], list[str], str]]:
    """Every way to trim the first lines: the dropped lines, the rest, and the shared line."""
    yield _NOTHING, old, new, ""
    blank = _leading_blanks(old)
    old, new = old[blank:], new[min(blank, _leading_blanks(new)) :]
    if blank:
        yield _BLANK_LINES, old, new, ""
    if old and new and old[0] == new[0]:
        yield _SHARED_LINE, old[1:], new[1:], old[0]


def _without_outer_blanks(lines: list[str]) -> list[str]:
    lines = lines[_leading_blanks(lines) :]
    return lines[: len(lines) - _leading_blanks(lines[::-1])]


def _leading_blanks(lines: list[str]) -> int:
    return sum(1 for _ in takewhile(is_blank, (line.rstrip("\r\n") for line in lines)))


def _grows(old: list[str], new: list[str]) -> bool:
    """Whether the first old line is kept and new lines are added before it."""
    return bool(new) and new[0] != old[0] and old[0] in new


class Several(msgspec.Struct, frozen=True):
    """A text that occurs in several places; ``lines``: their first lines, from 1, 1,000 at most."""

    rung: Rung
    lines: tuple[int, ...]


def locate(
    document: Document, old: str, new: str, *, near_line: int | None = None
) -> LocatedEdit | Several | None:
    """Find ``old`` (not empty), and what to write for ``new``; None if it is not found.

    Of several places the one nearest to ``near_line`` (from 1) is chosen, except by ``trim_edges``.
    The caller gives the edit its index.
    """
    assert old, "BUG: an empty text is everywhere"
    unseen = rungs.may_mean_other_terminators(document, old)
    ladder = _LADDER[1:] if unseen and near_line is not None else _LADDER
    found = _climb(document, old, new, ladder, near_line)
    if isinstance(found, LocatedEdit) and found.rung is Rung.EXACT and unseen:
        # It is not the only place if the text also occurs elsewhere with other terminators.
        places = rungs.line_endings(Search(document, old))
        if len(places) > 1:
            found = _several(document, Rung.LINE_ENDINGS, places)
    if isinstance(found, LocatedEdit) and is_applied(document, found, old, new):
        return None
    if found is not None or not old.startswith(_BOM):
        return found if found is not None else _trim_edges(document, old, new)
    # Old text may begin with the file's BOM: then only the beginning of the file is meant.
    if len(old) > len(_BOM):
        found = locate(document, old.removeprefix(_BOM), new.removeprefix(_BOM))
    return None if isinstance(found, LocatedEdit) and found.start else found


def is_applied(document: Document, match: LocatedEdit, old: str, new: str) -> bool:
    """Whether the edit was made before: then tolerance would only find wrong places.

    It was if the file has the new text, and this is distinctive and no part of the old text or of
    its place (a block without the lines around it), or holds the place of the old text and more.
    """
    if match.rung in _LITERAL or not new or new == old:
        return False
    found = _climb(document, new, new, _LADDER)
    inside = around = False
    if isinstance(found, LocatedEdit) and (found.start, found.end) != (match.start, match.end):
        inside = match.start <= found.start and found.end <= match.end
        around = found.start <= match.start and match.end <= found.end
    telling = found is not None and new not in old and is_distinctive(split_lines(new)[0])
    return around or (telling and not inside)


def is_distinctive(lines: Sequence[str]) -> bool:
    """Whether lines are too distinctive to occur by chance."""
    filled = [line for line in lines if not is_blank(line)]
    return len(filled) > 1 or len(WORD.findall("".join(filled))) >= _DISTINCTIVE_WORDS


def _climb(
    document: Document,
    old: str,
    new: str,
    ladder: tuple[tuple[Rung, Finder], ...],
    near_line: int | None = None,
) -> LocatedEdit | Several | None:
    """The match of the first rung that has a place for the new text."""
    search = Search(document, old)
    for rung, find in ladder:
        time_limit.check_time()
        places = find(search)
        if len(places) > 1 and near_line is not None:
            places = rungs.nearest(search, rung, places, near_line)
        if len(places) > 1:
            return _several(document, rung, places)
        if places:
            match = match_at(document, places[0], old, new, rung)
            if match is not None:
                return match
    return None


def _several(document: Document, rung: Rung, places: Iterable[Place]) -> Several:
    return Several(rung, tuple(document.line_at(place.start) for place in places))


def match_at(document: Document, place: Place, old: str, new: str, rung: str) -> LocatedEdit | None:
    """The match at a place that ``rung`` found; None if the text to write is not certain."""
    exact = rung is Rung.EXACT
    if rung in _STRETCHES and _lacks_indentation(document, place, old, new, exact=exact):
        return None
    if exact and ("\r" not in document.text or "\n" not in new):
        text: str | None = new
    else:
        text = written_at(document, place, old, new, literal=exact)
    if text is None:
        return None
    beside = document.text[place.start - 1 : place.start], document.text[place.end : place.end + 1]
    if not text and beside == ("\r", "\n"):
        return None  # the two would become one terminator, and two lines one
    if rung not in _LITERAL and joins_lines(document.text, place.start, place.end, text):
        return None
    text = document.begun(text, place.start)
    return LocatedEdit(0, place.start, place.end, text, rung)


def _lacks_indentation(
    document: Document, place: Place, old: str, new: str, *, exact: bool
) -> bool:
    """Whether a text was found within a line and lacks its indentation: whole lines must decide.

    Otherwise more new lines would not be indented, or removed lines' indentation would stay. Exact
    text is taken as it is, unless the line itself would lose its indentation.
    """
    before = document.text[max(0, place.start - _DEEPEST) : place.start]
    above = before.rstrip(INDENTATION)
    if above == before or above[-1:] not in ("", *_ENDS):
        return False
    given, lines = split_lines(old)[0], split_lines(new)[0]
    if is_blank(given[0]):
        return False
    whole = old.endswith(_ENDS) or document.text[place.end : place.end + 1] in ("", *_ENDS)
    loses = whole and given[0] in lines[1:] and given[0] != lines[0]
    if exact or loses:
        return loses
    if old.endswith(_ENDS) and (not new.endswith(_ENDS) or is_blank(lines[0])):
        return True
    alone = sum(not is_blank(line) for line in given) == 1
    return alone and not all(map(is_blank, lines[1:]))


def _trim_edges(document: Document, old: str, new: str) -> LocatedEdit | Several | None:
    """The last rung: the match with the fewest dropped lines."""
    trimmed = [one for one in trimmings(old, new) if Search(document, one.old).candidates]
    cost = attrgetter("cost")
    for _, equally in groupby(sorted(trimmed, key=cost), key=cost):
        matches: dict[tuple[int, int, str], tuple[LocatedEdit, Trimmed]] = {}
        lines: set[int] = set()
        for one in equally:
            found = _climb(document, one.old, one.new, _WHOLE_LINES)
            if found is not None:
                lines.update(first + 1 for first in Search(document, one.core).candidates)
            if isinstance(found, LocatedEdit):
                matches[found.start, found.end, found.replacement] = found, one
        if len(lines) > 1 and _is_one_passage(document, old, lines):
            return None
        if len(lines) > 1 or len(matches) > 1:
            return Several(Rung.TRIM_EDGES, tuple(sorted(lines)[: rungs.MOST_PLACES]))
        for match, one in matches.values():
            if _is_doubtful(document, match, one):
                return None
            match = replace(match, rung=Rung.TRIM_EDGES)
            return None if is_applied(document, match, one.old, one.new) else match
    return None


def _is_one_passage(document: Document, old: str, lines: set[int]) -> bool:
    """Whether these lines belong to the only place of the whole bare text, which was refused."""
    found = Search(document, "".join(_without_outer_blanks(whole_lines(old))))
    places = found.candidates
    return len(places) == 1 and places[0] < min(lines) <= max(lines) <= places[0] + len(found.lines)


def _is_doubtful(document: Document, match: LocatedEdit, trimmed: Trimmed) -> bool:
    """Whether the dropped lines are a sign against a place.

    They are if a dropped line may be one of the file, or a similar line is beside the place (for
    example, the head of another function), or if lines are added before a blank line that has other
    lines before it in the file.
    """
    first = document.line_at(match.start) - 1
    after = document.line_at(max(match.start, match.end - 1))
    sides = document.lines[:first][::-1], document.lines[after:]
    for (dropped, grows), beside in zip(trimmed.edges, sides, strict=True):
        nearest = next((line for line in beside if not is_blank(line)), "")
        if dropped and (_is_known(document, dropped) or _alike(dropped, nearest)):
            return True
        if grows and any(map(is_blank, dropwhile(is_blank, beside[:_FURTHER_OFF]))):
            return True
    return False


def _is_known(document: Document, line: str) -> bool:
    """Whether a line may be one of the file: it has a word of the file.

    A line without words may be, too, unless it is an ellipsis that does not occur there.
    """
    key = bare(folded_text(line.rstrip("\r\n")))
    words = WORD.findall(key)
    if not words:
        return "..." not in key or key in document.bare_lines
    return not document.words.isdisjoint(words)


def _alike(line: str, other: str) -> bool:
    """Whether two lines without a common word may be one line with changed words."""
    mine, theirs = bare(folded_text(line.rstrip("\r\n"))), bare(folded_text(other))
    same_shape = WORD.sub("w", mine) == WORD.sub("w", theirs)
    return same_shape or fuzz.ratio(mine, theirs) > _LIKENESS
