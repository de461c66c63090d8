"""Refusals for people: the daemon's message with commands instead of methods, and advice."""

from __future__ import annotations

import os
import re

from stet.errors import StetError
from stet.terminal.spans import typed
from stet.wire.failures import Kind

#: Commands by the methods that the daemon's messages name.
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
#: Methods whose commands have the same name; the names are also English words.
_QUOTED = re.compile(
    "`(blame|diff|export|forget|gc|log|read|redo|restore|rollback|show|snapshot|status|undo|verify)`"
)
#: The parameters of a method are not the command's options, which its help has. Nor does the
#: person choose how the connection is encoded.
_PARAMETERS = re.compile(r" (The parameters of \w+ are: [^.]*\.|This connection speaks .*)$")
#: A parameter out of its range, or one that is missing, is named as an option.
_RANGE = re.compile(
    r"(?:\w+: )?Expected `\w+` (of length )?(>=|<=) ([\d.]+) - at `(\w+)(?:\[\d+\])?`"
)
_OPTION = re.compile(r"\b([a-z]\w+): true\b|`(at|commits|last|request|session|agent|paths)`")
#: The command has made the id; nobody can send it again.
_AGAIN = re.compile(
    r"\b([Aa])sk again (?:then )?with the same request_id(?: to learn its outcome)?"
)
_COMMAND = re.compile(r"\bstet [a-z]|\bpip install\b")

#: A message that is about an option of the daemon.
_CONFIGURED = re.compile(r"\bconfiguration\b|max_[a-z]")

_LOOK, _READ, _CLIPBOARDS = "stet log", "stet read", "stet clip list"
_CONFIG, _WATCH, _PINS = "stet config show", "stet watch", "stet pin --list"
_LIFT = "stet mode unrestricted --for 30m"
#: Commands that help, with the kinds of refusals; for other kinds it is the refused command's help.
#: The last one is for calls without an answer (stet.errors.TransportError).
_COMMANDS: dict[str, tuple[str, ...]] = {
    _READ: (
        *(Kind.OLD_TEXT_NOT_FOUND, Kind.OLD_TEXT_NOT_UNIQUE, Kind.CONTEXT_NOT_FOUND),
        *(Kind.OCCURRENCE_OUT_OF_RANGE, Kind.STRIP_PRECONDITION_FAILED, Kind.NO_CHANGE, Kind.STALE),
    ),
    _CLIPBOARDS: (Kind.MISSING_CLIPBOARD,),
    _LOOK: (
        *(Kind.FILE_NOT_FOUND, Kind.NOT_A_FILE, Kind.NOT_TEXT, Kind.CONFLICT),
        *(Kind.UNKNOWN_COMMIT, Kind.NOTHING_TO_UNDO, Kind.OUTCOME_UNKNOWN),
    ),
    "stet requests": (Kind.UNKNOWN_REQUEST,),
    _CONFIG: (Kind.INPUT_TOO_LARGE, Kind.FILE_TOO_LARGE, Kind.PATH_PROTECTED),
    "stet workspaces": (Kind.PATH_OUTSIDE_WORKSPACE,),
    "stet init": (Kind.WORKSPACE_NOT_ALLOWED,),
    _LIFT: (Kind.TOOL_DISABLED,),
    # The daemon has another version; the next command starts this one.
    "stet stop": (Kind.UNKNOWN_METHOD, Kind.UNSUPPORTED_PROTOCOL),
    _WATCH: (Kind.CONTENDED,),
    "stet status": (Kind.OVERLOADED, Kind.SHUTTING_DOWN),
    "stet doctor": (
        *(Kind.STORAGE_FULL, Kind.IO_ERROR, Kind.READ_ONLY, Kind.INTERNAL),
        *("daemon_unreachable", "connection_lost", "timed_out", "garbled_reply"),
    ),
}
_HELPING = {kind: command for command, kinds in _COMMANDS.items() for kind in kinds}
#: What a command that helps is about, in the directory of -C; the others are about no directory.
_ABOUT = {
    **dict.fromkeys((_READ, _LOOK), "file"),
    **dict.fromkeys((_CLIPBOARDS, _LIFT), "session"),
    **dict.fromkeys((_WATCH, _PINS), "workspace"),
}


def as_typed(message: str) -> str:
    """A message with commands instead of methods."""
    message = _RANGE.sub(_out_of_range, _PARAMETERS.sub("", message))
    message = _AGAIN.sub(
        lambda found: f"{'T' if found[1] == 'A' else 't'}he log shows whether it was", message
    )
    message = _OPTION.sub(lambda found: _option(found[1] or found[2]), message)
    message = _METHOD.sub(lambda found: _AS_TYPED[found[1]], _FIRST.sub("", message, count=1))
    return _QUOTED.sub(r"stet \1", message)


def _option(parameter: str) -> str:
    called = {"commits": "COMMIT", "path": "PATH", "paths": "--path", "name": "NAME"}
    if parameter == "request_id":  # it stands in the JSON that patch and patch-file read
        return parameter
    return called.get(parameter) or "--" + parameter.replace("_", "-")


def _out_of_range(found: re.Match[str]) -> str:
    must = f"must {'have a length of' if found[1] else 'be'}"
    bound = "at least" if found[2] == ">=" else "at most"
    return f"{_option(found[4])} {must} {bound} {found[3].removesuffix('.0')}"


def helpful_command(
    error: StetError,
    command: str,
    directory: str = ".",
    root: str | None = None,
    session: str | None = None,
) -> str | None:
    """A command that helps; None if the message names one. ``command``: the refused command, which
    acted in ``directory`` of the workspace ``root``. ``session``: whose clipboards or mode it is.
    """
    if _COMMAND.search(as_typed(error.message)):
        return None
    found = _HELPING.get(error.kind, command)
    if command == "stet restore" and found == _READ:  # there need not be such a file now
        found = _LOOK
    if found == _CONFIG and not _CONFIGURED.search(error.message):
        found = command
    if error.message.startswith("no pin is called"):
        found = _PINS
    if found == command:
        found = f"{command} --help"
    about = _ABOUT.get(found)
    if about is None:
        return found
    if directory != ".":
        found += f" -C {typed(directory)}"
    if about == "session" and session is not None:
        found += f" --session {typed(session)}"
    path = next((failure.path for failure in error.failures if failure.path), None)
    if about != "file" or not path or error.kind == Kind.FILE_NOT_FOUND:
        return found
    if root is not None:  # the error's path is relative to it, the command's to the directory
        path = os.path.relpath(os.path.join(root, path), os.path.realpath(directory))
    return f"{found} {typed(f'./{path}' if path.startswith('-') else path)}"
