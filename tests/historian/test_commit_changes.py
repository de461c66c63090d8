"""What a commit did, read back from Git: statuses, moves, hunks, text."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from file_states import diff_of
from stetd.historian.index.history_index import FileRow, IndexedFile
from stetd.historian.queries import commit_changes
from stetd.historian.queries.commit_changes import (
    changes_of,
    described,
    files_to_index,
    has_text,
)
from stetd.history.line_diffs import Hunk, compare_lines
from stetd.history.objects import object_id
from storage.histories import Histories


@pytest.fixture
def histories(tmp_path: Path) -> Histories:
    return Histories(tmp_path)


def indexed(histories: Histories, oid: str) -> list[IndexedFile]:
    return list(files_to_index(histories.repository, histories.repository.commit(oid)))


def rows(histories: Histories, oid: str) -> list[FileRow]:
    return [row for row, _ in indexed(histories, oid)]


def blob(text: str) -> str:
    return object_id("blob", text.encode())


def test_statuses_counts_hunks_and_texts(histories: Histories) -> None:
    histories.commit({"a": "1\n2\n3\n", "b": "x\n"})
    oid = histories.commit({"a": "1\nzwei\n3\n4\n", "b": None, "c": "new\n"})
    before, after = blob("1\n2\n3\n"), blob("1\nzwei\n3\n4\n")
    hunks = (Hunk(1, 1, 1, 1), Hunk(3, 0, 3, 1))
    assert [
        (FileRow("a", "M", before, after, None, 2, 1, hunks), "2\nzwei\n4"),
        (FileRow("b", "D", blob("x\n"), None, None, 0, 1, (Hunk(0, 1, 0, 0),)), "x"),
        (FileRow("c", "A", None, blob("new\n"), None, 1, 0, (Hunk(0, 0, 0, 1),)), "new"),
    ] == indexed(histories, oid)


def test_a_directory_has_the_place_of_its_path_among_the_files_beside_it(
    histories: Histories,
) -> None:
    histories.commit({"a": "1\n"})
    oid = histories.commit({"a": None, "a/x": "1\n", "a-b": "1\n", "a.py": "1\n", "a0": "1\n"})
    found = changes_of(histories.repository, histories.repository.commit(oid))
    assert ["a", "a-b", "a.py", "a/x", "a0"] == [change.path for change in found]


def test_a_move_is_one_change_from_the_old_path(histories: Histories) -> None:
    histories.commit({"old/a": "1\n2\n"})
    oid = histories.commit({"old/a": None, "new/a": "1\n2\n3\n"}, moves=(("old/a", "new/a"),))
    [change] = changes_of(histories.repository, histories.repository.commit(oid))
    told, diff = described(histories.repository.blob, change)
    assert ("R", "new/a", "old/a", 1, 0) == (
        told.status,
        told.path,
        told.old_path,
        told.added,
        told.removed,
    )
    assert (blob("1\n2\n"), blob("1\n2\n3\n")) == (told.before, told.after)
    assert "diff --git a/old/a b/new/a" in diff


def test_two_files_that_changed_places_are_two_moves(histories: Histories) -> None:
    histories.commit({"a": "1\n", "b": "2\n"})
    oid = histories.commit({"a": "2\n", "b": "1\n"}, moves=(("a", "b"), ("b", "a")))
    found = rows(histories, oid)
    assert [("a", "R", "b", 0, 0), ("b", "R", "a", 0, 0)] == [
        (f.path, f.status, f.old_path, f.added, f.removed) for f in found
    ]


def test_a_path_that_was_moved_away_and_made_anew_is_told_too(histories: Histories) -> None:
    histories.commit({"a": "1\n"})
    oid = histories.commit({"a": "other\n", "b": "1\n"}, moves=(("a", "b"),))
    found = rows(histories, oid)
    assert [("a", "M", None), ("b", "R", "a")] == [(f.path, f.status, f.old_path) for f in found]


def test_a_move_onto_a_file_that_was_the_same_is_told(histories: Histories) -> None:
    histories.commit({"a": "1\n", "b": "1\n"})
    oid = histories.commit({"a": None, "b": "1\n"}, moves=(("a", "b"),))
    found = rows(histories, oid)
    assert [("b", "R", "a", 0, 0)] == [
        (f.path, f.status, f.old_path, f.added, f.removed) for f in found
    ]


def test_a_move_of_what_was_not_there_is_an_addition(histories: Histories) -> None:
    histories.commit({"x": "1\n"})
    oid = histories.commit({"b": "1\n"}, moves=(("a", "b"),))
    found = rows(histories, oid)
    assert [("b", "A", None)] == [(f.path, f.status, f.old_path) for f in found]


def test_binary_files_are_one_hunk_without_text(histories: Histories) -> None:
    histories.commit({"a": "\0one\ntwo\n"})
    oid = histories.commit({"a": "\0one\ndrei\nvier\n"})
    [(row, text)] = indexed(histories, oid)
    assert (0, 0, (Hunk(0, 2, 0, 3),)) == row[5:]
    assert text == ""


def test_large_texts_are_not_indexed(histories: Histories) -> None:
    large = "0123456789abcde\n" * 70_000
    oid = histories.commit({"a": "needle\n", "b": large, "c": "hay\n"})
    found = indexed(histories, oid)
    assert [("a", "needle"), ("b", None), ("c", "hay")] == [(row.path, text) for row, text in found]
    assert 70_000 == found[1][0].added
    commit = histories.repository.commit(oid)
    assert has_text(histories.repository, commit, "789abc", [row for row, _ in found])


def test_the_texts_of_a_commit_are_indexed_up_to_a_limit(
    histories: Histories, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_changes, "_INDEXED_BYTES", 20)
    oid = histories.commit({f"f{n}": f"text of f{n}\n" for n in range(4)})
    assert ["text of f0", "text of f1", "text of f2", None] == [
        text for _, text in indexed(histories, oid)
    ]


def test_files_too_large_to_compare_have_no_counts_until_asked(histories: Histories) -> None:
    oid = histories.commit({"a": "0123456789abcde\n" * 300_000})
    [(row, text)] = indexed(histories, oid)
    assert (None, None, None, None) == (text, *row[5:])
    [change] = changes_of(histories.repository, histories.repository.commit(oid))
    assert 300_000 == described(histories.repository.blob, change)[0].added


def test_a_search_looks_in_changed_lines_and_messages_only(histories: Histories) -> None:
    histories.commit({"a": "alpha\nbeta\ngamma\n"})
    oid = histories.commit({"a": "alpha\nBETA-- \n--- a/x\ngamma\n"}, subject="why", why="because")
    commit = histories.repository.commit(oid)

    def found(text: str) -> bool:
        return has_text(histories.repository, commit, text, rows(histories, oid))

    assert found("beta")
    assert found("BETA-- ")
    assert found("--- a/x")
    assert found("because")
    assert found("why\n\nbec")
    assert not found("alpha")
    assert not found("+++ b/a")
    assert not found("beta\nBETA")


lines = st.lists(st.sampled_from(["a", "b", "c", "d", ""]), max_size=12).map(
    lambda found: "\n".join(found)
)
endings = st.lists(st.sampled_from(["a\n", "b\r\n", "c\r", "d\n", "\r", "\n"]), max_size=10)


@given(lines, lines)
def test_counts_and_text_are_those_of_the_unified_diff(before: str, after: str) -> None:
    compared = compare_lines(before.encode(), after.encode())
    diff = diff_of("a", before.encode(), after.encode())
    assert (diff.added, diff.removed) == (compared.added, compared.removed)
    assert diff.added == sum(hunk.new_lines for hunk in compared.hunks)


@given(endings, endings)
def test_hunks_turn_one_side_into_the_other(before: list[str], after: list[str]) -> None:
    compared = compare_lines("".join(before).encode(), "".join(after).encode())
    old = "".join(before).splitlines(keepends=True)
    new = "".join(after).splitlines(keepends=True)
    made, at = [], 0
    for hunk in compared.hunks:
        made += old[at : hunk.old_start]
        assert len(made) == hunk.new_start
        made += new[hunk.new_start : hunk.new_start + hunk.new_lines]
        at = hunk.old_start + hunk.old_lines
    assert new == made + old[at:]
