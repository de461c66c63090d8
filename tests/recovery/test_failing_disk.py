"""A disk that fails at the worst moment: nothing false is told, and the next start settles it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from recovery.crashes import KILLED, Place
from recovery.scenarios import CONTESTED_CALLS, CONTESTED_FILES
from recovery.test_counterexamples import CALL, EDITED, FIRST, SAVE, answers, content, kinds
from recovery.test_counterexamples import recovered as recover

NewPlace = Callable[..., Place]


def settled_by_the_next_start(place: Place, boot: str) -> bool:
    """Whether the call of unknown outcome happened; a retry must say the same, and do it once."""
    world = recover(place, boot)
    happened = "c1" in [request for _, _, request in world["commits"]]
    place.forget("acks")
    assert place.run("contest", {}, CALL, boot=boot) == 0
    assert answers(place)["c1"]["replayed"] is happened
    assert kinds(recover(place, boot)).count("edit") == 1
    return bool(happened)


@pytest.mark.parametrize("next_boot", ["boot-1", "boot-2"])
def test_abort_that_can_not_be_written_is_told_as_unknown_and_settled_later(
    new_place: NewPlace, next_boot: str
) -> None:
    place = new_place(CONTESTED_FILES)
    script = {
        "publish.staged:1": [["save", "a.txt", SAVE]],
        "abort.before_record:1": [["disk", "pwrite_all"]],
    }
    assert place.run("contest", script, CONTESTED_CALLS) == 0
    assert {answer["refused"] for answer in answers(place).values()} == {"outcome_unknown"}
    assert "neither finished nor voided" in place.lines("status")[0]
    assert content(place) == SAVE
    world = recover(place, next_boot)
    assert content(place).startswith("save 1")
    happened = {request for _, _, request in world["commits"] if request}
    place.forget("acks")
    assert place.run("contest", {}, CONTESTED_CALLS, boot=next_boot) == 0
    for request, answer in answers(place).items():
        assert answer.get("replayed", False) is (request in happened)


@pytest.mark.parametrize("next_boot", ["boot-1", "boot-2"])
def test_journal_that_can_not_be_synced_makes_the_outcome_unknown(
    new_place: NewPlace, next_boot: str
) -> None:
    place = new_place(CONTESTED_FILES)
    script = {"journal.before_sync:1": [["disk", "fdatasync"]]}
    assert place.run("contest", script, CALL) == 0
    assert answers(place)["c1"]["refused"] == "outcome_unknown"
    assert content(place) == FIRST
    assert "fdatasync" in place.lines("status")[0]
    assert settled_by_the_next_start(place, next_boot)
    assert content(place) == EDITED


def test_checkpoint_whose_syncs_fail_drops_nothing(new_place: NewPlace) -> None:
    place = new_place(CONTESTED_FILES)
    script = {"checkpoint.before_sync:1": [["disk", "fsync"]]}
    assert place.run("contest", script, CALL) == 0
    assert "commit" in answers(place)["c1"]
    # Nothing that was written since the last checkpoint can be trusted to be on the disk.
    for path in (place.base / "state" / "workspaces").glob("*/objects/??/*"):
        path.chmod(0o600)
        path.write_bytes(b"")
    (place.root / "a.txt").write_text("")
    assert kinds(recover(place, "boot-2")) == ["restore", "outside", "edit", "outside"]
    assert content(place) == EDITED


@pytest.mark.parametrize(
    "failing", ["write_all", "exchange", "rename_new", "fchmod", "open", "mkdir"]
)
def test_call_that_the_disk_refuses_leaves_everything_as_it_was(
    new_place: NewPlace, failing: str
) -> None:
    place = new_place(CONTESTED_FILES)
    script = {"journal.after_sync:1": [["disk", failing]]}
    assert place.run("contest", script, CONTESTED_CALLS[1:2]) == 0
    refused = answers(place)["c2"].get("refused")
    files = {p.name: p.read_text() for p in place.root.rglob("*") if p.is_file()}
    if refused is not None:
        assert refused == "io_error"
        assert files == CONTESTED_FILES
        assert not (place.root / "n").exists()
    recover(place)
    assert (
        refused is None
        or {p.name: p.read_text() for p in place.root.rglob("*") if p.is_file()} == CONTESTED_FILES
    )


@pytest.mark.parametrize("failing", ["exchange", "write_all"])
def test_recovery_that_the_disk_refuses_is_tried_again_by_the_next_start(
    new_place: NewPlace, failing: str
) -> None:
    """Meanwhile its workspace is put off, and no other: a person has to look at the file."""
    place = new_place(CONTESTED_FILES)
    assert place.run("edit_elsewhere") == 0
    place.forget("acks")
    assert place.run("contest", {"journal.after_sync:1": [["kill", ""]]}, CALL) == KILLED
    script = {"recovery.decided:1": [["disk", failing]]}
    assert place.run("recover_deferred", script, "other") == 0
    [[kind, message]] = place.lines("put_off")
    assert kind == "io_error"
    assert "a.txt" in message
    [status] = place.lines("status")
    assert status["unavailable"] == {str(place.root): message}
    assert status["read_only"] is None
    [elsewhere] = place.lines("elsewhere")
    if failing == "exchange":  # which a new file needs none of
        assert elsewhere["files"][0]["path"] == "o.txt"
    else:
        assert elsewhere["refused"] == "io_error"
    assert content(place) == FIRST
    place.forget("status")
    assert kinds(recover(place)) == ["edit", "outside"]
    assert content(place) == EDITED
    assert place.lines("status")[-1] is None
