"""The journal on disk: torn tails, reserved space, failing disks, rotation, dropping."""

from __future__ import annotations

import errno
import os
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace

import pytest

from stetd.storage.disk import Disk, SyncFailed
from stetd.storage.journal import Journal, JournalBroken, PlacedRecord, Position, read_journal
from stetd.storage.journal_format import (
    LEVEL,
    MAGIC,
    Checkpoint,
    FormatError,
    Opened,
    Published,
    Record,
    frames,
)


class FailingDisk(Disk):
    """A disk that fails when told to, after writing what it is told to write."""

    def __init__(self) -> None:
        self.no_space_after: int | None = None
        self.no_reserve = False
        self.most_reserved = 1 << 40
        self.no_sync = False
        self.no_truncate = False
        self.synced: list[str] = []

    def pwrite_all(self, fd: int, data: bytes, offset: int) -> None:
        if self.no_space_after is not None:
            written, self.no_space_after = data[: self.no_space_after], None
            super().pwrite_all(fd, written, offset)
            raise OSError(errno.EIO, "Input/output error")
        super().pwrite_all(fd, data, offset)

    def reserve(self, fd: int, offset: int, length: int) -> None:
        if self.no_reserve or length > self.most_reserved:
            raise OSError(errno.ENOSPC, "No space left on device")
        super().reserve(fd, offset, length)

    def truncate(self, fd: int, length: int) -> None:
        if self.no_truncate:
            raise OSError(errno.EIO, "Input/output error")
        super().truncate(fd, length)

    def fsync(self, fd: int) -> None:
        self._sync(fd)

    def fdatasync(self, fd: int) -> None:
        self._sync(fd)

    def _sync(self, fd: int) -> None:
        if self.no_sync:
            raise SyncFailed(errno.EIO, "Input/output error")
        self.synced.append(os.path.basename(os.readlink(f"/proc/self/fd/{fd}")))


@pytest.fixture
def disk() -> FailingDisk:
    return FailingDisk()


def opened(path: Path, disk: Disk, boot: str = "boot") -> Journal:
    return Journal(str(path), disk, boot=boot, version="0.1")


def contents(path: Path) -> list[tuple[int, str, list[Record]]]:
    """What a start would read: per segment its number, boot and records."""
    segments = groupby(read_journal(str(path), Disk()), lambda each: (each.segment, each.boot))
    return [(*segment, [each.record for each in placed]) for segment, placed in segments]


def published(*numbers: int) -> list[Record]:
    return [Published(number) for number in numbers]


def test_records_are_read_back_with_the_boot_of_their_segment(
    tmp_path: Path, disk: FailingDisk
) -> None:
    first = opened(tmp_path, disk, "boot-1")
    first.append(*published(1, 2))
    first.append(*published(3))
    first.close()
    second = opened(tmp_path, disk, "boot-2")
    second.append(*published(4))
    assert contents(tmp_path) == [
        (1, "boot-1", [Opened(1, "boot-1", "0.1", LEVEL), *published(1, 2, 3)]),
        (2, "boot-2", [Opened(2, "boot-2", "0.1", LEVEL), *published(4)]),
    ]
    second.close()


def test_positions_are_those_of_the_records(tmp_path: Path, disk: FailingDisk) -> None:
    journal = opened(tmp_path, disk)
    before = journal.position
    journal.append(*published(1), reserve=100_000)
    assert journal.position == Position(1, before.offset + len(frames(Published(1))))
    last = read_journal(str(tmp_path), Disk())[-1]
    assert last == PlacedRecord(1, before.offset, "boot", Published(1))
    journal.close()


def test_killed_journal_keeps_its_reserved_space_and_is_read_all_the_same(
    tmp_path: Path, disk: FailingDisk
) -> None:
    journal = opened(tmp_path, disk)
    journal.append(*published(1), reserve=1 << 20)
    assert (tmp_path / "00000001.wal").stat().st_size > 1 << 20
    assert contents(tmp_path) == [(1, "boot", [Opened(1, "boot", "0.1", LEVEL), *published(1)])]


