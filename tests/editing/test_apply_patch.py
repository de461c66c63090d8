"""The ``apply_patch`` dialect: what tests/scenarios/apply_patch does not show."""

from __future__ import annotations

import pytest

from patch_calls import after, patch, planned, refused, rungs, unplaced, updated


@pytest.mark.parametrize(
    ("rung", "line"),
    [
        ("exact", b"  it's\n"),
        ("trailing_space", b"  it's \t\n"),
        ("indent", b"\tit's  \n"),
        ("typography", "  it\u2019s\n".encode()),
    ],
)
def test_strategies_are_tried_in_order(rung: str, line: bytes) -> None:
    hunk = ["@@", "-  it's", "+  it is"]
    assert [rung] == rungs(b"first\n" + line + b"last\n", *hunk)


def test_carriage_returns_that_not_all_lines_of_a_hunk_have_are_text() -> None:
    assert updated(b"a\n", " a", "+b\r") == b"a\nb\r\n"


@pytest.mark.parametrize("name", ["b/a", "/dev/null"])
def test_the_second_name_of_a_diff_is_no_text_where_the_first_one_is_gone(name: str) -> None:
    # What becomes of a diff if its first line is replaced, as the refusal of that line says.
    assert updated(b"a\nb\n", f"+++ {name}", "@@ -1 +1 @@", "-a", "+A") == b"A\nb\n"
    new = patch("*** Add File: n", f"+++ {name}", "@@ -0,0 +1 @@", "+x")
    assert after({}, new)["n"] == b"x\n"


def test_a_line_like_the_second_name_of_a_diff_is_text_without_line_numbers() -> None:
    assert updated(b"a\n", "+++ b/a", " a") == b"++ b/a\na\n"
    new = patch("*** Add File: n", "+++ b/a", "+x")
    assert after({}, new)["n"] == b"++ b/a\nx\n"
    other = patch("*** Add File: n", "+++ /dev/null2", "@@ -0,0 +1 @@", "+x")
    assert refused({}, other).kind == "parse_error"


def test_lines_further_off_do_not_tell_how_new_ones_are_indented() -> None:
    hunk = [" a", "-b", "+B", " c", " d"]
    assert updated(b"  a\n  b\n  c\nd\n", *hunk) == b"  a\n  B\n  c\nd\n"


def test_a_line_may_be_added_before_one_that_becomes_the_same() -> None:
    assert updated(b"a\nb\nc\n", " a", "+x", "@@", "-b", "+x") == b"a\nx\nx\nc\n"


def test_an_edit_is_reported_behind_what_a_later_update_puts_before_it() -> None:
    text = patch("*** Update File: a", "-b", "+B", "*** Update File: a", " a", "+x")
    made = planned({"a": b"a\nb\nc\n"}, text)
    assert [(each.line, each.end_line) for each in made.edits] == [(3, 3), (2, 2)]


@pytest.mark.parametrize(
    ("lines", "subject"),
    [
        (["*** Add File: b", "+x"], "b: added"),
        (["*** Delete File: a"], "a: deleted"),
        (["*** Update File: a", "*** Move to: b"], "b: moved"),
        (["*** Update File: a", "-x", "+y", "@@", "+z"], "a: 2 edits"),
        (["*** Delete File: a", "*** Add File: a", "+y"], "a: replaced"),
    ],
)
def test_the_subject_says_what_became_of_the_file(lines: list[str], subject: str) -> None:
    assert planned({"a": b"x\n"}, patch(*lines)).subject == f"apply_patch {subject}"


def test_a_file_that_is_moved_to_the_place_of_an_equal_one_is_told_as_deleted() -> None:
    both = patch("*** Delete File: b", "*** Update File: a", "*** Move to: b")
    made = planned({"a": b"x\n", "b": b"x\n"}, both)
    assert [("a", None)] == [(each.path, each.after) for each in made.files]
    assert "\nD /workspace/a" in made.message
    assert made.subject == "apply_patch a: deleted"


