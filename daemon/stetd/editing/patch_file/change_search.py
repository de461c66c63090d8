"""Finds the place of one change of ``patch_file``, or explains the failure.

``occurrence`` counts exact text, ``near_line`` chooses the nearest of several places, ``fuzzy``
accepts similar lines if the ladder finds nothing, ``regex`` searches a pattern.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from itertools import zip_longest
from typing import NamedTuple

import msgspec
from msgspec.structs import replace
from rapidfuzz import fuzz, process

from stet.wire.failures import Failure, Kind
from stetd.editing import time_limit
from stetd.editing.matching import line_replacement, locating
from stetd.editing.matching.ladder import Match, Several, locate, match_at, written_at
from stetd.editing.matching.rungs import MOST_PLACES, Rung, Search, TooFew, nearest_of, nth_place
from stetd.editing.patch_file import regex_search
from stetd.editing.patch_file.regex_search import Allowance, MatchedPlace, Matches, Pattern
from stetd.editing.planning import LocatedEdit
from stetd.editing.refusals import Subject, old_text_not_found, repeated, spelled_lines, visible
from stetd.editing.text import Document, split_lines
from stetd.editing.tools.inputs import ChangeRequest

#: Characters of a pattern that always compiles quickly.
_QUICK_PATTERN = 500
#: Fields that exclude each other.
_APART = (
    ("regex", "fuzzy", "a pattern matches or does not; take one of them"),
    ("fuzzy", "occurrence", "occurrence counts exact matches, fuzzy takes the best one"),
    ("fuzzy", "near_line", "fuzzy takes the most similar place, wherever it is"),
    ("occurrence", "near_line", "both choose among several places; send one of them"),
)
_RUNS_AWAY = (
    "The pattern runs away: repeated groups such as (a+)+ or (a|a)* try everything. Make it "
    "simpler, begin it with literal text, or leave regex out and send the exact text."
)
_TOO_MUCH = "Send fewer changes with regex or fuzzy in a call, or search for the exact text."


class CheckedChange(msgspec.Struct, frozen=True):
    """A valid change; ``pattern``: set for ``regex``."""

    subject: Subject
    change: ChangeRequest
    pattern: Pattern | None = None


def check_change(
    subject: Subject, change: ChangeRequest, allowance: Allowance
) -> CheckedChange | Failure:
    """The change, checked as far as that needs no file; or its fault."""
    if not change.search:
        return subject.failure(
            Kind.MISSING_OLD_TEXT,
            "search is empty; it must hold the text to look for. To insert text, search for the "
            "line beside it and send that line together with the new text in replace.",
        )
    for one, other, reason in _APART:
        if getattr(change, one) and getattr(change, other):
            return _invalid(subject, f"{one} and {other} can not go together: {reason}.")
    if not change.regex:
        return CheckedChange(subject, change)
    if time_limit.is_limited() and len(change.search) > _QUICK_PATTERN:
        raise time_limit.TakesLong
    with allowance:
        if allowance.left <= 0:
            return _stopped(subject, allowance, _TOO_MUCH)
        try:
            pattern = regex_search.compile_pattern(change.search)
        except regex_search.BadPattern as bad:
            where = ""
            if bad.position is not None:
                here = change.search[max(0, bad.position - 20) : bad.position + 20]
                where = f" (at position {bad.position}, near {visible(here)})"
            return _invalid(
                subject,
                f"search can not be used as a regular expression: {bad.reason}{where}. Mend the "
                "pattern, or leave regex out to look for literal text.",
            )
        fault = regex_search.check_template(pattern, change.replace)
    time_limit.check_time()
    if fault is not None:
        return _invalid(
            subject,
            f"replace can not be used with this pattern: {fault}. With regex, \\1 and \\g<name> "
            "stand for groups, and a backslash itself is written \\\\.",
        )
    return CheckedChange(subject, change, pattern)


def find_change(
    checked: CheckedChange, document: Document, allowance: Allowance
) -> LocatedEdit | Failure:
    """The place of the change in ``document``, and the text to write there."""
    time_limit.check_time()
    change = checked.change
    found: Match | LocatedEdit | Failure
    if checked.pattern is not None:
        found = _by_pattern(checked, checked.pattern, document, allowance)
    elif change.occurrence is not None:
        counted = nth_place(document, change.search, change.occurrence)
        if isinstance(counted, TooFew):
            if counted.count:
                return _out_of_range(checked.subject, counted, change)
            return _miss(checked, document)
        rung, place = counted
        # If the new text has no line end, a line can only be replaced as a whole.
        match = match_at(document, place, change.search, change.replace, rung)
        found = match or _miss(checked, document)
    else:
        found = _by_ladder(checked, document, allowance)
    if isinstance(found, Match):
        found = found.edit(checked.subject.index)
    if isinstance(found, LocatedEdit):
        return locating.bad_byte(checked.subject, document, found.start, found.end) or found
    return found


def _by_ladder(
    checked: CheckedChange, document: Document, allowance: Allowance
) -> Match | LocatedEdit | Failure:
    subject, change = checked.subject, checked.change
    found = locate(document, change.search, change.replace, near_line=change.near_line)
    if isinstance(found, Match):
        return found
    if isinstance(found, Several):
        if change.near_line is not None and found.rung is not Rung.TRIM_EDGES:
            return _no_nearest(subject, found.lines, change, found.rung)
        return _not_unique(subject, found.lines, change, found.rung)
    if change.fuzzy is None:
        return _miss(checked, document)
    try:
        like = _find_resembling(
            subject, document, change.search, change.replace, change.fuzzy, allowance
        )
    except TimeoutError:
        return _stopped(subject, allowance, _TOO_MUCH)
    if not isinstance(like, str):
        return like
    miss = _miss(checked, document)
    why = f"With fuzzy {change.fuzzy:g} no place was taken either: {like}."
    return replace(miss, message=f"{miss.message}\n{why}")


def _by_pattern(
    checked: CheckedChange, pattern: Pattern, document: Document, allowance: Allowance
) -> LocatedEdit | Failure:
    subject, change = checked.subject, checked.change
    if len(document.text) > pattern.most_text:
        return _invalid(
            subject,
            f"{subject.path} has {len(document.text):,} characters; this pattern is tried on "
            f"{pattern.most_text:,} at most. Leave regex out and send the exact text.",
        )
    alone = allowance.left > allowance.total / 2
    try:
        matches = regex_search.find_matches(pattern, document, allowance, change.occurrence)
    except (TimeoutError, MemoryError):
        return _stopped(subject, allowance, _RUNS_AWAY if alone else _TOO_MUCH)
    found = _chosen(subject, matches, change, document)
    if isinstance(found, Failure):
        return found
    match = found.match
    longest = max(end - start for start, end in map(match.span, range(match.re.groups + 1)))
    time_limit.check_size(longest * change.replace.count("\\"))
    written = written_at(document, found, match.group(), match.expand(change.replace))
    assert written is not None, "BUG: only a change of indentation can fail"
    return LocatedEdit(subject.index, found.start, found.end, written, "regex")


def _chosen(
    subject: Subject, matches: Matches, change: ChangeRequest, document: Document
) -> MatchedPlace | Failure:
    """The chosen match, or why none is."""
    if not matches.count:
        return _no_match(subject, matches, change.search, document)
    lines = tuple(document.line_at(each.start) for each in matches.found)
    if change.occurrence is not None:
        missing = TooFew(matches.count, lines)
        return matches.nth or _out_of_range(subject, missing, change)
    if matches.count == 1:
        return matches.found[0]
    if change.near_line is None or matches.count > MOST_PLACES:
        return _not_unique(subject, lines, change)
    near = nearest_of(document, matches.found, change.near_line)
    if len(near) == 1:
        return near[0]
    lines = tuple(document.line_at(place.start) for place in near)
    return _no_nearest(subject, lines, change)


# -- failures


def _miss(checked: CheckedChange, document: Document) -> Failure:
    change = checked.change
    return locating.explained_miss(
        checked.subject, document, change.search, change.replace, explain=True
    )


def _invalid(subject: Subject, sentence: str) -> Failure:
    return subject.failure(Kind.INVALID_PARAMS, sentence)


def _not_unique(
    subject: Subject, lines: Sequence[int], change: ChangeRequest, rung: Rung = Rung.EXACT
) -> Failure:
    """``lines``: where the places that ``rung`` found begin."""
    counted = f"occurrence (1 to {len(lines)}) or " if rung is Rung.EXACT else ""
    more = "make the pattern more specific" if change.regex else "send more lines in search"
    advice = f"Say which place you mean with {counted}near_line, or {more}."
    if rung is Rung.TRIM_EDGES:  # it does not use near_line
        advice = "Send more lines in search."
    return subject.failure(
        Kind.OLD_TEXT_NOT_UNIQUE,
        f"{_what(change)} {repeated(lines, subject.path, rung)}, and must be unique. {advice}",
        candidates=lines,
    )


def _no_nearest(
    subject: Subject, lines: Sequence[int], change: ChangeRequest, rung: Rung = Rung.EXACT
) -> Failure:
    counted = ", or occurrence" if rung is Rung.EXACT else ""
    return subject.failure(
        Kind.OLD_TEXT_NOT_UNIQUE,
        f"{_what(change)} in several places of {subject.path} that line {change.near_line} may "
        f"mean, {spelled_lines(lines)}: the place must be nearest by its first line, and the line "
        f"may not lie inside another one. Send the line where it begins{counted}.",
        candidates=lines,
    )


def _out_of_range(subject: Subject, found: TooFew, change: ChangeRequest) -> Failure:
    count, advice = "once", "Leave occurrence out."
    if found.count != 1:
        count, advice = f"{found.count:,} times", f"Send an occurrence from 1 to {found.count:,}."
    return subject.failure(
        Kind.OCCURRENCE_OUT_OF_RANGE,
        f"there is no occurrence {change.occurrence}: {_what(change)} only {count} in "
        f"{subject.path}, {spelled_lines(found.lines)}. {advice}",
        candidates=found.lines,
    )


def _what(change: ChangeRequest) -> str:
    return "the pattern matches" if change.regex else "search stands"


def _stopped(subject: Subject, allowance: Allowance, advice: str) -> Failure:
    return _invalid(
        subject,
        f"the search was stopped: those of one call may take {allowance.total:g} s together. "
        f"{advice}",
    )


def _no_match(subject: Subject, matches: Matches, pattern: str, document: Document) -> Failure:
    if matches.empty:
        return _invalid(
            subject,
            "the pattern matches nothing but the empty text; it must match at least one "
            "character. To insert text, match what stands beside it and bring that back with "
            "\\g<0>.",
        )
    at = document.text.find(pattern)
    advice = (
        f"It stands there as literal text at line {document.line_at(at)}: leave regex out."
        if at >= 0
        else "Every line ends with \\n here, whatever the file has; . stays within a line unless "
        "the pattern begins with (?s); ( ) [ ] { } . * + ? ^ $ | and \\ are escaped with \\."
    )
    return old_text_not_found(subject, f"The pattern matches nowhere. {advice}", None)


# -- fuzzy
#
# The only search that lets words differ. A place has as many lines as the text, each with at least
# the similarity _LEAST_LINE (rapidfuzz's ratio of the bare lines). Its score is their mean,
# weighted by length. The best place is chosen if its score is as high as requested, the second best
# is clearly lower, every line that changes is itself as similar as requested, and one change of
# indentation explains it.

#: Similarity that every line of a place must have.
_LEAST_LINE = 0.5
#: The second best score must be lower by this, and at twice the distance from 1.
_CLEARLY = 0.05
#: Longest lines of the text that no place may differ from so much that it can't matter.
_TELLING = 3


class _Scored(NamedTuple):
    score: float
    first: int
    lines: tuple[float, ...]


def _find_resembling(
    subject: Subject, document: Document, old: str, new: str, least: float, allowance: Allowance
) -> LocatedEdit | Failure | str:
    """The place most similar to ``old``, if its score is at least ``least`` and it is certain.

    Else the reason. Raises TimeoutError when ``allowance`` is used up.
    """
    search = Search(document, old)
    if search.blank:
        return "white space alone resembles nothing"
    with allowance:
        places = _ranking(search, least, allowance)
    if not places:
        return "no lines are that much alike, one by one"
    best, *others = places
    first, last = best.first + 1, best.first + len(search.lines)
    where = f"line {first}" if first == last else f"lines {first}-{last}"
    best_score = f"the most alike scores {best.score:.2f}"
    if best.score < least:
        return f"{best_score} ({where})"
    if others and not _clearly(best.score, others[0].score):
        return _several_resemble(
            subject, [each for each in places if not _clearly(best.score, each.score)][:20]
        )
    differing = _line_too_different(search, new, best, least)
    if differing is not None:
        return (
            f"{best_score}, but line {first + differing}, where the change is made, only "
            f"{best.lines[differing]:.2f} ({where})"
        )
    change = search.change_at(best.first, search.lines, document.lines)
    place = search.whole_lines(best.first, change)
    text = written_at(document, place, old, new) if change else None
    if text is None:
        return f"{best_score}, but how to indent the new text there can not be told ({where})"
    score = round(best.score, 4)
    return LocatedEdit(subject.index, place.start, place.end, text, "fuzzy", score=score)


def _several_resemble(subject: Subject, places: Sequence[_Scored]) -> Failure:
    scores = ", ".join(f"line {each.first + 1} (score {each.score:.2f})" for each in places)
    return subject.failure(
        Kind.OLD_TEXT_NOT_UNIQUE,
        f"search stands nowhere in {subject.path}, and with fuzzy it may mean several places: "
        f"{scores}. Send the text as it stands in the file.",
        candidates=[each.first + 1 for each in places],
    )


def _clearly(best: float, other: float) -> bool:
    return best - other >= _CLEARLY and 1 - other >= 2 * (1 - best)


def _ranking(search: Search, least: float, allowance: Allowance) -> list[_Scored]:
    """The places whose lines are all similar enough, best first.

    Line after line of the text, the longest first, removes the places at which it is too different.
    """
    keys, wanted = search.forms.bare_lines, search.bare
    weights = [max(1, len(line)) for line in wanted]
    total, matters = sum(weights), min(least - _CLEARLY, 2 * least - 1)
    places: Sequence[int] = range(len(keys) - len(wanted) + 1)
    likeness: dict[int, dict[str, float]] = {}
    longest = sorted(range(len(wanted)), key=weights.__getitem__, reverse=True)
    for number, index in enumerate(longest):
        allowance.check_time()
        # Only the longest lines keep a place from being shown as the most alike.
        enough = 1 - total * (1 - matters) / weights[index] if number < _TELLING else 0.0
        here = {keys[first + index] for first in places}
        like = process.extract(
            wanted[index],
            here,
            scorer=fuzz.ratio,
            score_cutoff=100 * max(_LEAST_LINE, enough),
            limit=None,
        )
        likeness[index] = {line: score / 100 for line, score, _ in like}
        places = [first for first in places if keys[first + index] in likeness[index]]
    scored = []
    for first in places:
        allowance.check_time()
        lines = tuple(likeness[index][keys[first + index]] for index in range(len(wanted)))
        score = sum(map(operator.mul, lines, weights)) / total
        scored.append(_Scored(score, first, lines))
    return sorted(scored, key=lambda each: (-each.score, each.first))


def _line_too_different(search: Search, new: str, best: _Scored, least: float) -> int | None:
    """The first line (of the text, from 0) that changes or is beside a change and differs much."""
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
