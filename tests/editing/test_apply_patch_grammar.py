"""The grammar for models that write patches under one: what it lets them write, and what not."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import lark
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.lark import from_lark

from stetd.editing.apply_patch.grammar import Add, Delete, Operation, parse
from stetd.editing.tools.descriptions import APPLY_PATCH_LARK
from stetd.editing.tools.schemas import tool_definitions


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
    "a blank line first": ["*** Update File: a.py", " ", "+z"],
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
    "a hunk that changes nothing": ["*** Update File: a.py", "@@", " x"],
    "a path of nothing": ["*** Add File: ", "+x"],
    "a path that begins with a space": ["*** Delete File:  a"],
    "a path that ends with a space": ["*** Delete File: a\u00a0"],
    "move after hunks": ["*** Update File: a.py", "@@", "-y", "*** Move to: b.py"],
    "two moves": ["*** Update File: a.py", "*** Move to: b.py", "*** Move to: c.py"],
    "a carriage return": ["*** Delete File: a\r"],
    "a control character in a path": ["*** Add File: a\0b", "+x"],
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


CHARACTERS = st.one_of(st.sampled_from(" *@+-ab"), st.characters(codec="utf-8"))


@given(from_lark(grammar(), alphabet=CHARACTERS))
def test_what_it_derives_is_understood_just_so(patch: str) -> None:
    _, *operations, _ = grammar().parse(patch).children
    assert [derived(each) for each in operations] == [understood(each) for each in parse(patch)]


@pytest.mark.parametrize("between", [[], [""], ["", "\t"]])
def test_a_blank_unchanged_line_may_begin_a_hunk_without_a_place(between: list[str]) -> None:
    [update] = parse(patch("*** Update File: a.py", *between, " ", "+z"))
    assert ["UPDATE_FILE", "a.py", None, [[" ", "+z"]]] == understood(update)


Plain = list[Any]


def derived(operation: Any) -> Plain:
    """Path, path to move to, and hunks, from the grammar's tree."""
    header, *rest = operation.children
    assert isinstance(header, lark.Token)
    path = path_of(header)
    if header.type != "UPDATE_FILE":
        return [header.type, path, "".join(str(line)[1:] for line in rest)]
    moved = next((path_of(t) for t in rest if isinstance(t, lark.Token)), None)
    [hunks] = [each for each in rest if isinstance(each, lark.Tree)] or [lark.Tree("hunks", [])]
    return [header.type, path, moved, [lines_of(h) for h in hunks.children if not is_token(h)]]


def path_of(header: lark.Token) -> str:
    return header.partition(": ")[2].removesuffix("\n")


def is_token(each: object) -> bool:
    return isinstance(each, lark.Token)


def lines_of(hunk: Any) -> list[str]:
    return [
        str(line).removesuffix("\n")
        for line in hunk.scan_values(lambda token: token.type != "PLACE")
    ]


def understood(operation: Operation) -> Plain:
    """The same, from the parser's values."""
    if isinstance(operation, Add):
        return ["ADD_FILE", operation.path, operation.text]
    if isinstance(operation, Delete):
        return ["DELETE_FILE", operation.path, ""]
    hunks = [[line.sign + line.text for line in hunk.lines] for hunk in operation.hunks]
    return ["UPDATE_FILE", operation.path, operation.move_to, hunks]


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
