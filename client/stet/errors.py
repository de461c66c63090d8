"""What goes wrong, as exceptions: one class per error kind of docs/errors.md, and transport.

    StetError                    kind, message, data, failures
      OldTextNotFound, ...       a refusal by the daemon; the class name is the kind in
                                 CamelCase. OutcomeUnknown and Internal apart, a
                                 refused call changed nothing.
      TransportError             no answer; ``request_id`` says what to ask again with
        DaemonUnreachable        no daemon answers and none could be started
        ConnectionLost           the connection broke, also after retries
          TimedOut               no reply within the session's ``timeout``
          GarbledReply           what came back is not the protocol

A kind that this version does not know (a newer daemon) becomes a plain StetError that
carries it. Nothing here talks to a socket.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from stet.wire.failures import APPLICATION_ERROR, ConflictingFile, Failure, Kind
from stet.wire.first_use import known_to_msgspec

__all__ = [
    "AlreadyExists", "ClipboardRequiresReplace", "Conflict", "ConnectionLost", "Contended",
    "ContextNotFound", "DaemonUnreachable", "FileNotFound", "FileTooLarge", "FrameTooLarge",
    "GarbledReply", "HelloRequired", "InputTooLarge", "Internal", "InvalidParams", "IoError",
    "MissingClipboard", "MissingOldText", "NoChange", "NotAFile", "NotPermitted", "NotText",
    "NothingToUndo", "OccurrenceOutOfRange", "OldTextNotFound", "OldTextNotUnique",
    "OutcomeUnknown", "OverlappingEdits", "Overloaded", "ParseError", "PathOutsideWorkspace",
    "PathProtected", "ReadOnly", "ShuttingDown", "Stale", "StetError", "StorageFull",
    "StripPreconditionFailed", "TimedOut", "ToolDisabled", "TransportError", "UnknownCommit",
    "UnknownMethod", "UnknownRequest", "UnsupportedProtocol", "WorkspaceNotAllowed",
]  # fmt: skip


class StetError(Exception):
    """A call that was not carried out.

    ``kind`` is what programs branch on (docs/errors.md); ``message`` is the sentence for
    a model or a person: what was wrong, where, what to do; ``data`` is the reply's
    ``error.data``, with ``kind`` in it; ``code`` is the JSON-RPC error code.
    """

    #: The kind of a subclass: its name in snake case, unless it sets another. An instance has the
    #: ``kind`` of its reply.
    KIND: ClassVar[str] = Kind.INTERNAL

    def __init_subclass__(cls) -> None:
        if "KIND" not in vars(cls):
            cls.KIND = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()

    def __init__(
        self, message: str, data: Mapping[str, Any] | None = None, *, code: int = APPLICATION_ERROR
    ) -> None:
        super().__init__(message)
        self.message = message
        self.data: dict[str, Any] = {"kind": str(self.KIND), **(data or {})}
        self.kind: str = self.data["kind"]
        self.code = code

    @property
    def failures(self) -> list[Failure]:
        """Every failure of the call, not only the first; lines count from 1.

        Empty when the reply carried none, or in a shape this version does not know.
        """
        try:
            return msgspec.convert(self.data.get("failures", []), known_to_msgspec(list[Failure]))
        except msgspec.ValidationError:
            return []


class ParseError(StetError):
    """The text of a call cannot be parsed; ``data["line"]`` counts from 1."""


class InvalidParams(StetError):
    """A parameter is missing, unknown, of the wrong type or out of range."""


class UnknownMethod(StetError):
    """The daemon has no such method."""


class HelloRequired(StetError):
    """A method that needs a workspace was called on a connection without one."""


class UnsupportedProtocol(StetError):
    """Client and daemon speak different versions of the protocol."""


class OldTextNotFound(StetError):
    """The old text is not found; ``failures[i].nearest`` is the closest passage."""


class OldTextNotUnique(StetError):
    """The old text occurs in several places; ``failures[i].candidates`` are their lines."""


class MissingOldText(StetError):
    """A ``replace`` came without old text."""


class MissingClipboard(StetError):
    """The session has no clipboard of that name; the message lists those that exist."""


class ClipboardRequiresReplace(StetError):
    """``toClipboard`` was given with an operation other than ``replace``."""


class StripPreconditionFailed(StetError):
    """A line to be re-indented does not begin with the prefix to strip."""


class OverlappingEdits(StetError):
    """Two edits of one call change the same bytes."""


class NoChange(StetError):
    """The call would change nothing."""


class ContextNotFound(StetError):
    """An ``@@`` line of a hunk is not found in the file."""


class OccurrenceOutOfRange(StetError):
    """The text does not occur that many times in the file."""


class FileNotFound(StetError):
    """There is no such file."""


class AlreadyExists(StetError):
    """A file that is to be created, or moved to, exists."""


class NotAFile(StetError):
    """The path is a directory, a device or another thing that is no regular file."""


class NotText(StetError):
    """The file looks binary, or the text concerned holds bytes that are not UTF-8."""


class InputTooLarge(StetError):
    """The call has too many tokens, values, files or bytes; send smaller ones."""


class FileTooLarge(StetError):
    """The file exceeds the size that the daemon edits."""


class PathOutsideWorkspace(StetError):
    """The path leads out of the workspace, directly or through a symlink."""


class PathProtected(StetError):
    """The path lies in a ``.git`` or another protected place."""


class WorkspaceNotAllowed(StetError):
    """The directory is not in an allowed workspace; the person allows it: ``stet init``."""


class ToolDisabled(StetError):
    """The session or its workspace is in Restricted mode."""


class NotPermitted(StetError):
    """The call is the person's to make, or concerns what is another session's."""


class Stale(StetError):
    """An ``if_match`` failed: the file is not what the caller believed."""


class Conflict(StetError):
    """An undo cannot be merged around later edits; nothing was changed."""

    @property
    def conflicts(self) -> list[dict[str, Any]]:
        """``[{path, hunks}]``: where later edits stand in the way."""
        found = self.data.get("conflicts")
        return found if isinstance(found, list) else []

    @property
    def files(self) -> list[ConflictingFile]:
        """The same as values; empty when they have a shape that this version does not know."""
        try:
            return msgspec.convert(self.conflicts, known_to_msgspec(list[ConflictingFile]))
        except msgspec.ValidationError:
            return []


class UnknownCommit(StetError):
    """No commit of the workspace has that id, or several begin with it."""


class NothingToUndo(StetError):
    """No edit passes the filters that is not undone already."""


class UnknownRequest(StetError):
    """No recorded call has that request id."""


class FrameTooLarge(StetError):
    """The message exceeds the daemon's ``max_frame``; the connection was closed."""


