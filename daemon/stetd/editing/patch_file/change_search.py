"""Finds the place of one change of ``patch_file``, or explains the failure.

``occurrence`` counts exact text, ``near_line`` chooses the nearest of several places, ``fuzzy``
accepts similar lines if the ladder finds nothing, ``regex`` searches a pattern.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import msgspec
from msgspec.structs import replace
from rapidfuzz import fuzz, process

from stet.wire.failures import Failure, Kind
from stetd.editing import time_limit
from stetd.editing.matching import locating
from stetd.editing.matching.ladder import Several, is_applied, locate, match_at
from stetd.editing.matching.line_replacement import shared_lines, written_at
from stetd.editing.matching.rungs import MOST_PLACES, Rung, Search, nearest_of, nth_place
from stetd.editing.patch_file import regex_search
from stetd.editing.patch_file.regex_search import Allowance, MatchedPlace, Pattern
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
    """A valid change of a call with this ``allowance``; ``pattern``: set for ``regex``."""

    subject: Subject
    change: ChangeRequest
    allowance: Allowance
    pattern: Pattern | None = None

    def find(self, document: Document) -> LocatedEdit | Failure:
        """The place of the change in ``document``, and the text to write there."""
        time_limit.check_time()
        found = self._found(document)
        if isinstance(found, Several):
            near = self.change.near_line is not None and found.rung is not Rung.TRIM_EDGES
            return self._not_unique(found.lines, found.rung, near=near)
        if isinstance(found, LocatedEdit):
            bad = locating.bad_byte(self.subject, document, found.start, found.end)
            return bad or replace(found, index=self.subject.index)
        return found or self._miss(document)

    def _found(self, document: Document) -> LocatedEdit | Several | Failure | None:
        change = self.change
        if self.pattern is not None:
            return self._matched(self.pattern, document)
        if change.occurrence is None:
            found = locate(document, change.search, change.replace, near_line=change.near_line)
            if found is None and change.fuzzy is not None:
                return self._most_alike(document, change.fuzzy)
            return found
        rung, places, count = nth_place(document, change.search, change.occurrence)
        if not count:
            return None
        if count < change.occurrence:
            return self._out_of_range([document.line_at(each.start) for each in places], count)
        # If the new text has no line end, a line can only be replaced as a whole.
        return match_at(document, places[0], change.search, change.replace, rung)

    def _matched(self, pattern: Pattern, document: Document) -> LocatedEdit | Failure:
        """The chosen match of the pattern, or why none is."""
        change, allowance = self.change, self.allowance
        if len(document.text) > pattern.most_text:
            return self.invalid(
                f"{self.subject.path} has {len(document.text):,} characters; this pattern is tried "
                f"on {pattern.most_text:,} at most. Leave regex out and send the exact text."
            )
        alone = allowance.left > allowance.total / 2
        try:
            matches = regex_search.find_matches(pattern, document, allowance, change.occurrence)
        except (TimeoutError, MemoryError):
            return self.stopped(_RUNS_AWAY if alone else _TOO_MUCH)
        if not matches.count:
            return self._no_match(document, empty=matches.empty)
        found: Sequence[MatchedPlace] = matches.found
        many = matches.count > MOST_PLACES
        if change.near_line is not None and not many:
            found = nearest_of(document, found, change.near_line)
        lines = [document.line_at(each.start) for each in found]
        if change.occurrence is not None and matches.count < change.occurrence:
            return self._out_of_range(lines, matches.count)
        if len(found) > 1:
            return self._not_unique(lines, near=change.near_line is not None and not many)
        [place] = found
        match = place.match
        longest = max(end - start for start, end in map(match.span, range(match.re.groups + 1)))
        time_limit.check_size(longest * change.replace.count("\\"))
        written = written_at(document, place, match.group(), match.expand(change.replace))
        assert written is not None, "BUG: only a change of indentation can fail"
        written = document.begun(written, place.start)
        return LocatedEdit(0, place.start, place.end, written, "regex")

    def _most_alike(self, document: Document, least: float) -> LocatedEdit | Failure:
        try:
            found = _resembling(self, document, least)
        except TimeoutError:
            return self.stopped(_TOO_MUCH)
        if not isinstance(found, str):
            return found
        miss = self._miss(document)
        why = f"With fuzzy {least:g} no place was taken either: {found}."
        return replace(miss, message=f"{miss.message}\n{why}")

    # -- failures

    def invalid(self, sentence: str) -> Failure:
        """The failure for a fault of the request."""
        return self.subject.failure(Kind.INVALID_PARAMS, sentence)

    def stopped(self, advice: str) -> Failure:
        """The failure if the searches of the call have taken too long."""
        return self.invalid(
            f"the search was stopped: those of one call may take {self.allowance.total:g} s "
            f"together. {advice}"
        )

    def _miss(self, document: Document) -> Failure:
        old, new = self.change.search, self.change.replace
        return locating.explained_miss(self.subject, document, old, new, explain=True)

    @property
    def _what(self) -> str:
        return "search stands" if self.pattern is None else "the pattern matches"

    def _not_unique(self, lines: Sequence[int], rung: Rung = Rung.EXACT, *, near: bool) -> Failure:
        """``lines``: of the places that ``rung`` found, or of those ``near`` the given line."""
        path, exact = self.subject.path, rung is Rung.EXACT
        if near:
            counted = ", or occurrence" if exact else ""
            sentence = (
                f"in several places of {path} that line {self.change.near_line} may mean, "
                f"{spelled_lines(lines)}: the place must be nearest by its first line, and the "
                f"line may not lie inside another one. Send the line where it begins{counted}."
            )
        else:
            counted = f"occurrence (1 to {len(lines)}) or " if exact else ""
            more = "make the pattern more specific" if self.pattern else "send more lines in search"
            advice = f"Say which place you mean with {counted}near_line, or {more}."
            if rung is Rung.TRIM_EDGES:  # it does not use near_line
                advice = "Send more lines in search."
            sentence = f"{repeated(lines, path, rung)}, and must be unique. {advice}"
        return self.subject.failure(
            Kind.OLD_TEXT_NOT_UNIQUE, f"{self._what} {sentence}", candidates=lines
        )

    def _out_of_range(self, lines: Sequence[int], count: int) -> Failure:
        times, advice = "once", "Leave occurrence out."
        if count != 1:
            times, advice = f"{count:,} times", f"Send an occurrence from 1 to {count:,}."
        return self.subject.failure(
            Kind.OCCURRENCE_OUT_OF_RANGE,
            f"there is no occurrence {self.change.occurrence}: {self._what} only {times} in "
            f"{self.subject.path}, {spelled_lines(lines)}. {advice}",
            candidates=lines,
        )

    def _no_match(self, document: Document, *, empty: bool) -> Failure:
        if empty:
            return self.invalid(
                "the pattern matches nothing but the empty text; it must match at least one "
                "character. To insert text, match what stands beside it and bring that back with "
                "\\g<0>."
            )
        at = document.text.find(self.change.search)
        advice = (
            f"It stands there as literal text at line {document.line_at(at)}: leave regex out."
            if at >= 0
            else "Every line ends with \\n here, whatever the file has; . stays within a line "
            "unless the pattern begins with (?s); ( ) [ ] { } . * + ? ^ $ | and \\ are escaped "
            "with \\."
        )
        return old_text_not_found(self.subject, f"The pattern matches nowhere. {advice}", None)


def check_change(
    subject: Subject, change: ChangeRequest, allowance: Allowance
) -> CheckedChange | Failure:
    """The change, checked as far as that needs no file; or its fault."""
    checked = CheckedChange(subject, change, allowance)
    if not change.search:
        return subject.failure(
            Kind.MISSING_OLD_TEXT,
            "search is empty; it must hold the text to look for. To insert text, search for the "
            "line beside it and send that line together with the new text in replace.",
        )
    for one, other, reason in _APART:
        if getattr(change, one) and getattr(change, other):
            return checked.invalid(f"{one} and {other} can not go together: {reason}.")
    if not change.regex:
        return checked
    if time_limit.is_limited() and len(change.search) > _QUICK_PATTERN:
        raise time_limit.TakesLong
    with allowance:
        if allowance.left <= 0:
            return checked.stopped(_TOO_MUCH)
        try:
            pattern = regex_search.compile_pattern(change.search)
        except regex_search.BadPattern as bad:
            where = ""
            if bad.position is not None:
                here = change.search[max(0, bad.position - 20) : bad.position + 20]
                where = f" (at position {bad.position}, near {visible(here)})"
            return checked.invalid(
                f"search can not be used as a regular expression: {bad.reason}{where}. Mend the "
                "pattern, or leave regex out to look for literal text."
            )
        fault = regex_search.check_template(pattern, change.replace)
    time_limit.check_time()
    if fault is not None:
        return checked.invalid(
            f"replace can not be used with this pattern: {fault}. With regex, \\1 and \\g<name> "
            "stand for groups, and a backslash itself is written \\\\."
        )
    return replace(checked, pattern=pattern)


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


def _resembling(
    checked: CheckedChange, document: Document, least: float
) -> LocatedEdit | Failure | str:
    """The place most similar to the text, if its score is at least ``least`` and it is certain.

    Else the reason. Raises TimeoutError when the allowance is used up.
    """
    subject, old, new = checked.subject, checked.change.search, checked.change.replace
    search = Search(document, old)
    if search.blank:
        return "white space alone resembles nothing"
    with checked.allowance:
        places = _ranking(search, least, checked.allowance)
    if not places:
        return "no lines are that much alike, one by one"
    best = places[0]
    first, last = best.first + 1, best.first + len(search.lines)
    where = f"line {first}" if first == last else f"lines {first}-{last}"
    best_score = f"the most alike scores {best.score:.2f}"
    if best.score < least:
        return f"{best_score} ({where})"
    rivals = [
        each
        for each in places
        if best.score - each.score < _CLEARLY or 1 - each.score < 2 * (1 - best.score)
    ]
    if len(rivals) > 1:
        scores = ", ".join(
            f"line {each.first + 1} (score {each.score:.2f})" for each in rivals[:20]
        )
        return subject.failure(
            Kind.OLD_TEXT_NOT_UNIQUE,
            f"search stands nowhere in {subject.path}, and with fuzzy it may mean several places: "
            f"{scores}. Send the text as it stands in the file.",
            candidates=[each.first + 1 for each in rivals[:20]],
        )
    differing = _line_too_different(search, new, best, least)
    if differing is not None:
        return (
            f"{best_score}, but line {first + differing}, where the change is made, only "
            f"{best.lines[differing]:.2f} ({where})"
        )
    change = search.change_at(best.first, search.lines, document.lines)
    place = search.whole_lines(best.first, change)
    found = match_at(document, place, old, new, "fuzzy") if change else None
    if found is None:
        return f"{best_score}, but indentation or line ends of the new text do not fit ({where})"
    if is_applied(document, found, old, new):
        return f"{best_score}, but the new text stands in the file already ({where})"
    return replace(found, score=round(best.score, 4))


def _ranking(search: Search, least: float, allowance: Allowance) -> list[_Scored]:
    """The places whose lines are all similar enough, best first.

    Line after line of the text, the longest first, removes the places at which it is too different.
    """
    keys, wanted = search.document.bare_lines, search.bare
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
    origins = shared_lines(search.lines, split_lines(new)[0])
    touched = set(range(len(search.lines))).difference(origins)
    for pair in pairwise(origins):
        if None in pair:
            touched.update(each for each in pair if each is not None)
    return next((index for index in sorted(touched) if best.lines[index] < least), None)
