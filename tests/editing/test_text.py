"""Documents: lines, terminators, BOM and bytes that are not UTF-8."""

from __future__ import annotations

import pytest

from stetd.editing.text import (
    WHITE_SPACE,
    Document,
    adopt_terminators,
    is_blank,
    looks_binary,
    split_lines,
)

BOM = b"\xef\xbb\xbf"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"a",
        b"a\n",
        b"a\r\nb\rc\n",
        BOM,
        BOM + b"a\n",
        BOM + BOM + b"a",
        b"caf\xe9 \xff\xfe\n",
        b"\xed\xb2\x80 surrogate bytes \xed\xa0\x80",
        b"\xf0\x9f\x98",
        bytes(range(256)),
    ],
)
def test_bytes_survive_the_round_trip(data: bytes) -> None:
    document = Document.from_bytes(data)
    assert data == document.to_bytes(document.text)


def test_a_bom_is_not_part_of_the_text() -> None:
    document = Document.from_bytes(BOM + b"a")
    assert (document.bom, document.text) == (True, "a")
    assert document.to_bytes("b") == BOM + b"b"


def test_only_three_terminators_end_lines() -> None:
    text = "a\x0bb\x0cc\x1cd\x1ee\x85f\u2028g\u2029h\ni\rj\r\nk"
    assert split_lines(text) == (
        ["a\x0bb\x0cc\x1cd\x1ee\x85f\u2028g\u2029h", "i", "j", "k"],
        ["\n", "\r", "\r\n", ""],
    )


@pytest.mark.parametrize(
    ("text", "count"), [("", 0), ("a", 1), ("a\n", 1), ("\n", 1), ("a\n\n", 2), ("a\r\r\nb", 3)]
)
def test_lines_are_counted_by_their_ends(text: str, count: int) -> None:
    assert count == Document(False, text).line_count


@pytest.mark.parametrize(
    ("text", "starts"),
    [
        ("", []),
        ("a\nbb\n", [0, 2]),
        ("a\r\nbb\r\nc", [0, 3, 7]),
        ("a\rbb\rc", [0, 2, 5]),
        ("a\nb\r\nc\rd", [0, 2, 5, 7]),
        ("a\n\rb", [0, 2, 3]),
    ],
)
def test_line_starts(text: str, starts: list[int]) -> None:
    assert starts == Document(False, text).line_starts


def test_line_at_counts_from_one() -> None:
    document = Document(False, "a\r\nb\nc")
    assert [document.line_at(offset) for offset in range(7)] == [1, 1, 1, 2, 2, 3, 3]


def test_line_at_the_end_of_a_terminated_text_is_the_line_that_would_follow() -> None:
    assert Document(False, "a\nb\n").line_at(4) == 3
    assert Document(False, "").line_at(0) == 1


@pytest.mark.parametrize(
    ("text", "eol"),
    [
        ("", "none"),
        ("a", "none"),
        ("a\n", "lf"),
        ("a\r\nb\r\n", "crlf"),
        ("a\rb\r", "cr"),
        ("a\nb\r\n", "mixed"),
        ("a\n\r", "mixed"),
    ],
)
def test_eol_names_the_terminators(text: str, eol: str) -> None:
    assert eol == Document(False, text).eol


@pytest.mark.parametrize(
    ("text", "offset", "terminator"),
    [
        ("", 0, "\n"),
        ("a", 1, "\n"),
        ("a\r\nb\n", 0, "\r\n"),
        ("a\r\nb\n", 2, "\r\n"),
        ("a\r\nb\n", 3, "\n"),
        ("a\nb\r\n", 5, "\r\n"),
        ("a\nb\r\nc", 5, "\r\n"),
        ("a\nb\rc", 5, "\r"),
        ("a\rb\nc", 4, "\n"),
    ],
)
def test_new_text_ends_like_its_surroundings(text: str, offset: int, terminator: str) -> None:
    assert terminator == Document(False, text).terminator_near(offset)


def test_adopted_terminators_are_not_doubled() -> None:
    assert adopt_terminators("a\nb\r\nc\r", "\r\n") == "a\r\nb\r\nc\r"
    assert adopt_terminators("a\nb\r\n", "\r") == "a\rb\r\n"
    assert adopt_terminators("a\nb\r\n", "\n") == "a\nb\r\n"


def test_undecodable_bytes_are_told_by_range() -> None:
    document = Document.from_bytes(b"ok \xff ok\n")
    assert document.undecodable(0, 8) == 3
    assert document.undecodable(0, 3) is None
    assert document.undecodable(4, 8) is None


def test_a_nul_in_the_first_8_kib_is_binary() -> None:
    assert looks_binary(b"a\0b")
    assert looks_binary(b"x" * 8191 + b"\0")
    assert not looks_binary(b"x" * 8192 + b"\0")


def test_white_space_is_unicode_white_space_without_terminators() -> None:
    separators = {chr(code) for code in range(0x110000) if chr(code).isspace()}
    assert separators - set("\n\r\x1c\x1d\x1e\x1f") == set(WHITE_SPACE)
    assert is_blank(WHITE_SPACE)
    assert not is_blank("\x1c")