@pytest.mark.parametrize(
    ("content", "lines", "after"),
    [
        # A tolerant place: what the same rung or a laxer one finds before the cursor is no rival.
        (b"x \nm\nx \n", ["-m", "+M", "@@", "-x", "+y"], b"x \nM\ny\n"),
        (b"  x\nm\nx \n", ["-m", "+M", "@@", "-x", "+y"], b"  x\nM\ny\n"),
        # Two identical hunks under one @@ line, for the two places that there are.
        (
            b"def f():\n    x\ndef g():\n    x\n",
            ["@@ def f():", "-    x", "+    y", "@@ def f():", "-    x", "+    y"],
            b"def f():\n    y\ndef g():\n    y\n",
        ),
        (b"a\n  x\nb\n  x\n", ["@@ b @@", "-  x", "+  y"], b"a\n  x\nb\n  y\n"),
        # Additions: under a line before the cursor, and as many as there are @@ lines.
        (b"b\na\n", ["-a", "+A", "@@ b", "+x"], b"b\nx\nA\n"),
        (b"b\nb\n", ["@@ b", "+x", "@@ b", "+y"], b"b\nx\nb\ny\n"),
        # Lines sent as they are, which the file has with trailing space.
        (b"one two three \n", ["-one two three", "+one two three"], b"one two three\n"),
        # Line numbers alone are enough in an empty file and at the end.
        (b"", ["@@ -0,0 +1 @@", "+x"], b"x\n"),
        (b"a\n", ["@@ -7,0 +8 @@", "+x", "*** End of File"], b"a\nx\n"),
        (b"a\n", ["@@ -1,0 +2 @@", "+x"], b"a\nx\n"),
        (
            b"x\nm\nx\n\n\nx\n",
            ["-m", "+M", "@@", "-x", "+y", "*** End of File"],
            b"x\nM\nx\n\n\ny\n",
        ),
    ],
)
def test_the_place_of_a_hunk(content: bytes, lines: list[str], after: bytes) -> None:
    assert updated(content, *lines) == after


@pytest.mark.parametrize(
    ("content", "lines", "kind"),
    [
        (b"a\nb\nc\n", [" a", "-b", "+B", "@@", " b", "-c", "+C"], "overlapping_edits"),
        (b"b\na\n", ["-b", "+B", "@@ b", "+x"], "overlapping_edits"),
        (b"a\nb\n", ["@@ b", "@@ a", "+x"], "context_not_found"),
        (b"x\nx\nm\n", ["-m", "+M", "@@", "-x", "+y"], "old_text_not_unique"),
    ],
)
def test_a_hunk_without_a_sure_place(content: bytes, lines: list[str], kind: str) -> None:
    assert refused({"a.txt": content}, patch("*** Update File: a.txt", *lines)).kind == kind


def test_a_bare_blank_line_in_a_new_file_is_the_fault_not_the_line_after_it() -> None:
    told = refused({}, patch("*** Add File: b", "+x", "", "+y"))
    assert (told.kind, told.failures[0].line) == ("parse_error", 4)


def test_a_bare_blank_line_among_added_lines_of_a_hunk_that_is_not_found_is_told() -> None:
    told = unplaced(b"a\nb\n", " a", "+x", "", "+y", " b")
    assert told.message.endswith(
        'Line 5 of the patch is empty, so it is an unchanged blank line; expected "+" also '
        "before a blank line that is added."
    )


def test_what_follows_from_a_failure_is_not_told_where_its_file_was_moved_to() -> None:
    text = patch(
        *("*** Update File: a", "*** Move to: b", "-missing", "+x"),
        *("*** Update File: b", "-x", "+y"),
    )
    [failure] = refused({"a": b"one\n"}, text).failures
    assert (failure.kind, failure.path) == ("old_text_not_found", "a")
