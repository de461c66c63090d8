"""Values put into JSON text and taken out: nothing else changes."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from connect.documents import documents, keys, values
from stet.agents.jsonc import CannotSplice, has, lookup, put, remove, value_of

VALUE = {"command": "/bin/stet", "args": ["mcp"]}


def with_member(value: Any, path: tuple[str, ...], fresh: Any) -> Any:
    changed = copy.deepcopy(value)
    inner = changed
    for key in path[:-1]:
        inner = inner.setdefault(key, {})
    inner[path[-1]] = fresh
    return changed


def is_open(value: Any, path: tuple[str, ...]) -> bool:
    """Whether all that is there of a path's containers are objects."""
    for depth in range(len(path)):
        if has(value, path[:depth]) and not isinstance(lookup(value, path[:depth]), dict):
            return False
    return True


@given(documents(), st.lists(keys, min_size=1, max_size=3).map(tuple), values)
@settings(max_examples=100, deadline=None)
def test_a_member_is_put_in_and_taken_out_again(
    document: tuple[Any, str], path: tuple[str, ...], fresh: Any
) -> None:
    value, text = document
    assume(is_open(value, path))
    changed = put(text, path, fresh)
    assert with_member(value, path, fresh) == value_of(changed)
    if not has(value, path):
        assert text == remove(changed, path, keep=value)


@given(documents(), st.data())
@settings(max_examples=100, deadline=None)
def test_a_member_is_altered_to_any_value(document: tuple[Any, str], data: st.DataObject) -> None:
    value, text = document
    assume(value)
    key = data.draw(st.sampled_from(sorted(value)))
    fresh = data.draw(values)
    assert {**value, key: fresh} == value_of(put(text, (key,), fresh))
    assert text == put(text, (key,), value[key])


def test_of_a_member_that_is_altered_what_is_the_same_stays() -> None:
    text = '{\n  "a": {\n    "b": [1, /* x */ 2, 3], // y\n    "c": 4,\n    "d": {"e": 5 }\n  }\n}'
    expected = (
        '{\n  "a": {\n    "b": [1, /* x */ 7], // y\n    "d": {"e": 6 },\n    "f": []\n  }\n}'
    )
    assert expected == put(text, ("a",), {"b": [1, 7], "d": {"e": 6}, "f": []})


@given(documents(), st.lists(keys, min_size=1, max_size=2).map(tuple), values)
@settings(max_examples=100, deadline=None)
def test_an_element_is_put_in_and_taken_out_again(
    document: tuple[Any, str], path: tuple[str, ...], fresh: Any
) -> None:
    value, text = document
    before = lookup(value, path) if has(value, path) else []
    assume(is_open(value, path) and isinstance(before, list))
    changed = put(text, (*path, len(before)), fresh)
    assert with_member(value, path, [*before, fresh]) == value_of(changed)
    assert text == remove(changed, (*path, len(before)), keep=value)


