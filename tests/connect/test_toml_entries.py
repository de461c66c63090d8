"""Tables put into TOML text and taken out."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stet.agents.entries import Entries
from stet.agents.jsonc import CannotSplice
from stet.agents.toml_entries import Toml, put, removed, value_of

SERVERS = "servers"
VALUE = {"command": "/a b/stet", "args": ["mcp", 'x"\\'], "env": {"A": "1", "b c": "\x7fü"}, "t": 5}

#: Pieces that may follow each other in any order and number.
PIECES = (
    "", "\n", "# a comment\n", "#[servers.stet]\n", "[servers.{0}]\ncommand = 'x' # y\n",
    '[t{0}]\ntext = """\n[servers.stet]\n"""\n', "[t{0}]\nlist = [\n  [1], # [\n  []\n]\n\n",
    "[[a{0}.in]]\nx = '[servers.stet]'\n", "[ 'quoted.{0}' ]  \n", "[t{0}.below]\n'''k''' = 1\n",
    "[t{0}]\nx = '''\n\"\"\"[servers.stet]\n'''\n", "[t{0}]\ninline = {{ a = [1, 2] }}",
)  # fmt: skip


@st.composite
def documents(draw: st.DrawFn) -> str:
    pieces = draw(st.lists(st.sampled_from(PIECES), max_size=5))
    text = "\n".join(piece.format(number) for number, piece in enumerate(pieces))
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        text = "a = 1"
    text = text.replace("\n", "\r\n") if draw(st.booleans()) else text
    return draw(st.sampled_from(["", "\ufeff"])) + text


@given(documents())
@settings(max_examples=100, deadline=None)
def test_a_table_is_put_in_and_taken_out_again(text: str) -> None:
    changed = put(text, SERVERS, VALUE)
    expected = value_of(text)
    expected.setdefault("servers", {})["stet"] = VALUE
    assert expected == value_of(changed)
    assert changed.startswith(text)
    assert text == removed(changed, SERVERS)


def test_it_is_one_block_at_the_end() -> None:
    block = '[servers.stet]\ncommand = "/stet"\nargs = ["mcp"]\n'
    for before in ("", "a = 1 # x\n\n"):
        text = before.removesuffix("\n")
        assert before + block == put(text, SERVERS, {"command": "/stet", "args": ["mcp"]})


def test_it_is_replaced_where_it_stands_and_what_a_client_put_below_it_stays() -> None:
    text = (
        "[servers.stet]\ncommand = 'old'\n\n[servers.stet.env]\nA = '1'\n\n"
        "[servers.stet.tools.patch]\napproval = 'auto'\n\n# next\n[z]\n"
    )
    value = {"command": "new", "tools": {"patch": {"approval": "auto"}}}
    expected = (
        '[servers.stet]\ncommand = "new"\n\n'
        "[servers.stet.tools.patch]\napproval = 'auto'\n\n# next\n[z]\n"
    )
    assert expected == put(text, SERVERS, value)
    assert "\n# next\n[z]\n" == removed(text, SERVERS)


def test_of_a_table_that_is_replaced_only_what_differs_is_written() -> None:
    text = (
        "[servers.stet] # mine\n# why\n'command' = 'old' # so\nargs = [\n  'a', # one\n]\n"
        "gone.a = 1\ngone.b = 2\nkept.a = 3 # [\n\n  t = 5\n"
        "\n[servers.stet.env]\n# there\nA = '1'\nB = '2' # two\n# next\n[z]\n"
    )
    value = {
        "command": "n#w", "args": ["a"], "kept": {"a": 3}, "t": 6, "env": {"A": "1", "B": "#"},
        "more": [1],
    }  # fmt: skip
    expected = (
        "[servers.stet] # mine\n# why\n'command' = \"n#w\" # so\nargs = [\n  'a', # one\n]\n"
        "kept.a = 3 # [\n\n  t = 6\nmore = [1]\n"
        "\n[servers.stet.env]\n# there\nA = '1'\nB = \"#\" # two\n# next\n[z]\n"
    )
    assert expected == put(text, SERVERS, value)
    assert expected.replace("\n", "\r\n") == put(text.replace("\n", "\r\n"), SERVERS, value)


@pytest.mark.parametrize("before", ["", "a = 1\n", "# above\n", "\ufeff# above\r\n"])
def test_a_table_is_taken_out_from_between_lines(before: str) -> None:
    own = "[servers.stet]\ncommand = 'x'\n[servers.stet.env]\n"
    assert f"{before}[z]\n" == removed(f"{before}{own}[z]\n", SERVERS)


@pytest.mark.parametrize(
    ("body", "value", "expected"),
    [
        ("a = 1\nb = 2\n", {"a": 1}, "a = 1\n"),
        ("a.b = 1\n", {"a": {"b": 2}}, "a.b = 2\n"),
        ("a.b = 1\na.c = 2\n", {"a": {"b": 1}}, "a.b = 1\n"),
        ("a = [ # x\n1]# y\n", {"a": [2]}, "a = [2]# y\n"),
        ('a = """\n# [\n""" # y', {"a": "z"}, 'a = "z" # y'),
        ("a = 1 # x", {"b": 1}, "b = 1\n"),
    ],
)
def test_a_member_is_replaced_however_it_is_written(
    body: str, value: dict[str, object], expected: str
) -> None:
    assert f"[servers.stet]\n{expected}" == put(f"[servers.stet]\n{body}", SERVERS, value)


