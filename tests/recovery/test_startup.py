"""The state that a start rebuilds from the journal's records, without a disk."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from stetd.history.commits import CommitMeta
from stetd.recovery.files import FileRecovery
from stetd.recovery.inspection import inspect
from stetd.recovery.startup import Recovery
from stetd.session.modes import RESTRICTED, UNRESTRICTED
from stetd.session.sessions import Session
from stetd.state.state import State
from stetd.storage.disk import Disk
from stetd.storage.journal import Journal, PlacedRecord, read_journal
from stetd.storage.journal_format import (
    Abort,
    Change,
    Checkpoint,
    CommitRecord,
    FormatError,
    Published,
    Reached,
    Record,
    Rewritten,
    SessionOpened,
    Unsettled,
    WorkspaceAllowed,
    WorkspaceState,
)

OLD, A, B, OTHER = (letter * 40 for letter in "0abc")
FORGOTTEN = Rewritten(OTHER, 7, ["secret.txt"])
START = Checkpoint(1, 0, 5, [WorkspaceState("w", "/w", RESTRICTED, OLD, 7)], [])


def change(number: int, *commits: str, **fields: Any) -> Change:
    meta = CommitMeta(kind="edit", time=0, subject="an edit")
    made = [CommitRecord(oid, None, meta, {}) for oid in commits]
    return Change(number, "w", [], made, {}, **fields)


def replayed(*records: Record) -> tuple[State, Recovery]:
    state = State("/state", Disk(), boot="this boot")
    recovery = Recovery(state)
    placed = [PlacedRecord(1, 10 * at, "this boot", record) for at, record in enumerate(records, 1)]
    recovery.replay(START, placed)
    return state, recovery


def test_a_workspace_that_is_allowed_again_goes_on_with_its_history() -> None:
    state, recovery = replayed(change(6, A), WorkspaceAllowed("w", "/w"))
    assert state.known["w"] == WorkspaceState("w", "/w", RESTRICTED, A, 8)
    assert recovery.heads_since_checkpoint("w") == [Reached(OLD, 7), Reached(A, 8)]


def test_a_workspace_that_is_allowed_anew_begins_a_new_history() -> None:
    state, recovery = replayed(change(6, A), WorkspaceAllowed("w", "/w", anew=True), change(7, B))
    assert state.known["w"] == WorkspaceState("w", "/w", RESTRICTED, B, 1)
    assert recovery.heads_since_checkpoint("w") == [Reached(None, 0), Reached(B, 1)]


def test_a_workspace_that_is_allowed_for_the_first_time_has_no_history() -> None:
    state, recovery = replayed(WorkspaceAllowed("new", "/new"))
    assert state.known["new"] == WorkspaceState("new", "/new", UNRESTRICTED, None, 0)
    assert recovery.heads_since_checkpoint("new") == [Reached(None, 0)]


@pytest.mark.parametrize(
    ("done", "forgetting"), [([], FORGOTTEN), ([change(9, rewritten=Rewritten("", 0, []))], None)]
)
def test_a_history_goes_on_from_where_forgetting_a_path_has_led(
    done: list[Change], forgetting: Rewritten | None
) -> None:
    """Also when that is finished: what says so names no commit."""
    records = [change(6, A), change(7, rewritten=FORGOTTEN), change(8, B), *done]
    state, recovery = replayed(*records)
    known = state.known["w"]
    assert (known.head, known.commits, known.forgetting) == (B, 8, forgetting)
    expected = [Reached(OLD, 7), Reached(A, 8), Reached(OTHER, 7), Reached(B, 8)]
    assert recovery.heads_since_checkpoint("w") == expected


def test_a_damaged_history_is_made_again_without_what_was_voided() -> None:
    """Its records are from before the checkpoint: the journal was kept for them."""
    abort = Abort(8, "w", [7], A, {}, change(8, OTHER).commits, {})
    kept: list[Record] = [change(6, A), change(7, B), abort]
    records = [PlacedRecord(1, at, "", each) for at, each in enumerate(kept)]
    held = Unsettled(1, 0, 1, Reached(OLD, 7))
    known = WorkspaceState("w", "/w", RESTRICTED, OTHER, 9, unsettled=held)
    recovery = Recovery(State("/state", Disk(), boot="this boot"))
    recovery.replay(Checkpoint(2, 0, 8, [known], []), records)
    expected = [Reached(OLD, 7), Reached(A, 8), Reached(OTHER, 9)]
    assert recovery.heads_since_checkpoint("w") == expected


def test_of_a_damaged_history_only_the_records_that_git_may_lack_are_made_again() -> None:
    """The journal may have been kept from an earlier place on for another workspace."""
    kept = [(1, 0, change(6, A)), (1, 1, change(7, B)), (2, 0, change(8, OTHER))]
    records = [PlacedRecord(segment, offset, "", each) for segment, offset, each in kept]
    held = Unsettled(1, 1, 1, Reached(A, 8))
    known = WorkspaceState("w", "/w", RESTRICTED, OTHER, 10, unsettled=held)
    recovery = Recovery(State("/state", Disk(), boot="this boot"))
    recovery.replay(Checkpoint(3, 0, 8, [known], []), records)
    assert recovery.heads_since_checkpoint("w") == [Reached(A, 8), Reached(B, 9)]


def test_of_a_settled_workspace_no_content_stays_in_memory() -> None:
    content = b"as large as a journal may be"
    unused = sys.getrefcount(content)
    _, recovery = replayed(msgspec.structs.replace(change(6, A), blobs={B: content}), Published(6))
    assert sys.getrefcount(content) > unused
    recovery.forget("w")
    assert sys.getrefcount(content) == unused


def test_a_session_has_what_its_calls_have_left_and_other_calls_are_of_none() -> None:
    opened = Session(workspace="w", name="s", mode=UNRESTRICTED, created=1, last_seen=1)
    own = change(7, A, B, session="s", time=9, clipboards={"c": "text"})
    state, _ = replayed(change(6), SessionOpened(opened), own, change(8, OTHER, time=10))
    left = msgspec.structs.replace(opened, last_seen=9, commits=2, clipboards={"c": "text"})
    assert state.sessions == {("w", "s"): left}


def test_the_inspection_reads_the_segments_that_a_start_reads(tmp_path: Path) -> None:
    assert inspect(str(tmp_path)) is None
    (tmp_path / "journal").mkdir()
    (tmp_path / "journal" / "x.wal").write_bytes(b"no segment")
    assert inspect(str(tmp_path)) is None


def test_a_start_goes_on_after_what_the_inspection_says_and_is_refused_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``stet doctor`` prints its commands; they are run as they were printed."""
    directory = tmp_path / "journal"
    directory.mkdir()
    journal = Journal(str(directory), Disk(), boot="boot", version="0.1")
    for _ in range(2):
        journal.start_segment()
    journal.close()
    (directory / "00000001.wal").unlink()
    with pytest.raises(FormatError):
        read_journal(str(directory), Disk())
    nothing = tmp_path / "stet"  # in the place of the command that starts the daemon
    nothing.symlink_to("/bin/true")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    for _ in range(2):
        found = inspect(str(tmp_path))
        if found is not None and not found["ok"]:
            subprocess.run(str(found["mend"]), shell=True, check=True)
            directory.mkdir(exist_ok=True)  # a start does this
    read_journal(str(directory), Disk())


def test_a_temporary_file_that_may_be_the_only_copy_of_a_save_stays() -> None:
    """It could not be read, or its file could not be brought to what it should be."""
    removed: list[str] = []
    paths = {"sub/unreadable": "1", "unsettled": "2", "sub/settled": "3"}
    temporaries = [SimpleNamespace(path=path, name=name) for path, name in paths.items()]
    worktree = SimpleNamespace(discard_path=removed.append)
    parts: Any = {
        "workspace": SimpleNamespace(worktree=worktree),
        "pending": SimpleNamespace(temporaries=temporaries),
        **dict.fromkeys(("state", "report")),
    }
    files = FileRecovery(**parts, kept_temporaries={"1"}, unsettled={"unsettled": "EIO"})
    files.clear_temporaries()
    assert removed == ["sub/3"]
