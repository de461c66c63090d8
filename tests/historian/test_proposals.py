"""What the historian proposes is published only onto the files that it was made from."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from e2e.running_daemon import Gate, Refusal, Site, running

BEFORE = [f"line {n}\n" for n in range(30)]


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    """An undo that was planned is held here before its answer."""
    return Gate(tmp_path, "historian.proposed")


@pytest.fixture
def site(gate: Gate) -> Iterator[Site]:
    with running(**gate.environment) as daemon:
        yield daemon.site("w")


def saved_by_a_person(site: Site) -> None:
    site.write("a.txt", (site.root / "a.txt").read_text() + "by a person\n")


def edited_by_another(site: Site) -> None:
    patches = [{"operation": "append_eof", "newText": "by a person\n"}]
    site.another("conv-2").call("patch", path="a.txt", patches=patches)


@pytest.mark.parametrize("change", [saved_by_a_person, edited_by_another])
def test_a_file_that_changed_meanwhile_is_merged_with_again(
    site: Site, gate: Gate, change: Callable[[Site], None]
) -> None:
    site.write("a.txt", "".join(BEFORE))
    site.replace("a.txt", "line 3\n", "changed\n")
    undone: list[dict[str, Any]] = []
    undoing = threading.Thread(target=lambda: undone.append(site.agent.call("undo")))
    undoing.start()
    gate.once_reached()
    change(site)
    gate.open()
    undoing.join()
    assert undone[0]["commit"]
    assert (site.root / "a.txt").read_text() == "".join([*BEFORE, "by a person\n"])
    # What is in the history is what was published, and no more than the edit was taken back.
    shown = site.person.call("show", commit=undone[0]["commit"])
    assert [line for line in shown["diff"].splitlines() if line[:1] in "+-"][2:] == [
        "-changed",
        "+line 3",
    ]


def test_what_took_a_files_place_meanwhile_is_a_conflict_as_if_it_had_been_there(
    site: Site, gate: Gate
) -> None:
    site.write("a.txt", "".join(BEFORE))
    site.replace("a.txt", "line 3\n", "changed\n")
    refused: list[Refusal] = []
    undoing = threading.Thread(target=lambda: refused.append(site.agent.refusal("undo")))
    undoing.start()
    gate.once_reached()
    (site.root / "a.txt").unlink()
    (site.root / "a.txt").mkdir()
    gate.open()
    undoing.join()
    assert refused[0].kind == "conflict"
    assert refused[0].message == site.agent.refusal("undo").message


def test_a_conflict_in_a_file_that_others_edit_without_a_pause_is_told_as_one() -> None:
    with running() as daemon:
        site = daemon.site("w")
        site.write("a.txt", "one\n")
        edit = site.overwrite("a.txt", "two\n")["commit"]
        other, told = site.another("conv-2"), threading.Event()

        def edits() -> None:
            for n in count():
                other.overwrite("a.txt", f"{n}\n")
                if told.is_set():
                    return

        editing = threading.Thread(target=edits)
        editing.start()
        try:
            assert site.person.refusal("undo", commits=[edit]).kind == "conflict"
        finally:
            told.set()
            editing.join()


@pytest.mark.parametrize("redo_first", [False, True])
def test_no_edit_is_undone_by_two_calls_of_which_one_takes_back_its_redo(
    tmp_path: Path, *, redo_first: bool
) -> None:
    gate = Gate(tmp_path, "historian.proposed:3")
    with running(**gate.environment) as daemon:
        site = daemon.site("w")
        site.write("a.txt", "one\n")
        edit = site.overwrite("a.txt", "two\n")["commit"]
        undo = site.person.call("undo", commits=[edit])["commit"]
        redo = site.person.call("redo", commits=[undo])["commit"]
        site.overwrite("a.txt", "one\n")
        # Neither call changes a file now: nothing else tells that they are about the same edit.
        calls = [(site.person, edit), (site.greeted(daemon.control()), redo)]
        for client, commit in reversed(calls) if redo_first else calls:
            client.send("undo", commits=[commit])
            client.until_begun()
        gate.once_reached()
        gate.open()
        answers = [client.receive() for client, _ in calls]
        refused = [answer.error.data["kind"] for answer in answers if answer.error is not None]
        assert refused == ["nothing_to_undo"]
        standing = [each for each in site.log() if each["reverted_by"] is None]
        assert len([each for each in standing if edit in each["reverts"]]) == 1


def test_no_edit_is_undone_by_a_rollback_when_its_redo_is_taken_back_meanwhile(
    tmp_path: Path,
) -> None:
    gate = Gate(tmp_path, "historian.proposed:3")
    with running(**gate.environment) as daemon:
        site = daemon.site("w")
        site.write("a.txt", "one\n")
        done = site.overwrite("a.txt", "two\n")
        undo = site.person.call("undo", commits=[done["commit"]])["commit"]
        redo = site.person.call("redo", commits=[undo])["commit"]
        site.overwrite("a.txt", "one\n")
        # As above. The rollback is not about the undo and the redo, which are the person's.
        session = site.log()[0]["session"]
        site.person.send("rollback", to=done["outside"], session=session)
        site.person.until_begun()
        gate.once_reached()
        site.greeted(daemon.control()).call("undo", commits=[redo])
        gate.open()
        site.person.receive()
        standing = [each for each in site.log() if each["reverted_by"] is None]
        assert len([each for each in standing if done["commit"] in each["reverts"]]) == 1


@pytest.mark.parametrize("rollback_first", [False, True])
def test_no_edit_is_undone_by_an_undo_and_by_a_rollback(
    tmp_path: Path, *, rollback_first: bool
) -> None:
    gate = Gate(tmp_path, "historian.proposed")
    with running(**gate.environment) as daemon:
        site = daemon.site("w")
        site.write("a.txt", "one\n")
        edit = site.overwrite("a.txt", "two\n")["commit"]
        site.another("conv-2").overwrite("a.txt", "one\n")
        # Neither call changes a file now.
        calls: list[tuple[Any, str, dict[str, Any]]] = [
            (site.person, "undo", {"commits": [edit]}),
            (
                site.greeted(daemon.control()),
                "rollback",
                {"to": site.log()[-1]["commit"], "session": site.session},
            ),
        ]
        for client, method, params in reversed(calls) if rollback_first else calls:
            client.send(method, **params)
            client.until_begun()
        gate.once_reached()
        gate.open()
        answers = [client.receive() for client, *_ in calls]
        refused = [answer.error.data["kind"] for answer in answers if answer.error is not None]
        assert refused == ["nothing_to_undo"]
        assert len([each for each in site.log() if edit in each["reverts"]]) == 1
