"""Why a patch is refused, in words for a language model; ``refusals`` has what dialects share."""

from __future__ import annotations

from collections.abc import Sequence

from stet.wire.failures import Failure, Kind
from stetd.editing import refusals
from stetd.editing.apply_patch.grammar import ADDED, REMOVED, Add, Delete, Hunk, Update
from stetd.editing.apply_patch.hunks import Problem, Reason
from stetd.editing.matching import locating
from stetd.editing.matching.rungs import Rung
from stetd.editing.refusals import Subject, spelled_lines, visible
from stetd.editing.text import Document


class EditSubject(Subject, frozen=True):
    """An edit of a patch: a hunk, or an operation that has none."""

    old: str = "the hunk"
    new: str = "what it adds"
    name: str = ""

    @property
    def label(self) -> str:
        """``src/a.py, hunk 2 (line 14 of the patch)``."""
        return self.name


def hunk_subject(hunk: Hunk, path: str) -> EditSubject:
    """A hunk of the update of ``path``."""
    name = f"{path}, hunk {hunk.number} (line {hunk.line} of the patch)"
    return EditSubject("hunk", hunk.index, path, name=name)


def operation_subject(operation: Add | Delete | Update, path: str) -> EditSubject:
    """An operation on ``path``, as a whole."""
    name = f"{type(operation).__name__} File {path} (line {operation.line} of the patch)"
    return EditSubject("operation", operation.index, path, name=name)


def misplaced(problem: Problem, path: str, document: Document, *, explain: bool) -> Failure:
    """A hunk that has no place. Without ``explain`` the nearest passage is not looked for."""
    hunk, subject = problem.hunk, hunk_subject(problem.hunk, path)
    lines = [place + 1 for place in problem.places]
    where, anchor = spelled_lines(lines) if lines else "", visible(problem.anchor)
    match problem.reason:
        case Reason.ABSENT:
            return _absent(subject, hunk, document, explain=explain)
        case Reason.SEVERAL if hunk.old:
            return _several(subject, problem.rung, lines)
        case Reason.SEVERAL:
            return subject.failure(
                Kind.OLD_TEXT_NOT_UNIQUE,
                f"the line {anchor} of its @@ stands {len(lines)} times in {path}, {where}, so "
                "after which one to add can't be told. Give unchanged lines around those you add.",
                candidates=lines,
            )
        case Reason.NO_ANCHOR:
            return subject.failure(
                Kind.CONTEXT_NOT_FOUND,
                f"no line of {path} reads {anchor}, and the hunk itself stands {len(lines)} times, "
                f"{where}. After @@ send a whole line that stands above the place, or more of the "
                "unchanged lines around it.",
                candidates=lines,
            )
        case Reason.ANCHORS_APART:
            return subject.failure(
                Kind.CONTEXT_NOT_FOUND,
                f"the lines of its @@ all stand in {path}, but not in this order: no {anchor} "
                "comes after the one before it. Send them outermost first.",
            )
        case Reason.NOT_UNDER_ANCHOR:
            return subject.failure(
                Kind.OLD_TEXT_NOT_FOUND,
                f"the hunk stands {where} of {path}, but not after the line {anchor} of its @@. "
                "After @@ send a line that stands above the place, or nothing.",
                line=lines[0],
                candidates=lines,
            )
        case Reason.NOT_AT_END:
            return subject.failure(
                Kind.OLD_TEXT_NOT_FOUND,
                f"the hunk stands {where} of {path}, but not at its end, as *** End of File says. "
                "Leave that out, or send the lines that the file ends with.",
                line=lines[0],
                candidates=lines,
            )
        case Reason.RANGE_ALONE:
            return subject.failure(
                Kind.CONTEXT_NOT_FOUND,
                "the hunk only adds lines, and line numbers alone don't say where: they may have "
                f"changed. Give unchanged lines around those you add; to add them at the end of "
                f"{path}, send @@ without numbers.",
            )
        case Reason.SHIFT:
            return subject.failure(
                Kind.OLD_TEXT_NOT_FOUND,
                f"the hunk stands {where} of {path} with other indentation, and not by one change "
                "for all lines, so how to indent the added lines can't be told. Send the lines "
                "with the indentation that they have in the file.",
                line=lines[0],
            )
        case Reason.OVERLAP:
            return _overlap(subject, problem, path)


def _absent(subject: EditSubject, hunk: Hunk, document: Document, *, explain: bool) -> Failure:
    old = "".join(f"{line.text}\n" for line in hunk.lines if line.sign != ADDED)
    new = "".join(f"{line.text}\n" for line in hunk.lines if line.sign != REMOVED)
    return locating.explained_miss(subject, document, old, new, explain=explain)


def _several(subject: EditSubject, rung: Rung, lines: Sequence[int]) -> Failure:
    how = "" if rung is Rung.EXACT else f" (compared with tolerance: {rung.value})"
    more = "" if len(lines) < refusals.MANY_PLACES else " or more"
    return subject.failure(
        Kind.OLD_TEXT_NOT_UNIQUE,
        f"the hunk stands {len(lines)} times{more} in {subject.path}{how}, {spelled_lines(lines)}; "
        "it must stand there once. Add unchanged lines around it until it does, or put the line of "
        "the function or class above the place after @@.",
        candidates=list(lines),
    )


def _overlap(subject: EditSubject, problem: Problem, path: str) -> Failure:
    assert problem.other is not None, "BUG: an overlap with nothing"
    line = problem.places[0] + 1
    other = f"hunk {problem.other.number} (line {problem.other.line} of the patch)"
    what = (
        f"adds the same lines as {other} at the same place, line {line} of {path}"
        if problem.identical
        else f"changes the same lines as {other}, at line {line} of {path}"
    )
    return subject.failure(
        Kind.OVERLAPPING_EDITS,
        f"{what}. Leave one of them out, or join the two into one hunk.",
        line=line,
    )


def file_not_found(subject: EditSubject, *, deleting: bool = False) -> Failure:
    """An operation on a file that is not there."""
    return subject.failure(
        Kind.FILE_NOT_FOUND,
        f"there is no file {subject.path}. Check the path"
        + ("." if deleting else "; to create the file use *** Add File."),
    )


def already_exists(subject: EditSubject) -> Failure:
    """An Add of a file that is there."""
    return subject.failure(
        Kind.ALREADY_EXISTS,
        f"{subject.path} exists. Change it with *** Update File, or to replace all of it put "
        "*** Delete File before the *** Add File, or send overwrite: true with the call.",
    )


def target_exists(subject: EditSubject, target: str) -> Failure:
    """A move to where something stands."""
    return subject.failure(
        Kind.ALREADY_EXISTS,
        f"can't be moved to {target}, which exists. Choose another path, or put *** Delete File: "
        f"{target} before it.",
    )


def file_above(subject: EditSubject, above: str) -> Failure:
    """A file below the path of another one."""
    return subject.failure(
        Kind.NOT_A_FILE,
        f"the patch makes {above} a file, so nothing can stand below it. Choose another path.",
    )


def no_change(subjects: Sequence[EditSubject]) -> Failure:
    """A patch that leaves everything as it is; ``subjects`` are its operations."""
    if len(subjects) == 1:
        return subjects[0].failure(
            Kind.NO_CHANGE,
            f"changes nothing: {subjects[0].path} already reads like this. Nothing was written; if "
            "that is not what you expected, read the file again.",
        )
    return Failure(
        Kind.NO_CHANGE.value,
        "the patch as a whole changes nothing: after its operations all files are as they were. "
        "Nothing was written; if that is not what you expected, read them again.",
    )
