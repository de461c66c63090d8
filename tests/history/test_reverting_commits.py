"""Several commits taken back one after the other, and files that were moved: pure."""

from __future__ import annotations

import stat
import tracemalloc
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stetd.history.commits import CommitMeta, StoredCommit
from stetd.history.objects import LINK
from stetd.history.reverting_commits import (
    FileDelta,
    InTheWay,
    PresentPaths,
    RevertedFiles,
    Version,
    full_mode,
)
from stetd.repository.merging import merge_file

FILE = 0o100644
Files = dict[str, str]
Moves = Sequence[tuple[str, str]]


def version(text: str | None) -> Version | None:
    return None if text is None else Version(text.encode(), FILE)


def working(files: Files, blocked: str | None = None) -> RevertedFiles:
    """Taking back on these files; ``blocked`` is a path that can't be looked at."""

    def read(path: str) -> Version | None:
        if path == blocked:
            raise InTheWay(path, "this is a directory")
        return version(files.get(path))

    return RevertedFiles(read, lambda _: None, merge_file)


def delta(path: str, before: str | None, after: str | None) -> FileDelta:
    return FileDelta(path, version(before), version(after))


def commit(moves: Moves, oid: str = "", *reverts: str, **more: Any) -> StoredCommit:
    fields = {"kind": "edit", "time": 0, "subject": "", **more}
    return StoredCommit(oid, "", None, CommitMeta(moves=tuple(moves), reverts=reverts, **fields))


def pass_by(paths: PresentPaths, moves: Moves, oid: str = "", *reverts: str) -> None:
    paths.pass_by(commit(moves, oid, *reverts))


def conflicts(work: RevertedFiles) -> list[tuple[str, ...]]:
    return [(conflict.path, *conflict.hunks) for conflict in work.conflicts]


def revert(work: RevertedFiles, deltas: list[FileDelta], moves: Moves, **more: Any) -> None:
    work.revert(commit(moves, **more).meta, deltas, {})


def left(work: RevertedFiles, files: Files) -> Files:
    """All files as they are afterwards."""
    after = {**{path: version(text) for path, text in files.items()}, **work.files}
    return {path: v.data.decode() for path, v in after.items() if v is not None}


FIVE, TWO = "1\n2\n3\n4\n5\n", "1\nTWO\n3\n4\n5\n"
TWO_FIVE, ONLY_FIVE = "1\nTWO\n3\n4\nFIVE\n", "1\n2\n3\n4\nFIVE\n"
MOVE = [("a", "b")]


def test_where_a_file_is_now_follows_moves_backwards() -> None:
    where = PresentPaths()
    pass_by(where, [("b", "c")])
    assert (where.now("b"), where.now("c"), where.now("d")) == ("c", None, "d")
    pass_by(where, [("a", "b"), ("x", "y")])
    assert (where.now("a"), where.now("b"), where.now("x")) == ("c", None, "y")


def test_where_files_that_changed_names_with_each_other_are() -> None:
    where = PresentPaths()
    pass_by(where, [("a", "b"), ("b", "a")])
    assert (where.now("a"), where.now("b")) == ("b", "a")


def test_where_a_file_is_that_was_moved_away_and_back() -> None:
    where = PresentPaths()
    pass_by(where, [("b", "a")])
    pass_by(where, [("a", "b")])
    assert (where.now("a"), where.now("b")) == ("a", None)


def test_behind_a_move_that_was_taken_back_names_mean_what_they_meant_before_both() -> None:
    work = working({"a": FIVE, "b": TWO})
    pass_by(work.paths, [("b", "a")], "the undo", "the move")
    pass_by(work.paths, [("x", "y")], "another")
    pass_by(work.paths, MOVE, "the move")
    assert (work.paths.now("a"), work.paths.now("b"), work.paths.now("x")) == ("a", "b", "y")


def test_a_move_whose_undo_was_taken_back_is_followed() -> None:
    work = working({"b": FIVE})
    pass_by(work.paths, MOVE, "the redo", "the undo")
    pass_by(work.paths, [("b", "a")], "the undo", "the move")
    pass_by(work.paths, MOVE, "the move")
    assert work.paths.now("a") == "b"


