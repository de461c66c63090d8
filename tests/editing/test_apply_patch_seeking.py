"""Where runs of lines stand, whichever way they are looked for, and how long it takes."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from patch_calls import unplaced, updated
from stetd.editing import time_limit
from stetd.editing.apply_patch.hunks import block_end
from stetd.editing.matching.rungs import Run, Rung, climb
from stetd.editing.text import Document, bare, without_trailing_space
from stetd.editing.typography import folded_text

LINES = st.sampled_from(["a", "b", "a ", " a", "\ta", "  b", "\u2018a\u2019", "'a'", "", " ", "c"])

KEYS: dict[Rung, Callable[[str], str]] = {
    Rung.EXACT: str,
    Rung.TRAILING_SPACE: without_trailing_space,
    Rung.INDENT: bare,
    Rung.TYPOGRAPHY: lambda line: without_trailing_space(folded_text(line)),
    Rung.INDENT_TYPOGRAPHY: lambda line: bare(folded_text(line)),
}


def alike(lines: list[str], run: list[str], rung: Rung) -> list[int]:
    """Where a run stands, told in the simplest way."""
    key = KEYS[rung]
    wanted = [key(line) for line in run]
    keys = [key(line) for line in lines]
    return [at for at in range(len(lines)) if keys[at : at + len(run)] == wanted]


@settings(max_examples=200)
@given(
    st.lists(LINES, min_size=1, max_size=30),
    st.lists(st.lists(LINES, min_size=1, max_size=3), min_size=1, max_size=8),
    st.integers(0, 5),
)
def test_runs_are_found_where_their_lines_are_alike(
    lines: list[str], runs: list[list[str]], first: int
) -> None:
    document = Document.from_bytes("".join(f"{line}\n" for line in lines).encode())
    for run in runs:
        for found in climb(document, Run(tuple(run)), first):
            expected = [at for at in alike(lines, run, found.rung) if at >= first]
            assert set(found.places) <= set(expected)
            if found.rung in (Rung.EXACT, Rung.TRAILING_SPACE, Rung.TYPOGRAPHY):
                assert expected == found.places
            assert sorted(found.places) == found.places
            assert found.all
        stands = bool(alike(lines, run, Rung.EXACT))
        assert not stands or list(climb(document, Run(tuple(run))))


BLOCKS = """\
class A:
    def f(
        self,
    ):
        return 1

    def g(self):
        return 2
