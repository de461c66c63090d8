"""Where one change of ``patch_file`` is to be made: a step, or the failure that explains why not.

    given           places                                       chosen
    (nothing)       the ladder of DIALECTS.md 0                  the only one
    near_line       the same                                     the nearest of several
    occurrence      exact text, or but for line terminators      the n-th
    fuzzy           the ladder; if there is none, similar lines  the only one; clearly the best
    regex           matches of the pattern                       the only one, or as above

Lines are those of the text that the change is made in, with the changes before it made.
"""

from __future__ import annotations

import msgspec

from stet.wire.failures import Failure
from stetd.editing import patience
from stetd.editing.matching import locating
from stetd.editing.matching.choosing import TooFew, nearest_of, nth_place
from stetd.editing.matching.ladder import (
    Match,
    Several,
    apart_from_carriage_return,
    locate,
    match_at,
)
from stetd.editing.matching.line_replacement import replacement
from stetd.editing.matching.rungs import Place, Rung
from stetd.editing.patch_file import search_refusals
from stetd.editing.patch_file.fuzzy_search import (
    OutOfTime,
    Resembling,
    SeveralAlike,
    find_resembling,
)
from stetd.editing.patch_file.pattern_reading import BadPattern
from stetd.editing.patch_file.regex_search import (
    MOST_MATCHES,
    Found,
    Matches,
    Pattern,
    Stopped,
    check_template,
    compile_pattern,
    expanded,
    find_matches,
)
from stetd.editing.patch_file.search_time import Allowance
from stetd.editing.patch_file.sequential import Step
from stetd.editing.refusals import Subject
from stetd.editing.text import Document
from stetd.editing.tools.inputs.patch_file import ChangeRequest

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
    found = _chosen(matches, change, document)
    if found is None:
        return _not_chosen(subject, matches, change, document)
    written = replacement(
        found.matched,
        expanded(found, change.replace),
        document.text[found.start : found.end],
        document.terminator_near(found.end),
        literal=False,
        forgiven=False,
    )
    written = apart_from_carriage_return(document, found.start, written)
    return Step(subject.index, found.start, found.end, written, REGEX)


def _chosen(matches: Matches, change: ChangeRequest, document: Document) -> Found | None:
    """The match that is meant, None when that is not settled."""
    if change.occurrence is not None:
        return matches.nth
    if matches.count == 1:
        return matches.found[0]
    near = _nearest(matches, change, document)
    if len(near) != 1:
        return None
    return next(each for each in matches.found if each.start == near[0].start)


def _nearest(matches: Matches, change: ChangeRequest, document: Document) -> list[Place]:
    """The matches that ``near_line`` may mean; none without it, or if not all are listed."""
    if change.near_line is None or matches.count > MOST_MATCHES:
        return []
    places = [Place(each.start, each.end) for each in matches.found]
    return nearest_of(document, places, change.near_line)


def _not_chosen(
    subject: Subject, matches: Matches, change: ChangeRequest, document: Document
) -> Failure:
    lines = tuple(document.line_at(each.start) for each in matches.found)
    if change.occurrence is not None:
        return search_refusals.out_of_range(subject, TooFew(matches.count, lines), change)
    near = _nearest(matches, change, document)
    if near:
        lines = tuple(document.line_at(place.start) for place in near)
        return search_refusals.no_nearest(subject, lines, change)
    return search_refusals.not_unique(subject, lines, change, "")


def _step(subject: Subject, match: Match) -> Step:
    return Step(subject.index, match.start, match.end, match.replacement, match.rung.value)
