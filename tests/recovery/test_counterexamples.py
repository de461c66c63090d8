"""Counterexamples to the commit protocol, each as a test: runs in which an earlier protocol failed.

A script says what somebody else does when a failpoint is reached; ``kill`` is SIGKILL. A power
cut is a kill, what it may have left on disk (written by hand), and a start in another boot.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from recovery.crashes import KILLED, Place
from recovery.scenarios import CONTESTED_CALLS, CONTESTED_FILES
from recovery.test_outside_saves import blobs_of_history
from stetd import __version__
from stetd.storage.worktree import beside

NewPlace = Callable[..., Place]

FIRST = CONTESTED_FILES["a.txt"]
EDITED = "1\ntwo\nthree\n"
SAVE = "save 1\none\ntwo\nthree\n"
CALL = CONTESTED_CALLS[:1]
KILL = [["kill", ""]]
#: Answered, in place, in no checkpoint.
AFTER_THE_CALL = "checkpoint.before_sync:1"


def answers(place: Place) -> dict[str, Any]:
    return {line["request"]: line["answer"] for line in place.lines("acks")}


def recovered(place: Place, boot: str = "boot-1") -> dict[str, Any]:
    """The world after a start (and a stop in good order)."""
    place.forget("seen")
    assert place.run("recover_meddled", {}, boot=boot) == 0
    assert place.fsck() == ""
    [seen] = place.lines("seen")
    assert [name for name in seen["files"] if ".stet-" in name] == []
    return dict(seen)


def killed(new_place: NewPlace, script: dict[str, Any], calls: Sequence[Any] = CALL) -> Place:
    """A place where somebody did these things while calls were made, and the daemon was killed."""
    place = new_place(CONTESTED_FILES)
    assert place.run("contest", script, calls) == KILLED
    return place


def kinds(world: dict[str, Any]) -> list[str]:
    """Kinds of the commits, newest first."""
    return [kind for kind, _, _ in world["commits"]]


def newest_message(place: Place) -> str:
    (shadow,) = (place.base / "state" / "workspaces").iterdir()
    command = ["git", "--git-dir", str(shadow), "log", "-1", "--format=%B", "history"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def content(place: Place, path: str = "a.txt") -> str:
    return (place.root / path).read_text()


def test_displaced_save_survives_the_clean_up_of_recovery(new_place: NewPlace) -> None:
    script = {"publish.staged:1": [["save", "a.txt", SAVE]], "publish.swapped:1": KILL}
    place = killed(new_place, script)
    assert kinds(recovered(place)) == ["outside", "edit", "outside"]
    assert content(place) == SAVE


@pytest.mark.parametrize(("boot", "kept"), [("boot-1", True), ("boot-2", False)])
def test_displaced_beginning_of_our_text_is_a_save_unless_the_power_was_cut(
    new_place: NewPlace, boot: str, kept: bool
) -> None:
    beginning = EDITED[:5]
    script = {"publish.staged:1": [["save", "a.txt", beginning]], "publish.swapped:1": KILL}
    place = killed(new_place, script)
    recovered(place, boot)
    assert content(place) == (beginning if kept else EDITED)


def test_save_recorded_by_recovery_is_put_back_after_another_kill(new_place: NewPlace) -> None:
    for point in ("recovery.decided:1", "publish.staged:1", "publish.swapped:1"):
        script = {"publish.staged:1": [["save", "a.txt", SAVE]], "publish.swapped:1": KILL}
        place = killed(new_place, script)
        assert place.run("recover_meddled", {point: KILL}) == KILLED
        assert kinds(recovered(place)) == ["outside", "edit", "outside"]
        assert content(place) == SAVE


def test_second_call_of_a_batch_is_planned_again_when_the_first_is_aborted(
    new_place: NewPlace,
) -> None:
    place = new_place(CONTESTED_FILES)
    script = {"publish.staged:1": [["save", "a.txt", SAVE]]}
    assert place.run("contest", script) == 0
    assert content(place) == "save 1\n1\n2\n3\n"
    assert SAVE in blobs_of_history(place)
    assert {request: "commit" in a for request, a in answers(place).items()} == {
        "c1": True, "c2": True, "c3": True, "c4": True,
    }  # fmt: skip


def test_aborted_text_is_not_kept_as_a_persons(new_place: NewPlace) -> None:
    script = {
        "publish.staged:1": [["save", "a.txt", SAVE]],
        "abort.before_put_back:1": KILL,
    }
    place = killed(new_place, script)
    assert content(place) == EDITED
    assert kinds(recovered(place)) == ["outside", "outside"]
    assert content(place) == SAVE


def test_refused_call_is_not_rolled_forward_after_a_power_cut(new_place: NewPlace) -> None:
    script = {
        "publish.staged:1": [["save", "a.txt", "quite another text\n"]],
        AFTER_THE_CALL: KILL,
    }
    place = killed(new_place, script)
    assert answers(place)["c1"]["refused"] == "old_text_not_found"
    # The names were swapped and swapped back; the second swap did not reach the disk.
    (place.root / "a.txt").write_text(EDITED)
    world = recovered(place, "boot-2")
    assert content(place) == "quite another text\n"
    assert "c1" not in [request for _, _, request in world["commits"]]


def test_refusal_of_a_creation_leaves_nothing_to_roll_forward(new_place: NewPlace) -> None:
    """A file made in the way is refused, then removed; the call must not come back."""
    new = [{"operation": "append_eof", "newText": "ours\n"}]
    create = ("patch", {"path": "x.txt", "patches": new, "request_id": "c1"})
    for next_boot in ("boot-1", "boot-2"):
        place = new_place({"a.txt": FIRST})
        script = {
            "publish.staged:1": [["directory", "x.txt"]],
            "reply.before:1": [["directory away", "x.txt"]],
            AFTER_THE_CALL: KILL,
        }
        assert place.run("contest", script, [create]) == KILLED
        assert answers(place)["c1"]["refused"] == "not_a_file"
        recovered(place, next_boot)
        assert not (place.root / "x.txt").exists()


def test_file_made_in_the_way_of_a_creation_is_a_persons_after_a_power_cut(
    new_place: NewPlace,
) -> None:
    """It is a beginning of our text, which only the record of the abort tells from a torn one."""
    place = new_place({"a.txt": FIRST})
    envelope = "*** Begin Patch\n*** Add File: x.txt\n+ours\n*** End Patch\n"
    script = {"publish.staged:1": [["save", "x.txt", "ou"]], AFTER_THE_CALL: KILL}
    create = ("apply_patch", {"input": envelope, "request_id": "c1"})
    assert place.run("contest", script, [create]) == KILLED
    assert answers(place)["c1"]["refused"] == "already_exists"
    recovered(place, "boot-2")
    assert content(place, "x.txt") == "ou"


def test_save_over_the_transient_text_is_the_one_that_stands(new_place: NewPlace) -> None:
    second = SAVE.replace("save 1", "save 2")
    for kill_at in (None, "abort.swapped_back:1", "abort.swapped_back:2"):
        place = new_place(CONTESTED_FILES)
        script = {
            "publish.staged:1": [["save", "a.txt", SAVE]],
            "abort.before_put_back:1": [["save", "a.txt", second]],
            **({kill_at: KILL} if kill_at else {}),
        }
        place.run("contest", script, CALL)
        recovered(place)
        assert {SAVE, second} <= blobs_of_history(place)
        expected = second if kill_at else second.replace("one", "1")
        assert content(place) == expected, kill_at


def test_no_sync_lies_between_taking_a_save_out_and_putting_it_back(new_place: NewPlace) -> None:
    """The longer that takes, the likelier the next save lands meanwhile, without an end."""
    place = new_place(CONTESTED_FILES)
    script = {
        "publish.staged:1": [["save", "a.txt", SAVE]],
        "abort.before_put_back:1": [["save", "a.txt", SAVE.replace("save 1", "save 2")]],
    }
    assert place.run("contest", script, CALL) == 0
    points = [point.rpartition(":")[0] for point in place.lines("points")]
    points = points[: points.index("abort.done")]
    first = points.index("abort.swapped_back")
    again = points.index("abort.swapped_back", first + 1)
    assert "journal.before_sync" not in points[first:again]
    assert "journal.before_sync" in points[again:], "what came out is durable before the answer"


def test_other_files_of_a_call_are_finished_where_one_has_a_displaced_save(
    new_place: NewPlace,
) -> None:
    """Limit c: the save stays, and the rest of the call is rolled forward."""
    place = new_place(CONTESTED_FILES)
    b = [{"operation": "replace", "oldText": "beta", "newText": "BETA"}]
    parts = [CALL[0][1]["patches"], b]
    calls = [
        {"method": "patch", "params": {"path": path, "patches": patches}}
        for path, patches in zip(("a.txt", "b.txt"), parts, strict=True)
    ]
    script = {"publish.staged:1": [["save", "a.txt", SAVE]], "publish.swapped:1": KILL}
    call = ("transaction", {"calls": calls, "request_id": "c1"})
    assert place.run("contest", script, [call]) == KILLED
    assert content(place, "b.txt") == CONTESTED_FILES["b.txt"]
    recovered(place)
    assert content(place) == SAVE
    assert content(place, "b.txt") == "alpha\nBETA\n"


def test_save_that_a_deletion_has_taken_out_is_put_in_again(new_place: NewPlace) -> None:
    envelope = "*** Begin Patch\n*** Delete File: a.txt\n*** Update File: b.txt\n@@\n-beta\n"
    delete = ("apply_patch", {"input": f"{envelope}*** End Patch\n", "request_id": "c1"})
    script = {
        "journal.after_sync:1": [["save", "a.txt", SAVE]],
        "abort.done:1": [["save", "b.txt", "gone\n"], ["kill", ""]],
    }
    place = killed(new_place, script, [delete])
    assert content(place) == SAVE


def test_clipboard_flows_from_a_call_to_the_next_of_its_batch(new_place: NewPlace) -> None:
    place = new_place(CONTESTED_FILES)
    cut = [{"operation": "replace", "oldText": "two\n", "newText": "", "toClipboard": "c"}]
    paste = [{"operation": "append_eof", "fromClipboard": "c"}]
    calls = [
        ("patch", {"path": path, "patches": patches, "request_id": path})
        for path, patches in (("a.txt", cut), ("b.txt", paste))
    ]
    assert place.run("contest", {}, calls) == 0
    assert content(place, "b.txt") == "alpha\nbeta\ntwo\n"


def test_old_text_put_back_by_hand_after_the_call_stays(new_place: NewPlace) -> None:
    script = {AFTER_THE_CALL: [["save", "a.txt", FIRST], ["kill", ""]]}
    place = killed(new_place, script)
    assert "commit" in answers(place)["c1"]
    assert kinds(recovered(place)) == ["outside", "edit", "outside"]
    assert content(place) == FIRST


def test_old_text_put_back_by_hand_after_a_refused_call_stays(new_place: NewPlace) -> None:
    """The call's record never gets a mark of its own: that of the abort which voids it counts."""
    script = {
        "publish.staged:1": [["save", "a.txt", "quite another text\n"]],
        AFTER_THE_CALL: [["save", "a.txt", FIRST], ["kill", ""]],
    }
    place = killed(new_place, script)
    assert answers(place)["c1"]["refused"] == "old_text_not_found"
    assert kinds(recovered(place)) == ["outside", "outside", "outside"]
    assert content(place) == FIRST


