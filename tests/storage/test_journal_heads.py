"""What the journal says of a history: checkpoint, records, aborts; and where it is damaged."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from stetd.history.commits import CommitMeta
from stetd.storage.disk import Disk
from stetd.storage.journal import Journal
from stetd.storage.journal_format import (
    Abort,
    Change,
    Checkpoint,
    CommitRecord,
    Reached,
    WorkspaceState,
)
from stetd.storage.journal_heads import read_heads

META = CommitMeta(kind="edit", time=1, subject="s")


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    opened = Journal(os.fspath(tmp_path), Disk(), boot="b", version="1")
    yield opened
    opened.close()


def commit(oid: str, parent: str | None) -> CommitRecord:
    return CommitRecord(oid, parent, META, {})


def change(number: int, *commits: CommitRecord, workspace: str = "w") -> Change:
    return Change(number, workspace, [], list(commits), {})


def checkpoint(journal: Journal, head: str | None, commits: int) -> Checkpoint:
    at = journal.position
    known = WorkspaceState("w", "/w", "unrestricted", head, commits)
    return Checkpoint(at.segment, at.offset, 0, [known], [])


def heads(journal: Journal, tmp_path: Path) -> tuple[Reached, list[str]]:
    return read_heads(os.fspath(tmp_path), journal.position, "w")


def test_a_new_journal_has_no_history(journal: Journal, tmp_path: Path) -> None:
    assert heads(journal, tmp_path) == (Reached(None, 0), [])


def test_records_follow_the_newest_checkpoint(journal: Journal, tmp_path: Path) -> None:
    journal.append(change(1, commit("a", None)))
    journal.append(checkpoint(journal, "a", 1))
    journal.append(change(2, commit("b", "a"), commit("c", "b")))
    journal.append(change(3, commit("x", None), workspace="other"))
    mark = checkpoint(journal, "c", 3)
    journal.append(change(4, commit("d", "c")))
    assert heads(journal, tmp_path) == (Reached("d", 4), [])
    journal.append(mark)  # what came between the watermark and the record counts
    assert heads(journal, tmp_path) == (Reached("d", 4), [])


def test_what_an_abort_voids_does_not_count(journal: Journal, tmp_path: Path) -> None:
    journal.append(change(1, commit("a", None)), change(2, commit("b", "a")))
    journal.append(Abort(3, "w", [1, 2], None, {}, [commit("o", None)], {}))
    journal.append(change(4, commit("p", "o")))
    assert heads(journal, tmp_path) == (Reached("p", 2), [])


def test_only_what_was_there_at_the_position_counts(journal: Journal, tmp_path: Path) -> None:
    journal.append(change(1, commit("a", None)))
    before = journal.position
    journal.append(change(2, commit("b", "a")))
    assert read_heads(os.fspath(tmp_path), before, "w")[0].head == "a"


def test_a_record_that_continues_another_commit_is_told(journal: Journal, tmp_path: Path) -> None:
    journal.append(change(1, commit("a", None)), change(2, commit("c", "b")))
    assert heads(journal, tmp_path)[1] == [
        "record 2 of the journal continues b, but the history stood at a"
    ]


@pytest.mark.parametrize("older", [False, True])
def test_a_flipped_bit_anywhere_is_told(journal: Journal, tmp_path: Path, older: bool) -> None:
    journal.append(change(1, commit("a", None)))
    end = journal.position.offset
    if older:
        journal.start_segment()
        journal.append(change(2, commit("b", "a")))
    path = tmp_path / f"{1:08d}.wal"
    whole = path.read_bytes()
    for bit in range(8 * end):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        assert heads(journal, tmp_path)[1][0].startswith("segment 00000001.wal"), bit
    path.write_bytes(whole)
    assert heads(journal, tmp_path)[1] == []


def test_room_that_a_kill_left_reserved_is_no_damage(journal: Journal, tmp_path: Path) -> None:
    journal.append(change(1, commit("a", None)))
    journal.start_segment()
    journal.append(change(2, commit("b", "a")))
    with (tmp_path / "00000001.wal").open("ab") as segment:
        segment.write(b"\0" * 4096)
    assert heads(journal, tmp_path) == (Reached("b", 2), [])


def test_a_segment_cut_short_is_told(journal: Journal, tmp_path: Path) -> None:
    journal.append(change(1, commit("a", None)))
    os.truncate(tmp_path / "00000001.wal", journal.position.offset - 1)
    assert "segment 00000001.wal of the journal is cut short" in heads(journal, tmp_path)[1]


def test_a_segment_that_is_gone_is_a_file_not_found(journal: Journal, tmp_path: Path) -> None:
    journal.append(change(1, commit("a", None)))
    journal.append(checkpoint(journal, "a", 1))
    journal.start_segment()
    journal.start_segment()
    heads(journal, tmp_path)
    (tmp_path / "00000002.wal").unlink()
    with pytest.raises(FileNotFoundError, match=r"00000002\.wal"):
        heads(journal, tmp_path)


def test_a_checkpoint_after_the_position_may_have_dropped_the_one_before(
    journal: Journal, tmp_path: Path
) -> None:
    journal.append(change(1, commit("a", None)))
    journal.append(checkpoint(journal, "a", 1))
    journal.start_segment()
    mark = checkpoint(journal, "a", 1)
    journal.append(change(2, commit("b", "a")))
    before = journal.position
    journal.append(mark)
    journal.remove(journal.segments_before(mark.segment))
    with pytest.raises(FileNotFoundError, match=r"00000001\.wal"):
        read_heads(os.fspath(tmp_path), before, "w")
    assert heads(journal, tmp_path) == (Reached("b", 2), [])
