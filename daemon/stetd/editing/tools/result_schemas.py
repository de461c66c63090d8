"""What the tools give back as JSON Schemas, made from the results' own types.

For MCP, whose clients may check a tool's structured result. A result has its type's fields, or
``error`` with the kind, the message and what else the refusal tells. Nothing that may be added
to a result later is forbidden by its schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

#: What stands in the place of a result when a call is refused.
_ERROR: dict[str, object] = {
    "type": "object",
    "properties": {"kind": {"type": "string"}, "message": {"type": "string"}},
    "required": ["kind", "message"],
}


def output_schema(result: type[msgspec.Struct]) -> dict[str, object]:
    """The schema of a result or of an error, an object without references and titles.

    One root object with ``anyOf``, because clients of older versions take no other root.
    """
    whole = msgspec.json.schema(result)
    plain = _inlined(whole["$defs"][result.__name__], whole["$defs"])
    return {
        "type": "object",
        "properties": {**plain["properties"], "error": _ERROR},
        "anyOf": [{"required": plain["required"]}, {"required": ["error"]}],
    }


def _inlined(schema: Any, definitions: Mapping[str, Any]) -> Any:
    """A schema with references resolved; the docstrings of types are for readers of the code."""
    if isinstance(schema, list):
        return [_inlined(each, definitions) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _inlined(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    return {
        key: {name: _inlined(each, definitions) for name, each in value.items()}
        if key == "properties"
        else _inlined(value, definitions)
        for key, value in schema.items()
        if key == "properties" or key not in ("title", "description", "default")
    }
