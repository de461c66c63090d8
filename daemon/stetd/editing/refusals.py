"""Refusals in words for a language model: what is wrong, where, and what to send instead.

The sentences that dialects share. They count edits from 1; ``Failure.index`` counts from 0.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from stet.wire.failures import Failure, Kind, Nearest, refuse
from stet.wire.results import EditReport
from stetd.editing import tokens
from stetd.editing.matching.rungs import MOST_PLACES, Rung
from stetd.editing.planning import LocatedEdit, overlaps
from stetd.editing.text import Document

#: Line numbers that a sentence lists; ``candidates`` has all of them.
_SPELLED_LINES = 20


class Subject(msgspec.Struct, frozen=True):
    """The edit that a failure is about, with the dialect's names for it and its two texts."""

    noun: str
    index: int
    path: str
    old: str = "oldText"
    new: str = "newText"
    #: Its name; "": noun and number, e.g. ``patch 2``.
    name: str = ""

    @property
    def label(self) -> str:
        """Its name in sentences for the model."""
        return self.name or f"{self.noun} {self.index + 1}"

    def failure(
        self,
        kind: Kind,
        sentence: str,
        *,
        line: int | None = None,
        candidates: Sequence[int] | None = None,
        nearest: Nearest | None = None,
    ) -> Failure:
        """A failure of this edit; ``sentence`` follows ``patch 2: ``."""
        return Failure(
            kind.value,
            f"{self.label}: {sentence}",
            index=self.index,
            path=self.path,
            line=line,
            candidates=None if candidates is None else list(candidates),
            nearest=nearest,
        )


def old_text_not_found(subject: Subject, explanation: str, nearest: Nearest | None) -> Failure:
    """The old text is not found; ``explanation``: near_miss's sentences (may be empty)."""
    sentence = f"old text not found in {subject.path}."
    if explanation:
        sentence = f"{sentence} {explanation}"
    return subject.failure(
        Kind.OLD_TEXT_NOT_FOUND, sentence, line=nearest.line if nearest else None, nearest=nearest
    )


def not_text(subject: Subject, found: str, line: int | None) -> Failure:
    """The file is not text; ``found``: the byte that shows it, and its place."""
    return subject.failure(
        Kind.NOT_TEXT,
        f"{subject.path} is not UTF-8 text where it would be edited: {found}. Such bytes can not "
        "be matched or replaced in part; overwrite still works, with the complete new content.",
        line=line,
    )


def no_change(subject: Subject) -> Failure:
    """An edit of a call that would not change the file."""
    return subject.failure(
        Kind.NO_CHANGE,
        f"changes nothing: {subject.path} already reads like this, the new text is what stands "
        "there. Nothing was written; if that is not what you expected, read the file again and "
        f"check {subject.new}.",
    )


def check_size(path: str | None, texts: Iterable[str]) -> None:
    """Raise Refused (input_too_large) if ``texts`` are over the token limit."""
    texts = list(texts)
    if sum(len(text.encode()) for text in texts) <= tokens.MAX_TOKENS:
        return
    count, exact = tokens.count_tokens(texts)
    if count > tokens.MAX_TOKENS:
        raise refuse(
            Kind.INPUT_TOO_LARGE,
            f"the texts of this call are {'' if exact else 'more than '}{count:,} "
            f"tokens long; the limit is {tokens.MAX_TOKENS:,}. Break the edit into smaller patches "
            "and send them in several calls.",
            path=path,
        )


def spelled_lines(lines: Sequence[int]) -> str:
    """``at lines 3, 7 and 12`` or ``all at line 3``, cut short when there are many."""
    shown = [str(line) for line in lines[:_SPELLED_LINES]]
    more = len(lines) - len(shown)
    if more:
        return f"at lines {', '.join(shown)} and {more} more"
    if len(set(shown)) == 1:
        return f"{'all ' if len(shown) > 1 else ''}at line {shown[0]}"
    return f"at lines {', '.join(shown[:-1])} and {shown[-1]}"


