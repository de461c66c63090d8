"""Why a change of ``patch_file`` is refused: the sentences that only this dialect needs.

What goes for every dialect is in ``refusals``.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from stet.wire.failures import Failure, Kind
from stetd.editing.matching.rungs import TooFew
from stetd.editing.patch_file.fuzzy_search import SeveralAlike, Unlike
from stetd.editing.patch_file.regex_search import BadPattern
from stetd.editing.refusals import MANY_PLACES, Subject, old_text_not_found, spelled_lines, visible
from stetd.editing.text import Document
from stetd.editing.tools.inputs import ChangeRequest


def missing_search(subject: Subject) -> Failure:
    """An empty text to look for."""
    return subject.failure(
        Kind.MISSING_OLD_TEXT,
        "search is empty; it must hold the text to look for. To insert text, search for the line "
        "beside it and send that line together with the new text in replace.",
    )


def no_combination(subject: Subject, change: ChangeRequest) -> Failure | None:
    """Fields that can not go together, None if all given ones can."""
    for one, other, reason in (
        ("regex", "fuzzy", "a pattern matches or does not; take one of them"),
        ("fuzzy", "occurrence", "occurrence counts exact matches, fuzzy takes the best one"),
        ("fuzzy", "near_line", "fuzzy takes the most similar place, wherever it is"),
        ("occurrence", "near_line", "both choose among several places; send one of them"),
    ):
        if getattr(change, one) and getattr(change, other):
            return subject.failure(
                Kind.INVALID_PARAMS, f"{one} and {other} can not go together: {reason}."
            )
    return None


def too_many_changes(path: str, count: int, most: int) -> Failure:
    """More changes than one call may hold."""
    return Failure(
        Kind.INVALID_PARAMS.value,
        f'"changes" holds {count:,} changes; {most:,} is the most, because each is looked for in '
        "the text that the one before it leaves. Send them in several calls.",
        path=path,
    )


def too_slow(path: str, made: int, count: int, seconds: float) -> Failure:
    """Planning the call has taken ``seconds``, with ``made`` of its changes found."""
    return Failure(
        Kind.INVALID_PARAMS.value,
        f"{path} is large, and after {seconds:g} s only {made:,} of {count:,} changes had been "
        f"found. Nothing was changed. Send at most {max(1, made // 2):,} of them in a call; text "
        "exactly as it stands in the file is found fastest.",
        path=path,
    )


def file_not_found(subject: Subject) -> Failure:
    """The file is missing, and this dialect only changes what is there."""
    return Failure(
        Kind.FILE_NOT_FOUND.value,
        f"there is no file {subject.path}, so nothing in it can be changed. Check the path; to "
        "create the file use the tool patch with the operation overwrite, or apply_patch.",
        path=subject.path,
    )


def not_unique(subject: Subject, lines: Sequence[int], change: ChangeRequest, how: str) -> Failure:
    """``lines``: where the places begin; ``how``: the tolerant rung that found them, or ""."""
    count = f"{len(lines)} times" if len(lines) < MANY_PLACES else f"{len(lines):,} times or more"
    what = "the pattern matches" if change.regex else "search stands"
    tolerant = f" (compared with tolerance: {how})" if how else ""
    advice = "" if how else f"occurrence (1 to {len(lines)}) or "
    more = "make the pattern more specific" if change.regex else "send more lines in search"
    return subject.failure(
        Kind.OLD_TEXT_NOT_UNIQUE,
        f"{what} {count} in {subject.path}{tolerant}, {spelled_lines(lines)}, and must be unique. "
        f"Say which place you mean with {advice}near_line, or {more}.",
        candidates=list(lines),
    )


def no_nearest(subject: Subject, lines: Sequence[int], change: ChangeRequest) -> Failure:
    """``near_line`` does not settle which of the places at ``lines`` is meant."""
    what = "the pattern matches" if change.regex else "search stands"
    return subject.failure(
        Kind.OLD_TEXT_NOT_UNIQUE,
        f"{what} in several places of {subject.path} that line {change.near_line} may mean, "
        f"{spelled_lines(lines)}: the place must be nearest by its first line, and the line may "
        "not lie inside another one. Send the line where it begins, or occurrence.",
        candidates=list(lines),
    )


def out_of_range(subject: Subject, found: TooFew, change: ChangeRequest) -> Failure:
    """``occurrence`` is greater than the number of places, which is at least one."""
    what = "the pattern matches" if change.regex else "search stands"
    places = f"in {subject.path}, {spelled_lines(found.lines)}"
    if found.count == 1:
        sentence = f"{what} only once {places}. Leave occurrence out."
    else:
        sentence = (
            f"{what} only {found.count:,} times {places}. Send an occurrence from 1 to "
            f"{found.count:,}."
        )
    return subject.failure(
        Kind.OCCURRENCE_OUT_OF_RANGE,
        f"there is no occurrence {change.occurrence}: {sentence}",
        candidates=list(found.lines),
    )


def bad_pattern(subject: Subject, pattern: str, bad: BadPattern) -> Failure:
    """``search`` can't be taken as a regular expression."""
    where = ""
    if bad.position is not None:
        here = pattern[max(0, bad.position - 20) : bad.position + 20]
        where = f" (at position {bad.position}, near {visible(here)})"
    return subject.failure(
        Kind.INVALID_PARAMS,
        f"search can not be used as a regular expression: {bad.reason}{where}. Mend the pattern, "
        "or leave regex out to look for literal text.",
    )