def test_text_put_back_by_hand_while_the_next_call_is_made_stays(new_place: NewPlace) -> None:
    """Between the two calls the file held a third text, which the second call was made on."""
    place = new_place(CONTESTED_FILES)
    b = [{"operation": "replace", "oldText": "beta", "newText": "BETA"}]
    again = [{"operation": "replace", "oldText": "save 1", "newText": "save 2"}]
    calls = [
        ("patch", {"path": "b.txt", "patches": b, "request_id": "c0"}),
        *CALL,
        ("undo", {"request": "c0", "request_id": "u"}),  # so that what follows is no batch of it
        ("patch", {"path": "a.txt", "patches": again, "request_id": "c2"}),
    ]
    script = {
        "publish.done:3": [["save", "a.txt", SAVE]],
        "publish.staged:4": [["save", "a.txt", EDITED], *KILL],
    }
    assert place.run("contest", script, calls) == KILLED
    recovered(place)
    assert content(place) == EDITED


def test_unfinished_call_is_finished_where_the_old_text_still_stands(new_place: NewPlace) -> None:
    place = killed(new_place, {"journal.after_sync:1": KILL})
    assert content(place) == FIRST
    assert kinds(recovered(place)) == ["edit", "outside"]
    assert content(place) == EDITED


TORN = {
    "empty": "",
    "NULs only": "\0" * len(EDITED),
    "NULs at the end": EDITED[:4] + "\0" * (len(EDITED) - 4),
    "a prefix": EDITED[:4],
}


