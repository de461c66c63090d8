"""A workspace whose directory is away when the daemon starts: a disk not mounted, say.

What a crash left unfinished there is finished when the directory is back, at the next start or
while the daemon runs, however many checkpoints were taken meanwhile.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

from recovery.crashes import KILLED, Place
from recovery.test_counterexamples import (
    CALL,
    EDITED,
    FIRST,
    KILL,
    content,
    killed,
    kinds,
    recovered,
)

NewPlace = Callable[..., Place]

#: Journalled, and nothing of it in place.
INTERRUPTED = {"publish.staged:1": KILL}
#: Answered, in place, in no checkpoint.
ANSWERED = {"checkpoint.before_sync:1": KILL}


def go_away(place: Place) -> None:
    os.rename(place.root, f"{place.root}.away")


def come_back(place: Place) -> None:
    os.rename(f"{place.root}.away", place.root)


def interrupted(new_place: NewPlace, script: dict[str, Any] = INTERRUPTED) -> Place:
    """A place where a call was interrupted, and the directory went away."""
    place = killed(new_place, script)
    go_away(place)
    return place


@pytest.mark.parametrize("lives", [1, 3])
def test_interrupted_call_is_finished_at_the_start_that_finds_the_directory(
    new_place: NewPlace, lives: int
) -> None:
    place = interrupted(new_place)
    for _ in range(lives):
        assert place.run("edit_elsewhere") == 0
    come_back(place)
    assert content(place) == FIRST
    assert kinds(recovered(place)) == ["edit", "outside"]
    assert content(place) == EDITED


@pytest.mark.parametrize("lives", [0, 2])
def test_interrupted_call_is_finished_when_the_directory_comes_back(
    new_place: NewPlace, lives: int
) -> None:
    place = interrupted(new_place)
    for _ in range(lives):
        assert place.run("edit_elsewhere") == 0
    assert place.run("comes_back") == 0
    [seen] = place.lines("seen")
    assert seen["files"]["a.txt"].endswith(EDITED)
    assert [name for name in seen["files"] if ".stet-" in name] == []
    assert content(place) == EDITED + "after\n"
    assert kinds(recovered(place)) == ["edit", "edit", "outside"]


def test_retry_in_a_directory_that_came_back_is_answered_and_true(new_place: NewPlace) -> None:
    place = interrupted(new_place)
    assert place.run("edit_elsewhere") == 0
    come_back(place)
    assert place.run("contest", {}, CALL) == 0
    assert place.lines("acks")[-1]["answer"]["replayed"] is True
    assert content(place) == EDITED


def test_answered_call_that_a_power_cut_took_from_the_files_is_there_again(
    new_place: NewPlace,
) -> None:
    place = interrupted(new_place, ANSWERED)
    (place.base / "ws.away" / "a.txt").write_text("")
    assert place.run("edit_elsewhere", boot="boot-2") == 0
    come_back(place)
    assert kinds(recovered(place, boot="boot-3")) == ["restore", "outside", "edit", "outside"]
    assert content(place) == EDITED


def test_save_made_while_the_directory_was_away_is_kept(new_place: NewPlace) -> None:
    place = interrupted(new_place)
    (place.base / "ws.away" / "a.txt").write_text("mine\n")
    assert place.run("edit_elsewhere") == 0
    come_back(place)
    assert kinds(recovered(place)) == ["outside", "edit", "outside"]
    assert content(place) == "mine\n"


def test_journal_holds_what_is_needed_and_no_more(new_place: NewPlace) -> None:
    place = interrupted(new_place)
    for _ in range(4):
        assert place.run("edit_elsewhere") == 0
    lives = place.lines("segments")
    assert {name for name in lives[0] if name in lives[3]} != set()
    assert len(lives[3]) == len(lives[1])
    come_back(place)
    recovered(place)
    left = {file.name for file in (place.base / "state" / "journal").iterdir()}
    assert left & set(lives[3][:1]) == set()


def test_forgetting_the_workspace_lets_the_journal_go(new_place: NewPlace) -> None:
    place = interrupted(new_place)
    assert place.run("edit_elsewhere") == 0
    [held] = place.lines("segments")
    assert place.run("forget_while_away") == 0
    left = {file.name for file in (place.base / "state" / "journal").iterdir()}
    assert left & set(held[:1]) == set()
    come_back(place)
    assert content(place) == FIRST
    assert place.run("recover_meddled", {}) == 0
    assert content(place) == FIRST


def test_a_call_that_was_given_up_stays_so_though_the_workspace_is_allowed_again(
    new_place: NewPlace,
) -> None:
    place = interrupted(new_place)
    assert place.run("allow_again") == KILLED
    assert content(place) == FIRST
    for boot in ("boot-1", "boot-2"):
        assert place.run("recover_meddled", {}, boot=boot) == 0
        assert content(place) == FIRST


def points_of_the_return(new_place: NewPlace) -> list[str]:
    place = interrupted(new_place)
    assert place.run("comes_back", trace=True) == 0
    trace = (place.base / "trace").read_text().split()
    return [f"{name}:{trace[: n + 1].count(name)}" for n, name in enumerate(trace)]


@pytest.mark.timeout(1200)
def test_killed_at_any_point_of_the_return(new_place: NewPlace) -> None:
    """And it is away once more at the next start, every other time."""
    for number, point in enumerate(points_of_the_return(new_place)):
        place = interrupted(new_place)
        assert place.run("comes_back", failpoint=point) == KILLED, point
        if place.root.exists() and number % 2:
            go_away(place)
            assert place.run("edit_elsewhere") == 0
        if not place.root.exists():
            come_back(place)
        seen = recovered(place)
        assert content(place) in (EDITED, EDITED + "after\n"), point
        assert kinds(seen)[-2:] == ["edit", "outside"], point
        assert content(place).endswith("after\n") == (len(seen["commits"]) == 3), point
        place.close()


def test_path_that_now_leads_through_a_link_is_left_alone(new_place: NewPlace) -> None:
    place = new_place({"d/a.txt": FIRST, "e/a.txt": FIRST})
    call = [["patch", {"path": "d/a.txt", "patches": CALL[0][1]["patches"], "request_id": "c"}]]
    assert place.run("contest", INTERRUPTED, call) == KILLED
    os.rename(place.root / "d", place.root / "was-d")
    os.symlink("e", place.root / "d")
    place.forget("seen")
    assert place.run("recover_meddled", {}) == 0
    assert content(place, "e/a.txt") == FIRST
    assert os.readlink(place.root / "d") == "e"
