"""Reading answers: what is a marker, what is text, and which orders of markers are sound."""

from __future__ import annotations

import re
from itertools import product

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stetd.editing.patch_block.grammar import Answer, Block, parse_answer

START, FIND, REPLACE, END = (
    "===SKIPPY_PATCH_START:a.txt===",
    "===FIND===",
    "===REPLACE===",
    "===SKIPPY_PATCH_END===",
)


def answer(*lines: str) -> str:
    return "".join(f"{line}\n" for line in lines)


def only_pair(text: str) -> tuple[str, str]:
    """FIND and REPLACE of a text with one block of one pair."""
    parsed = parse_answer(text)
    assert parsed.faults == []
    [block] = parsed.blocks
    [pair] = block.pairs
    return pair


@pytest.mark.parametrize(
    ("lines", "content"),
    [
        ([], ""),
        ([""], ""),
        (["", ""], "\n"),
        (["one"], "one"),
        (["one", ""], "one\n"),
        (["one", "", ""], "one\n\n"),
        (["", "one"], "\none"),
        (["  one  ", "\ttwo"], "  one  \n\ttwo"),
        (["lone\rcr"], "lone\rcr"),
    ],
)
def test_one_newline_beside_each_marker_belongs_to_the_marker(
    lines: list[str], content: str
) -> None:
    assert ("x", content) == only_pair(answer(START, FIND, "x", REPLACE, *lines, END))
    if content:
        assert (content, "y") == only_pair(answer(START, FIND, *lines, REPLACE, "y", END))


def test_the_last_marker_needs_no_newline() -> None:
    assert ("x", "y") == only_pair(answer(START, FIND, "x", REPLACE, "y", END).removesuffix("\n"))


def test_a_bom_before_the_answer_is_ignored() -> None:
    assert ("x", "y") == only_pair("\ufeff" + answer(START, FIND, "x", REPLACE, "y", END))


def test_a_path_may_hold_spaces_colons_and_equal_signs() -> None:
    path = "dir one/a=b===c: d.txt"
    text = answer(f"===SKIPPY_PATCH_START:{path}===", FIND, "x", REPLACE, "y", END)
    assert [path] == [block.path for block in parse_answer(text).blocks]


def test_lines_of_blocks_and_pairs_are_told() -> None:
    text = answer("prose", START, "", FIND, "x", REPLACE, "y", FIND, "z", REPLACE, END)
    pairs = [("x", "y"), ("z", "")]
    assert [Block("a.txt", 2, pairs, crlf=False, spelled="a.txt")] == parse_answer(text).blocks


def test_an_answer_is_in_crlf_when_all_its_markers_are() -> None:
    text = answer(START, FIND, "x", REPLACE, "y", END)
    [block] = parse_answer(text.replace("\n", "\r\n")).blocks
    assert Block("a.txt", 1, [("x", "y")], crlf=True, spelled="a.txt") == block
    [block] = parse_answer(text.replace("x\n", "x\r\n")).blocks
    assert not block.crlf


@pytest.mark.parametrize(
    "line",
    [
        " ===FIND===",
        "===Find===",
        "== FIND ==",
        "====REPLACE====",
        "===REPLACE ===",
        "\t===SKIPPY_PATCH_END===",
        "===SKIPPY PATCH END===",
        "===END===",
        "===SKIPPY_PATCH_START:===",
        "===SKIPPY_PATCH_START===",
        "===SKIPPY_PATCH_START:a.txt====",
        "===SKIPPY_PATCH_START:a.txt",
        "===SKIPPY_PATCH_START:a.txt=== text",
        "\u00a0===FIND===",
    ],
)
def test_a_line_that_only_resembles_a_marker_is_a_fault_and_behind_a_backslash_text(
    line: str,
) -> None:
    fault = parse_answer(answer(START, FIND, "x", REPLACE, line, END)).faults[0]
    assert ("parse_error", 5) == (fault.kind, fault.line)
    assert "is no marker: expected ===" in fault.message
    stripped = line.lstrip(" \t\u00a0")
    escaped = line.removesuffix(stripped) + "\\" + stripped
    assert ("x", line) == only_pair(answer(START, FIND, "x", REPLACE, escaped, END))


