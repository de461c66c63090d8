"""The grammar for models that write patches under one: what it lets them write, and what not."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import lark
import pytest

from stetd.editing.apply_patch_grammar import APPLY_PATCH_LARK
from stetd.editing.tool_schemas import tool_definitions


@cache
def grammar() -> lark.Lark:
    # LALR needs the next token only, and so does a model that writes under the grammar.
    return lark.Lark(APPLY_PATCH_LARK, parser="lalr")


def accepts(patch: str) -> bool:
    try:
        grammar().parse(patch)
    except lark.exceptions.UnexpectedInput:
        return False
    return True


def patch(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch"])


ALLOWED = {
    "add": ["*** Add File: a.py", "+x", "+", "+ y"],
    "add an empty file": ["*** Add File: a.py"],
    "delete": ["*** Delete File: a b.py"],
    "update": ["*** Update File: a.py", "@@", " x", "-y", "+z", " "],
    "first hunk without @@": ["*** Update File: a.py", "-y", "+z"],
    "two hunks": ["*** Update File: a.py", "@@ def f():", "-y", "@@", "+z"],
    "stacked @@": ["*** Update File: a.py", "@@ class A:", "@@     def f():", "-y"],
    "end of file": ["*** Update File: a.py", "@@", "+z", "*** End of File"],
    "move": ["*** Update File: a.py", "*** Move to: b.py"],
    "move and change": ["*** Update File: a.py", "*** Move to: b.py", "@@", "-y", "+z"],
    "several": ["*** Add File: a", "+x", "*** Delete File: b", "*** Update File: c", "+y"],
    "lines that read like headers": [
        "*** Update File: a",
        " *** End Patch",
        "+@@",
        "-*** Add File",
    ],
}

FORBIDDEN = {
    "nothing": [],
    "a hunk without lines": ["*** Update File: a.py", "@@"],
    "an update without hunks": ["*** Update File: a.py"],
    "a second hunk without @@ has lines of the first": ["*** Update File: a.py", "@@", "@@"],
    "a bare empty line": ["*** Update File: a.py", "@@", " x", "", "-y"],
    "a context line without its space": ["*** Update File: a.py", "@@", "x", "-y"],
    "a removed line in a new file": ["*** Add File: a.py", "-x"],
    "a path of nothing": ["*** Add File: ", "+x"],
    "a path that begins with a space": ["*** Delete File:  a"],
    "move after hunks": ["*** Update File: a.py", "@@", "-y", "*** Move to: b.py"],
    "two moves": ["*** Update File: a.py", "*** Move to: b.py", "*** Move to: c.py"],
    "a carriage return": ["*** Delete File: a\r"],
    "a heredoc": ["*** Add File: a", "<<EOF", "x", "EOF"],
    "another operation": ["*** Rename File: a"],
}


@pytest.mark.parametrize("lines", ALLOWED.values(), ids=ALLOWED)
def test_it_lets_a_model_write(lines: list[str]) -> None:
    assert accepts(patch(*lines))
    assert accepts(patch(*lines) + "\n")


@pytest.mark.parametrize("lines", FORBIDDEN.values(), ids=FORBIDDEN)
def test_it_keeps_a_model_from_writing(lines: list[str]) -> None:
    assert not accepts(patch(*lines))


@pytest.mark.parametrize("around", ["x\n{}", "{}\n\n", "{}\nx", "```\n{}\n```", "<<EOF\n{}\nEOF"])
def test_it_keeps_a_model_from_writing_anything_around_a_patch(around: str) -> None:
    good = patch(*ALLOWED["update"])
    assert accepts(good)
    assert not accepts(around.format(good))


def test_its_terminals_are_within_what_constrained_writing_takes() -> None:
    terminals = {each.name: each.pattern.to_regexp() for each in grammar().terminals}
    assert len(terminals) == 11
    for regexp in terminals.values():
        assert not re.search(r"\(\?|[*+?]\?", regexp), "lookaround, flags or lazy repetition"
        assert regexp.removesuffix("?").endswith("\n"), "every terminal is a whole line"


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_the_custom_tool_takes_the_place_of_the_function(api: str) -> None:
    def named(tool: Any) -> str:
        inner = tool if api == "responses" else tool[tool["type"]]
        return str(inner["name"])

    functions: list[Any] = tool_definitions("openai", api=api)
    with_custom: list[Any] = tool_definitions("openai", api=api, custom=True)
    assert [named(tool) for tool in functions] == [named(tool) for tool in with_custom]
    assert {tool["type"] for tool in functions} == {"function"}
    [custom] = [tool for tool in with_custom if tool["type"] == "custom"]
    assert named(custom) == "apply_patch"
    form = custom["format"] if api == "responses" else custom["custom"]["format"]
    grammar = form if api == "responses" else form["grammar"]
    assert form["type"] == "grammar"
    assert (grammar["syntax"], grammar["definition"]) == ("lark", APPLY_PATCH_LARK)
