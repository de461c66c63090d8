"""Results and errors as what a client is given: text for the model, and structured content.

The text is short: what was done, the commit to name in ``undo`` or ``show``, and warnings. The
structured content is the result as CONTRACT.md has it, except that an edit's diff is left out
unless it is a preview: some clients give both to the model, and it has just written that text.

An error's text is the daemon's, which says what to send instead; its structured content is
``{"error": {"kind", "message", ..}}`` with all details (``failures``, ``conflicts``). No I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import msgspec

from stet import render
from stet.errors import Conflict, DaemonUnreachable, StetError, TransportError, WorkspaceNotAllowed
from stet.wire.results import (
    DiffResult,
    EditResult,
    LogResult,
    ReadResult,
    ShowResult,
    UpgradeResult,
)

#: Characters of text that a model is given at once; further ones are cut off, at a line's end.
MOST_TEXT = 100_000


class Answer(NamedTuple):
    """What a tool call is answered with."""

    text: str
    structured: dict[str, Any]
    is_error: bool = False


def answered(result: msgspec.Struct) -> Answer:
    """A result for the model and for programs."""
    if isinstance(result, ReadResult):
        result, note = _cut_reading(result)
        return Answer(result.text + note, msgspec.to_builtins(result))
    structured = msgspec.to_builtins(result)
    if isinstance(result, EditResult) and result.commit is not None:
        del structured["diff"]
    return Answer(_cut(_TEXTS[type(result)](result)), structured)


def refused(error: StetError) -> Answer:
    """An error for the model and for programs."""
    structured = {"error": {**error.data, "kind": error.kind, "message": error.message}}
    return Answer(_cut("\n".join(_advice(error))), structured, is_error=True)


def _advice(error: StetError) -> Iterable[str]:
    yield error.message
    if isinstance(error, Conflict):
        for conflict in error.conflicts:
            for hunk in conflict.get("hunks", ()):
                yield f"{conflict.get('path', '')}:\n{hunk}"
    elif isinstance(error, WorkspaceNotAllowed) and "stet init" not in error.message:
        yield "The person can allow it with: stet init DIRECTORY"
    elif isinstance(error, DaemonUnreachable):
        yield (
            "The editing service could not be reached, so nothing was done by this attempt. Make "
            "the same call again; if that fails too, tell the person to run: stet doctor"
        )
    elif isinstance(error, TransportError):
        yield (
            "The call may have been carried out. Make the same call again, unchanged: it is not "
            "carried out twice, and you are told its outcome."
        )


# -- texts


def _edited(result: EditResult) -> str:
    lines = [result.message] if result.message else []
    if result.commit is not None:
        lines.append(f"Commit {result.commit[:12]}")
    lines += [f"Warning: {warning}" for warning in result.warnings]
    lines += [
        f'Clipboard "{note.name}" holds the text as it stood in the file, not your oldText.'
        for note in result.clipboards
        if note.modified_by_match
    ]
    if result.replayed:
        lines.append("This request was carried out before; this is its recorded result.")
    if result.commit is None and result.diff:
        lines.append(result.diff)
    return "\n".join(lines) or "Nothing was changed."


def _logged(result: LogResult) -> str:
    lines = _plain(render.log(result.commits, None))
    if result.cursor is not None:
        lines.append(f'There are more: call log again with cursor "{result.cursor}".')
    return "\n".join(lines) or "No recorded edits."


def _shown(result: ShowResult) -> str:
    return "\n".join(_plain(render.show(result, None)))


def _compared(result: DiffResult) -> str:
    return result.diff or "No difference."


def _asked(result: UpgradeResult) -> str:
    lines = [f"{result.status.capitalize()}. {result.message}"]
    if result.note:
        lines.append(f"The person says: {result.note}")
    if result.until is not None:
        lines.append(f"Until {result.until}.")
    return "\n".join(lines)


_TEXTS: dict[type[msgspec.Struct], Callable[[Any], str]] = {
    EditResult: _edited,
    LogResult: _logged,
    ShowResult: _shown,
    DiffResult: _compared,
    UpgradeResult: _asked,
}


def _plain(lines: Iterable[render.Line]) -> list[str]:
    return ["".join(span.text for span in line) for line in lines]


# -- what is too long


def _cut(text: str) -> str:
    kept = _beginning(text)
    if kept == text:
        return text
    return f"{kept}\n[{len(text) - len(kept):,} more characters were cut off]"


def _cut_reading(result: ReadResult) -> tuple[ReadResult, str]:
    """The beginning of what was read, and how to read on."""
    kept = _beginning(result.text)
    if kept == result.text:
        return result, ""
    note = (
        f"\n[The file has {result.lines:,} lines; the rest was cut off after "
        f"{len(kept):,} characters. Give start and end to read other lines.]"
    )
    return msgspec.structs.replace(result, text=kept), note


def _beginning(text: str) -> str:
    """As many whole lines as MOST_TEXT characters hold; of a longer first line, its beginning."""
    if len(text) <= MOST_TEXT:
        return text
    end = text.rfind("\n", 0, MOST_TEXT)
    return text[: end + 1] if end >= 0 else text[:MOST_TEXT]
