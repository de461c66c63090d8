"""Where one change of ``patch_file`` is to be made: a step, or the failure that explains why not.

``occurrence`` counts exact text, ``near_line`` takes the nearest of several places, ``fuzzy``
takes similar lines where the ladder finds nothing, ``regex`` takes matches of the pattern.
"""

from __future__ import annotations

import msgspec

from stet.wire.failures import Failure
from stetd.editing import patience
from stetd.editing.matching import locating
from stetd.editing.matching.ladder import (
    Match,
    Several,
    apart_from_carriage_return,
    locate,
    match_at,
)
from stetd.editing.matching.line_replacement import replacement
from stetd.editing.matching.rungs import Place, Rung, TooFew, nearest_of, nth_place
from stetd.editing.patch_file import search_refusals
from stetd.editing.patch_file.fuzzy_search import (
    OutOfTime,
    Resembling,
    SeveralAlike,
    find_resembling,
)
from stetd.editing.patch_file.regex_search import (
    MOST_MATCHES,
    Allowance,
    BadPattern,
    Found,
    Matches,
    Pattern,
    Stopped,
    check_template,
    compile_pattern,
    expanded,
    find_matches,
)
from stetd.editing.patch_file.sequential import Step
from stetd.editing.refusals import Subject
from stetd.editing.text import Document
from stetd.editing.tools.inputs import ChangeRequest

REGEX = "regex"
FUZZY = "fuzzy"

#: Characters of a pattern that is compiled in no time, whatever it says.
_QUICK_PATTERN = 500


class SoundChange(msgspec.Struct, frozen=True):
    """A change that can be looked for; ``pattern`` is set when it is one."""

    subject: Subject
    change: ChangeRequest
    pattern: Pattern | None = None


def check_change(
    subject: Subject, change: ChangeRequest, allowance: Allowance
) -> SoundChange | Failure:
    """The change if it can be looked for; what is wrong with it, whatever the file holds."""
    if not change.search:
        return search_refusals.missing_search(subject)
    impossible = search_refusals.no_combination(subject, change)
    if impossible is not None:
        return impossible
    if not change.regex:
        return SoundChange(subject, change)
    if patience.is_limited() and len(change.search) > _QUICK_PATTERN:
        raise patience.TakesLong
    with allowance:
        if allowance.left <= 0:
            return search_refusals.stopped(subject, allowance.total, regex=True, alone=False)
        pattern = compile_pattern(change.search)
        if isinstance(pattern, BadPattern):
            return search_refusals.bad_pattern(subject, change.search, pattern)
        reason = check_template(pattern, change.replace)
    patience.go_on()
    if reason is not None:
        return search_refusals.bad_template(subject, reason)
    return SoundChange(subject, change, pattern)


def find_change(sound: SoundChange, document: Document, allowance: Allowance) -> Step | Failure:
    """Where the change is made in ``document``, and what is written there."""
    patience.go_on()
    if sound.pattern is not None:
        step = _by_pattern(sound, sound.pattern, document, allowance)
    elif sound.change.occurrence is not None:
        step = _by_number(sound, document, sound.change.occurrence)
    else:
        step = _by_ladder(sound, document, allowance)
    if isinstance(step, Step) and document.undecodable(step.start, step.end):
        return locating.bad_byte(sound.subject, document, step.start)
    return step


def _by_ladder(sound: SoundChange, document: Document, allowance: Allowance) -> Step | Failure:
    subject, change = sound.subject, sound.change
    found = locate(document, change.search, change.replace, near_line=change.near_line)
    if isinstance(found, Match):
        return _step(subject, found)
    if isinstance(found, Several):
        if change.near_line is not None and found.rung is not Rung.TRIM_EDGES:
            return search_refusals.no_nearest(subject, found.lines, change)
        relaxed = "" if found.rung is Rung.EXACT else found.rung.value
        return search_refusals.not_unique(subject, found.lines, change, relaxed)
    if change.fuzzy is not None:
        return _by_likeness(sound, document, change.fuzzy, allowance)
    return locating.explained_miss(
        subject, document, change.search, change.replace or None, explain=True
    )


def _by_number(sound: SoundChange, document: Document, number: int) -> Step | Failure:
    subject, change = sound.subject, sound.change
    found = nth_place(document, change.search, number)
    if isinstance(found, TooFew):
        if found.count:
            return search_refusals.out_of_range(subject, found, change)
        return locating.explained_miss(
            subject, document, change.search, change.replace or None, explain=True
        )
    rung, place = found
    match = match_at(document, place, change.search, change.replace, rung)
    assert match, "BUG: exact text that can not be replaced"
    return _step(subject, match)


def _by_likeness(
    sound: SoundChange, document: Document, least: float, allowance: Allowance
) -> Step | Failure:
    subject, change = sound.subject, sound.change
    found = find_resembling(document, change.search, change.replace, least, allowance)
    if isinstance(found, Resembling):
        score = round(found.score, 4)
        return Step(subject.index, found.start, found.end, found.replacement, FUZZY, score)
    if isinstance(found, SeveralAlike):
        return search_refusals.several_alike(subject, found)
    if isinstance(found, OutOfTime):
        return search_refusals.stopped(subject, allowance.total, regex=False)
    failure = locating.explained_miss(
        subject, document, change.search, change.replace or None, explain=True
    )
    return search_refusals.unlike(failure, found, least)


def _by_pattern(
    sound: SoundChange, pattern: Pattern, document: Document, allowance: Allowance
) -> Step | Failure:
    subject, change = sound.subject, sound.change
    if len(document.text) > pattern.most_text:
        return search_refusals.text_too_long(subject, len(document.text), pattern.most_text)
    alone = allowance.left > allowance.total / 2
    matches = find_matches(pattern, document, allowance, change.occurrence)
    if isinstance(matches, Stopped):
        return search_refusals.stopped(subject, allowance.total, regex=True, alone=alone)
    if not matches.count:
        if matches.empty:
            return search_refusals.matches_empty(subject)
        return search_refusals.matches_nothing(subject, document, change.search)
    found = _chosen(subject, matches, change, document)
    if isinstance(found, Failure):
        return found
    written = replacement(
        found.matched,
        expanded(found, change.replace),
        document.text[found.start : found.end],
        document.terminator_near(found.end),
        forgiven=False,
    )
    assert written is not None, "BUG: only a change of indentation can fail"
    written = apart_from_carriage_return(document, found.start, written)
    return Step(subject.index, found.start, found.end, written, REGEX)


def _chosen(
    subject: Subject, matches: Matches, change: ChangeRequest, document: Document
) -> Found | Failure:
    """The match that is meant, or why that is not settled."""
    lines = tuple(document.line_at(each.start) for each in matches.found)
    if change.occurrence is not None:
        missing = TooFew(matches.count, lines)
        return matches.nth or search_refusals.out_of_range(subject, missing, change)
    if matches.count == 1:
        return matches.found[0]
    if change.near_line is None or matches.count > MOST_MATCHES:
        return search_refusals.not_unique(subject, lines, change, "")
    places = {Place(each.start, each.end): each for each in matches.found}
    near = nearest_of(document, list(places), change.near_line)
    if len(near) == 1:
        return places[near[0]]
    lines = tuple(document.line_at(place.start) for place in near)
    return search_refusals.no_nearest(subject, lines, change)


def _step(subject: Subject, match: Match) -> Step:
    return Step(subject.index, match.start, match.end, match.replacement, match.rung.value)
