"""The tools as language models are told of them: names, descriptions, JSON Schemas.

The schemas are made from the models in ``inputs``, in the subset of JSON Schema that every
vendor reads. *common* parameters are added here: the models are offered ``message`` and
``preview``; ``if_match`` and ``request_id`` are for programs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from stet.wire.failures import Kind, refuse
from stetd.editing.inputs.base import ToolInput
from stetd.editing.inputs.history import (
    DiffInput,
    LogInput,
    ReadInput,
    ShowInput,
    UndoInput,
)
from stetd.editing.inputs.patch import PatchInput

STYLES = ("mcp", "openai", "anthropic")

_PATCH = """\
Precise edits of one text file. All patches of a call are applied together, to the file as it \
is before the call, or none is.

Operations:
- replace: put newText in the place of oldText, which must stand in the file EXACTLY ONCE
- append_eof: add newText at the end of the file
- prepend_bof: add newText at the beginning of the file
- overwrite: replace the whole file
All but replace create the file, and its directories, when it does not exist.

Clipboards keep text between patches and between calls. Use them to move or copy code, within \
a file or from file to file, instead of writing it again:
- cut: replace with empty newText and toClipboard
- copy: replace with the same name in toClipboard and fromClipboard (the file stays as it is)
- paste: any operation with fromClipboard

reindent changes the indentation of what is inserted: from each non-blank line it removes \
strip, then puts add before it.

Text is taken literally: no newline is added, and there are no escapes or wildcards. Small \
differences in white space or typographic quotes in oldText are tolerated when the place is \
unique, and reported. Every call can be taken back with undo."""

_READ = """\
Read a text file, or a range of its lines, as it is now or as it was after an earlier commit."""

_UNDO = """\
Take back edits of this session, the newest one unless told otherwise. Later edits stay; where \
they touch the same lines the undo is refused and nothing changes."""

_LOG = """\
List the recorded edits of this workspace, newest first: what was changed, by whom and why."""

_SHOW = "Show one recorded edit: who made it and why, and its diff."

_DIFF = """\
Show what differs between two recorded states of the workspace, or between one and the files \
as they are now."""

#: Name, model, description, whether it writes files.
_TOOLS: tuple[tuple[str, type[ToolInput], str, bool], ...] = (
    ("patch", PatchInput, _PATCH, True),
    ("read", ReadInput, _READ, False),
    ("undo", UndoInput, _UNDO, True),
    ("log", LogInput, _LOG, False),
    ("show", ShowInput, _SHOW, False),
    ("diff", DiffInput, _DIFF, False),
)

#: Parameters of every writing tool that the model is offered; validated by the daemon.
_COMMON: dict[str, object] = {
    "message": {"type": "string", "description": "Why you make this edit; kept in the history"},
    "preview": {"type": "boolean", "description": "Only show what would change"},
}


def tool_definitions(style: str) -> list[dict[str, object]]:
    """The tools for a language model in the shape of ``mcp``, ``openai`` or ``anthropic``.

    Raises Refused (invalid_params) for another style.
    """
    if style not in _SHAPES:
        known = ", ".join(STYLES)
        raise refuse(Kind.INVALID_PARAMS, f'style must be one of {known}; received "{style}".')
    return [
        _SHAPES[style](name, description, input_schema(model, writes=writes), writes)
        for name, model, description, writes in _TOOLS
    ]


def input_schema(model: type[ToolInput], *, writes: bool) -> dict[str, object]:
    """The JSON Schema of a model, without references, titles, defaults and nulls."""
    raw = model.model_json_schema(by_alias=True)
    plain = _plain(raw, raw.get("$defs", {}))
    assert isinstance(plain, dict)
    plain.pop("description", None)
    if writes:
        plain["properties"] |= _COMMON
    return plain


def _mcp(name: str, description: str, schema: object, writes: bool) -> dict[str, object]:
    annotations = {"readOnlyHint": not writes, "destructiveHint": False, "openWorldHint": False}
    return {
        "name": name,
        "description": description,
        "inputSchema": schema,
        "annotations": annotations,
    }


def _openai(name: str, description: str, schema: object, _writes: bool) -> dict[str, object]:
    function = {"name": name, "description": description, "parameters": schema}
    return {"type": "function", "function": function}


def _anthropic(name: str, description: str, schema: object, _writes: bool) -> dict[str, object]:
    return {"name": name, "description": description, "input_schema": schema}


_Shape = Callable[[str, str, object, bool], dict[str, object]]
_SHAPES: dict[str, _Shape] = {"mcp": _mcp, "openai": _openai, "anthropic": _anthropic}


def _plain(schema: Any, definitions: Mapping[str, Any]) -> Any:
    """A schema with references resolved, in the subset that every vendor reads."""
    if isinstance(schema, list):
        return [_plain(each, definitions) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        target = definitions[schema["$ref"].rpartition("/")[2]]
        return _plain({**target, **{k: v for k, v in schema.items() if k != "$ref"}}, definitions)
    if "anyOf" in schema:
        kept = [each for each in schema["anyOf"] if each != {"type": "null"}]
        rest = {key: value for key, value in schema.items() if key != "anyOf"}
        if len(kept) > 1:
            return _plain(rest, definitions) | {"anyOf": _plain(kept, definitions)}
        return _plain({**kept[0], **rest}, definitions)
    plain = {}
    for key, value in schema.items():
        if key == "properties":
            plain[key] = {name: _plain(each, definitions) for name, each in value.items()}
        elif key not in ("$defs", "title", "default", "maxItems"):
            plain[key] = _plain(value, definitions)
    return plain