def test_torn_tail_is_cut_off_for_good(tmp_path: Path, disk: FailingDisk) -> None:
    """What was judged once must not be read differently later."""
    journal = opened(tmp_path, disk)
    journal.append(*published(1))
    journal.close()
    path = tmp_path / "00000001.wal"
    whole = path.read_bytes()
    path.write_bytes(whole + frames(Published(2))[:-1])
    assert contents(tmp_path)[0][2][1:] == published(1)
    assert path.read_bytes() == whole


def test_reading_makes_durable_what_was_read(tmp_path: Path, disk: FailingDisk) -> None:
    opened(tmp_path, Disk()).close()
    opened(tmp_path, Disk()).close()
    read_journal(str(tmp_path), disk)
    assert disk.synced == ["00000001.wal", "00000002.wal", tmp_path.name]


def test_new_segment_is_durable_with_its_name_before_it_is_used(
    tmp_path: Path, disk: FailingDisk
) -> None:
    opened(tmp_path, disk)
    assert disk.synced == ["00000001.wal", tmp_path.name]


@pytest.mark.parametrize("torn", [b"", bytes(100), MAGIC[:5], MAGIC, MAGIC + b"\0\0\0\x20"])
def test_torn_newest_segment_stops_no_start(tmp_path: Path, disk: FailingDisk, torn: bytes) -> None:
    first = opened(tmp_path, disk)
    first.append(*published(1))
    first.close()
    (tmp_path / "00000002.wal").write_bytes(torn)
    assert [number for number, _, _ in contents(tmp_path)] == [1]
    third = opened(tmp_path, disk)
    assert third.position.segment == 3
    third.close()


@pytest.mark.parametrize("written", [0, 3, 8, 20, 60])
def test_failed_append_has_appended_nothing(
    tmp_path: Path, disk: FailingDisk, written: int
) -> None:
    journal = opened(tmp_path, disk)
    journal.append(*published(1))
    disk.no_space_after = written
    with pytest.raises(OSError, match="Input/output error"):
        journal.append(*published(2, 3, 4))
    assert contents(tmp_path)[0][2][1:] == published(1)


def test_records_of_a_failed_append_stay_dead_when_one_of_the_same_length_follows(
    tmp_path: Path, disk: FailingDisk
) -> None:
    """A retry has the length of the first try: behind it, the rest of that batch would live."""
    journal = opened(tmp_path, disk)
    disk.no_space_after = 2 * len(frames(Published(2)))
    with pytest.raises(OSError, match="Input/output error"):
        journal.append(*published(2, 3, 4))
    journal.append(*published(5))
    assert contents(tmp_path)[0][2][1:] == published(5)


def test_where_no_byte_can_be_written_any_more_the_journal_is_not_broken(tmp_path: Path) -> None:
    """A quota on a file system that needs new space to overwrite, or a limit that was lowered."""

    class FullDisk(Disk):
        limit = 1 << 40

        def pwrite_all(self, fd: int, data: bytes, offset: int) -> None:
            super().pwrite_all(fd, data[: max(0, self.limit - offset)], offset)
            if offset + len(data) > self.limit:
                raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    disk = FullDisk()
    journal = opened(tmp_path, disk)
    journal.append(*published(1))
    for left in (0, 10):
        disk.limit = journal.position.offset + left
        with pytest.raises(OSError, match=os.strerror(errno.EDQUOT)):
            journal.append(*published(2, 3))
    disk.limit = 1 << 40
    journal.append(*published(4))
    assert contents(tmp_path)[0][2][1:] == published(1, 4)


