"""Somebody saves the files of a batch of calls, at any instant; and the daemon is killed, or not.

What must hold whatever happens:

- every content that somebody saved, and did not do away with again, is on disk or in the
  history;
- what somebody saved last in a file is still in it, unless they removed it themselves;
- the disk holds no text of a call that was refused or never happened;
- every call that was answered is in the history, once; a retry gives the same commit;
- no temporary file is left, and git finds no fault.

The runs are drawn at random from a seed: a failing one is named by it. STET_TEST_ALL=1 draws
many more.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from recovery.crashes import KILLED, Place, Zygote
from recovery.scenarios import CONTESTED_FILES

ALL = os.environ.get("STET_TEST_ALL") == "1"
NewPlace = Callable[..., Place]
Script = dict[str, list[list[str]]]

#: What each call puts into a file, to be recognised there.
TEXT_OF_CALL = {
    "c1": [("a.txt", "1\n")],
    "c2": [("a.txt", "2\n"), ("b.txt", "BETA\n"), ("n/new.txt", "made by c2\n")],
    "c3": [("x.txt", "EXISTS\n")],
    "c4": [("a.txt", "3\n")],
}


def saved(path: str, number: int) -> str:
    """A content that calls can still be planned on, with a line of its own."""
    return f"save {number}!\n" + CONTESTED_FILES.get(path, "by a person\n")


def blobs_of_history(place: Place) -> set[str]:
    """Every content that any commit of the history has."""
    [shadow] = (place.base / "state" / "workspaces").iterdir()

    def git(*arguments: str, given: str = "") -> bytes:
        command = ["git", "--git-dir", str(shadow), *arguments]
        return subprocess.run(command, input=given.encode(), capture_output=True, check=True).stdout

    names = git("rev-list", "--objects", "history").decode().split("\n")
    oids = "".join(line.split(" ")[0] + "\n" for line in names if line)
    output = git("cat-file", "--batch", given=oids)
    found = set()
    while output:
        header, _, rest = output.partition(b"\n")
        _, kind, size = header.split(b" ")
        if kind == b"blob":
            found.add(rest[: int(size)].decode())
        output = rest[int(size) + 1 :]
    return found


def files_of(root: Path) -> dict[str, str]:
    """Path to content of every file."""
    return {
        str(path.relative_to(root)): path.read_bytes().decode()
        for path in root.rglob("*")
        if path.is_file()
    }


def check_contest(place: Place, boot: str) -> None:
    """The promises of the module's docstring, after the last start."""
    deeds = place.lines("deeds")
    answered = {line["request"]: line["answer"] for line in place.lines("acks")}
    place.forget("seen", "points", "acks")
    assert place.run("recover_meddled", {}, boot=boot) == 0
    [world] = place.lines("seen")
    files = files_of(place.root)
    assert [name for name in files if ".stet-" in name or name.endswith("~")] == []
    assert place.fsck() == ""
    contents = blobs_of_history(place) | set(files.values()) | set(place.lines("removed"))
    last: dict[str, list[str]] = {}
    for deed in deeds:
        if deed[0] in ("save", "in place"):
            assert deed[2] in contents, f"lost: {deed}"
        if deed[0] != "kill":
            last[deed[1]] = deed
    for path, deed in last.items():
        if deed[0] in ("save", "in place"):
            assert files.get(path, "").startswith(deed[2].split("\n")[0]), f"not in place: {deed}"
    happened = [request for _, _, request in world["commits"] if request]
    assert len(happened) == len(set(happened))
    for request, answer in answered.items():
        assert ("refused" not in answer) == (request in happened), (request, answer)
    for request, texts in TEXT_OF_CALL.items():
        for path, text in texts:
            if request not in happened:
                assert text not in files.get(path, ""), f"{request} did not happen, but {path}"
    _check_retries(place, boot, happened, answered)


def _check_retries(
    place: Place, boot: str, happened: list[str], answered: dict[str, dict[str, Any]]
) -> None:
    place.forget("acks")
    assert place.run("retry_contest", boot=boot) == 0
    for line in place.lines("acks"):
        request, answer = line["request"], line["answer"]
        if request in happened:
            assert answer["replayed"] is True
            expected = answered.get(request, answer)
            assert answer["commit"] == expected["commit"]
        else:
            assert answer.get("replayed", False) is False


@pytest.fixture(scope="module")
def points(zygote: Zygote) -> list[str]:
    """Every point that the calls reach, in order."""
    place = Place(zygote, CONTESTED_FILES)
    try:
        assert place.run("contest", {}) == 0
        reached: list[str] = place.lines("points")
        return reached[: reached.index("checkpoint.before_sync:1")]
    finally:
        place.close()


def draw_script(rng: random.Random, points: list[str], numbers: list[int]) -> Script:
    """One or two deeds, and perhaps a kill after them."""
    script: Script = {}
    at = sorted(rng.sample(range(len(points)), rng.choice([1, 1, 2, 3])))
    for position in at:
        path = rng.choice(["a.txt", "a.txt", "b.txt", "x.txt", "n/new.txt"])
        what = rng.choice(["save", "save", "save", "in place", "delete", "directory"])
        numbers[0] += 1
        deed = [what, path]
        if what in ("save", "in place"):
            deed.append(saved(path, numbers[0]))
        script.setdefault(points[position], []).append(deed)
    if rng.random() < 0.8:
        # An abort makes more points than were listed, so the name may be reached more often.
        name, _, count = points[rng.randrange(at[0], len(points))].partition(":")
        if rng.random() < 0.5:
            name = rng.choice(
                ["abort.before_record", "abort.before_put_back", "abort.swapped_back"]
            )
            count = "1"
        point = f"{name}:{int(count) + rng.choice([0, 0, 1])}"
        script.setdefault(point, []).append(["kill", ""])
    return script


def run_contest(place: Place, rng: random.Random, points: list[str]) -> None:
    """A random contest, and perhaps a recovery that is disturbed or killed as well."""
    numbers = [0]
    script = draw_script(rng, points, numbers)
    killed = place.run("contest", script) == KILLED
    boot = rng.choice(["boot-1", "boot-1", "boot-2"])
    if killed and rng.random() < 0.4:
        kill_at = rng.choice(
            ["recovery.decided:1", "publish.staged:1", "publish.swapped:1", "publish.in_place:1",
             "recovery.carried_out:1", "checkpoint.before_record:1", "recovery.cleared:1",
             "abort.swapped_back:1"]
        )  # fmt: skip
        second: Script = {kill_at: [["kill", ""]]}
        if rng.random() < 0.5:
            numbers[0] += 1
            deed = ["save", "a.txt", saved("a.txt", numbers[0])]
            point = rng.choice(["recovery.decided:1", "publish.staged:1", "publish.swapped:1"])
            second.setdefault(point, []).insert(0, deed)
        place.forget("points")
        place.run("recover_meddled", second, boot=boot)
    place.forget("seen")
    check_contest(place, boot)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("first_seed", range(0, 2000 if ALL else 20, 20))
def test_no_save_is_lost_and_no_call_is_half_done(
    new_place: NewPlace, points: list[str], first_seed: int
) -> None:
    for seed in range(first_seed, first_seed + 20):
        place = new_place(CONTESTED_FILES)
        try:
            run_contest(place, random.Random(seed), points)
        except (AssertionError, ValueError, KeyError) as error:
            notes = json.dumps([place.lines("deeds"), place.lines("acks")], indent=1)
            raise AssertionError(f"seed {seed}: {error}\n{notes}\n{place.log()}") from error
        place.close()
