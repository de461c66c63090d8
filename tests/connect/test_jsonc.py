"""JSON with comments: what is read, what is refused, and where things stand."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connect.documents import documents
from stet.agents.jsonc import Node, NotJson, find, outline, put, value_of


def as_outlined(node: Node) -> Any:
    """The value, put together from the pieces that an outline finds."""
    if node.kind == "object":
        return {item.key: as_outlined(item) for item in node.items}
    if node.kind == "array":
        return [as_outlined(item) for item in node.items]
    return json.loads(node.text[node.value : node.end])


@given(documents())
@settings(max_examples=100, deadline=None)
def test_any_layout_is_read(document: tuple[Any, str]) -> None:
    value, text = document
    assert value == value_of(text)
    root = outline(text)
    assert root is not None
    assert value == as_outlined(root)


@given(st.text('{}[],:"\\/*\n 01ae-.+truefalsnl\ufeff', max_size=25))
@settings(max_examples=100, deadline=None)
def test_any_text_is_read_as_json_does_or_refused(text: str) -> None:
    try:
        expected = json.loads(text.removeprefix("\ufeff"), parse_constant=lambda _: 1 / 0)
    except (ValueError, ZeroDivisionError):
        try:
            assert value_of(text, strict=True) is None
        except NotJson:
            return
        assert not text.removeprefix("\ufeff").strip(" \t\r\n")
    else:
        assert expected == value_of(text, strict=True)


@pytest.mark.parametrize(
    ("line", "column", "text"),
    [
        (1, 1, "nul"),
        (1, 9, '{"a": 1 "b": 2}'),
        (2, 3, '{"a": 1,\n  2: 3}'),
        (1, 6, '{"a" 1}'),
        (1, 5, "[1, "),
        (1, 4, "{} x"),
        (1, 2, '"\n"'),
        (1, 1, "NaN"),
        (1, 2, "[,]"),
        (1, 4, "{} /* not ended"),
        (1, 2, "01"),
        (1, 301, "[" * 300),
        (1, 1, "[" * 100_000),
    ],
)
def test_what_is_no_json_is_refused_with_its_place(line: int, column: int, text: str) -> None:
    with pytest.raises(NotJson, match=f"^line {line}, column {column}: "):
        value_of(text)


@pytest.mark.parametrize("text", ["// x", "{} // x", "/* x */ {}", '{"a": 1,}', "[1,]"])
def test_comments_and_last_commas_are_refused_where_a_client_reads_plain_json(text: str) -> None:
    value_of(text)
    with pytest.raises(NotJson):
        value_of(text, strict=True)


@pytest.mark.parametrize(
    "text",
    ["@{}", "{@}", '{@ "a": 1}', '{"a" @: 1}', '{"a": @ 1}', '{"a": 1 @}', '{"a": 1, @ "b": 2}',
     "[1 @]", "[1, @ 2]", "{} @"],
)  # fmt: skip
def test_a_comment_where_a_client_reads_plain_json_is_called_one(text: str) -> None:
    for comment in ("// x\n", "/* x */"):
        told = f"column {text.index('@') + 1}: a comment, which this client does not read"
        with pytest.raises(NotJson, match=told):
            value_of(text.replace("@", comment), strict=True)


def test_of_two_members_with_one_key_the_last_counts() -> None:
    text = '{"a": 1, "a": 2, // x\n}'
    root = outline(text)
    assert root is not None
    item = find(root, "a")
    assert item is not None
    assert ({"a": 2}, "2") == (value_of(text), text[item.value : item.end])


def test_a_document_without_a_value() -> None:
    for text in ("", "\ufeff// nothing\n"):
        assert value_of(text) is None
        assert outline(text) is None


def test_a_large_document_with_comments_takes_no_longer_than_it_must() -> None:
    text = json.dumps({f"p{number}": ["x" * 100] * 20 for number in range(4000)}, indent=1)
    begun = time.process_time()
    value_of("// mine\n" + text.replace("\n ]", ", \n ]"))
    assert time.process_time() - begun < 10


def test_blanks_before_a_bracket_take_no_time() -> None:
    text = '{\n  "a": 1' + " " * 1000 + "}\n"
    assert value_of(put(text, ("b",), 2)) == {"a": 1, "b": 2}


def test_a_text_that_ends_in_a_string_of_quotes_is_refused_at_once() -> None:
    begun = time.process_time()
    with pytest.raises(NotJson, match="Unterminated string"):
        value_of('{"a": "' + '\\"' * 30_000)
    assert time.process_time() - begun < 10


def test_comments_that_are_not_closed_are_refused_at_once() -> None:
    begun = time.process_time()
    with pytest.raises(NotJson, match="line 1, column 9: "):
        value_of('{"a": 1 ' + "/* " * 40_000)
    assert time.process_time() - begun < 5
