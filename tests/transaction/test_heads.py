"""What the history says of what was found on disk, before it becomes a commit."""

from __future__ import annotations

from pathlib import Path

import pytest

from stetd.history.objects import Image, object_id
from stetd.refusals import contended
from stetd.storage.journal_format import PathChange
from stetd.transaction.heads import (
    HistoryBuilder,
    few_names,
    outside_changes,
    permissions_of,
    regraded,
    seal_outside,
)
from storage.histories import Histories

X, Y = (Image(object_id("blob", data), 0o100644) for data in (b"x\n", b"y\n"))


SEEN, CHANGED = "first seen", "changed outside"


@pytest.fixture
def histories(tmp_path: Path) -> Histories:
    made = Histories(tmp_path)
    made.commit({"d/a": "x\n", "d/b": "y\n", "f": "x\n"})
    return made


@pytest.mark.parametrize(
    ("found", "changes", "subject"),
    [
        ({"f": X}, {}, SEEN),
        ({"new": X}, {"new": X}, SEEN),
        ({"f": Y}, {"f": Y}, CHANGED),
        ({"f": Y, "new": X}, {"f": Y, "new": X}, CHANGED),
        ({"f": None}, {"f": None}, CHANGED),
        ({"nowhere": None}, {}, SEEN),
        # A file where the history has a directory, and the other way round: what it has is gone.
        ({"d": X}, {"d/a": None, "d/b": None, "d": X}, CHANGED),
        ({"d": X, "d/a": None}, {"d/a": None, "d/b": None, "d": X}, CHANGED),
        ({"f/new": X}, {"f": None, "f/new": X}, CHANGED),
        ({"f/new": None}, {"f": None}, CHANGED),
    ],
    ids=str,
)
def test_what_was_found_is_told_from_what_the_history_has(
    histories: Histories,
    found: dict[str, Image | None],
    changes: dict[str, Image | None],
    subject: str,
) -> None:
    history = HistoryBuilder(histories.head, histories.repository.load_tree, 0)
    assert (changes, subject) == outside_changes(history, found)


def test_a_record_of_what_was_found_says_what_the_history_had_before_each(
    histories: Histories,
) -> None:
    """Recovery makes the chain of a path of it: an image too many, and a removal is taken back."""
    found = seal_outside(
        [("changed outside", {"f": Y, "new": X}), ("the file as it stands", {"f": None})],
        {Y.oid: b"y\n", X.oid: b"x\n"},
        HistoryBuilder(histories.head, histories.repository.load_tree, 0),
        number=1,
        workspace="w",
    )
    expected = [PathChange("f", X, Y), PathChange("new", None, X), PathChange("f", Y, None)]
    assert expected == found.paths


def test_only_permission_bits_that_git_cannot_say_are_kept() -> None:
    modes = {"plain": 0o100644, "run": 0o100755, "private": 0o100600, "link": 0o120777}
    images = {path: Image(X.oid, mode) for path, mode in modes.items()}
    assert (("private", 0o600),) == permissions_of([*images.items(), ("gone", None)])


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (0o100644, 0o100755, ()),
        (0o100600, 0o100600, ()),
        (0o100644, 0o100600, (("f", 0o644, 0o600),)),
        (0o100600, 0o100755, (("f", 0o600, 0o755),)),
        (0o120777, 0o100600, ()),
    ],
)
def test_changed_permission_bits_are_told_where_git_cannot(
    before: int, after: int, told: tuple[tuple[str, int, int], ...]
) -> None:
    assert told == regraded([("f", Image(X.oid, before), Image(Y.oid, after))])
    assert () == regraded([("f", None, Image(Y.oid, after)), ("f", Image(X.oid, before), None)])


@pytest.mark.parametrize(
    ("paths", "shown"),
    [("b", "b"), ("cab", "a, b, c"), ("edcba", "a, b, c and 2 more"), ("", "")],
)
def test_of_many_paths_three_are_named_and_the_rest_counted(paths: str, shown: str) -> None:
    assert few_names(paths) == shown


def test_a_call_whose_plan_is_outdated_is_refused_in_a_whole_sentence() -> None:
    assert contended("", 5).message.startswith("what the call reads kept changing")
    assert contended("a.py", 5).message.startswith("a.py: the file kept changing")