@pytest.mark.parametrize("shape", TORN)
def test_torn_file_is_recorded_and_restored_after_a_power_cut(
    new_place: NewPlace, shape: str
) -> None:
    for killed_at in (None, "recovery.decided:1", "publish.staged:1", "publish.swapped:1"):
        place = killed(new_place, {AFTER_THE_CALL: KILL})
        (place.root / "a.txt").write_text(TORN[shape])
        if killed_at:
            script = {killed_at: KILL}
            assert place.run("recover_meddled", script, boot="boot-2") == KILLED
        world = recovered(place, "boot-2")
        assert kinds(world) == ["restore", "outside", "edit", "outside"]
        subject, _, trailers = newest_message(place).partition("\n")
        assert subject == "restore after a power cut: a.txt"
        assert f"Stet-Version: {__version__}" in trailers
        assert content(place) == EDITED
        assert TORN[shape] in blobs_of_history(place)


@pytest.mark.parametrize("shape", TORN)
def test_torn_looking_file_is_a_persons_in_the_same_boot(new_place: NewPlace, shape: str) -> None:
    place = killed(new_place, {AFTER_THE_CALL: KILL})
    (place.root / "a.txt").write_text(TORN[shape])
    assert kinds(recovered(place)) == ["outside", "edit", "outside"]
    assert content(place) == TORN[shape]


