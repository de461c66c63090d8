"""Locates one old text in one file: the match, or the failure that explains the miss."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from stet.wire.failures import Failure, Kind
from stetd.editing import refusals
from stetd.editing.edits import SourceFile
from stetd.editing.matching import near_miss
from stetd.editing.matching.ladder import Several, locate
from stetd.editing.planning import LocatedEdit
from stetd.editing.refusals import Subject
from stetd.editing.text import Document

_HIGH_BYTES = range(0x80, 0x100)
#: How a model may see bytes that are not UTF-8: as U+FFFD, or in a Western encoding.
_READINGS = (
    {0xDC00 + byte: "\ufffd" for byte in _HIGH_BYTES},
    {0xDC00 + byte: bytes([byte]).decode("cp1252", "replace") for byte in _HIGH_BYTES},
)


def find(
    subject: Subject,
    target: SourceFile,
    old: str,
    new: str,
    *,
    creating: str,
    explain: bool,
    earlier: Iterable[tuple[Subject, str]],
) -> LocatedEdit | Failure:
    """The only place of ``old`` in ``target``, and its replacement; or the failure.

    ``creating``: the operations that would create a missing file. ``explain``: a failure names the
    nearest passage (tens of milliseconds in a large file), and the one of the ``earlier`` edits
    that would insert the old text (edits of a call don't see each other's results).
    """
    if not old:
        return subject.failure(
            Kind.MISSING_OLD_TEXT,
            "replace needs oldText, the exact text to look for, and it may not be empty. To add "
            "text use append_eof or prepend_bof, to write the whole file use overwrite.",
        )
    if target.data is None:
        return subject.failure(
            Kind.FILE_NOT_FOUND,
            f"there is no file {subject.path}, so nothing in it can be replaced. Check the path; "
            f"to create the file use {creating}.",
        )
    if target.binary:
        return refuse_binary(subject, target)
    document = target.document
    found = locate(document, old, new)
    if found is None:
        miss = explained_miss(subject, document, old, new, explain=explain)
        other = next((each for each, text in earlier if old in text), None) if explain else None
        if other is None or miss.kind != Kind.OLD_TEXT_NOT_FOUND:
            return miss
        return replace(
            miss,
            message=f"{miss.message}\nThis text stands in the new text of {other.label}, but all "
            f"are applied to {miss.path} as it was before the call: join the two into one "
            f"{other.noun}, or send them in two calls.",
        )
    if isinstance(found, Several):
        return subject.failure(
            Kind.OLD_TEXT_NOT_UNIQUE,
            f"old text stands {refusals.repeated(found.lines, subject.path, found.rung)}; it must "
            "stand there exactly once. Send more of the surrounding lines in "
            f"{subject.old}, so that only the place you mean matches.",
            candidates=found.lines,
        )
    return replace(found, index=subject.index)


def refuse_binary(subject: Subject, target: SourceFile) -> Failure:
    """The failure for an edit of a file that looks binary."""
    assert target.data is not None, "BUG: a missing file looks binary"
    offset = target.data.index(0)
    line = Document.from_bytes(target.data[:offset] + b".").line_count
    found = f"it looks binary, with a NUL (byte 0x00) at offset {offset}, line {line}"
    return refusals.not_text(subject, found, line)


def explained_miss(
    subject: Subject, document: Document, old: str, new: str, *, explain: bool
) -> Failure:
    """The failure if ``old`` is not found: the nearest passage, or bytes that prevent a match."""
    if not explain:
        return refusals.old_text_not_found(subject, "", None)
    if document.undecodable(0, len(document.text)) is not None:
        for reading in _READINGS:
            start = document.text.translate(reading).find(old)
            bad = bad_byte(subject, document, start, start + len(old)) if start >= 0 else None
            if bad is not None:
                return bad
    explanation, nearest = near_miss.explain_miss(document, old, new, subject.old)
    return refusals.old_text_not_found(subject, explanation, nearest)


def bad_byte(subject: Subject, document: Document, start: int, end: int) -> Failure | None:
    """The failure for the first byte in a range that is not UTF-8, if there is one."""
    found = document.undecodable(start, end)
    if found is None:
        return None
    byte, line = ord(document.text[found]) - 0xDC00, document.line_at(found)
    return refusals.not_text(subject, f"byte 0x{byte:02x} at line {line} is not UTF-8", line)
