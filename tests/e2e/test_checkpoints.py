"""A checkpoint's waits for the disk are nobody else's."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import in_process
from e2e.running_daemon import eventually, running
from historian_thread import InThread
from in_process import InProcess
from own_peer import own_peer
from stet.wire.failures import Refused
from stetd.recovery.startup import split_records
from stetd.storage.disk import Disk, SyncFailed
from stetd.storage.journal import read_journal
from stetd.storage.journal_format import Change


def test_edits_go_on_while_old_journal_segments_are_removed(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    with running(
        {"checkpoint_bytes": 65536, "checkpoint_idle_s": 0.1},
        STET_FAILPOINT="journal.dropped_one@sleep=600",
        STET_FAILPOINT_TRACE=str(trace),
    ) as daemon:
        site = daemon.site("w")
        deadline = time.monotonic() + 30
        while "journal.dropped_one\n" not in (trace.read_text() if trace.exists() else ""):
            assert time.monotonic() < deadline, "no old segment was removed"
            site.overwrite("a.txt", "x" * 20_000 + f"{time.monotonic()}\n")
        for number in range(10):  # one of them would wait for ten minutes
            site.overwrite("a.txt", f"{number}\n")
        assert b"9\n" == site.bytes_of("a.txt")
        daemon.kill()
        daemon.start()
        assert b"9\n" == site.bytes_of("a.txt")


class Held(Disk):
    """Holds up what a checkpoint syncs beside the daemon's thread, until it is told to go on."""

    def __init__(self) -> None:
        self.waits, self.goes_on = threading.Event(), threading.Event()

    def is_held(self) -> bool:
        """Whether it is a checkpoint that syncs; then it was held up."""
        if not is_checkpoint():
            return False
        self.waits.set()
        self.goes_on.wait(20)
        return True


def is_checkpoint() -> bool:
    return threading.current_thread().name.startswith("stet-help")


def name_of(fd: int) -> str:
    return os.path.basename(os.readlink(f"/proc/self/fd/{fd}"))


@contextmanager
def holding(base: Path, disk: Held) -> Iterator[InProcess]:
    """A daemon on such a disk."""
    with in_process.running(base, disk) as daemon:
        try:
            yield daemon
        finally:
            disk.goes_on.set()


def edit_in(daemon: InProcess, base: Path, path: str = "a.txt") -> None:
    """A line more in a file of the workspace, which is made if there is none."""
    root = base / "w"
    root.mkdir(exist_ok=True)
    person = daemon.connect(control=True, peer=own_peer("test"))
    if not daemon.writer.state.open:
        asyncio.run(person.call("workspace_allow", {"root": str(root)}))
    hello = {"protocol": 1, "workspace": str(root), "agent": "a"}
    asyncio.run(person.call("hello", hello))
    patches = [{"operation": "append_eof", "newText": "x\n"}]
    asyncio.run(person.call("patch", {"path": path, "patches": patches}))


def forget(daemon: InProcess, base: Path) -> None:
    person = daemon.connect(control=True, peer=own_peer("test"))
    asyncio.run(person.call("workspace_forget", {"root": str(base / "w")}))


def begun(daemon: InProcess, **options: Any) -> threading.Event:
    """Begin a checkpoint; what is set when it is over."""
    done = threading.Event()
    daemon.on_loop(lambda: daemon.writer.checkpoints.begin(done.set, **options))
    return done


def test_a_workspace_is_forgotten_with_its_files_synced_while_a_checkpoint_waits(
    tmp_path: Path,
) -> None:
    """After a power cut nobody brings the files of a forgotten workspace to what was answered."""
    synced: list[str] = []

    class SlowDisk(Held):
        def fsync(self, fd: int) -> None:
            name = name_of(fd)
            self.is_held()
            synced.append(name)

    with holding(tmp_path, disk := SlowDisk()) as daemon:
        edit_in(daemon, tmp_path)
        begun(daemon)
        assert disk.waits.wait(20)
        assert "a.txt" not in synced
        forget(daemon, tmp_path)
        assert "a.txt" in synced