def test_what_can_not_be_wiped_breaks_the_journal(tmp_path: Path) -> None:
    class DyingDisk(Disk):
        dying = dead = False

        def pwrite_all(self, fd: int, data: bytes, offset: int) -> None:
            if not self.dead:
                super().pwrite_all(fd, data[:-1] if self.dying else data, offset)
            self.dead = self.dying
            if self.dead:
                raise OSError(errno.EIO, os.strerror(errno.EIO))

    disk = DyingDisk()
    journal = opened(tmp_path, disk)
    disk.dying = True
    with pytest.raises(JournalBroken, match="writing the journal failed"):
        journal.append(*published(1, 2))
    disk.dying = disk.dead = False
    with pytest.raises(JournalBroken):
        journal.append(*published(3))


def test_failed_reserve_appends_nothing_and_what_was_reserved_stays_writable(
    tmp_path: Path, disk: FailingDisk
) -> None:
    journal = opened(tmp_path, disk)
    journal.append(*published(1), reserve=10_000)
    disk.no_reserve = True
    journal.append(*published(2))
    with pytest.raises(OSError, match="No space left"):
        journal.append(*published(3), reserve=1 << 30)
    journal.append(*published(4))
    assert contents(tmp_path)[0][2][1:] == published(1, 2, 4)


def test_on_a_full_disk_a_record_may_fill_what_was_reserved(
    tmp_path: Path, disk: FailingDisk
) -> None:
    journal = opened(tmp_path, disk)
    disk.most_reserved = 1 << 20
    journal.append(*published(1), reserve=300_000)
    disk.no_reserve = True
    room = 300_000 - len(frames(*published(2)))
    journal.append(*published(2), reserve=room)
    assert contents(tmp_path)[0][2][1:] == published(1, 2)


def test_where_no_step_fits_any_more_a_record_still_does(tmp_path: Path, disk: FailingDisk) -> None:
    """It may be an abort, or the checkpoint that lets old segments be dropped."""
    journal = opened(tmp_path, disk)
    disk.most_reserved = 1 << 20
    journal.append(*published(1), reserve=100_000)
    journal.append(*published(2), reserve=300_000)
    assert contents(tmp_path)[0][2][1:] == published(1, 2)


def test_failed_sync_breaks_the_journal_for_good(tmp_path: Path, disk: FailingDisk) -> None:
    journal = opened(tmp_path, disk)
    journal.append(*published(1))
    disk.no_sync = True
    with pytest.raises(JournalBroken, match="fdatasync of the journal failed"):
        journal.sync()
    disk.no_sync = False
    with pytest.raises(JournalBroken):
        journal.append(*published(2))


def test_a_failure_that_a_checkpoint_hears_of_is_not_kept_from_a_call(tmp_path: Path) -> None:
    """The kernel tells a failure once to each open file: to whoever syncs first."""
    told: set[int] = set()

    class LinuxDisk(Disk):
        def fdatasync(self, fd: int) -> None:
            if failing and fd not in told:
                told.add(fd)
                raise SyncFailed(errno.EIO, "Input/output error")

    failing = False
    journal = opened(tmp_path, LinuxDisk())
    journal.append(*published(1))
    failing = True
    with pytest.raises(JournalBroken):
        journal.sync_in_thread()
    with pytest.raises(JournalBroken):
        journal.sync()


def test_relaxed_durability_syncs_checkpoints_only(tmp_path: Path, disk: FailingDisk) -> None:
    journal = Journal(str(tmp_path), disk, boot="b", version="0.1", relaxed=True)
    disk.synced.clear()
    journal.append(*published(1))
    journal.sync()
    assert disk.synced == []
    journal.sync_in_thread()
    assert disk.synced == ["00000001.wal"]
    assert journal.sync_s == 0.0


