"""A daemon that is killed at any of its failpoints, and what the next one makes of it.

The story (:data:`recovery.scenarios.STORY`) has updates, a call over several files with new
directories, a clipboard cut, an undo that deletes a file, a batch over one file, and a
checkpoint with a new journal segment.

The usual run takes every named point once (the last time that it is reached, or the first if
the next start is in another boot), and recovery's own points after two of them. With
STET_TEST_ALL=1: every time that each is reached, and recovery's after all of them.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from recovery.crashes import KILLED, Place, Zygote
from recovery.scenarios import FIRST_FILES

ALL = os.environ.get("STET_TEST_ALL") == "1"
NewPlace = Callable[..., Place]

#: Where to die so that recovery has something to do, for deaths during recovery.
WORTH_RECOVERING = [
    ("publish.in_place:4", "boot-1"),
    ("publish.swapped:6", "boot-2"),
    *(
        (point, boot)
        for point in ("publish.staged:3", "publish.in_place:3", "publish.swapped:4", "git.done:1")
        for boot in ("boot-1", "boot-2")
        if ALL
    ),
]


@pytest.fixture(scope="module")
def worlds(zygote: Zygote) -> list[dict[str, Any]]:
    """The world before the story and after each of its calls, as no crash ever happened."""
    place = Place(zygote, FIRST_FILES)
    try:
        assert place.run("story_call_by_call") == 0
        answers = [line["answer"] for line in place.lines("acks")]
        assert ["commit" in answer for answer in answers] == [True] * len(answers), answers
        seen = place.lines("seen")
        assert len(seen) == len(answers) + 1
        return seen
    finally:
        place.close()


def points_of(place: Place, scenario: str, boot: str) -> Iterator[str]:
    """Every failpoint of a scenario as ``name:k``; one of each name unless all are wanted."""
    place.run(scenario, trace=True)
    reached = Counter((place.base / "trace").read_text().split())
    for name, times in reached.items():
        wanted = range(1, times + 1) if ALL else [times if boot == "boot-1" else 1]
        yield from (f"{name}:{k}" for k in wanted)


def check_oracle(place: Place, worlds: list[dict[str, Any]], boot: str = "boot-1") -> None:
    """Whole or not at all, all that was answered, and nothing twice."""
    answered = {line["request"]: line["answer"] for line in place.lines("acks")}
    place.forget("acks", "seen")
    assert place.run("look_and_retry", boot=boot) == 0
    before, after = place.lines("seen")
    assert before in worlds[len(answered) :], (before, len(answered))
    retried = {line["request"]: line["answer"] for line in place.lines("acks")}
    for request, answer in answered.items():
        assert retried[request]["replayed"] is True
        assert retried[request]["commit"] == answer["commit"]
        assert retried[request]["message"] == answer["message"]
        assert retried[request]["diff"] == answer["diff"]
    assert after == worlds[-1]
    assert place.fsck() == ""


def test_story_without_a_crash_gives_the_same_history_in_batches(
    new_place: NewPlace, worlds: list[dict[str, Any]]
) -> None:
    place = new_place(FIRST_FILES)
    assert place.run("story") == 0
    assert len(place.lines("acks")) == len(worlds) - 1
    check_oracle(place, worlds)


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("next_boot", ["boot-1", "boot-2"])
def test_killed_at_any_point_of_the_story(
    new_place: NewPlace, worlds: list[dict[str, Any]], next_boot: str
) -> None:
    points = list(points_of(new_place(FIRST_FILES), "story", next_boot))
    assert len(points) > 20
    for point in points:
        place = new_place(FIRST_FILES)
        killed = place.run("story", failpoint=point)
        try:
            check_oracle(place, worlds, next_boot)
        except AssertionError as error:
            raise AssertionError(
                f"killed at {point} ({killed=}): {error}\n{place.log()}"
            ) from error


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("first_point", "next_boot"), WORTH_RECOVERING)
def test_killed_again_at_any_point_of_the_recovery(
    new_place: NewPlace, worlds: list[dict[str, Any]], first_point: str, next_boot: str
) -> None:
    def crashed() -> Place:
        place = new_place(FIRST_FILES)
        assert place.run("story", failpoint=first_point) == KILLED
        return place

    traced = crashed()
    points = list(points_of(traced, "start_and_stop", next_boot))
    assert any(point.startswith("recovery.carried_out") for point in points)
    for point in points:
        place = crashed()
        place.run("start_and_stop", failpoint=point, boot=next_boot)
        place.run("start_and_stop", failpoint=point, boot=next_boot)
        try:
            check_oracle(place, worlds, next_boot)
        except AssertionError as error:
            raise AssertionError(f"killed again at {point}: {error}\n{place.log()}") from error
