"""JSON with comments: what is read, what is refused, and where things stand."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connect.documents import documents
from stet.connecting.jsonc import NotJson, find, parse, value_of


@given(documents())
@settings(max_examples=100, deadline=None)
def test_any_layout_is_read(document: tuple[Any, str]) -> None:
    value, text = document
    assert value == value_of(text)


@given(st.text('{}[],:"\\/*\n 01ae-.+truefalsnl\ufeff', max_size=25))
@settings(max_examples=100, deadline=None)
def test_any_text_is_read_as_json_does_or_refused(text: str) -> None:
    try:
        expected = json.loads(text.removeprefix("\ufeff"), parse_constant=lambda _: 1 / 0)
    except (ValueError, ZeroDivisionError):
        try:
            root = parse(text, strict=True)
        except NotJson:
            return
        assert root is None
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
        (1, 1, '"\n"'),
        (1, 1, "NaN"),
        (1, 2, "[,]"),
        (1, 4, "{} /* not ended"),
        (1, 2, "01"),
        (1, 202, "[" * 300),
    ],
)
def test_what_is_no_json_is_refused_with_its_place(line: int, column: int, text: str) -> None:
    with pytest.raises(NotJson) as caught:
        parse(text)
    assert (line, column) == (caught.value.line, caught.value.column)


@pytest.mark.parametrize("text", ["{} // x", "/* x */ {}", '{"a": 1,}', "[1,]"])
def test_comments_and_last_commas_are_refused_where_a_client_reads_plain_json(text: str) -> None:
    parse(text)
    with pytest.raises(NotJson):
        parse(text, strict=True)


def test_of_two_members_with_one_key_the_last_counts() -> None:
    root = parse('{"a": 1, "a": 2}')
    assert root is not None
    item = find(root, "a")
    assert item is not None
    assert ({"a": 2}, 2) == (root.value, item.node.value)


def test_a_document_without_a_value() -> None:
    assert parse("") is None
    assert parse("\ufeff// nothing\n") is None
