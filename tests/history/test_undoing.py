"""Taking one file's change back around later edits, and which commits are undone."""

from __future__ import annotations

import pytest

from stetd.history.commits import CommitMeta, StoredCommit
from stetd.history.file_undoing import FileConflict, Version, take_back_file
from stetd.history.undoing import walk_standing
from stetd.storage.shadow_repo import merge_file

FILE, EXECUTABLE, LINK = 0o100644, 0o100755, 0o120000


def version(text: str, mode: int = FILE) -> Version:
    return Version(text.encode(), mode)


OLD, NEW = version("1\n2\n3\n4\n5\n"), version("1\nTWO\n3\n4\n5\n")


@pytest.mark.parametrize(
    ("before", "after", "now", "expected"),
    [
        (OLD, NEW, NEW, OLD),
        (OLD, NEW, OLD, OLD),
        (None, NEW, NEW, None),
        (OLD, None, None, OLD),
        (None, NEW, None, None),
        (OLD, NEW, version("1\nTWO\n3\n4\nfive\n"), version("1\n2\n3\n4\nfive\n")),
        (OLD, NEW, version("0\n1\nTWO\n3\n4\n5\n"), version("0\n1\n2\n3\n4\n5\n")),
        (OLD, version("1\n2\n3\n4\n5\n", EXECUTABLE), version("x\n", EXECUTABLE), version("x\n")),
        (
            OLD,
            NEW,
            version("1\nTWO\n3\n4\n5\n", EXECUTABLE),
            version("1\n2\n3\n4\n5\n", EXECUTABLE),
        ),
    ],
)
def test_taken_back(
    before: Version | None, after: Version | None, now: Version | None, expected: Version | None
) -> None:
    assert take_back_file("a", before, after, now, merge_file) == expected


@pytest.mark.parametrize(
    ("before", "after", "now", "hunk"),
    [
        (OLD, NEW, version("1\ntwo\n3\n4\n5\n"), "<<<<<<<"),
        (OLD, None, version("again\n"), "the commit deleted this file"),
        (None, NEW, version("changed\n"), "the commit created this file"),
        (OLD, NEW, None, "this file was deleted since"),
        (version("x", LINK), version("y", LINK), version("z", LINK), "symbolic link"),
        (Version(b"\0a", FILE), Version(b"\0b", FILE), Version(b"\0c", FILE), "binary"),
    ],
)
def test_conflict(
    before: Version | None, after: Version | None, now: Version | None, hunk: str
) -> None:
    conflict = take_back_file("a", before, after, now, merge_file)
    assert isinstance(conflict, FileConflict)
    assert hunk in conflict.hunks[0]


def test_merging_keeps_every_byte_that_nobody_changed() -> None:
    tail = bytes(range(1, 256)).replace(b"\n", b"") + b"\r\nlast\r\n"
    merged = take_back_file(
        "a",
        Version(b"one\r\n\r\n\r\n\r\n" + tail, FILE),
        Version(b"ONE\r\n\r\n\r\n\r\n" + tail, FILE),
        Version(b"ONE\r\n\r\n\r\n\r\n" + tail + b"more", FILE),
        merge_file,
    )
    assert merged == Version(b"one\r\n\r\n\r\n\r\n" + tail + b"more", FILE)


def commit(oid: str, kind: str = "edit", *reverts: str) -> StoredCommit:
    meta = CommitMeta(kind=kind, time=0, subject="s", reverts=reverts)
    return StoredCommit(oid, "t", None, meta)


def standing(*newest_first: StoredCommit) -> dict[str, str | None]:
    return {c.oid: by for c, by in walk_standing(iter(newest_first))}


def test_edit_is_undone_by_the_commit_that_took_it_back() -> None:
    assert standing(commit("u", "undo", "e"), commit("e")) == {"u": None, "e": "u"}


def test_edit_stands_again_when_the_undo_is_undone() -> None:
    story = [commit("r", "redo", "u"), commit("u", "undo", "e"), commit("e")]
    assert standing(*story) == {"r": None, "u": "r", "e": None}


def test_edit_undone_twice_in_a_row_is_undone_by_the_later() -> None:
    story = [
        commit("u2", "undo", "e"),
        commit("r", "redo", "u1"),
        commit("u1", "undo", "e"),
        commit("e"),
    ]
    assert standing(*story) == {"u2": None, "r": None, "u1": "r", "e": "u2"}


def test_restore_takes_nothing_back() -> None:
    assert standing(commit("x", "restore", "e"), commit("e")) == {"x": None, "e": None}
