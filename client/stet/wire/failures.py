"""Error replies: their kinds (docs/errors.md), and the values that carry them.

The code that notices a failure writes the sentence for the model; programs branch on the kind.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec


class Kind(StrEnum):
    """Every error kind that a reply can carry in ``data.kind``."""

    PARSE_ERROR = "parse_error"
    INVALID_PARAMS = "invalid_params"
    UNKNOWN_METHOD = "unknown_method"
    HELLO_REQUIRED = "hello_required"
    UNSUPPORTED_PROTOCOL = "unsupported_protocol"
    OLD_TEXT_NOT_FOUND = "old_text_not_found"
    OLD_TEXT_NOT_UNIQUE = "old_text_not_unique"
    MISSING_OLD_TEXT = "missing_old_text"
    MISSING_CLIPBOARD = "missing_clipboard"
    CLIPBOARD_REQUIRES_REPLACE = "clipboard_requires_replace"
    STRIP_PRECONDITION_FAILED = "strip_precondition_failed"
    OVERLAPPING_EDITS = "overlapping_edits"
    NO_CHANGE = "no_change"
    CONTEXT_NOT_FOUND = "context_not_found"
    OCCURRENCE_OUT_OF_RANGE = "occurrence_out_of_range"
    FILE_NOT_FOUND = "file_not_found"
    ALREADY_EXISTS = "already_exists"
    NOT_A_FILE = "not_a_file"
    NOT_TEXT = "not_text"
    INPUT_TOO_LARGE = "input_too_large"
    FILE_TOO_LARGE = "file_too_large"
    PATH_OUTSIDE_WORKSPACE = "path_outside_workspace"
    PATH_PROTECTED = "path_protected"
    WORKSPACE_NOT_ALLOWED = "workspace_not_allowed"
    TOOL_DISABLED = "tool_disabled"
    NOT_PERMITTED = "not_permitted"
    STALE = "stale"
    CONFLICT = "conflict"
    UNKNOWN_COMMIT = "unknown_commit"
    NOTHING_TO_UNDO = "nothing_to_undo"
    UNKNOWN_REQUEST = "unknown_request"
    FRAME_TOO_LARGE = "frame_too_large"
    CONTENDED = "contended"
    STORAGE_FULL = "storage_full"
    IO_ERROR = "io_error"
    READ_ONLY = "read_only"
    OUTCOME_UNKNOWN = "outcome_unknown"
    OVERLOADED = "overloaded"
    SHUTTING_DOWN = "shutting_down"
    INTERNAL = "internal"


#: JSON-RPC 2.0 error codes; all other kinds share APPLICATION_ERROR.
_CODES = {Kind.PARSE_ERROR: -32700, Kind.UNKNOWN_METHOD: -32601, Kind.INVALID_PARAMS: -32602,
          Kind.INTERNAL: -32603}  # fmt: skip
APPLICATION_ERROR = -32000


def code_of(kind: Kind) -> int:
    """The JSON-RPC error code of a kind."""
    return _CODES.get(kind, APPLICATION_ERROR)


class Nearest(msgspec.Struct, frozen=True, omit_defaults=True):
    """The passage of the file closest to a text that was not found. ``line`` and ``end_line`` count
    from 1, both inclusive. ``first_difference`` says which line differs first and how, with tabs,
    trailing spaces and CR spelled out.
    """

    line: int
    end_line: int
    text: str
    first_difference: str = ""


class ConflictingFile(msgspec.Struct, frozen=True):
    """A file whose edits can't be taken back, because later edits conflict. ``hunks``: conflicts
    with Git's conflict markers, or one sentence that gives another reason. ``commits``: the commits
    that have changed the file since, newest first, as far as they are known.
    """

    path: str
    hunks: list[str]
    commits: list[str] = []


class Failure(msgspec.Struct, frozen=True, omit_defaults=True):
    """One error in a call. ``index`` counts the call's edits from 0; ``line`` counts from 1;
    ``candidates`` are the lines, from 1, at which an ambiguous text occurs; ``call`` counts the
    calls of a transaction from 0.
    """

    kind: str
    message: str
    index: int | None = None
    path: str | None = None
    line: int | None = None
    candidates: list[int] | None = None
    nearest: Nearest | None = None
    call: int | None = None


class Refused(Exception):
    """A call is refused, for one reason or several; nothing was changed. ``extra``: more members of
    the reply's ``data``, beside ``kind`` and ``failures`` (``conflicts`` of an undo, ``result`` of
    ``patch_block``).
    """

    def __init__(self, *failures: Failure, extra: dict[str, Any] | None = None) -> None:
        assert failures, "BUG: a refusal without a reason"
        super().__init__("\n".join(failure.message for failure in failures))
        self.failures = failures
        self.extra = extra or {}

    @property
    def kind(self) -> str:
        """The kind of the first failure, which is the reply's ``data.kind``."""
        return self.failures[0].kind

    @property
    def message(self) -> str:
        """All messages, one a line, for the model."""
        return str(self)

    def copy(self) -> Refused:
        """A copy without the traceback: that keeps what was read in memory, and grows."""
        return Refused(*self.failures, extra=self.extra)


def refuse(kind: Kind, message: str, **details: Any) -> Refused:
    """A refusal with one reason; ``details`` are the other fields of Failure."""
    return Refused(Failure(kind.value, message, **details))
