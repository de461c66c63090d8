"""Files that the history does not keep, and a daemon that is killed at any instant.

Their contents are in the journal until a checkpoint, for recovery alone. What must hold: the call
is whole or not there, over excluded and kept files together; what somebody saved meanwhile stands;
and once the next daemon has recovered, the state holds none of the contents any more.
"""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from recovery.crashes import KILLED, Place

ALL = os.environ.get("STET_TEST_ALL") == "1"
NewPlace = Callable[..., Place]

OLD, NEW, SAVED = "hunter2-the-old", "battery-the-new", "horse-that-was-saved"
FILES = {".env": f"{OLD}\nkey\n", "a.txt": "one\n"}


def _replace(path: str, old: str, new: str) -> dict[str, Any]:
    patches = [{"operation": "replace", "oldText": old, "newText": new}]
    return {"path": path, "patches": patches}


CALLS = [
    [
        "transaction",
        {
            "calls": [
                {"method": "patch", "params": _replace(".env", "key", f"key={NEW}")},
                {"method": "patch", "params": _replace("a.txt", "one", "two")},
            ],
            "request_id": "c1",
        },
    ],
    ["patch", {**_replace(".env", "key=", "name="), "request_id": "c2"}],
]
#: What .env and a.txt may hold together: neither call, the first one, both.
STATES = [
    (f"{OLD}\nkey\n", "one\n"),
    (f"{OLD}\nkey={NEW}\n", "two\n"),
    (f"{OLD}\nname={NEW}\n", "two\n"),
]


def stored(place: Place) -> list[str]:
    """Which of the contents the state holds anywhere: in a file, or in an object of Git."""
    state = place.base / "state"
    found = b"".join(p.read_bytes() for p in sorted(state.rglob("*")) if p.is_file())
    for shadow in (state / "workspaces").iterdir():
        found += place.all_objects(shadow).encode("latin-1")
    return [secret for secret in (OLD, NEW, SAVED) if secret.encode() in found]


def tree(place: Place) -> str:
    """What the newest commit has."""
    [shadow] = (place.base / "state" / "workspaces").iterdir()
    command = ["git", "--git-dir", str(shadow), "ls-tree", "-r", "--name-only", "history"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def texts(place: Place) -> tuple[str, str]:
    return (place.root / ".env").read_text(), (place.root / "a.txt").read_text()


def excluding(new_place: NewPlace) -> Place:
    place = new_place(FILES)
    place.configure(exclude='[".ENV"]')
    return place


def points(new_place: NewPlace, script: dict[str, Any]) -> list[str]:
    """Every point that the calls reach; of each name the first and the last time, or all."""
    place = excluding(new_place)
    assert place.run("contest", script, CALLS) == 0, place.log()
    reached = Counter(point.partition(":")[0] for point in place.lines("points"))
    return [
        f"{name}:{k}"
        for name, times in reached.items()
        for k in (range(1, times + 1) if ALL else sorted({1, times}))
    ]


def checked(place: Place, boot: str) -> None:
    """Recover, and see that the state holds no content; then both calls are there, once."""
    assert place.run("recover_meddled", {}, boot=boot) == 0, place.log()
    assert place.lines("status")[-1] is None
    assert stored(place) == []
    assert sorted(path.name for path in place.root.iterdir()) == [".env", "a.txt"]
    assert place.run("contest", {}, CALLS, boot=boot) == 0, place.log()
    assert stored(place) == []
    assert place.fsck() == ""
    assert ".env" not in tree(place)


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("boot", ["boot-1", "boot-2"])
def test_killed_at_any_point_a_call_is_whole_or_not_there(new_place: NewPlace, boot: str) -> None:
    reached = points(new_place, {})
    assert len(reached) > 20
    for point in reached:
        place = excluding(new_place)
        # 0: how often some points are reached depends on the timing.
        assert place.run("contest", {point: [["kill", ""]]}, CALLS) in (KILLED, 0), point
        answered = {line["request"] for line in place.lines("acks")}
        assert place.run("recover_meddled", {}, boot=boot) == 0, place.log()
        assert texts(place) in STATES[len(answered) :], (point, texts(place))
        checked(place, boot)
        assert texts(place) == STATES[2], point


@pytest.mark.timeout(1200)
def test_killed_at_any_point_a_save_in_the_instant_of_replacing_stands(
    new_place: NewPlace,
) -> None:
    save = {"publish.staged:1": [["save", ".env", f"{SAVED}\nkey\n"]]}
    reached = points(new_place, save)
    assert any(point.startswith("abort.") for point in reached)
    for point in reached:
        place = excluding(new_place)
        script = {**save, point: [*save.get(point, []), ["kill", ""]]}
        assert place.run("contest", script, CALLS) in (KILLED, 0), point
        saved = bool(place.lines("deeds")) and place.lines("deeds")[0][0] == "save"
        assert place.run("recover_meddled", {}) == 0, place.log()
        first = SAVED if saved else OLD
        # docs/limits.md: a save before an unfinished call is finished stays as it is.
        late = saved and texts(place) == (f"{SAVED}\nkey\n", "two\n")
        assert late or texts(place) in [(a.replace(OLD, first), b) for a, b in STATES], point
        checked(place, "boot-1")
        assert late or texts(place) == (STATES[2][0].replace(OLD, first), STATES[2][1]), point
        assert first in texts(place)[0], point


def test_a_torn_file_is_written_again_after_a_power_cut(new_place: NewPlace) -> None:
    """The journal has the content; what was torn is not kept either."""
    for torn in (b"", b"\0" * 20, OLD.encode()[:5], f"{OLD}\nkey={NEW}".encode()[:-3]):
        place = excluding(new_place)
        script = {"publish.done:1": [["kill", ""]]}
        assert place.run("contest", script, CALLS) == KILLED
        (place.root / ".env").write_bytes(torn)
        assert place.run("recover_meddled", {}, boot="boot-2") == 0, place.log()
        assert texts(place) in STATES[1:]
        checked(place, "boot-2")


@pytest.mark.parametrize("point", ["abort.before_put_back:1", "abort.swapped_back:1"])
def test_killed_while_an_excluded_file_is_put_back_it_is_as_before(
    new_place: NewPlace, point: str
) -> None:
    """Only the journal can say what stood there: Git has it not, and the call is void."""
    place = new_place({".env": f"{OLD}\nkey\n", "other.env": "one\n"})
    place.configure(exclude='["*.env"]')
    edits = [_replace(".env", "key", f"key={NEW}"), _replace("other.env", "one", "two")]
    calls = [
        [
            "transaction",
            {"calls": [{"method": "patch", "params": each} for each in edits]},
        ]
    ]
    save = {"publish.staged:2": [["save", "other.env", f"{SAVED}\n"]]}
    assert place.run("contest", {**save, point: [["kill", ""]]}, calls) == KILLED
    assert place.run("recover_meddled", {}) == 0, place.log()
    assert place.lines("status")[-1] is None
    assert (place.root / ".env").read_text() == f"{OLD}\nkey\n"
    assert (place.root / "other.env").read_text() == f"{SAVED}\n"
    assert stored(place) == []