def test_permission_bits_are_taken_back_commit_by_commit() -> None:
    """Those of a step in between are not the last ones, and Git says some of them."""
    work = working({"a": "now\n"})
    work.mode_of = lambda _: stat.S_IFREG | 0o644
    executable = Version(b"old\n", 0o100755)
    revert(work, [FileDelta("a", executable, version("now\n"))], [])
    change = FileDelta("a", version("old\n"), executable)
    revert(work, [change], [], regraded=[("a", 0o600, 0o755)])
    assert work.modes == {"a": stat.S_IFREG | 0o600}


@pytest.mark.parametrize("moves", [[], MOVE, [("c", "a")]])
def test_bits_of_a_file_that_is_gone_are_not_as_the_commit_left_them(moves: Moves) -> None:
    work = working({}, blocked="b")
    pass_by(work.paths, moves)
    revert(work, [], [], regraded=[("a", 0o600, 0o755)])
    assert (work.exact, work.conflicts) == (False, [])


def test_a_link_comes_back_as_one_though_the_file_in_its_place_got_other_permissions() -> None:
    assert full_mode(Version(b"target", LINK), 0o600) == stat.S_IFLNK | 0o777


def test_an_edit_of_a_file_that_another_one_was_moved_over_is_a_conflict() -> None:
    files = {"b": "other\n"}
    work = working(files)
    pass_by(work.paths, MOVE)
    revert(work, [delta("b", FIVE, TWO)], [])
    assert conflicts(work) == [("b", "this file was deleted since")]


def test_a_creation_of_a_file_that_another_one_was_moved_over_leaves_that() -> None:
    files = {"b": "other\n"}
    work = working(files)
    pass_by(work.paths, MOVE)
    revert(work, [delta("b", None, TWO)], [])
    assert (left(work, files), work.conflicts) == (files, [])


def test_a_deletion_is_taken_back_where_it_was_unless_something_is_there() -> None:
    files = {"b": TWO}
    work = working(files)
    pass_by(work.paths, MOVE)
    revert(work, [delta("b", FIVE, None)], [])
    assert [c.path for c in work.conflicts] == ["b"]
    work = working(files)
    pass_by(work.paths, MOVE)
    revert(work, [delta("a", FIVE, None)], [])
    assert (left(work, files), work.conflicts) == ({"a": FIVE, "b": TWO}, [])


def test_older_edits_of_a_file_that_a_call_moved_back_since_are_under_its_name() -> None:
    files = {"a": TWO_FIVE}
    work = working(files)
    pass_by(work.paths, [("b", "a")])
    revert(work, [delta("a", TWO, None), delta("b", None, TWO)], MOVE)
    revert(work, [delta("a", FIVE, TWO)], [])
    assert (left(work, files), work.conflicts) == ({"a": ONLY_FIVE}, [])


def test_a_move_onto_a_file_gives_that_file_back() -> None:
    files = {"b": FIVE}
    work = working(files)
    revert(work, [delta("a", FIVE, None), delta("b", "old b\n", FIVE)], MOVE)
    assert (left(work, files), work.conflicts) == ({"a": FIVE, "b": "old b\n"}, [])


def test_a_move_that_was_moved_back_by_hand_keeps_its_place() -> None:
    files = {"a": TWO}
    work = working(files)
    pass_by(work.paths, [("b", "a")])
    revert(work, [delta("a", FIVE, None), delta("b", None, TWO)], MOVE)
    assert (left(work, files), work.conflicts) == ({"a": FIVE}, [])


def test_a_move_that_a_person_put_back_unrecorded_is_taken_for_done() -> None:
    files = {"a": FIVE}
    work = working(files)
    revert(work, [delta("a", FIVE, None), delta("b", None, FIVE)], MOVE)
    assert (left(work, files), work.conflicts) == (files, [])


@pytest.mark.parametrize(
    ("files", "later", "conflict"),
    [
        ({"c": FIVE}, [("b", "c")], ("b", "this file was moved on since, to c")),
        ({"a": "new\n", "b": FIVE}, [], ("a", "something else stands here since")),
        ({}, [], ("b", "this file was deleted since")),
    ],
)
def test_a_move_in_conflict(
    files: Files, later: list[tuple[str, str]], conflict: tuple[str, str]
) -> None:
    work = working(files)
    pass_by(work.paths, later)
    revert(work, [delta("a", FIVE, None), delta("b", None, FIVE)], MOVE)
    assert conflicts(work) == [conflict]


