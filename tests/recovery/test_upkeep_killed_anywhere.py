"""Long work on a history, killed at any of the daemon's failpoints; and what is left of it.

The story (:func:`recovery.scenarios.upkeep`) packs, takes a snapshot, forgets a path and packs
again, between edits. Whatever was answered stands, the history is whole, and what was said to be
forgotten is nowhere in the state.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from recovery.crashes import Place
from recovery.scenarios import SECRET
from recovery.test_killed_anywhere import points_of

NewPlace = Callable[..., Place]
FILES = {"kept.txt": "kept\n", ".gitignore": "*.o\n", "left.o": "left out\n"}
WORK = ("gc.", "snapshot.", "forget.", "git.pack")


def check(place: Place, boot: str) -> None:
    answers: list[Any] = place.lines("acks")
    assert place.run("upkeep_look", boot=boot) == 0
    [seen], [verified] = place.lines("seen"), place.lines("verified")
    assert verified["problems"] == []
    assert place.fsck() == ""
    made = {request for _, _, request in seen["commits"]}
    answered = {line["request"] for line in answers if line["request"]}
    assert answered <= made
    last: dict[str, int] = {}
    edits = [request for request in made if request and re.fullmatch("e[0-9]{1,2}", request)]
    for number in sorted(int(request[1:]) for request in edits):
        if number != 4:
            last[f"d/{number % 3}.txt"] = number
    for path, number in last.items():
        assert seen["files"][path].endswith(f" text {number}\n" + f"text {number}\n" * 19), path
    kinds = [kind for kind, _, _ in seen["commits"]]
    done = [line["answer"] for line in answers if not line["request"]]
    assert all("refused" not in answer for answer in done), done
    assert kinds.count("snapshot") >= (len(done) > 1)
    assert kinds.count("forget") >= (len(done) > 2)
    if "forget" in kinds:
        assert SECRET not in state_of(place)


def state_of(place: Place) -> str:
    """All bytes of the state; objects as git gives them."""
    shadows = (place.base / "state" / "workspaces").iterdir()
    objects = "".join(place.all_objects(shadow) for shadow in shadows)
    files = (path for path in (place.base / "state").rglob("*") if path.is_file())
    return objects + "".join(path.read_bytes().decode("latin-1") for path in files)


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("next_boot", ["boot-1", "boot-2"])
def test_killed_at_any_point_of_long_work(new_place: NewPlace, next_boot: str) -> None:
    points = [
        point
        for point in points_of(new_place(FILES), "upkeep", next_boot)
        if point.startswith(WORK)
    ]
    assert {point.partition(".")[0] for point in points} == {"gc", "snapshot", "forget", "git"}
    for point in points:
        place = new_place(FILES)
        killed = place.run("upkeep", failpoint=point)
        try:
            check(place, next_boot)
        except AssertionError as error:
            raise AssertionError(
                f"killed at {point} ({killed=}): {error}\n{place.log()}"
            ) from error


def test_without_a_kill_it_comes_to_its_end(new_place: NewPlace) -> None:
    place = new_place(FILES)
    assert place.run("upkeep") == 0
    check(place, "boot-1")
    assert len(place.lines("acks")) == 18
