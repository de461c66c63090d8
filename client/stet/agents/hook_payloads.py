"""Reads the payloads that agents' clients send to hooks as events. Pure.

A payload is understood by its fields, not by the client's name: VS Code runs hooks that were
written for Claude Code, with its own tools. From the clients' documentation, November 2026:

    Claude Code   session_id, cwd, tool_name, tool_input, tool_use_id; file_path, notebook_path;
                  command, description, run_in_background (Monitor always is). agent_id and
                  agent_type of a subagent. After a command cwd is where it has gone to. At Stop
                  background_tasks, those that still run
    Codex         the same fields, the patch as tool_input.command. Bash with an apply_patch as its
                  command, which Codex carries out itself, has no PostToolUse
    Gemini CLI    no id of a use; file_path; command, description, dir_path. Qwen Code: these or
                  Claude Code's names, is_background, and directory for dir_path
    Cursor        file_path; command and cwd; conversation_id, workspace_roots
    VS Code       hookEventName, sessionId, or as Claude Code; files; filePath, or a list of such;
                  input with a patch
    opencode      as Claude Code, by a plugin of ours: filePath; patchText; command, description,
                  workdir

docs/hooks.md has the events and the tools. Payloads that are not about an edit give None. Any field
may be missing, or of another type.
"""

from __future__ import annotations

import contextlib
import json
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_PHASES = {
    "sessionstart": "start", "userpromptsubmit": "start", "stop": "stop",
    "pretooluse": "before", "beforetool": "before", "beforeshellexecution": "before",
    "posttooluse": "after", "posttoolusefailure": "after", "aftertool": "after",
    "aftershellexecution": "after", "afterfileedit": "after", "aftertabfileedit": "after",
}  # fmt: skip
#: Tools that run a command, which may touch any file.
_SHELLS = frozenset(
    {"bash", "shell", "run_shell_command", "run_in_terminal", "runinterminal", "terminal"}
    | {"exec_command", "local_shell", "unified_exec", "container.exec", "powershell", "monitor"}
)
#: Tools that edit the files they name.
_EDITS = frozenset(
    # Claude Code, Cursor
    {"edit", "write", "multiedit", "notebookedit", "strreplace", "search_replace", "delete"}
    | {"editnotebook", "tabwrite", "edit_file", "delete_file"}
    # Gemini CLI, Qwen Code
    | {"write_file", "replace", "notebook_edit"}
    # VS Code
    | {"editfiles", "createfile", "create_file", "replace_string_in_file", "applypatch"}
    | {"multi_replace_string_in_file", "insert_edit_into_file", "edit_notebook_file"}
    | {"create_new_jupyter_notebook", "replacestring", "multireplacestring", "editnotebookfile"}
    # Codex, VS Code
    | {"apply_patch"}
)
#: Fields of a tool's input that name a file, or several.
_NAMES = ("file_path", "filePath", "notebook_path", "target_file", "target_notebook", "path")
_LISTS = ("files", "paths", "edits", "replacements")
_MOST_PATHS = 1000
_PATCH = "*** Begin Patch"
_PATCH_HEADERS = ("*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: ")
_OPERATORS = frozenset("&|;()<>")
_NOT_PLAIN = frozenset("$`*?[]{}!\\\n\0")
#: Characters of a command that are read; the rest may be contents of files.
_LONGEST = 20_000
_LONGEST_LABEL = 150
_LONGEST_WHY = 2000
_NO_DIRECTORY = "the payload has no absolute cwd"


class HookEvent:
    """The time before or after a use of a tool, the start of a session, or the stop of a turn.

    ``paths`` are absolute. None: any file, below ``directory`` or below ``places``, which are other
    directories of a command. ``directory`` is None if the client gives none and none is needed.
    ``params`` are those of ``observe`` that are the same in every workspace.

    ``late``: files that a command names and may change without a reported end, or after it
    (``background``); those of ``new`` only if they do not exist yet. At a stop ``background`` says
    whether such a command still runs.
    """

    def __init__(self, phase: str, session: str, directory: str | None) -> None:
        self.phase, self.session, self.directory = phase, session, directory
        self.paths: list[str] | None = None
        self.places: list[str] = []
        self.late: list[str] = []
        self.new: list[str] = []
        self.background = False
        self.params: dict[str, Any] = {}