int main()
{
    x();
}
int other()
top = 1
"""


@pytest.mark.parametrize(
    ("opening", "end"),
    [(0, 8), (1, 6), (4, None), (6, 8), (7, None), (8, 12), (12, None), (13, None)],
)
def test_a_block_ends_where_a_line_is_indented_no_deeper(opening: int, end: int | None) -> None:
    assert end == block_end(BLOCKS.split("\n"), opening)


def test_the_last_block_ends_with_the_file() -> None:
    assert block_end(["def f():", "    return 1", ""], 0) == 3


@pytest.mark.parametrize(
    ("old", "new"), [("alpha_line(one)", "omega_line(two)"), ("omega_line(two)", "alpha_line(one)")]
)
def test_a_hunk_found_with_tolerance_is_refused_where_its_new_lines_are_already(
    old: str, new: str
) -> None:
    applied = [f"    {line}" for line in ("begin_block()", new, "end_block()")]
    found = [f"      {line}" for line in ("begin_block()", old, "end_block()")]
    hunk = [" begin_block()", f"-{old}", f"+{new}", " end_block()"]
    assert new in updated(joined(found), *hunk).decode()
    refusal = unplaced(joined([*applied, "between", *found]), *hunk)
    assert refusal.kind == "old_text_not_found"


def test_a_hunk_may_begin_in_the_context_of_the_one_before() -> None:
    hunks = ["@@", "-a", "+A", " b", "@@", " b", "-c", "+C"]
    assert updated(b"b\nc\na\nb\nc\n", *hunks) == b"b\nc\nA\nb\nC\n"
    assert unplaced(b"a\nb\nc\nb\nc\n", *hunks).kind == "old_text_not_unique"


def test_lines_are_not_added_at_the_end_for_a_line_that_is_given_in_part() -> None:
    data = b"class A(B):\n    def f(self):\n        pass\n\n\nx = 1\n"
    for anchors in (["@@ class A"], ["@@ class A(B):", "@@ def f"]):
        refusal = unplaced(data, *anchors, "+    a = 1")
        assert refusal.kind == "context_not_found"
        assert "the hunk itself only adds lines" in refusal.message
    assert updated(data, "@@ add a constant", "+y = 2") == data + b"y = 2\n"
    assert updated(data, "@@ class A", "+y = 2", "*** End of File") == data + b"y = 2\n"


def test_shared_context_is_no_nearer_than_a_place_after_it() -> None:
    """The lines that the second hunk names stand in the context of the first, and below it."""
    data = b"def f():\n    x = 1\n    log()\n    y = 2\n    log()\n"
    hunks = ["@@ def f():", "-    x = 1", "+    x = 2", "     log()"]
    refusal = unplaced(data, *hunks, "@@ def f():", "     log()", "+    done()")
    assert refusal.kind == "old_text_not_unique"


@pytest.mark.parametrize("before", [1, 1500])
def test_a_place_before_the_last_hunk_is_not_taken_where_one_after_it_may_be(before: int) -> None:
    """Of so many places only the first are known: none after the hunk before is among them."""
    data = "def f():\n" + "    x\n" * before + "    y\n    x\n"
    hunks = ["@@ def f():", "-    y", "+    z", "@@ def f():", "-    x", "+    w"]
    assert unplaced(data.encode(), *hunks).kind == "old_text_not_unique"


@pytest.mark.parametrize("first", ["# one", "class A:"])
def test_of_stacked_at_lines_the_second_may_stand_after_the_block_of_the_first(first: str) -> None:
    data = f"{first}\n    pass\n\ndef f():\n    a\n\ndef g():\n    a\n".encode()
    after = data.replace(b"f():\n    a", b"f():\n    b")
    assert updated(data, f"@@ {first}", "@@ def f():", "-    a", "+    b") == after


def test_a_line_in_the_block_of_the_hunk_before_is_not_passed_over_for_one_in_the_next() -> None:
    data = (
        b"class A:\n    def f():\n        a\n"
        b"class B:\n    def f():\n        b\n        x\n"
        b"class C:\n    def f():\n        x\n"
    )
    hunks = ["@@ def f():", "-        b", "+        c", "@@ def f():", "-        x", "+        y"]
    assert unplaced(data, *hunks).kind == "old_text_not_unique"


def test_a_line_alike_in_the_block_of_the_hunk_before_is_no_sign_against_an_exact_one() -> None:
    data = b"def f():\n    a\n      x\ndef f():\n    x\n"
    hunks = ["@@ def f():", "-    a", "+    b", "@@ def f():", "-    x", "+    y"]
    after = b"def f():\n    b\n      x\ndef f():\n    y\n"
    assert updated(data, *hunks) == after


@pytest.mark.parametrize("names", [[], ["--- a/a.txt", "+++ b/a.txt"]])
def test_what_git_writes_above_the_first_hunk_is_no_part_of_it(names: list[str]) -> None:
    head = ["diff --git a/a.txt b/a.txt", "index 0123abc..4567def 100644", *names]
    assert updated(b"a\nb\n", *head, "@@ -1,2 +1,2 @@", " a", "-b", "+c") == b"a\nc\n"


def test_of_a_first_hunk_that_looks_like_a_name_in_part_nothing_is_left_out() -> None:
    hunks = ["--- a/x", "+new", "@@", "-tail", "+end"]
    assert updated(b"-- a/x\n\ntail\n", *hunks) == b"new\n\nend\n"


def test_all_blank_lines_above_a_first_hunk_without_a_place_are_lines_of_it() -> None:
    data = b"\na\n1\n\n\na\n2\n"
    assert updated(data, " ", " ", "-a", "+b") == b"\na\n1\n\n\nb\n2\n"


def test_context_alone_leads_the_next_hunk_past_it() -> None:
    hunks = ["@@", " f:", "@@", "-a", "+A"]
    assert updated(b"a\nf:\na\n", *hunks) == b"a\nf:\nA\n"


def test_of_two_forms_of_a_hunk_the_one_that_stands_exactly_is_taken() -> None:
    """Either blank line at an edge may be dropped; with the first, only spaces stand there."""
    data = b"x\n\nq\n  \nx\n"
    assert updated(data, "@@", "", "-x", "+y", "") == b"y\n\nq\n  \nx\n"


@pytest.mark.parametrize(
    ("hunk", "after"),
    [
        (["-a", "-b", "+x"], b"x\r\rc\n"),
        ([" a", "-b"], b"a\r\rc\n"),
        (["-a", "-b", "+x", "+"], b"x\r\r\rc\n"),
    ],
)
def test_a_blank_line_after_a_lone_carriage_return_stays_a_line(
    hunk: list[str], after: bytes
) -> None:
    assert updated(b"a\rb\n\nc\n", *hunk) == after


def test_blank_lines_after_a_lone_carriage_return_stay_lines() -> None:
    assert updated(b"a\rb\n\n\nc\n", "-b") == b"a\r\r\n\nc\n"


@pytest.mark.parametrize(
    "hunk",
    [
        ["-return one", "+    return two"],
        [" return one", "+    # done"],
        ["-return one", "+    if so:", "+        return two"],
    ],
)
def test_one_old_line_without_its_indentation_does_not_shift_lines_that_have_it(
    hunk: list[str],
) -> None:
    unplaced(b"def f():\n    return one\n", *hunk)


@pytest.mark.parametrize(
    ("data", "hunk"),
    [
        (b"if a:\n    b\n", ["    b", "+c"]),
        (b"if a:\n    b\n", ["    b", "+", "+", "+def f():", "+    pass"]),
        (b"if a:\n    if b:\n        c\n    d\n", ["        c", "    d", "+    e"]),
        (b"/**\n * a\n * b\n */\n", [" * a", " * b", "+ * c"]),
        (b"a:\n  b:\n    - c\n    - d\n  e: 1\n", ["    - c", "    - d", "+  f: 1"]),
    ],
)
def test_added_lines_are_not_shifted_by_a_sign_that_the_old_lines_lack(
    data: bytes, hunk: list[str]
) -> None:
    assert "each unchanged one after a space" in unplaced(data, "@@", *hunk).message


def test_added_lines_with_the_indentation_of_the_file_are_not_shifted() -> None:
    hunk = ["-if a:", "-    b", "+    if c:", "+        d"]
    unplaced(b"class A:\n    if a:\n        b\n", "@@", *hunk)
    unplaced(b"class A:\n    if a:\n        b\n", "@@", *hunk[:1], *hunk[2:], "     b")


def test_removed_lines_that_lack_a_space_tell_that_the_added_ones_do() -> None:
    hunk = [" if b:", "-       c", "+       d"]
    assert updated(b"if a:\n if b:\n        c\n", "@@", *hunk) == b"if a:\n if b:\n        d\n"


def test_a_block_that_is_taken_out_of_the_lines_around_it_was_not_taken_out_before() -> None:
    data = b"def f():\n    if a:\n        b()\n        c()\n"
    hunk = ["@@ def f():", "-if a:", "-    b()", "-    c()", "+b()", "+c()"]
    assert updated(data, *hunk) == b"def f():\n    b()\n    c()\n"
    unplaced(data + b"b()\nc()\n", *hunk)


# -- large files. The limits are twenty times what it takes on an idle machine of 2026: they
# tell what grows with the square from what does not, and nothing else.

COUNT = 100_000


def numbered(count: int = COUNT) -> list[str]:
    return [f"    line {number}" if number % 7 else "    }" for number in range(count)]


def hunks(lines: list[str], shown: Callable[[str], str]) -> tuple[list[str], list[str]]:
    """A thousand hunks over the lines, and the lines after them."""
    sent: list[str] = []
    after = list(lines)
    for at in range(10, COUNT - 10, 100):
        sent += ["@@", f" {shown(lines[at])}", f"-{shown(lines[at + 1])}", f"+{shown('    new')}"]
        after[at + 1] = "    new"
    return sent, after


def joined(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


@pytest.mark.parametrize(
    "shown",
    [lambda line: line, lambda line: f"{line} ", lambda line: f"  {line}"],
    ids=["exact", "trailing space", "indentation"],
)
def test_a_thousand_hunks_in_a_hundred_thousand_lines(shown: Callable[[str], str]) -> None:
    lines = numbered()
    sent, after = hunks(lines, shown)
    expected = [line if line != shown("    new") else "    new" for line in after]
    found = updated(joined(lines), *sent)
    assert [line.rstrip() for line in expected] == [
        line.rstrip() for line in found.decode().split("\n")[:-1]
    ]


def test_a_miss_in_a_hundred_thousand_lines() -> None:
    data = joined(numbered())
    unplaced(data, "-line that is not there", "+x")


def test_fifty_lines_against_a_hundred_thousand_that_are_the_same() -> None:
    data = joined(["same"] * COUNT)
    unplaced(data, *["-same"] * 50, "+x")
    unplaced(data, *["- same"] * 50, "+x")
    updated(data, *["-same"] * 50, "+x", "*** End of File")


def test_a_long_hunk_against_lines_that_are_alike_keeps_nobody_waiting() -> None:
    data, hunk = joined(["same"] * 3_000), ["- same"] * 300
    began = time.thread_time()
    with time_limit.limited(0.01), pytest.raises(time_limit.TakesLong):
        updated(data, *hunk, "+x")
    assert time.thread_time() - began < 0.6


def test_many_hunks_that_stand_everywhere_are_given_up() -> None:
    data = joined(numbered())
    unplaced(data, *["@@", "-}", "+x"] * 1000)


def test_an_anchor_whose_places_are_too_many_to_list_is_not_overlooked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("stetd.editing.matching.rungs.MOST_PLACES", 3)
    unplaced(joined(["def", *["same"] * 4, "def", "same"]), "@@ def", "-same", "+x")
    assert updated(joined(["def", "same"]), "@@ def", "-same", "+x") == joined(["def", "x"])
