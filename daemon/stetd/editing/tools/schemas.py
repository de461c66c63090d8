"""The tools as language models get them: names, descriptions, JSON Schemas.

In the shapes of MCP, Anthropic and OpenAI. OpenAI's schemas are *strict*: every field is required,
what may be left out may be null, and bounds are left to the daemon.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, get_args

import msgspec

from stet.wire import results
from stet.wire.failures import Kind, refuse
from stetd.editing.tools import inputs
from stetd.editing.tools.descriptions import APPLY_PATCH_LARK, DESCRIPTIONS
from stetd.editing.tools.inputs import Field, ToolInput, fields_of

_Schema = dict[str, Any]
#: What takes the place of a result when a call is refused.
_ERROR: _Schema = {
    "type": "object",
    "properties": {"kind": {"type": "string"}, "message": {"type": "string"}},
    "required": ["kind", "message"],
}


def output_schema(result: type[msgspec.Struct]) -> dict[str, object]:
    """The schema of a result or of an error: one root object, as older clients want it."""
    whole = msgspec.json.schema(result)
    definitions = whole["$defs"]

    def resolved(schema: _Schema) -> _Schema:
        reference = schema.get("$ref")
        return definitions[reference.rpartition("/")[2]] if reference else schema

    # The docstrings of types are for readers of the code.
    plain = _rewritten(whole, resolved, without=("title", "description", "default"))
    return {
        "type": "object",
        "properties": {**plain["properties"], "error": _ERROR},
        "anyOf": [{"required": plain["required"]}, {"required": ["error"]}],
    }


def _rewritten(schema: Any, change: Callable[[_Schema], _Schema], *, without: Sequence[str]) -> Any:
    """A schema after ``change`` of it and of all schemas in it, ``without`` some keywords."""
    if isinstance(schema, list):
        return [_rewritten(each, change, without=without) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: {name: _rewritten(each, change, without=without) for name, each in value.items()}
        if key == "properties"
        else _rewritten(value, change, without=without)
        for key, value in change(schema).items()
        if key not in without
    }


STYLES = ("mcp", "openai", "anthropic")
#: Which of OpenAI's interfaces the definitions are for.
APIS = ("chat", "responses")


class Tool(NamedTuple):
    """A tool, and what all styles say of it."""

    name: str
    title: str
    model: type[ToolInput]
    #: An EditResult if it writes files.
    result: type[msgspec.Struct] = results.EditResult
    #: Whether it changes nothing at all, so that it may be called any number of times.
    reads: bool = False
    #: Parameters of a dialect that models do not get.
    hidden: tuple[str, ...] = ()


_TOOLS = (
    Tool("patch", "Edit a file", inputs.PatchInput),
    Tool("patch_file", "Search and replace", inputs.PatchFileInput),
    Tool("patch_block", "Edit files by blocks", inputs.PatchBlockInput),
    # A model that is refused because several places fit shall say which one it means.
    Tool("apply_patch", "Apply a patch", inputs.ApplyPatchInput, hidden=("ambiguous",)),
    Tool("read", "Read a file", inputs.ReadInput, results.ReadResult, reads=True),
    Tool("undo", "Undo edits", inputs.UndoInput),
    Tool("log", "List edits", inputs.LogInput, results.LogResult, reads=True),
    Tool("show", "Show an edit", inputs.ShowInput, results.ShowResult, reads=True),
    Tool("diff", "Compare states", inputs.DiffInput, results.DiffResult, reads=True),
    Tool(
        "request_mode_upgrade", "Ask for write access", inputs.UpgradeInput, results.UpgradeResult
    ),
)

#: Parameters of every writing tool that the model is offered; validated by the daemon.
_COMMON: _Schema = {
    "message": {"type": "string", "description": "Why you make this edit; kept in the history"},
    "preview": {"type": "boolean", "description": "Only show what would change"},
}

#: Keywords of ours that some models do not take in a strict schema.
_NOT_STRICT = ("minLength", "minimum", "maximum", "minItems")


def tool_definitions(
    style: str, *, api: str = "chat", custom: bool = False
) -> list[dict[str, object]]:
    """The tools for a language model in the shape of one of ``STYLES``. Raises Refused.

    For ``openai`` alone: ``api``, and ``custom``: whether ``apply_patch`` is a custom tool.
    """
    for parameter, value, choices in (("style", style, STYLES), ("api", api, APIS)):
        if value not in choices:
            what = f"tools: {parameter} {value!r} is none of {', '.join(choices)}."
            raise refuse(Kind.INVALID_PARAMS, what)
    if style != "openai" and (custom or api != "chat"):
        what = f'tools: custom and api go with style "openai", not "{style}".'
        raise refuse(Kind.INVALID_PARAMS, what)
    if style == "openai":
        return [_openai(tool, api, custom=custom) for tool in _TOOLS]
    if style == "mcp":
        return [_mcp(tool) for tool in _TOOLS]
    return [{**_named(tool), "input_schema": input_schema(tool)} for tool in _TOOLS]


def _named(tool: Tool) -> dict[str, object]:
    return {"name": tool.name, "description": DESCRIPTIONS[tool.name]}


def input_schema(tool: Tool) -> dict[str, object]:
    """The JSON Schema of a tool's input, without references, titles, defaults and nulls."""
    plain = _object(tool.model)
    for name in tool.hidden:
        del plain["properties"][name]
    if tool.result is results.EditResult:
        dry_run = "dry_run" in plain["properties"]  # which is what preview is
        plain["properties"] |= {
            name: schema for name, schema in _COMMON.items() if not (dry_run and name == "preview")
        }
    return plain