class HeldDisk(Held):
    """Holds up the sync of a checkpoint's record; then it fails, or is said to be done.
    ``failing``: every other sync fails.
    """

    def __init__(self, *, fails: bool) -> None:
        super().__init__()
        self.fails, self.failing = fails, False

    def fdatasync(self, fd: int) -> None:
        if self.fails if self.is_held() else self.failing:
            raise SyncFailed(errno.EIO, os.strerror(errno.EIO))


def test_whoever_waits_for_the_next_checkpoint_is_told_when_none_will_be_taken(
    tmp_path: Path,
) -> None:
    """Else `stet forget`, or a stop, waits for a minute for what never comes."""
    with holding(tmp_path, disk := HeldDisk(fails=True)) as daemon:
        first = begun(daemon)
        assert disk.waits.wait(20)
        second = begun(daemon)
        disk.goes_on.set()
        assert first.wait(20)
        assert second.wait(20)
        assert daemon.writer.state.read_only is not None


def test_a_defect_in_a_checkpoint_keeps_nobody_waiting(tmp_path: Path) -> None:
    class NoDisk(Disk):
        def fsync(self, fd: int) -> None:
            if is_checkpoint():
                raise ZeroDivisionError("a defect")

    with in_process.running(tmp_path, NoDisk()) as daemon:
        edit_in(daemon, tmp_path)
        assert begun(daemon).wait(20)
        assert daemon.writer.state.read_only == "internal error: ZeroDivisionError, see the log"


def test_no_journal_is_dropped_after_a_sync_of_it_has_failed(tmp_path: Path) -> None:
    """The checkpoint's own sync, by another handle, is told nothing of what the first has lost."""
    with holding(tmp_path, disk := HeldDisk(fails=False)) as daemon:
        edit_in(daemon, tmp_path)
        before = set(os.listdir(tmp_path / "state" / "journal"))
        done = begun(daemon, fresh=True)
        assert disk.waits.wait(20)
        disk.failing = True
        with pytest.raises(Refused, match="not known whether the call will stand"):
            edit_in(daemon, tmp_path)
        disk.goes_on.set()
        assert done.wait(20)
        assert before <= set(os.listdir(tmp_path / "state" / "journal"))
        disk.failing = False


def test_a_historian_that_begins_while_a_checkpoint_is_recorded_misses_nothing(
    tmp_path: Path,
) -> None:
    """It began at the checkpoint before. When it came to read, those records had been dropped, and
    the next checkpoint dropped the later ones, too: the history ended there for good.
    """
    with holding(tmp_path, disk := HeldDisk(fails=False)) as daemon:
        historian: Any = daemon.writer.historian
        ends: list[socket.socket] = []

        def begin() -> tuple[socket.socket, Any]:
            near, far = socket.socketpair()
            ends.append(far)
            return near, SimpleNamespace(kill=lambda: None, wait=lambda: 0)

        disk.goes_on.set()
        edit_in(daemon, tmp_path)
        daemon.checkpoint()
        disk.goes_on.clear()
        disk.waits.clear()
        edit_in(daemon, tmp_path)
        done = begun(daemon, fresh=True)
        assert disk.waits.wait(20)
        lost, historian._run = historian._running, begin
        lost._socket.shutdown(socket.SHUT_RDWR)
        assert eventually(lambda: bool(ends) and historian._writer is not None)
        disk.goes_on.set()
        assert done.wait(20)
        InThread(disk, ends[0])
        edit_in(daemon, tmp_path)
        person = daemon.connect(control=True, peer=own_peer("test"))
        hello = {"protocol": 1, "workspace": str(tmp_path / "w")}
        asyncio.run(person.call("hello", hello))
        assert len(asyncio.run(person.call("log", {})).commits) == 3