def test_boot_is_judged_once(new_place: NewPlace) -> None:
    """What a person does after recovery is not taken for what a power cut left."""
    place = killed(new_place, {AFTER_THE_CALL: KILL})
    place.run("recover_meddled", {"checkpoint.before_sync:2": KILL}, boot="boot-2")
    (place.root / "a.txt").write_text(FIRST)
    recovered(place, "boot-2")
    assert content(place) == FIRST


def test_request_of_a_voided_call_is_carried_out_when_it_is_sent_again(
    new_place: NewPlace,
) -> None:
    place = new_place(CONTESTED_FILES)
    script = {"publish.staged:1": [["save", "a.txt", "quite another text\n"]]}
    assert place.run("contest", script, CALL) == 0
    assert answers(place)["c1"]["refused"] == "old_text_not_found"
    place.forget("acks")
    (place.root / "a.txt").write_text(FIRST)
    assert place.run("contest", {}, CALL) == 0
    assert answers(place)["c1"]["replayed"] is False
    assert content(place) == EDITED


def test_retry_of_a_call_in_flight_waits_for_its_outcome(new_place: NewPlace) -> None:
    place = new_place(CONTESTED_FILES)
    assert place.run("contest", {}, [*CALL, *CALL]) == 0
    first, second = [line["answer"] for line in place.lines("acks")]
    assert (first["commit"], sorted([first["replayed"], second["replayed"]])) == (
        second["commit"], [False, True],
    )  # fmt: skip
    assert kinds(recovered(place)) == ["edit", "outside"]


def test_retry_of_a_call_in_flight_is_refused_as_it_is(new_place: NewPlace) -> None:
    place = new_place({"a.txt": "nothing to be found\n"})
    assert place.run("contest", {}, [*CALL, *CALL]) == 0
    assert [line["answer"]["refused"] for line in place.lines("acks")] == ["old_text_not_found"] * 2