def _mcp(tool: Tool) -> dict[str, object]:
    # Not destructive: undo brings back what is overwritten or deleted. Not idempotent: an edit sent
    # twice is refused or made twice, a second undo takes another edit back, a second request for
    # access is a new one.
    return {
        "name": tool.name,
        "title": tool.title,
        "description": DESCRIPTIONS[tool.name],
        "inputSchema": input_schema(tool),
        "outputSchema": output_schema(tool.result),
        "annotations": {
            "title": tool.title,
            "readOnlyHint": tool.reads,
            "destructiveHint": False,
            "idempotentHint": tool.reads,
            "openWorldHint": False,
        },
    }


def _openai(tool: Tool, api: str, *, custom: bool) -> dict[str, object]:
    kind, definition = "function", _named(tool)
    if custom and tool.name == "apply_patch":
        # The input is the text itself, so that nothing of it is escaped.
        kind, grammar = "custom", {"syntax": "lark", "definition": APPLY_PATCH_LARK}
        flat = api == "responses"
        definition["format"] = {"type": "grammar", **(grammar if flat else {"grammar": grammar})}
    else:
        parameters = _rewritten(input_schema(tool), _strict, without=_NOT_STRICT)
        definition |= {"strict": True, "parameters": parameters}
    return {"type": kind, **(definition if api == "responses" else {kind: definition})}


def _strict(schema: _Schema) -> _Schema:
    if "properties" not in schema:
        return schema
    required = schema.get("required", ())
    properties = {
        name: each if name in required else _nullable(each)
        for name, each in schema["properties"].items()
    }
    changed = {"properties": properties, "required": [*properties], "additionalProperties": False}
    return {**schema, **changed}


def _nullable(schema: _Schema) -> _Schema:
    null = {"type": "null"}
    rest = {key: each for key, each in schema.items() if key != "description"}
    description = {key: each for key, each in schema.items() if key not in rest}
    if "anyOf" in rest:
        return {**schema, "anyOf": [*rest["anyOf"], null]}
    if "properties" in rest or "items" in rest:
        return {"anyOf": [rest, null], **description}
    if "enum" in rest:
        rest["enum"] = [*rest["enum"], None]
    return {**rest, "type": [rest["type"], "null"], **description}


_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean"}


def _object(model: type[ToolInput]) -> _Schema:
    """The schema of an object, in the subset that every vendor reads."""
    fields = fields_of(model)
    schema: _Schema = {
        "type": "object",
        "properties": {name: _property(field) for name, field in fields.items()},
        "additionalProperties": False,
    }
    required = [name for name, field in fields.items() if field.required]
    return {**schema, "required": required} if required else schema


def _property(field: Field) -> _Schema:
    if field.choices:
        schema: _Schema = {"type": "string", "enum": list(field.choices)}
    else:
        schemas = [_kind(each) for each in field.kinds]
        schema = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
    bounds = field.bounds
    least = "minItems" if schema.get("type") == "array" else "minLength"
    limits = {least: bounds.min_length, "minimum": bounds.ge, "maximum": bounds.le}
    schema |= {keyword: limit for keyword, limit in limits.items() if limit is not None}
    return {**schema, "description": field.description}


def _kind(kind: Any) -> _Schema:
    if kind in _TYPES:
        return {"type": _TYPES[kind]}
    element = get_args(kind)
    if element:
        return {"type": "array", "items": _kind(element[0])}
    return _object(kind)