def test_an_entry_within_a_line_is_changed_and_taken_out() -> None:
    text = "[servers]\nstet = { a = 1 } # mine\nz = { b = 1 }\n"
    assert text.replace("1 } #", "2 } #") == put(text, SERVERS, {"a": 2})
    assert "[servers]\nz = { b = 1 }\n" == removed(text, SERVERS)


def test_an_entry_in_two_places_is_taken_out_from_between_what_is_a_persons() -> None:
    text = "servers.stet.command = 'x'\n# mine\na = 1\n# my own\nservers.stet.args = []\n# end\n"
    assert removed(text, SERVERS) == "# mine\na = 1\n# my own\n# end\n"


@pytest.mark.parametrize("text", ["servers = {}", "servers = 1"])
def test_a_place_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(CannotSplice):
        put(text, SERVERS, VALUE)


def test_a_file_that_was_made_for_stet_stays_if_a_person_has_added_to_it() -> None:
    made = put("", SERVERS, VALUE)
    shape: Entries = {(SERVERS, "stet"): VALUE}
    assert Toml().removed(made, shape, None) is None
    assert Toml().removed(made + "[mine]\na = 1\n", shape, None) == "[mine]\na = 1\n"


def test_a_document_that_would_not_come_back_to_the_byte_is_refused() -> None:
    text = "[[list]]\n[servers.stet]\na = 1\n[z]\n[[list]]\n"
    with pytest.raises(CannotSplice):
        removed(text, SERVERS)
    with pytest.raises(CannotSplice):
        put(text, SERVERS, VALUE)


def test_an_entry_that_is_as_it_should_be_stays_in_any_document() -> None:
    text = "[[list]]\n[servers.stet]\ncommand = '/stet'\nargs = ['mcp']\n[z]\n[[list]]\n"
    wanted: Entries = {(SERVERS, "stet"): {"command": "/stet", "args": ["mcp"]}}
    assert text == Toml().written(text, wanted)


def test_what_was_put_in_comes_out_whatever_the_order_of_the_other_tables() -> None:
    text = "[servers.mine]\na = 1\n[[list]]\n[servers.other]\n[[list]]\n"
    changed = put(text, SERVERS, VALUE)
    assert text == removed(changed, SERVERS)
    with pytest.raises(CannotSplice):
        put(changed, SERVERS, {"a": 2})


def test_a_table_of_servers_that_was_there_and_empty_stays() -> None:
    text = "# mine\n[servers]\n\n[z]\n"
    changed = put(text, SERVERS, VALUE)
    assert text == removed(changed, SERVERS, keep=True)
    within = "[servers]\nstet = {}\n[z]\n"
    assert "[servers]\n[z]\n" == removed(within, SERVERS, keep=True)
    # Nobody says that it was there: it was put there for stet.
    assert "[z]\n" == removed(within, SERVERS)


@pytest.mark.parametrize("more", [{"b": 2}, {"env": {"A": "1"}}])
def test_a_comment_of_the_next_table_stays_with_it(more: dict[str, object]) -> None:
    text = "[servers.stet]\na = 1\n\n# next\n[z]\n"
    changed = put(text, SERVERS, {"a": 1, **more})
    assert changed.startswith("[servers.stet]\na = 1\n")
    assert changed.endswith("\n\n# next\n[z]\n")
    assert removed(changed, SERVERS) == removed(text, SERVERS) == "\n# next\n[z]\n"
