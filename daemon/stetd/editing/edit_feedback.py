"""What dialects tell alike about the edits of a call: overlaps, tolerance, edits that do nothing.

For dialects that locate several edits in the text as it is before the call. The sentences of
refusals are in ``refusals``; here stands when they are due, and what is said beside a success.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from stet.wire.failures import Failure, Kind
from stet.wire.results import EditReport
from stetd.editing import refusals
from stetd.editing.matching.locating import Target
from stetd.editing.matching.rungs import Rung
from stetd.editing.planning import Arrangement, LocatedEdit
from stetd.editing.refusals import Subject

#: How many old texts that were not found are told the nearest passage.
EXPLAINED_MISSES = 20

#: After so many failed edits the others are not looked at: a miss in a large file takes
#: tens of milliseconds, and everybody waits.
MOST_FAILED = 200

#: What each tolerant rung means for the caller; ``{old}`` and ``{new}`` are the dialect's words.
_TOLERANCE = {
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
    """The failure that stands for every edit from ``subject`` on; ``last`` is the one before."""
    return subject.failure(
        Kind(last.kind),
        f"this {subject.noun} and those after it were not looked at: too many have failed.",
    )


def overlap_failures(
    target: Target, subjects: Mapping[int, Subject], arrangement: Arrangement
) -> Iterator[Failure]:
    """One failure for every two edits that get in each other's way."""
    reported: set[tuple[int, int]] = set()
    for overlap in arrangement.overlaps:
        if (overlap.index, overlap.other) in reported:
            continue
        reported.add((overlap.index, overlap.other))
        yield refusals.overlapping_edits(
            subjects[overlap.index],
            subjects[overlap.other],
            target.document.line_at(overlap.offset),
            identical=overlap.identical,
        )


def tolerance_notes(subject: Subject, report: EditReport) -> Iterator[str]:
    """For an edit that was matched with tolerance, a line for the model that says so."""
    rung = Rung(report.rung)
    if rung is not Rung.EXACT:
        how = _TOLERANCE[rung].format(old=subject.old, new=subject.new)
        yield (
            f"{subject.label}: {subject.old} was matched with tolerance ({rung.value}) at "
            f"line {report.line}: {how}."
        )


def is_idle(edit: LocatedEdit, text: str) -> bool:
    """Whether an edit puts into ``text`` what stands there."""
    return edit.replacement == text[edit.start : edit.end]


def idle_warning(subject: Subject) -> str:
    """What is said of such an edit when others of the call do change the file."""
    return f"{subject.label}: changes nothing; its new text is what stands there already."


def counted(number: int, what: str) -> str:
    """``1 edit``, ``2 edits``."""
    return f"1 {what}" if number == 1 else f"{number} {what}s"