def read_payload(payload: dict[str, Any]) -> HookEvent | None:
    """The event of a payload; None if it can't change files.

    Raises ValueError, with a text for a person, if a needed field is missing.
    """
    event = _text(payload, "hook_event_name", "hookEventName")
    if event is None:
        raise ValueError("the payload has no hook_event_name")
    phase = _PHASES.get(event.lower())
    session = _text(payload, "session_id", "sessionId", "conversation_id")
    if phase in ("start", "stop") and session is not None:
        found = HookEvent(phase, _label(session), _directory(payload, {}))
        found.background = bool(payload.get("background_tasks"))
        return found
    if phase not in ("before", "after"):
        return None
    tool, given = _tool(event, payload)
    is_shell = tool.lower() in _SHELLS
    if not is_shell and tool.lower() not in _EDITS:
        return None
    directory = _directory(payload, given)
    if is_shell and directory is None:
        raise ValueError(_NO_DIRECTORY)
    paths = None if is_shell else _paths(given, directory)
    if session is None:
        raise ValueError(f"the payload of {event} has no session_id")
    found = HookEvent(phase, _label(session), directory)
    found.paths = paths
    found.params = {"tool": _label(tool)}
    if request := _text(payload, "tool_use_id", "tool_call_id"):
        found.params["use"] = _label(request)
        if phase == "after":
            found.params["request_id"] = _label(request)
    else:  # the same before and after
        same = json.dumps([tool, given], sort_keys=True)
        found.params["use"] = f"{_label(tool)[:40]}-{_digest(same)}"
    if why := _text(given, "description", "explanation"):
        # Clients cut texts in the middle of a surrogate pair, which UTF-8 can't encode.
        found.params["message"] = why[:_LONGEST_WHY].encode("utf-8", "replace").decode()
    if agent := _text(payload, "agent_id"):  # without it agent_type may be the main agent's
        named = filter(None, [_text(payload, "agent_type"), agent])
        found.params["subagent"] = _label(" ".join(named))
    if paths is None and directory is not None:
        begins = os.path.join(directory, _text(given, "workdir", "dir_path", "directory") or "")
        found.places = [begins]
        flags = (given.get("run_in_background"), given.get("is_background"))
        found.background = tool.lower() == "monitor" or True in flags
        read_command(found, _text(given, "command", "cmd") or "", os.path.normpath(begins))
    return found