def test_no_checkpoint_is_recorded_after_the_sync_of_a_file_has_failed(tmp_path: Path) -> None:
    """The checkpoint syncs the same file by another handle, and is told nothing of that."""

    class OnceFailing(Held):
        failing = False

        def fsync(self, fd: int) -> None:
            if not self.is_held() and self.failing:
                raise SyncFailed(errno.EIO, os.strerror(errno.EIO))

    with holding(tmp_path, disk := OnceFailing()) as daemon:
        edit_in(daemon, tmp_path)
        done = begun(daemon)
        assert disk.waits.wait(20)
        disk.failing = True
        with pytest.raises(Refused, match="Input/output error"):
            forget(daemon, tmp_path)
        disk.failing = False
        disk.goes_on.set()
        assert done.wait(20)
        daemon.on_loop(lambda: daemon.writer.become_read_only("what came of it"))
        assert daemon.writer.state.read_only == "a sync failed: Input/output error"
    checkpoint, records = split_records(read_journal(str(tmp_path / "state" / "journal"), Disk()))
    assert checkpoint is None
    assert [placed for placed in records if isinstance(placed.record, Change)]


def test_no_checkpoint_is_taken_where_nothing_was_done(tmp_path: Path) -> None:
    with in_process.running(tmp_path, checkpoint_idle_s=0.01) as daemon:
        daemon.on_loop(daemon.writer.checkpoints.on_end)  # a turn, after which it would be due
        time.sleep(0.2)
        assert daemon.writer.checkpoints.recorded is None


def test_a_checkpoint_syncs_only_what_was_written_since_the_last(tmp_path: Path) -> None:
    synced: list[str] = []

    class NotingDisk(Disk):
        def fsync(self, fd: int) -> None:
            if is_checkpoint():
                synced.append(name_of(fd))

    with in_process.running(tmp_path, NotingDisk()) as daemon:
        for path in ("a.txt", "b.txt"):
            synced.clear()
            edit_in(daemon, tmp_path, path)
            daemon.checkpoint()
            assert [path] == [name for name in synced if name.endswith(".txt")]


def test_a_segment_is_begun_for_the_checkpoint_that_asks_for_one_only(tmp_path: Path) -> None:
    """A segment costs two syncs and reserved space."""
    with in_process.running(tmp_path, checkpoint_idle_s=3600) as daemon:
        segments = [daemon.writer.journal.position.segment]
        for fresh in (False, True, False):
            assert begun(daemon, fresh=fresh).wait(20)
            segments.append(daemon.writer.journal.position.segment)
        assert [each - segments[0] for each in segments] == [0, 0, 1, 1]


def test_what_was_dropped_does_not_count_as_journal(tmp_path: Path) -> None:
    """Else a daemon that works for long takes its journal for full."""
    with in_process.running(tmp_path, checkpoint_idle_s=3600) as daemon:
        edit_in(daemon, tmp_path)
        edited = daemon.writer.journal.bytes
        assert begun(daemon, fresh=True).wait(20)
        assert daemon.writer.journal.bytes < edited


def test_what_could_not_be_removed_is_removed_after_the_next_start(tmp_path: Path) -> None:
    left = tmp_path / "w" / ".stet-0123456789abcdef.tmp"
    left.parent.mkdir()
    left.write_bytes(b"")

    class Keeping(Disk):
        def unlink(self, name: str, dir_fd: int | None = None) -> None:
            if name == left.name:
                raise PermissionError(errno.EPERM, "Operation not permitted")
            super().unlink(name, dir_fd)

    daemon = in_process.opened(tmp_path, Keeping())
    person = daemon.connect(control=True, peer=own_peer("test"))
    asyncio.run(person.call("workspace_allow", {"root": str(left.parent)}))
    [workspace] = daemon.writer.state.open.values()
    workspace.worktree.leftovers.add(left.name)
    daemon.close()
    assert left.exists()
    in_process.opened(tmp_path).close()
    assert not left.exists()