def repeated(lines: Sequence[int], path: str, rung: Rung = Rung.EXACT) -> str:
    """``2 times in a.py, at lines 3 and 7``: the places that ``rung`` found."""
    more = "" if len(lines) < MOST_PLACES else " or more"
    how = "" if rung is Rung.EXACT else f" (compared with tolerance: {rung.value})"
    return f"{len(lines):,} times{more} in {path}{how}, {spelled_lines(lines)}"


def visible(text: str) -> str:
    """``text`` in quotes with control characters spelled out, cut at 80 characters."""
    return json.dumps(text if len(text) <= 80 else text[:80] + "...", ensure_ascii=False)


#: Old texts per call for which the nearest passage is searched.
EXPLAINED_MISSES = 20
#: Failed edits after which the others are not tried, because a miss takes long.
MOST_FAILED = 200
#: Notes for matches by tolerant rungs; ``{old}`` and ``{new}``: the dialect's names of the texts.
_TOLERANCE: Mapping[str, str] = {
    Rung.LINE_ENDINGS: "the line endings differ",
    Rung.TRAILING_SPACE: "white space at the ends of lines differs",
    Rung.INDENT: "the indentation differs, and {new} was shifted to fit",
    Rung.TYPOGRAPHY: "quotes, dashes or spaces differ",
    Rung.INDENT_TYPOGRAPHY: (
        "the indentation and quotes, dashes or spaces differ, and {new} was shifted to fit"
    ),
    Rung.TRIM_EDGES: "without the first or last lines of {old}, which were left alone",
}


def given_up(subject: Subject, last: Failure) -> Failure:
    """One failure for all edits from ``subject`` on; ``last``: the failure before."""
    return subject.failure(
        Kind(last.kind),
        f"this {subject.noun} and those after it were not looked at: too many have failed.",
    )


def overlap_failures(
    document: Document, subjects: Mapping[int, Subject], changes: Sequence[LocatedEdit]
) -> Iterator[Failure]:
    """One failure for every two edits that overlap."""
    for (later, earlier), (offset, identical) in overlaps(changes).items():
        subject, other, line = subjects[later], subjects[earlier], document.line_at(offset)
        if identical:
            what = "insert the same text at the same place"
            remedy = (
                f"Leave one of them out; for the text twice, send it twice in one {subject.noun}."
            )
        else:
            what = "change the same text"
            remedy = (
                "All are applied to the file as it was before the call: join them into one "
                f"{subject.noun}, or send them in two calls."
            )
        yield subject.failure(
            Kind.OVERLAPPING_EDITS,
            f"overlaps {other.label}: both {what} at line {line} of {subject.path}. {remedy}",
            line=line,
        )


def tolerance_notes(subject: Subject, report: EditReport) -> Iterator[str]:
    """Lines for the model about an edit that was matched with tolerance."""
    how = _TOLERANCE.get(report.rung)
    if how is not None:
        differs = how.format(old=subject.old, new=subject.new)
        yield (
            f"{subject.label}: {subject.old} was matched with tolerance ({report.rung}) at "
            f"line {report.line}: {differs}."
        )


def is_idle(edit: LocatedEdit, text: str) -> bool:
    """Whether an edit would not change ``text``."""
    return edit.replacement == text[edit.start : edit.end]


def idle_warning(subject: Subject) -> str:
    """The warning about an idle edit of a call whose other edits change the file."""
    return f"{subject.label}: changes nothing; its new text is what stands there already."


def joined_warning(subject: Subject) -> str:
    """The warning about an edit that takes away the end of a line."""
    return (
        f"{subject.label}: what it replaces begins or ends with a newline that {subject.new} "
        "lacks, so two lines are one now; text is taken literally."
    )


def counted(number: int, what: str) -> str:
    """``1 edit``, ``2 edits``."""
    return f"1 {what}" if number == 1 else f"{number} {what}s"
