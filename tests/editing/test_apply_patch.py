"""The requirement document "Memo CLI apply_patch Tool", line by line of its behaviour lists."""

from __future__ import annotations

import pytest

from patch_calls import after, patch, planned, refused, rungs, updated
from stet.wire.failures import Refused
from stetd.editing.apply_patch.dialect import plan
from tree_world import Tree, TreeWorld


def test_input_is_required() -> None:
    with pytest.raises(Refused, match='"input" is missing'):
        plan({}, TreeWorld(Tree()))


@pytest.mark.parametrize(
    "text",
    [
        "*** Add File: a\n+x\n*** End Patch",
        "*** Begin Patch\n*** Add File: a\n+x",
        "nothing of it",
    ],
)
def test_a_patch_starts_with_begin_patch_and_ends_with_end_patch(text: str) -> None:
    assert refused({}, text).kind == "parse_error"


def test_the_optional_move_can_appear_before_hunks() -> None:
    text = patch(
        "*** Update File: path/to/file",
        "*** Move to: path/to/new-file",
        "@@ update renamed file",
        "+new content",
        "*** End of File",
    )
    assert after({"path/to/file": b"old\n"}, text) == {"path/to/new-file": b"old\nnew content\n"}


def test_the_optional_move_can_appear_after_hunks() -> None:
    text = patch(
        "*** Update File: path/to/file",
        "@@ update renamed file",
        "+new content",
        "*** Move to: path/to/new-file",
        "*** End of File",
    )
    assert after({"path/to/file": b"old\n"}, text) == {"path/to/new-file": b"old\nnew content\n"}


def test_the_example_of_an_add() -> None:
    text = patch("*** Add File: path/to/file", "+line1", "+line2")
    assert after({}, text) == {"path/to/file": b"line1\nline2\n"}


def test_the_example_of_a_delete() -> None:
    assert after({"path/to/file": b"x\n"}, patch("*** Delete File: path/to/file")) == {}


def test_the_example_of_an_update() -> None:
    text = patch(
        "*** Update File: path/to/file",
        "@@ optional context description",
        "-line to remove",
        "+line to add",
        " unchanged line",
        "*** End of File",
    )
    before = {"path/to/file": b"first\nline to remove\nunchanged line\n"}
    assert after(before, text) == {"path/to/file": b"first\nline to add\nunchanged line\n"}


def test_the_example_of_a_heredoc() -> None:
    text = patch("*** Add File: path/to/file", "<<EOF", "line1", "line2", "EOF")
    assert after({}, text) == {"path/to/file": b"line1\nline2\n"}


@pytest.mark.parametrize("line", ["unchanged", "*unchanged", "> unchanged"])
def test_hunk_lines_begin_with_one_of_three_signs(line: str) -> None:
    text = patch("*** Update File: a", "@@", "-x", line)
    assert refused({"a": b"x\nunchanged\n"}, text).kind == "parse_error"


def test_end_of_file_appears_alone_on_its_line() -> None:
    text = patch("*** Update File: a", "@@", "-x", "+y", "*** End of File +z")
    refusal = refused({"a": b"x\n"}, text)
    assert ("parse_error", 6) == (refusal.kind, refusal.failures[0].line)


def test_target_paths_are_normalized_to_absolute_ones() -> None:
    tree = {"d/a.txt": b"x\n"}
    expected = "Success. Updated the following files:\nM /workspace/d/a.txt"
    for path in ("d/a.txt", "./d//a.txt", "d/../d/a.txt", "/workspace/d/a.txt"):
        made = planned(tree, patch(f"*** Update File: {path}", "-x", "+y"))
        assert expected == made.message


@pytest.mark.parametrize("path", ["../a", "/etc/a", "d/../../a", "out/a"])
def test_writable_roots_are_enforced_before_anything_is_changed(path: str) -> None:
    tree = Tree({"a.txt": b"x\n", "d/x": b""}, links={"out": "/etc"})
    text = patch("*** Update File: a.txt", "-x", "+y", f"*** Add File: {path}", "+z")
    assert refused(tree, text).kind == "path_outside_workspace"


def test_an_update_applies_each_hunk_by_matching() -> None:
    hunks = ["@@", "-a", "+A", "@@", "-c", "+C"]
    assert updated(b"a\nb\nc\n", *hunks) == b"A\nb\nC\n"


def test_a_move_removes_the_source_when_it_is_another_file() -> None:
    text = patch("*** Update File: a", "*** Move to: b", "-x", "+y")
    assert after({"a": b"x\n"}, text) == {"b": b"y\n"}
    text = patch("*** Update File: a", "*** Move to: ./a", "-x", "+y")
    assert after({"a": b"x\n"}, text) == {"a": b"y\n"}


def test_missing_context_is_an_error() -> None:
    text = patch("*** Update File: a", "@@", " x", "-gone", "+y")
    assert refused({"a": b"x\n"}, text).kind == "old_text_not_found"


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


def test_a_stricter_strategy_decides() -> None:
    assert updated(b"\tx\nx\nx \n", "-x", "+y") == b"\tx\ny\nx \n"


@pytest.mark.parametrize("dash", "\u2010\u2011\u2012\u2013\u2014\u2015\u2212")
def test_unicode_variants_of_dashes_match(dash: str) -> None:
    assert updated(f"a {dash} b\n".encode(), "-a - b", "+c") == b"c\n"


@pytest.mark.parametrize("quote", "\u2018\u2019\u201a\u201b")
def test_unicode_variants_of_quotes_match(quote: str) -> None:
    assert updated(f"{quote}a\n".encode(), "-'a", "+c") == b"c\n"


@pytest.mark.parametrize("space", "\xa0\u2002\u2009\u202f\u3000")
def test_unicode_variants_of_spaces_match(space: str) -> None:
    assert updated(f"a{space}b\n".encode(), "-a b", "+c") == b"c\n"


def test_the_output_lists_added_changed_and_deleted_files() -> None:
    text = patch(
        "*** Delete File: deleted-file",
        "*** Update File: modified-file",
        "-x",
        "+y",
        "*** Add File: new-file",
        "+z",
    )
    made = planned({"deleted-file": b"", "modified-file": b"x\n"}, text)
    assert (
        "Success. Updated the following files:\n"
        "A /workspace/new-file\n"
        "M /workspace/modified-file\n"
        "D /workspace/deleted-file"
    ) == made.message


def test_empty_old_lines_insert_at_the_end_of_the_file() -> None:
    assert updated(b"a\nb\n", "@@", "+c") == b"a\nb\nc\n"
    assert updated(b"", "+c") == b"c\n"