def test_how_long_a_sync_takes_is_told_by_the_shortest_of_the_newest(
    tmp_path: Path, disk: FailingDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([100.0, 100.5, 200.0, 208.0, *range(300, 316)])
    journal = opened(tmp_path, disk)
    assert journal.sync_s == 0.0
    times = SimpleNamespace(monotonic=lambda: next(clock))
    monkeypatch.setattr("stetd.storage.journal.time", times)
    journal.sync()
    journal.sync()
    assert journal.sync_s == 0.5
    for _ in range(8):
        journal.sync()
    assert journal.sync_s == 1.0
    journal.close()


def test_rotation_keeps_the_order_and_drops_only_older_segments(
    tmp_path: Path, disk: FailingDisk
) -> None:
    journal = opened(tmp_path, disk)
    for number in range(1, 5):
        journal.append(*published(number), reserve=1 << 20)
        journal.start_segment()
    checkpoint = Checkpoint(3, 0, 0, [], [])
    journal.append(checkpoint)
    old = journal.segments_before(3)
    journal.remove(old)
    journal.forget(old)
    assert [(number, records[1:]) for number, _, records in contents(tmp_path)] == [
        (3, published(3)),
        (4, published(4)),
        (5, [checkpoint]),
    ]
    assert journal.bytes == sum(path.stat().st_size for path in tmp_path.iterdir())


def test_a_gap_before_the_newest_checkpoint_is_no_loss(tmp_path: Path, disk: FailingDisk) -> None:
    """Segments before it are kept for a workspace that is deferred, and others are dropped."""
    journal = opened(tmp_path, disk)
    for _ in range(3):
        journal.start_segment()
    journal.append(Checkpoint(4, 0, 0, [], []))
    journal.remove([1, 3])
    journal.close()
    assert [number for number, *_ in contents(tmp_path)] == [2, 4]


@pytest.mark.parametrize("lost", ["removed", "emptied", "damaged", "of the middle"])
def test_records_that_come_after_a_lost_part_are_refused_and_nothing_is_changed(
    tmp_path: Path, disk: FailingDisk, lost: str
) -> None:
    """They name workspaces that only what is lost knows, and a tail was cut off for good."""
    journal = opened(tmp_path, disk)
    for _ in range(2):
        journal.start_segment()
    journal.append(Checkpoint(3, 0, 0, [], []))
    old = journal.segments_before(3)
    journal.remove(old)
    for _ in range(2):
        journal.start_segment()
        journal.append(*published(1))
    journal.close()
    first = tmp_path / "00000003.wal"
    if lost == "removed":
        first.unlink()
    elif lost == "of the middle":
        (tmp_path / "00000004.wal").unlink()
    else:
        first.write_bytes(first.read_bytes()[:-1] if lost == "damaged" else b"")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    what = "00000004.wal is missing" if lost == "of the middle" else "its newest checkpoint is lost"
    with pytest.raises(FormatError, match=f"{tmp_path}: {what}"):
        read_journal(str(tmp_path), disk)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_segment_that_is_kept_for_a_deferred_workspace_is_followed_by_a_gap(
    tmp_path: Path, disk: FailingDisk
) -> None:
    """A checkpoint has dropped what is between; it is the newest one that counts."""
    journal = opened(tmp_path, disk)
    journal.append(Checkpoint(1, 0, 0, [], []))
    for _ in range(3):
        journal.start_segment()
    journal.append(Checkpoint(4, 0, 0, [], []), *published(1))
    journal.remove([2, 3])
    journal.close()
    assert [number for number, _, _ in contents(tmp_path)] == [1, 4]


def test_failed_truncation_of_the_old_segment_does_not_stop_rotation(
    tmp_path: Path, disk: FailingDisk
) -> None:
    journal = opened(tmp_path, disk)
    journal.append(*published(1), reserve=4096)
    disk.no_truncate = True
    journal.start_segment()
    journal.append(*published(2))
    journal.start_segment()
    disk.no_truncate = False
    assert [records[1:] for _, _, records in contents(tmp_path)] == [
        published(1), published(2), [],
    ]  # fmt: skip


def test_segment_that_can_not_be_made_durable_is_not_used(
    tmp_path: Path, disk: FailingDisk
) -> None:
    journal = opened(tmp_path, disk)
    disk.no_sync = True
    with pytest.raises(OSError, match="Input/output"):
        journal.start_segment()
    disk.no_sync = False
    journal.append(*published(1))
    assert contents(tmp_path) == [(1, "boot", [Opened(1, "boot", "0.1", LEVEL), *published(1)])]
