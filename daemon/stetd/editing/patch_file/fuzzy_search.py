"""The whole lines most like a text that stands nowhere: ``fuzzy`` (DIALECTS.md 2).

The only search that lets words differ. A place is a run of as many lines as the text has, each at
least ``LEAST_LINE`` like its counterpart by rapidfuzz's ``ratio`` of the bare lines; its score is
their mean, weighted by length. The best is taken if it scores what was asked for, the second best
is clearly below, every line that changes is itself as alike as was asked for, and one change of
indentation explains it. Places not compared count as a second best as good as it could be.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import nsmallest
from itertools import zip_longest
from operator import itemgetter

import msgspec
from rapidfuzz import fuzz, process

from stet.wire.failures import Failure, Kind
from stetd.editing.matching import line_replacement
from stetd.editing.matching.ladder import written_at
from stetd.editing.matching.normal_forms import NormalForms
from stetd.editing.matching.rungs import Search
from stetd.editing.patch_file.regex_search import Allowance
from stetd.editing.planning import LocatedEdit
from stetd.editing.refusals import Subject
from stetd.editing.text import Document, split_lines

#: Each line must be so alike for a run of lines to be a place at all.
LEAST_LINE = 0.5
#: The second best must be below the best by this, and with twice the distance from 1.
CLEARLY = 0.05
#: How many of the text's longest lines are looked for in the whole file.
_ANCHORS = 3
#: How many places, the likeliest by these lines, are compared in full.
_LOOKED_AT = 500


class _Scored(msgspec.Struct, frozen=True):
    score: float
    first: int
    lines: tuple[float, ...]


def _distinct_lines(document: Document) -> dict[str, list[int]]:
    """For each distinct bare line the indexes (from 0) at which it stands."""
    numbers: dict[str, list[int]] = {}
    for index, key in enumerate(document.form(NormalForms).bare_lines):
        numbers.setdefault(key, []).append(index)
    return numbers


def find_resembling(
    subject: Subject,
    document: Document,
    old: str,
    new: str,
    least: float,
    allowance: Allowance,
) -> LocatedEdit | Failure | str:
    """The place most like ``old``, if it is at least ``least`` alike and surely the one.

    Else why there is none. Raises TimeoutError when ``allowance`` is used up.
    """
    search = Search(document, old)
    if search.blank:
        return "white space alone resembles nothing"
    with allowance:
        places, unseen = _ranking(search, least, allowance)
    if not places:
        return "no lines are that much alike, one by one"
    best, *others = places
    first, last = best.first + 1, best.first + len(search.lines)
    where = f"line {first}" if first == last else f"lines {first}-{last}"
    told = f"the most alike scores {best.score:.2f}"
    if best.score < least:
        return f"{told} ({where})"
    second = max([unseen, *(each.score for each in others[:1])])
    if not _clearly(best.score, second):
        return _several(
            subject, [each for each in places if not _clearly(best.score, each.score)][:20]
        )
    differing = _line_too_different(search, new, best, least)
    if differing is not None:
        return (
            f"{told}, but line {first + differing}, where the change is made, only "
            f"{best.lines[differing]:.2f} ({where})"
        )
    change = search.change_at(best.first, search.lines, document.lines)
    place = search.whole_lines(best.first, change)
    text = written_at(document, place, old, new) if change else None
    if text is None:
        return f"{told}, but how to indent the new text there can not be told ({where})"
    score = round(best.score, 4)
    return LocatedEdit(subject.index, place.start, place.end, text, "fuzzy", score=score)


def _several(subject: Subject, places: Sequence[_Scored]) -> Failure:
    scores = ", ".join(f"line {each.first + 1} (score {each.score:.2f})" for each in places)
    return subject.failure(
        Kind.OLD_TEXT_NOT_UNIQUE,
        f"search stands nowhere in {subject.path}, and with fuzzy it may mean several places: "
        f"{scores}. Send the text as it stands in the file.",
        candidates=[each.first + 1 for each in places],
    )


def _clearly(best: float, other: float) -> bool:
    return best - other >= CLEARLY and 1 - other >= 2 * (1 - best)


def _ranking(search: Search, least: float, allowance: Allowance) -> tuple[list[_Scored], float]:
    """The places that matter, the best first; and a score that no other place exceeds."""
    keys = search.document.form(NormalForms).bare_lines
    wanted = search.bare
    losses = _losses(search.document, wanted, least, allowance)
    total = sum(map(_weight, wanted))
    looked_at = nsmallest(_LOOKED_AT + 1, losses.items(), key=itemgetter(1))
    unseen = 1 - looked_at.pop()[1] / total if len(looked_at) > _LOOKED_AT else 0.0
    known: dict[tuple[int, str], float] = {}
    places: list[_Scored] = []
    for first, _ in looked_at:
        allowance.go_on()
        scored = _scored(keys, wanted, first, known)
        if scored is not None:
            places.append(scored)
    return sorted(places, key=lambda each: (-each.score, each.first)), unseen


def _losses(
    document: Document, wanted: Sequence[str], least: float, allowance: Allowance
) -> dict[int, float]:
    """Where (line, from 0) a place may begin, and what its longest lines take from the score."""
    total = sum(map(_weight, wanted))
    matters = min(least - CLEARLY, 2 * least - 1)
    longest = sorted(range(len(wanted)), key=lambda index: len(wanted[index]), reverse=True)
    distinct = document.form(_distinct_lines)
    last = document.line_count - len(wanted)
    losses: dict[int, float] | None = None
    for index in longest[:_ANCHORS]:
        if not wanted[index]:
            break
        allowance.go_on()
        weight = _weight(wanted[index])
        cutoff = 100 * max(LEAST_LINE, 1 - total * (1 - matters) / weight)
        like = process.extract(
            wanted[index], list(distinct), scorer=fuzz.ratio, score_cutoff=cutoff, limit=None
        )
        found = {
            number - index: weight * (1 - score / 100)
            for line, score, _ in like
            for number in distinct[line]
            if 0 <= number - index <= last
        }
        if losses is None:
            losses = found
        else:
            losses = {at: loss + found[at] for at, loss in losses.items() if at in found}
    return losses or {}


def _weight(line: str) -> int:
    return max(1, len(line))


def _scored(
    keys: Sequence[str], wanted: Sequence[str], first: int, known: dict[tuple[int, str], float]
) -> _Scored | None:
    """The place that begins at line ``first``, None if it is none."""
    total = weights = 0.0
    lines: list[float] = []
    for index, line in enumerate(wanted):
        here = keys[first + index]
        alike = known.get((index, here))
        if alike is None:
            alike = known[index, here] = _alike(line, here)
        if alike < LEAST_LINE:
            return None
        weight = _weight(line)
        total, weights = total + alike * weight, weights + weight
        lines.append(alike)
    return _Scored(total / weights, first, tuple(lines))


def _alike(line: str, here: str) -> float:
    if not line or not here:
        return float(line == here)
    return fuzz.ratio(line, here) / 100


def _line_too_different(search: Search, new: str, best: _Scored, least: float) -> int | None:
    """The first line (from 0, of the text) that is changed or inserted beside, and too unlike."""
    sent = split_lines(new)[0]
    origins = line_replacement.shared_lines(search.lines, sent)
    touched = set(range(len(search.lines))) - {each for each in origins if each is not None}
    before: int | None = None
    for origin, following in zip_longest(origins, origins[1:]):
        if origin is None:
            touched.update(each for each in (before, following) if each is not None)
        else:
            before = origin
    unlike = (index for index in sorted(touched) if best.lines[index] < least)
    return next(unlike, None)