class Contended(StetError):
    """The file kept being changed by others while the call was tried."""


class StorageFull(StetError):
    """No space is left for the journal or the file."""


class IoError(StetError):
    """Reading or writing failed."""


class ReadOnly(StetError):
    """After a failed write the daemon accepts no more edits until it is restarted."""


class OutcomeUnknown(StetError):
    """The next start of the daemon settles it; ask again with the same ``request_id``."""


class Overloaded(StetError):
    """The daemon has too much to do; try again later."""


class ShuttingDown(StetError):
    """The daemon is stopping and takes no new calls."""


class Internal(StetError):
    """A defect of the daemon; its log says more."""


class TransportError(StetError):
    """No answer. ``request_id`` is that of the unanswered writing call, or None.

    A writing call may or may not have been carried out; asked again with the same
    ``request_id`` it is carried out at most once.
    """

    def __init__(self, message: str, *, request_id: str | None = None) -> None:
        super().__init__(message, {"request_id": request_id} if request_id else None)
        self.request_id = request_id


class DaemonUnreachable(TransportError):
    """No daemon answers, and none could be started."""


class ConnectionLost(TransportError):
    """The connection broke before the reply came, also when tried again."""


class TimedOut(ConnectionLost):
    """No reply came within the session's ``timeout``."""


class GarbledReply(ConnectionLost):
    """What came back is not the protocol: another program, or a defect."""


_BY_KIND: dict[str, type[StetError]] = {
    str(each.KIND): each
    for each in StetError.__subclasses__()
    if not issubclass(each, TransportError)
}


def from_reply(code: int, message: str, data: Mapping[str, Any] | None) -> StetError:
    """The exception for the ``error`` member of a reply."""
    kind = (data or {}).get("kind")
    error = _BY_KIND.get(kind, StetError) if isinstance(kind, str) else StetError
    return error(message, data, code=code)