def test_every_file_in_conflict_is_told() -> None:
    files = {"a": "x\n", "b": "y\n"}
    work = working(files, blocked="c")
    revert(work, [delta("a", FIVE, TWO), delta("b", None, TWO), delta("c", FIVE, TWO)], [])
    assert [conflict.path for conflict in work.conflicts] == ["a", "b", "c"]
    assert work.conflicts[2].hunks[0].startswith("this is a directory. ")


def test_what_was_only_found_stays() -> None:
    files = {"a": TWO, "b": TWO}
    work = working(files)
    revert(work, [delta("a", None, TWO), delta("b", FIVE, TWO)], [], kind="outside")
    assert (left(work, files), work.conflicts) == ({"a": TWO, "b": FIVE}, [])


# -- the law: taking back everything that was done gives what was there


@st.composite
def stories(draw: st.DrawFn) -> tuple[Files, list[tuple[list[FileDelta], list[tuple[str, str]]]]]:
    """Files, and calls that created, changed, deleted and moved them, oldest first."""
    files: Files = {"a": FIVE, "b": "b\n"}
    calls: list[tuple[list[FileDelta], list[tuple[str, str]]]] = []
    for number in range(draw(st.integers(1, 8))):
        what = draw(st.sampled_from(["write", "delete", "move"]))
        path = draw(st.sampled_from("abc"))
        other = draw(st.sampled_from("abcd"))
        if what == "write":
            new = f"{files.get(path, '')}{number}\n"
            calls.append(([delta(path, files.get(path), new)], []))
            files = {**files, path: new}
        elif path in files and what == "delete":
            calls.append(([delta(path, files[path], None)], []))
            files = {p: t for p, t in files.items() if p != path}
        elif path in files and other not in files:
            new = f"{files[path]}{number}\n" if draw(st.booleans()) else files[path]
            changes = [delta(path, files[path], None), delta(other, None, new)]
            calls.append((changes, [(path, other)]))
            files = {**{p: t for p, t in files.items() if p != path}, other: new}
    return files, calls


@settings(deadline=None)
@given(stories())
def test_taking_everything_back_gives_what_was_there(
    story: tuple[Files, list[tuple[list[FileDelta], list[tuple[str, str]]]]],
) -> None:
    files, calls = story
    work = working(files)
    for deltas, moves in reversed(calls):
        revert(work, deltas, moves)
    assert (left(work, files), work.conflicts) == ({"a": FIVE, "b": "b\n"}, [])


@settings(deadline=None)
@given(stories(), st.data())
def test_taking_some_back_and_that_back_again_is_as_before(
    story: tuple[Files, list[tuple[list[FileDelta], list[tuple[str, str]]]]], data: st.DataObject
) -> None:
    """Undo then redo of any set is the identity, or a conflict."""
    files, calls = story
    work = working(files)
    for deltas, moves in reversed(calls):
        if data.draw(st.booleans(), "taken back"):
            revert(work, deltas, moves)
        else:
            pass_by(work.paths, moves)
    if work.conflicts:
        return
    undone = left(work, files)
    paths = sorted({*files, *undone})
    done = [delta(p, files.get(p), undone.get(p)) for p in paths if files.get(p) != undone.get(p)]
    moves = [
        (old, new)
        for new, old in work.moved_from.items()
        if old is not None and new in undone and old not in undone
    ]
    again = working(undone)
    revert(again, done, moves)
    assert (left(again, undone), again.conflicts) == (files, [])


def test_contents_of_commits_that_conflict_are_not_kept() -> None:
    work = working({"a": "now", "b": "now"}, blocked="b")
    size = 1 << 20

    def revert(number: int) -> None:
        contents = f"{number}\0" * size, f"{number + 1}\0" * size
        work.revert(commit(()).meta, [delta("a", *contents), delta("b", *contents)], {})

    tracemalloc.start()
    try:
        for number in range(10):
            revert(number)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(work.conflicts) == 20
    assert kept < size