def bad_template(subject: Subject, reason: str) -> Failure:
    """``replace`` is no replacement template for the pattern."""
    return subject.failure(
        Kind.INVALID_PARAMS,
        f"replace can not be used with this pattern: {reason}. With regex, \\1 and \\g<name> "
        "stand for groups, and a backslash itself is written \\\\.",
    )


def text_too_long(subject: Subject, length: int, most: int) -> Failure:
    """The file is too long for a pattern."""
    return subject.failure(
        Kind.INVALID_PARAMS,
        f"{subject.path} has {length:,} characters; this pattern is tried on {most:,} at most. "
        "Leave regex out and send the exact text.",
    )


def stopped(subject: Subject, seconds: float, *, regex: bool, alone: bool = True) -> Failure:
    """A search took more time (or memory) than a call may have.

    ``alone``: that is not because of other searches of the call.
    """
    advice = (
        "The pattern runs away: repeated groups such as (a+)+ or (a|a)* try everything. Make it "
        "simpler, begin it with literal text, or leave regex out and send the exact text."
        if regex and alone
        else "Send fewer changes with regex or fuzzy in a call, or search for the exact text."
    )
    return subject.failure(
        Kind.INVALID_PARAMS,
        f"the search was stopped: those of one call may take {seconds:g} s together. {advice}",
    )


def matches_nothing(subject: Subject, document: Document, pattern: str) -> Failure:
    """The pattern matches nowhere."""
    at = document.text.find(pattern)
    advice = (
        f"It stands there as literal text at line {document.line_at(at)}: leave regex out."
        if at >= 0
        else "Every line ends with \\n here, whatever the file has; . stays within a line unless "
        "the pattern begins with (?s); ( ) [ ] { } . * + ? ^ $ | and \\ are escaped with \\."
    )
    return old_text_not_found(subject, f"The pattern matches nowhere. {advice}", None)


def matches_empty(subject: Subject) -> Failure:
    """The pattern matches, but no character."""
    return subject.failure(
        Kind.INVALID_PARAMS,
        "the pattern matches nothing but the empty text; it must match at least one character. "
        "To insert text, match what stands beside it and bring that back with \\g<0>.",
    )


def several_alike(subject: Subject, found: SeveralAlike) -> Failure:
    """The best of several similar places is not clearly the best."""
    scores = ", ".join(f"line {line} (score {score:.2f})" for line, score in found.places)
    return subject.failure(
        Kind.OLD_TEXT_NOT_UNIQUE,
        f"search stands nowhere in {subject.path}, and with fuzzy it may mean several places: "
        f"{scores}. Send the text as it stands in the file.",
        candidates=[line for line, _ in found.places],
    )


def unlike(miss: Failure, found: Unlike, least: float) -> Failure:
    """The failure of a text that stands nowhere, with why ``fuzzy`` did not help."""
    where = ""
    if found.first is not None:
        lines = (
            f"line {found.first}"
            if found.first == found.last
            else (f"lines {found.first}-{found.last}")
        )
        where = f" ({lines})"
    return msgspec.structs.replace(
        miss,
        message=f"{miss.message}\nWith fuzzy {least:g} no place was taken either: {found.reason}"
        f"{where}.",
    )


def changes_nothing(subject: Subject) -> Failure:
    """The file would be the same after the call."""
    return subject.failure(
        Kind.NO_CHANGE,
        f"changes nothing: search and replace come to the same text in {subject.path}. Nothing "
        "was written; if that is not what you expected, read the file again.",
    )


def comes_to_nothing(path: str) -> Failure:
    """Each change does something, and all together nothing."""
    return Failure(
        Kind.NO_CHANGE.value,
        f"the changes cancel each other out: {path} would be as it is now. Nothing was written.",
        path=path,
    )


def no_backup_name(path: str, count: int) -> Failure:
    """All names for a backup are taken."""
    return Failure(
        Kind.ALREADY_EXISTS.value,
        f"{path}.bak and {count} numbered ones exist already. Remove some, or leave backup out: "
        "every edit is in the history and can be taken back with undo.",
        path=path,
    )
