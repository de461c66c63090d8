"""Refusals for people: the daemon's words with commands for methods, and a command that helps."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from stet.wire.failures import Kind

if TYPE_CHECKING:
    from stet.errors import StetError

#: What the daemon's messages call by the method's name, as a person types it.
_AS_TYPED = {
    "clipboard_delete": "stet clip rm",
    "clipboard_get": "stet clip show",
    "clipboard_list": "stet clip list",
    "clipboard_set": "stet clip set",
    "mode_get": "stet mode",
    "mode_set": "stet mode",
    "pin_delete": "stet pin --delete",
    "pin_list": "stet pin --list",
    "pin_set": "stet pin",
    "session_end": "stet sessions --end",
    "session_list": "stet sessions",
    "upgrade_decide": "stet approve, stet deny",
    "upgrade_list": "stet requests",
    "workspace_allow": "stet init",
    "workspace_forget": "stet workspaces --forget",
    "workspace_list": "stet workspaces",
}
_NAMES = "|".join(_AS_TYPED)
_METHOD = re.compile(rf"`?\b({_NAMES})\b`?")
_FIRST = re.compile(rf"({_NAMES}): ")
#: Methods whose commands have the same name; they are words of the language, too.
_QUOTED = re.compile(
    "`(blame|diff|export|forget|gc|log|read|redo|restore|rollback|show|snapshot|status|undo|verify)`"
)
_COMMAND = re.compile(r"\bstet [a-z]|\bpip install\b")

_LOOK, _HEALTH, _READ, _OPTIONS = "stet log", "stet doctor", "stet read", "stet config show"
#: The command that helps, by kind; for others the help of the command that was refused.
_HELPING: dict[str, str] = {
    Kind.OLD_TEXT_NOT_FOUND: _READ,
    Kind.OLD_TEXT_NOT_UNIQUE: _READ,
    Kind.CONTEXT_NOT_FOUND: _READ,
    Kind.OCCURRENCE_OUT_OF_RANGE: _READ,
    Kind.STRIP_PRECONDITION_FAILED: _READ,
    Kind.NO_CHANGE: _READ,
    Kind.STALE: _READ,
    Kind.MISSING_CLIPBOARD: "stet clip list",
    Kind.FILE_NOT_FOUND: _LOOK,
    Kind.NOT_A_FILE: _LOOK,
    Kind.NOT_TEXT: _LOOK,
    Kind.CONFLICT: _LOOK,
    Kind.UNKNOWN_COMMIT: _LOOK,
    Kind.NOTHING_TO_UNDO: _LOOK,
    Kind.OUTCOME_UNKNOWN: _LOOK,
    Kind.UNKNOWN_REQUEST: "stet requests",
    Kind.INPUT_TOO_LARGE: _OPTIONS,
    Kind.FILE_TOO_LARGE: _OPTIONS,
    Kind.PATH_PROTECTED: _OPTIONS,
    Kind.PATH_OUTSIDE_WORKSPACE: "stet workspaces",
    Kind.WORKSPACE_NOT_ALLOWED: "stet init",
    Kind.TOOL_DISABLED: "stet mode unrestricted --for 30m",
    Kind.UNKNOWN_METHOD: "stet stop",  # a daemon of another version; the next command starts ours
    Kind.UNSUPPORTED_PROTOCOL: "stet stop",
    Kind.CONTENDED: "stet watch",
    Kind.OVERLOADED: "stet status",
    Kind.SHUTTING_DOWN: "stet status",
    Kind.STORAGE_FULL: _HEALTH,
    Kind.IO_ERROR: _HEALTH,
    Kind.READ_ONLY: _HEALTH,
    Kind.INTERNAL: _HEALTH,
    # What has no answer (stet.errors.TransportError).
    "daemon_unreachable": _HEALTH,
    "connection_lost": _HEALTH,
    "timed_out": _HEALTH,
    "garbled_reply": _HEALTH,
}
#: What takes the path that a refusal is about.
_OF_FILE = frozenset((_LOOK, _READ))


def as_typed(message: str) -> str:
    """A message with commands in place of methods."""
    message = _METHOD.sub(lambda found: _AS_TYPED[found[1]], _FIRST.sub("", message, count=1))
    return _QUOTED.sub(r"stet \1", message)


def helping(error: StetError, command: str) -> str | None:
    """The command that helps; None where the message has one. ``command``: what was refused."""
    if _COMMAND.search(as_typed(error.message)):
        return None
    found = _HELPING.get(error.kind, f"{command} --help")
    path = next((failure.path for failure in error.failures if failure.path), None)
    if found in _OF_FILE and path and error.kind != Kind.FILE_NOT_FOUND:
        return f"{found} {shlex.quote(path)}"
    return found