@given(documents(), st.data())
@settings(max_examples=100, deadline=None)
def test_any_member_is_taken_out_and_the_rest_stays(
    document: tuple[Any, str], data: st.DataObject
) -> None:
    value, text = document
    assume(value)
    key = data.draw(st.sampled_from(sorted(value)))
    left = {each: inner for each, inner in value.items() if each != key}
    assert left == value_of(remove(text, (key,)))


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        ('{\n  "s": {\n    "n": 1\n  }\n}\n', ""),
        ('// only this\n{\n  "s": {\n    "n": 1\n  }\n}\n', "// only this"),
        ('{\n  "s": {\n    "n": 1\n  }\n}\n', "{}\n"),
        ('{"a": 1, "s": {"n": 1}}', '{"a": 1}'),
        ('{"s": {"n": 1}}\n', '{"s": {}}\n'),
        ('{"s": {"a": 2, "n": 1}}\n', '{"s": {"a": 2}}\n'),
        ('{\n\t"a": 1,\n\t"s": {\n\t\t"n": 1\n\t}\n}', '{\n\t"a": 1\n}'),
        ('{\n    "s": {\n        "n": 1\n    }\n}', '{\n    "s": {}\n}'),
        ('{\r\n  "a": 1,\r\n  "s": {\r\n    "n": 1\r\n  }\r\n}', '{\r\n  "a": 1\r\n}'),
        (
            '{\n  "a": 1, // one\n  "s": {\n    "n": 1\n  }\n  // end\n}',
            '{\n  "a": 1 // one\n  // end\n}',
        ),
        ('{\n  "a": 1,\n  "s": {\n    "n": 1\n  },\n}', '{\n  "a": 1,\n}'),
        (
            '{\n  "s": {\n    "b": [1], // x\n    "n": 1\n  }\n}',
            '{\n  "s": {\n    "b": [1] // x\n  }\n}',
        ),
    ],
)  # fmt: skip
def test_it_is_laid_out_as_what_is_around_it(expected: str, text: str) -> None:
    assert expected == put(text, ("s", "n"), 1)


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        # A person has written on around it since.
        ('{\n  "a": 1,\n  "b": 2\n}', '{\n  "a": 1,\n  "s": 0,\n  "b": 2\n}'),
        ('{ // first\n}', '{ // first\n  "s": 0\n}'),
        ('{ // first\n  }', '{ // first\n  "s": 0}'),
        ('{\n  "b": 2\n}', '{\n  "s": 0,\n  "b": 2\n}'),
        ('{"b": 2}', '{"s": 0, "b": 2}'),
        ('{\n  "a": 1 // mine\n}', '{\n  "a": 1,\n  "s": 0 // mine\n}'),
        ("[1, 3]", "[1, 2, 3]"),
    ],
)  # fmt: skip
def test_it_is_found_and_cut_where_it_stands(expected: str, text: str) -> None:
    if text.startswith("["):
        assert expected == remove(text, (1,))
        return
    result = remove(text, ("s",))
    assert value_of(expected) == value_of(result)
    assert expected.replace(" ", "") == result.replace(" ", "")


def test_a_value_is_replaced_where_it_stands() -> None:
    text = '{\n  "s": {\n    // ours\n    "n": {"x": 1}, // keep\n    "m": 2\n  }\n}\n'
    expected = (
        '{\n  "s": {\n    // ours\n    "n": {\n      "y": 3\n    }, // keep\n    "m": 2\n  }\n}\n'
    )
    assert expected == put(text, ("s", "n"), {"y": 3})


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        ("s is not an object", '{"s": []}'),
        ("the outermost value is not an object", "[]"),
        ("s stands there twice", '{"s": {}, "s": {}}'),
    ],
)
def test_a_place_that_is_none_is_refused(reason: str, text: str) -> None:
    with pytest.raises(CannotSplice, match=reason):
        put(text, ("s", "n"), 1)


def test_what_is_empty_afterwards_goes_unless_it_was_there() -> None:
    text = '{"s": {"n": 1}, "a": 2}'
    assert '{"a": 2}' == remove(text, ("s", "n"))
    assert '{"s": {}, "a": 2}' == remove(text, ("s", "n"), keep={"s": {}})
    with pytest.raises(KeyError):
        remove(text, ("s", "m"))


def test_what_is_empty_afterwards_stays_with_the_comments_in_it() -> None:
    text = '{\n  "s": { // mine\n    "n": 1\n  },\n  "t": {"u": [1 /* one */]}\n}\n'
    assert '{\n  "s": { // mine\n  },\n  "t": {"u": [1 /* one */]}\n}\n' == remove(text, ("s", "n"))
    assert text.replace("[1 /*", "[ /*") == remove(text, ("t", "u", 0))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{"stet":1,"a":2}', '{"a":2}'),
        ('{"a":2,"stet":1}', '{"a":2}'),
        ('{"stet": 1, "a": 2}', '{"a": 2}'),
        ('{"stet":1, /* mine */ "a":2}', '{/* mine */ "a":2}'),
    ],
)
def test_on_one_line_the_others_stay_as_they_are_laid_out(before: str, after: str) -> None:
    assert after == remove(before, ("stet",))


def test_beside_several_on_a_line_a_new_member_gets_its_own() -> None:
    text = '{\n  "a": 1, "b": 2\n}'
    assert '{\n  "a": 1, "b": 2,\n  "stet": 3\n}' == put(text, ("stet",), 3)