def test_call_answered_while_a_checkpoint_runs_is_not_dropped_by_it(new_place: NewPlace) -> None:
    place = new_place(CONTESTED_FILES)
    assert place.run("call_during_checkpoint", {"checkpoint.recorded:1": KILL}) == KILLED
    assert "commit" in answers(place)["c1"]
    world = recovered(place)
    assert kinds(world) == ["edit", "outside"]
    assert content(place) == EDITED


def loose_objects(place: Place) -> list[Path]:
    [shadow] = (place.base / "state" / "workspaces").iterdir()
    return [path for path in shadow.glob("objects/??/*") if path.is_file()]


@pytest.mark.parametrize("damage", [b"", b"\0" * 40])
def test_damaged_loose_objects_are_written_again(new_place: NewPlace, damage: bytes) -> None:
    place = killed(new_place, {AFTER_THE_CALL: KILL})
    objects = loose_objects(place)
    assert len(objects) == 6
    for path in objects:
        path.chmod(0o600)
        path.write_bytes(damage)
    assert kinds(recovered(place, "boot-2")) == ["edit", "outside"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("refs/heads/history", b""),
        ("refs/heads/history", b"\0" * 41),
        ("refs/heads/history", b"f" * 40 + b"\n"),
        ("refs/heads/history", None),
        ("HEAD", b""),
        ("config", b"\0" * 60),
        ("config.lock", b""),
        ("HEAD.lock", b""),
        ("refs/heads/history.lock", b""),
    ],
)
def test_repository_that_a_crash_left_damaged_or_locked_is_mended(
    new_place: NewPlace, name: str, content: bytes | None
) -> None:
    place = killed(new_place, {AFTER_THE_CALL: KILL})
    [shadow] = (place.base / "state" / "workspaces").iterdir()
    if content is None:
        (shadow / name).unlink()
    else:
        (shadow / name).write_bytes(content)
    boot = "boot-1" if name.endswith(".lock") else "boot-2"
    assert kinds(recovered(place, boot)) == ["edit", "outside"]


@pytest.mark.parametrize("tail", [b"", b"\0" * 8, b"\0" * 4096, b"STETWAL", b"STETWAL\x01\0\0"])
def test_newest_segment_that_is_torn_stops_nothing(new_place: NewPlace, tail: bytes) -> None:
    place = killed(new_place, {AFTER_THE_CALL: KILL})
    journal = place.base / "state" / "journal"
    newest = max(journal.iterdir()).name
    (journal / f"{int(newest[:8]) + 1:08d}.wal").write_bytes(tail)
    assert kinds(recovered(place, "boot-2")) == ["edit", "outside"]


def test_directory_displaced_by_a_call_is_put_back(new_place: NewPlace) -> None:
    for kill_at in ("publish.swapped:1", "abort.before_record:1", "abort.before_put_back:1"):
        script = {"publish.staged:1": [["directory", "a.txt"]], kill_at: KILL}
        place = killed(new_place, script)
        recovered(place)
        assert (place.root / "a.txt").is_dir()


@pytest.mark.parametrize(
    ("link_at", "kill_at"),
    [
        (AFTER_THE_CALL, AFTER_THE_CALL),
        ("publish.staged:1", "publish.swapped:1"),
        ("publish.staged:1", "abort.before_put_back:1"),
        ("publish.staged:1", None),
    ],
)
def test_link_of_a_name_that_git_accepts_for_none_stays_and_is_not_recorded(
    new_place: NewPlace, link_at: str, kill_at: str | None
) -> None:
    place = new_place({".gitignore": "one\n", "a.txt": "one\n"})
    patches = [{"operation": "replace", "oldText": "one", "newText": "1"}]
    script = {link_at: [["link", ".gitignore", "a.txt"]]}
    if kill_at is not None:
        script.setdefault(kill_at, []).extend(KILL)
    call = ("patch", {"path": ".gitignore", "patches": patches, "request_id": "c1"})
    assert place.run("contest", script, [call]) == (0 if kill_at is None else KILLED)
    recovered(place)  # which asks git fsck
    assert (place.root / ".gitignore").readlink() == Path("a.txt")


