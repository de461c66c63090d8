"""Tool definitions against the rules that the vendors publish for them, written down here.

OpenAI, function calling: names of letters, digits, _ and -, at most 64; descriptions of at
most 1,024 characters in chat completions; with ``strict`` every object takes exactly its
properties, all of them required, optional ones nullable, the root is a plain object, and of
JSON Schema's keywords only some are known (fewer to older and to fine-tuned models). Custom
tools have a format of type grammar; chat completions and responses nest both kinds differently.
Anthropic: the same names, an object as ``input_schema``. MCP: an object as ``inputSchema``,
annotations of given names. All: JSON Schema 2020-12.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
from jsonschema import Draft202012Validator

from stet.wire.failures import Refused
from stetd.editing.tools.inputs import PatchInput
from stetd.editing.tools.schemas import tool_definitions
from stetd.editing.tools.validation import validated

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
LONGEST_DESCRIPTION = 1024

#: What each model that knows strict schemas takes in them.
STRICT_KEYWORDS = {
    "type",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "enum",
    "anyOf",
    "description",
}
#: What all vendors take where they only read a schema.
KEYWORDS = STRICT_KEYWORDS | {
    "minLength",
    "minItems",
    "minimum",
    "maximum",
}

EVERY_LIST = [
    ("mcp", "chat", False),
    ("anthropic", "chat", False),
    ("openai", "chat", False),
    ("openai", "chat", True),
    ("openai", "responses", False),
    ("openai", "responses", True),
]


def parts(style: str, api: str, tool: dict[str, Any]) -> tuple[str, str, Any]:
    """Name, description and schema (None for a custom tool), from exactly the vendor's shape."""
    if style == "mcp":
        assert tool.keys() == {
            *("name", "title", "description", "inputSchema", "outputSchema", "annotations")
        }
        Draft202012Validator.check_schema(tool["outputSchema"])
        assert tool["outputSchema"]["type"] == "object"
        return tool["name"], tool["description"], tool["inputSchema"]
    if style == "anthropic":
        assert tool.keys() == {"name", "description", "input_schema"}
        return tool["name"], tool["description"], tool["input_schema"]
    kind = tool["type"]
    if api == "chat":
        assert tool.keys() == {"type", kind}
        tool = tool[kind]
    else:
        tool = {key: value for key, value in tool.items() if key != "type"}
    if kind == "custom":
        assert tool.keys() == {"name", "description", "format"}
        return tool["name"], tool["description"], None
    assert kind == "function"
    assert tool.keys() == {"name", "description", "strict", "parameters"}
    assert tool["strict"] is True
    return tool["name"], tool["description"], tool["parameters"]


def subschemas(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield schema
    for each in schema.get("properties", {}).values():
        yield from subschemas(each)
    for each in schema.get("anyOf", []):
        yield from subschemas(each)
    if "items" in schema:
        yield from subschemas(schema["items"])


@pytest.mark.parametrize(("style", "api", "custom"), EVERY_LIST)
def test_names_descriptions_and_shapes_are_the_vendors(style: str, api: str, custom: bool) -> None:
    tools = tool_definitions(style, api=api, custom=custom)
    names = []
    for tool in tools:
        name, description, schema = parts(style, api, tool)
        names.append(name)
        assert NAME.fullmatch(name)
        assert 0 < len(description) <= LONGEST_DESCRIPTION
        if schema is not None:
            Draft202012Validator.check_schema(schema)
            assert schema["type"] == "object"
            for each in subschemas(schema):
                assert each.keys() <= KEYWORDS
    assert len(names) == len(set(names)), "two tools of one name"


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_schemas_for_openai_are_strict(api: str) -> None:
    properties = 0
    for tool in tool_definitions("openai", api=api):
        _, _, root = parts("openai", api, tool)
        assert "anyOf" not in root
        for schema in subschemas(root):
            assert schema.keys() <= STRICT_KEYWORDS
            assert ("type" in schema) != ("anyOf" in schema)
            if "properties" in schema:
                assert schema["additionalProperties"] is False
                assert schema["required"] == list(schema["properties"])
                properties += len(schema["properties"])
            if schema.get("type") == "array":
                assert "items" in schema
        assert depth(root) <= 5
    assert 0 < properties <= 100 * len(tool_definitions("openai"))


def depth(schema: dict[str, Any]) -> int:
    """How deep objects stand in objects."""
    inner = [
        *schema.get("properties", {}).values(),
        *schema.get("anyOf", []),
        *([schema["items"]] if "items" in schema else []),
    ]
    return max((depth(each) for each in inner), default=0) + ("properties" in schema)


def test_what_a_strict_schema_lets_be_null_is_read_as_left_out() -> None:
    call = {
        "path": "a.py",
        "patches": [
            {
                "operation": "replace",
                "oldText": "x",
                "newText": None,
                "toClipboard": "c",
                "fromClipboard": None,
                "reindent": None,
            },
            {
                "operation": "append_eof",
                "oldText": None,
                "newText": None,
                "toClipboard": None,
                "fromClipboard": "c",
                "reindent": {"strip": "  ", "add": None},
            },
        ],
    }
    strict = parts("openai", "chat", tool_definitions("openai")[0])[2]
    jsonschema.validate({**call, "message": None, "preview": None}, strict)
    first, second = validated(PatchInput, call).patches
    assert first.new_text is None
    assert (second.from_clipboard, second.reindent.add) == ("c", "")


def test_mcp_annotations_have_the_names_of_the_specification() -> None:
    for tool in tool_definitions("mcp"):
        annotations: Any = tool["annotations"]
        assert annotations.keys() == {
            *("title", "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
        }
        assert annotations.pop("title") == tool["title"]
        assert {type(each) for each in annotations.values()} == {bool}


@pytest.mark.parametrize(
    ("style", "api", "custom", "said"),
    [
        ("gemini", "chat", False, "style 'gemini' is none of mcp, openai, anthropic"),
        ("openai", "assistants", False, "api 'assistants' is none of chat, responses"),
        ("mcp", "chat", True, 'custom and api go with style "openai"'),
        ("anthropic", "responses", False, 'custom and api go with style "openai"'),
    ],
)
def test_what_no_vendor_has_is_refused(style: str, api: str, custom: bool, said: str) -> None:
    with pytest.raises(Refused, match=said) as caught:
        tool_definitions(style, api=api, custom=custom)
    assert caught.value.kind == "invalid_params"