def _tool(event: str, payload: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    if event.lower() in ("beforeshellexecution", "aftershellexecution"):
        # Without cwd: this must be the same before and after, and cwd is not always given after.
        return "Shell", {"command": payload.get("command")}
    if event.lower() in ("afterfileedit", "aftertabfileedit"):
        return "Edit", {"file_path": payload.get("file_path")}
    name = _text(payload, "tool_name")
    if name is None:
        raise ValueError(f"the payload of {event} has no tool_name")
    given = payload.get("tool_input")
    return name, given if isinstance(given, dict) else {}


def _directory(payload: dict[str, Any], given: dict[str, Any]) -> str | None:
    """The directory of relative paths, if the client gives one."""
    roots = payload.get("workspace_roots")
    first = roots[0] if isinstance(roots, list) and roots else None
    for found in (payload.get("cwd"), first, given.get("cwd")):
        if isinstance(found, str) and os.path.isabs(found) and "\0" not in found:
            return found
    return None


def _paths(given: dict[str, Any], directory: str | None) -> list[str]:
    """The files that a tool names. Raises ValueError."""
    found: list[str] = []
    for name in _named(given):
        # An editor without an open folder sends absolute names and no directory.
        if directory is None and not os.path.isabs(name):
            raise ValueError(_NO_DIRECTORY)
        # Gemini CLI and Cursor send relative names, too. No client expands "~".
        path = os.path.join(directory or "/", name)
        if ".." not in name:
            path = os.path.normpath(path)
        if path not in found:
            found.append(path)
    if not found:
        raise ValueError("the tool's input names no file")
    if len(found) > _MOST_PATHS:
        raise ValueError(f"the tool's input names {len(found)} files; {_MOST_PATHS} is the most")
    return found


def _named(given: dict[str, Any]) -> Iterator[str]:
    for key in _NAMES:
        if isinstance(given.get(key), str) and given[key] and "\0" not in given[key]:
            yield given[key]
    for key in _LISTS:
        listed = given.get(key)
        for each in listed if isinstance(listed, list) else ():
            if isinstance(each, str) and key in ("files", "paths") and "\0" not in each:
                yield each
            elif isinstance(each, dict):
                yield from _named({k: v for k, v in each.items() if k in _NAMES})
    for key in ("command", "input", "patch", "patchText"):
        if isinstance(given.get(key), str):
            yield from in_patch(given[key])


def _text(fields: dict[str, Any], *names: str) -> str | None:
    for name in names:
        value = fields.get(name)
        if isinstance(value, str) and value:
            return value
    return None


def _label(text: str) -> str:
    """A name that the daemon accepts: one line, not too long. Different texts stay different."""
    clean = "".join(c if c.isprintable() else "_" for c in text).strip()
    if clean == text and len(text) <= _LONGEST_LABEL:
        return text
    return f"{clean[: _LONGEST_LABEL - 17]}-{_digest(text)}"


def _digest(text: str) -> str:
    import hashlib  # loads a library of its own, which few payloads need

    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


# -- shell commands


def read_command(event: HookEvent, text: str, directory: str) -> None:
    """Add to an event the files and directories that a shell command, begun in a directory, names.

    Only plain words count: only ``~/`` is expanded, and a word with a variable, a pattern or a
    substitution is skipped. This is a guess; nothing is executed.

    ``places``: absolute directories, or those below ``~/``, after ``cd`` and ``pushd``. ``late``:
    the files of a patch for ``apply_patch``, and in the background those that output is redirected
    to. ``new``: in the background other words that may be files.
    """
    written: list[str] = []
    named: list[str] = []
    head, _, patch = text.partition(_PATCH)
    before = ""
    for word in _words(head[:_LONGEST]):
        if before in ("cd", "pushd") and word.startswith("-"):
            continue
        path = _path(word, directory)
        if path is None:
            pass
        elif before in ("cd", "pushd"):
            event.places += [path] if word.startswith(("/", "~")) else []
            directory = path
        elif before in (">", ">>", ">|", "&>", "&>>"):
            written.append(path)
        elif "." in word or "/" in word:
            named.append(path)
        before = word
    patched = in_patch(patch) if "apply_patch" in head or "applypatch" in head else ()
    event.late = [os.path.join(directory, path) for path in patched][:_MOST_PATHS]
    if event.background:
        event.late += written[:_MOST_PATHS]
        event.new = named[:_MOST_PATHS]


def in_patch(text: str) -> Iterator[str]:
    """The files that the text of an ``apply_patch`` names."""
    for line in text.splitlines():
        for header in _PATCH_HEADERS:
            if line.startswith(header) and (name := line.removeprefix(header).strip()):
                yield name


def _path(word: str, directory: str) -> str | None:
    """A word as an absolute path; None if it is an option, an operator, or no plain word."""
    if not word or word[0] == "-" or word[0] in _OPERATORS or not _NOT_PLAIN.isdisjoint(word):
        return None
    if word[0] == "~":
        if word[1:2] not in ("", "/"):
            return None  # the home of another user
        word = os.path.expanduser(word)
    return os.path.normpath(os.path.join(directory, word))


def _words(text: str) -> Iterator[str]:
    """The words and operators of a command, up to an unclosed quote."""
    import shlex  # which few payloads need

    reading = shlex.shlex(text, posix=True, punctuation_chars=True)
    reading.whitespace_split = True
    reading.commenters = ""
    with contextlib.suppress(ValueError):
        yield from reading