MADE_AND_UNDONE = [
    (
        "patch",
        {
            "path": "new/deep/x.txt",
            "patches": [{"operation": "append_eof", "newText": "x\n"}],
            "request_id": "c1",
        },
    ),
    ("undo", {"request_id": "c2"}),
]


def test_directories_that_an_undo_has_emptied_go_though_it_was_killed(new_place: NewPlace) -> None:
    place = killed(new_place, {"publish.before_discard:2": KILL}, MADE_AND_UNDONE)
    assert (place.root / "new" / "deep").is_dir()
    recovered(place)
    assert not (place.root / "new").exists()


@pytest.mark.parametrize("boot", ["boot-1", "boot-2"])
def test_directory_that_is_made_again_after_an_undo_stays_unless_the_power_was_cut(
    new_place: NewPlace, boot: str
) -> None:
    script = {AFTER_THE_CALL: [["directory", "new/deep"], *KILL]}
    place = killed(new_place, script, MADE_AND_UNDONE)
    recovered(place, boot)
    assert (place.root / "new").exists() == (boot == "boot-1")


@pytest.mark.parametrize("boot", ["boot-1", "boot-2"])
def test_save_over_the_text_that_displaced_a_directory_stays(
    new_place: NewPlace, boot: str
) -> None:
    """The directory was there first; killed once the save is back, with the directory beside it."""
    script = {
        "publish.before_stage:1": [["directory", "a.txt"]],
        "publish.swapped:1": [["save", "a.txt", SAVE]],
        "abort.swapped_back:2": KILL,
    }
    place = killed(new_place, script)
    recovered(place, boot)
    assert content(place) == SAVE


@pytest.mark.parametrize("kill_at", [None, "swap.renamed:1", "publish.swapped:1"])
@pytest.mark.parametrize("save_at", [None, "publish.staged:1"])
def test_file_system_that_can_not_exchange_names(
    new_place: NewPlace, kill_at: str | None, save_at: str | None
) -> None:
    place = new_place(CONTESTED_FILES)
    script: dict[str, list[list[str]]] = {
        "journal.after_sync:1": [["lacks", "exchange"], ["lacks", "rename_new"]]
    }
    if save_at:
        script[save_at] = [["save", "a.txt", SAVE]]
    if kill_at:
        script[kill_at] = KILL
    place.run("contest", script, CALL)
    recovered(place)
    # A call that was killed in the middle stands below the save; another is planned again.
    expected = SAVE if kill_at else SAVE.replace("one", "1")
    assert content(place) == (expected if save_at else EDITED)
    assert save_at is None or SAVE in blobs_of_history(place)


@pytest.mark.parametrize("point", ["journal.before_append:1", "journal.before_sync:1"])
def test_nothing_is_answered_before_the_journal_has_it(new_place: NewPlace, point: str) -> None:
    place = killed(new_place, {point: [["wait", ""], ["kill", ""]]})
    assert answers(place) == {}


def test_nothing_is_answered_before_its_files_are_in_place(new_place: NewPlace) -> None:
    place = new_place(CONTESTED_FILES)
    assert (
        place.run("contest", {"publish.before_discard:1": [["wait", ""], ["kill", ""]]}) == KILLED
    )
    assert answers(place) == {}


@pytest.mark.parametrize("path", ["new.txt", "n/new.txt", "a.txt"])
@pytest.mark.parametrize("on_fat", [False, True])
def test_call_is_finished_though_recovery_has_to_stage_a_file_again(
    new_place: NewPlace, path: str, on_fat: bool
) -> None:
    """After a ``git clean``, or on FAT. A retry is told that the call was made."""
    added = [{"operation": "append_eof", "newText": "made\n"}]
    call = [("patch", {"path": path, "patches": added, "request_id": "c"})]
    place = killed(new_place, {"journal.after_sync:1": KILL}, call)
    cleaned = {"publish.staged:1": [["delete", beside(path, ".stet-*")]]}
    keeps_no_modes = {"recovery.decided:1": [["ignores", "fchmod"]]}
    assert place.run("recover_meddled", keeps_no_modes if on_fat else cleaned) == 0
    assert "edit" in kinds(recovered(place))
    assert content(place, path).endswith("made\n")