@pytest.mark.parametrize("line", ["===", "==FOUND==", "=FIND=", "x ===FIND===", "===FIND=== x"])
def test_a_line_that_holds_more_or_other_than_a_marker_is_text(line: str) -> None:
    assert (line, line) == only_pair(answer(START, FIND, line, REPLACE, line, END))


def test_headings_in_prose_are_prose() -> None:
    text = answer("== Find ==", START, FIND, "x", REPLACE, "y", END, "=== Replace ===", "== End ==")
    parsed = parse_answer(text)
    assert parsed.faults == []
    assert [(1, "== Find =="), (8, "=== Replace ===\n== End ==")] == parsed.prose


SOUND = re.compile(r"(S(FR)+E)+")


@pytest.mark.parametrize("length", range(7))
def test_an_order_of_markers_is_accepted_exactly_when_the_grammar_says_so(length: int) -> None:
    written = {"S": START, "F": FIND, "R": REPLACE, "E": END}
    for order in map("".join, product("SFRE", repeat=length)):
        lines = [line for mark in order for line in (written[mark], "text" * (mark in "FR"))]
        parsed = parse_answer(answer(*lines))
        assert bool(SOUND.fullmatch(order)) == (not parsed.faults), order
        assert_faults_are_told(parsed)


def assert_faults_are_told(parsed: Answer) -> None:
    for fault in parsed.faults:
        assert fault.kind == "parse_error"
        assert fault.line is not None
        assert fault.message.startswith(f"line {fault.line} of text: ")
        assert "xpected" in fault.message


def test_faults_are_told_in_the_order_of_lines_and_not_without_end() -> None:
    text = answer(START, FIND, REPLACE, REPLACE, *[" ===FIND==="] * 100)
    parsed = parse_answer(text)
    assert 20 == len(parsed.faults)
    assert [2, 4, 5, 6] == [fault.line for fault in parsed.faults[:4]]


# -- laws

LINES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n"), max_size=12)
MARKERS = st.sampled_from([START, FIND, REPLACE, END, " " + FIND, "\\" + END, "== find =="])
CONTENTS = st.lists(LINES | MARKERS, max_size=5)
PAIRS = st.lists(st.tuples(CONTENTS.filter(any), CONTENTS), min_size=1, max_size=3)
PATHS = st.sampled_from(["a.txt", "/b/c d.py", "x===y"])
BLOCKS = st.lists(st.tuples(PATHS, PAIRS), min_size=1, max_size=3)

RESEMBLING = re.compile(r"(\s*)(\\*={2,}.*)", re.DOTALL)


def escaped(line: str) -> str:
    """The line as text; needless backslashes would stay, so only before marks."""
    text = answer(START, FIND, "x", REPLACE, line, END)
    sound = parse_answer(text)
    if not sound.faults and sound.blocks[0].pairs[0][1] == line:
        return line
    found = RESEMBLING.fullmatch(line)
    assert found, line
    return f"{found[1]}\\{found[2]}"


@given(BLOCKS, st.sampled_from(["\n", "\r\n"]), LINES.filter(lambda line: "=" not in line))
@example([("a.txt", [([FIND], [END, "", ""])])], "\r\n", "prose")
def test_what_is_written_is_read(
    blocks: list[tuple[str, list[tuple[list[str], list[str]]]]], newline: str, prose: str
) -> None:
    lines = []
    for path, pairs in blocks:
        lines += [prose, f"===SKIPPY_PATCH_START:{path}==="]
        for find, replace in pairs:
            lines += [FIND, *map(escaped, find), REPLACE, *map(escaped, replace)]
        lines.append(END)
    parsed = parse_answer("".join(line + newline for line in lines))
    assert parsed.faults == []
    assert [path for path, _ in blocks] == [block.path for block in parsed.blocks]
    read = [block.pairs for block in parsed.blocks]
    assert read == [[(newline.join(f), newline.join(r)) for f, r in pairs] for _, pairs in blocks]


@given(st.lists(LINES | MARKERS, max_size=12), st.sampled_from(["\n", "\r\n", "\r"]))
def test_any_text_is_read_or_every_fault_has_its_line(lines: list[str], newline: str) -> None:
    parsed = parse_answer(newline.join(lines))
    assert parsed.blocks or parsed.faults
    assert all(block.pairs for block in parsed.blocks) or parsed.faults
    assert_faults_are_told(parsed)
