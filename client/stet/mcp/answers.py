"""Converts results and errors to answers: text for the model, and structured content. No I/O.

The text is short: the outcome, the commit's id for ``undo`` or ``show``, and warnings. The
structured content is the result as docs/api.md has it. It has an edit's diff only in a preview:
some clients give both to the model, which has just written that text. Long content is truncated in
both, and both tell how to get the rest: the text in its last line, the structured content in
``cut``. A page of the log gets fewer commits instead.

An error's text is the daemon's message, which says what to send instead. Its structured content is
``{"error": {"kind", "message", ..}}`` with all details (``failures``, ``conflicts``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from stet.errors import Conflict, DaemonUnreachable, StetError, TransportError, WorkspaceNotAllowed
from stet.terminal import diff_lines, log_lines, render
from stet.terminal.spans import Line
from stet.wire import results

#: The most characters of text in one answer; longer text is cut at the end of a line.
MOST_TEXT = 100_000

#: The name of the caller's session in the log's text, so that the model knows which edits it may
#: undo. The model may use this name in its calls.
OWN_SESSION = "this conversation"

_PREVIEW = "Nothing was changed: this only shows what would be."
_LINE_END = re.compile(r"\r\n|\r|\n")


class Answer(NamedTuple):
    """The answer to a tool call."""

    text: str
    structured: dict[str, Any] | None
    is_error: bool = False


def answered(result: msgspec.Struct, given: Mapping[str, Any], session: str = "") -> Answer:
    """The answer with a result. ``given``: the call's parameters; ``session``: the caller's.

    A page of the log is halved until its text has at most MOST_TEXT characters.
    """
    text = _text(result, session)
    while isinstance(result, results.LogResult) and len(text) > MOST_TEXT and result.commits[1:]:
        commits = result.commits[: len(result.commits) // 2]
        result = results.LogResult(commits, cursor=commits[-1].commit)
        text = _text(result, session)
    kept = _truncated(text)
    structured = msgspec.to_builtins(result)
    if isinstance(result, results.EditResult) and result.commit is not None:
        del structured["diff"]
    if kept == text:
        return Answer(text, structured)
    if isinstance(result, results.ReadResult):
        structured["text"] = kept
        cut = _how_to_read_on(result, kept, given)
    else:
        if "diff" in structured:
            structured["diff"] = _truncated(structured["diff"])
        cut = f"{_cut_notice(text, kept)} {_how_to_see_more(result)}".rstrip()
    structured["cut"] = cut
    return Answer(f"{kept}\n[{cut}]", structured)


def refused(error: StetError) -> Answer:
    """The answer with an error."""
    structured = {"error": {**error.data, "kind": error.kind, "message": error.message}}
    text = "\n".join(_error_lines(error))
    kept = _truncated(text)
    if kept != text:
        text = f"{kept}\n[{_cut_notice(text, kept)}]"
    return Answer(text, structured, is_error=True)


def _error_lines(error: StetError) -> Iterable[str]:
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
            "carried out twice, and you get its outcome."
        )


# -- texts


def _text(result: msgspec.Struct, session: str) -> str:
    if isinstance(result, results.ReadResult):
        return result.text
    if isinstance(result, results.DiffResult):
        return result.diff or "No difference."
    if isinstance(result, results.ShowResult):
        return _plain(render.show(result, None, diff_lines.diff))
    if isinstance(result, results.LogResult):
        return _log_text(result, session)
    if isinstance(result, results.UpgradeResult):
        note = [f"The person says: {result.note}"] if result.note else []
        until = [] if result.until is None else [f"Until {result.until}."]
        return "\n".join([f"{result.status.capitalize()}. {result.message}", *note, *until])
    assert isinstance(result, results.EditResult), "BUG: a tool with another result"
    return _edit_text(result)


def _edit_text(result: results.EditResult) -> str:
    lines = [result.message] if result.message else []
    if result.commit is not None:
        lines.append(f"Commit {result.commit[:12]}")
    lines += [f"Warning: {each}" for each in result.further_warnings()]
    if result.replayed:
        lines.append("This request was carried out before; this is its recorded result.")
    if result.commit is None and result.diff:
        if _PREVIEW not in result.message:  # of patch and apply_patch it is that of the real edit
            lines.append(_PREVIEW)
        lines.append(result.diff)
    return "\n".join(lines) or "Nothing was changed."


def _log_text(result: results.LogResult, session: str) -> str:
    own = {"session": OWN_SESSION}
    commits = [
        msgspec.structs.replace(each, **own) if session and each.session == session else each
        for each in result.commits
    ]
    lines = [_plain(log_lines.log(commits, None))] if commits else []
    if result.cursor is not None:
        lines.append(f'There are more: call log again with cursor "{result.cursor}".')
    return "\n".join(lines) or "No recorded edits."


def _plain(lines: Iterable[Line]) -> str:
    return "\n".join("".join(span.text for span in line) for line in lines)


# -- truncation


def _cut_notice(text: str, kept: str) -> str:
    return f"{len(text) - len(kept):,} more characters were cut off."


def _truncated(text: str) -> str:
    """The first whole lines, of at most MOST_TEXT characters; a longer first line is cut."""
    if len(text) <= MOST_TEXT:
        return text
    end = text.rfind("\n", 0, MOST_TEXT)
    if end < 0:
        end = text.rfind("\r", 0, MOST_TEXT)
    return text[: end + 1] if end >= 0 else text[:MOST_TEXT]


def _how_to_read_on(result: results.ReadResult, kept: str, given: Mapping[str, Any]) -> str:
    start, end = given.get("start") or 1, given.get("end")
    whole_lines = len(_LINE_END.findall(kept))
    following = start + (whole_lines or 1)
    if whole_lines:
        cut = f"What is after line {following - 1:,} of {result.lines:,} was cut off."
    else:
        cut = f"Line {start:,} is longer than {MOST_TEXT:,} characters; the rest was cut off."
    if following > min(result.lines, end or result.lines):
        return cut
    last = "" if end is None else f", end={end}"
    return f"{cut} To read on, call read with start={following}{last}."


def _how_to_see_more(result: msgspec.Struct) -> str:
    if isinstance(result, results.DiffResult):
        several = len(result.files) > 1
        return "Give paths, to compare fewer files." if several else "Call read, to see the file."
    if isinstance(result, results.ShowResult):
        several, commit = len(result.files) > 1, result.commit[:12]
        if several and result.parent is not None:
            return (
                f'Call diff with from "{result.parent[:12]}", to "{commit}" and paths, to see '
                "single files."
            )
        files = "single files" if several else "the file"
        return f'Call read with at "{commit}", to see {files}.'
    return "Preview fewer edits at once." if isinstance(result, results.EditResult) else ""
