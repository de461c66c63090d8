"""The JSON around blocks: which files a model says that it edits."""

from __future__ import annotations

import json

import pytest

from stetd.editing.patch_block.grammar import named_files


def named(text: str) -> list[str]:
    return list(named_files([(1, text)]))


ARGUMENTS = {"filepath": "a.txt"}


@pytest.mark.parametrize(
    "value",
    [
        ARGUMENTS,
        {"tool": "PatchFileTool", "arguments": ARGUMENTS},
        {"tool": "patch_block", "arguments": {**ARGUMENTS, "text": "..."}},
        {"actions": [{"type": "tool_call", "tool": "PatchFileTool", "arguments": ARGUMENTS}]},
        {"type": "tool_use", "name": "patch_block", "input": ARGUMENTS},
        {"tool_calls": [{"function": {"name": "patch_block", "arguments": json.dumps(ARGUMENTS)}}]},
        [{"arguments": {"filepath": "./a.txt", "arguments": {}}}, ARGUMENTS][1],
    ],
)
@pytest.mark.parametrize("style", ["{}", "```json\n{}\n```", "I edit {{x}} so: {} and now"])
def test_the_arguments_of_a_call_of_this_tool_name_the_file(value: object, style: str) -> None:
    for written in (json.dumps(value), json.dumps(value, indent=2)):
        assert ["a.txt"] == named(style.replace("{{x}}", "{x}").replace("{}", written))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no JSON at all, but filepath: a.txt",
        '{"filepath": "a.txt"',
        '{"filepath": 5}',
        '{"filepath": ""}',
        '{"file": {"filepath": "a.txt"}}',
        '{"tool": "FileReadTool", "arguments": {"filepath": "a.txt"}}',
        '{"function": {"name": "read", "arguments": "{\\"filepath\\": \\"a.txt\\"}"}}',
        '{"arguments": "{\\"filepath\\": "}',
        '{"filepath": NaN}',
    ],
)
def test_everything_else_names_none(text: str) -> None:
    assert [] == named(text)


def test_each_file_is_named_once_with_the_line_of_its_json() -> None:
    prose = [
        (1, 'Hello\n{"filepath": "a"}\n{"filepath": "b"}'),
        (10, '\n{"filepath": "a"} {"filepath": "c"}'),
    ]
    assert [("a", 2), ("b", 3), ("c", 11)] == list(named_files(prose).items())


@pytest.mark.parametrize(
    "text",
    ['{"a":' * 50_000, '{"a":[\n' * 50_000, '{"filepath": ' + "[" * 100_000, '{ "' * 100_000],
)
def test_json_that_never_ends_names_none(text: str) -> None:
    assert [] == named(text)


def test_arguments_within_arguments_end_somewhere() -> None:
    value: object = ARGUMENTS
    for _ in range(100):
        value = {"arguments": value}
    assert [] == named(json.dumps(value))
