"""A checkpoint's waits for the disk are nobody else's."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from e2e.running_daemon import running
from in_process import InProcess
from own_peer import own_peer
from stet.wire.failures import Refused
from stetd.config.directories import Directories
from stetd.config.settings import Settings
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


def test_a_workspace_is_forgotten_with_its_files_synced_while_a_checkpoint_waits(
    tmp_path: Path,
) -> None:
    """After a power cut nobody brings the files of a forgotten workspace to what was answered."""
    waits, goes_on = threading.Event(), threading.Event()
    synced: list[str] = []

    class SlowDisk(Disk):
        def fsync(self, fd: int) -> None:
            name = os.path.basename(os.readlink(f"/proc/self/fd/{fd}"))
            if threading.current_thread().name.startswith("stet-help"):
                waits.set()
                goes_on.wait(20)
            synced.append(name)

    names = [str(tmp_path / name) for name in ("run", "state", "c.toml")]
    root = tmp_path / "w"
    root.mkdir()
    daemon = InProcess(Settings(gc_idle_s=0, log_level="error"), Directories(*names), SlowDisk())

    async def call(connection: Any, method: str, **params: Any) -> Any:
        return await connection.call(method, params)

    async def work() -> None:
        person = daemon.connect(control=True, peer=own_peer("test"))
        await call(person, "workspace_allow", root=str(root))
        await call(person, "hello", protocol=1, workspace=str(root), session="s", agent="a")
        patches = [{"operation": "overwrite", "newText": "x\n"}]
        await call(person, "patch", path="a.txt", patches=patches)
        daemon.on_loop(daemon.writer.checkpoints.begin)
        assert waits.wait(20)
        assert "a.txt" not in synced
        await call(person, "workspace_forget", root=str(root))
        assert "a.txt" in synced

    try:
        asyncio.run(work())
    finally:
        goes_on.set()
        daemon.close()


def in_process(directory: Path, disk: Disk, **settings: Any) -> InProcess:
    names = [str(directory / name) for name in ("run", "state", "c.toml")]
    chosen = Settings(gc_idle_s=0, log_level="error", **settings)
    return InProcess(chosen, Directories(*names), disk)


class HeldDisk(Disk):
    """Holds up the sync of a checkpoint's record until it is told to go on; then it fails, or is
    said to be done. ``failing``: every other sync fails.
    """

    def __init__(self, *, fails: bool) -> None:
        self.waits, self.goes_on = threading.Event(), threading.Event()
        self.fails, self.failing = fails, False

    def fdatasync(self, fd: int) -> None:
        held = threading.current_thread().name.startswith("stet-help")
        if held:
            self.waits.set()
            self.goes_on.wait(20)
        if self.fails if held else self.failing:
            raise SyncFailed(errno.EIO, os.strerror(errno.EIO))


def test_whoever_waits_for_the_next_checkpoint_is_told_when_none_will_be_taken(
    tmp_path: Path,
) -> None:
    """Else `stet forget`, or a stop, waits for a minute for what never comes."""
    disk = HeldDisk(fails=True)
    daemon = in_process(tmp_path, disk)
    try:
        first, second = threading.Event(), threading.Event()
        daemon.on_loop(lambda: daemon.writer.checkpoints.begin(first.set))
        assert disk.waits.wait(20)
        daemon.on_loop(lambda: daemon.writer.checkpoints.begin(second.set))
        disk.goes_on.set()
        assert first.wait(20)
        assert second.wait(20)
        assert daemon.writer.state.read_only is not None
    finally:
        disk.goes_on.set()
        daemon.close()


def test_a_defect_in_a_checkpoint_keeps_nobody_waiting(tmp_path: Path) -> None:
    class NoDisk(Disk):
        def fsync(self, fd: int) -> None:
            if threading.current_thread().name.startswith("stet-help"):
                raise ZeroDivisionError("a defect")

    root = tmp_path / "w"
    root.mkdir()
    daemon = in_process(tmp_path, NoDisk())
    try:
        edit_in(daemon, root)
        done = threading.Event()
        daemon.on_loop(lambda: daemon.writer.checkpoints.begin(done.set))
        assert done.wait(20)
        assert daemon.writer.state.read_only == "internal error: ZeroDivisionError, see the log"
    finally:
        daemon.close()


def test_no_journal_is_dropped_after_a_sync_of_it_has_failed(tmp_path: Path) -> None:
    """The checkpoint's own sync, by another handle, is told nothing of what the first has lost."""
    disk = HeldDisk(fails=False)
    root = tmp_path / "w"
    root.mkdir()
    daemon = in_process(tmp_path, disk)
    try:
        edit_in(daemon, root)
        before = set(os.listdir(tmp_path / "state" / "journal"))
        done = threading.Event()
        daemon.on_loop(lambda: daemon.writer.checkpoints.begin(done.set, fresh=True))
        assert disk.waits.wait(20)
        disk.failing = True
        with pytest.raises(Refused, match="not known whether the call will stand"):
            edit_in(daemon, root)
        disk.goes_on.set()
        assert done.wait(20)
        assert before <= set(os.listdir(tmp_path / "state" / "journal"))
    finally:
        disk.failing = False
        disk.goes_on.set()
        daemon.close()


def test_no_checkpoint_is_recorded_after_the_sync_of_a_file_has_failed(tmp_path: Path) -> None:
    """The checkpoint syncs the same file by another handle, and is told nothing of that."""
    waits, goes_on = threading.Event(), threading.Event()

    class OnceFailing(Disk):
        failing = False

        def fsync(self, fd: int) -> None:
            if threading.current_thread().name.startswith("stet-help"):
                waits.set()
                goes_on.wait(20)
            elif self.failing:
                raise SyncFailed(errno.EIO, os.strerror(errno.EIO))

    disk, root = OnceFailing(), tmp_path / "w"
    root.mkdir()
    daemon = in_process(tmp_path, disk)
    try:
        edit_in(daemon, root)
        done = threading.Event()
        daemon.on_loop(lambda: daemon.writer.checkpoints.begin(done.set))
        assert waits.wait(20)
        disk.failing = True
        person = daemon.connect(control=True, peer=own_peer("test"))
        with pytest.raises(Refused, match="Input/output error"):
            asyncio.run(person.call("workspace_forget", {"root": str(root)}))
        disk.failing = False
        goes_on.set()
        assert done.wait(20)
        daemon.on_loop(lambda: daemon.writer.become_read_only("what came of it"))
        assert daemon.writer.state.read_only == "a sync failed: Input/output error"
    finally:
        goes_on.set()
        daemon.close()
    checkpoint, records = split_records(read_journal(str(tmp_path / "state" / "journal"), Disk()))
    assert checkpoint is None
    assert [placed for placed in records if isinstance(placed.record, Change)]


def test_no_checkpoint_is_taken_where_nothing_was_done(tmp_path: Path) -> None:
    daemon = in_process(tmp_path, Disk(), checkpoint_idle_s=0.01)
    try:
        daemon.on_loop(daemon.writer.checkpoints.on_end)  # a turn, after which it would be due
        time.sleep(0.2)
        assert daemon.writer.checkpoints.recorded is None
    finally:
        daemon.close()


def test_a_checkpoint_syncs_only_what_was_written_since_the_last(tmp_path: Path) -> None:
    synced: list[str] = []

    class NotingDisk(Disk):
        def fsync(self, fd: int) -> None:
            if threading.current_thread().name.startswith("stet-help"):
                synced.append(os.path.basename(os.readlink(f"/proc/self/fd/{fd}")))

    root = tmp_path / "w"
    root.mkdir()
    daemon = in_process(tmp_path, NotingDisk())
    try:
        for path in ("a.txt", "b.txt"):
            synced.clear()
            edit_in(daemon, root, path)
            daemon.checkpoint()
            assert [path] == [name for name in synced if name.endswith(".txt")]
    finally:
        daemon.close()


def test_a_segment_is_begun_for_the_checkpoint_that_asks_for_one_only(tmp_path: Path) -> None:
    """A segment costs two syncs and reserved space."""
    daemon = in_process(tmp_path, Disk(), checkpoint_idle_s=3600)
    try:
        begun = []
        for fresh in (False, True, False):
            before, done = daemon.writer.journal.position.segment, threading.Event()
            begin = partial(daemon.writer.checkpoints.begin, done.set, fresh=fresh)
            daemon.on_loop(begin)
            assert done.wait(20)
            begun.append(daemon.writer.journal.position.segment - before)
        assert begun == [0, 1, 0]
    finally:
        daemon.close()


def test_what_was_dropped_does_not_count_as_journal(tmp_path: Path) -> None:
    """Else a daemon that works for long takes its journal for full."""
    root = tmp_path / "w"
    root.mkdir()
    daemon = in_process(tmp_path, Disk(), checkpoint_idle_s=3600)
    try:
        edit_in(daemon, root)
        edited = daemon.writer.journal.bytes
        done = threading.Event()
        daemon.on_loop(lambda: daemon.writer.checkpoints.begin(done.set, fresh=True))
        assert done.wait(20)
        assert daemon.writer.journal.bytes < edited
    finally:
        daemon.close()


def edit_in(daemon: InProcess, root: Path, path: str = "a.txt") -> None:
    async def work() -> None:
        person = daemon.connect(control=True, peer=own_peer("test"))
        if not daemon.writer.state.open:
            await person.call("workspace_allow", {"root": str(root)})
        await person.call("hello", {"protocol": 1, "workspace": str(root), "agent": "a"})
        patches = [{"operation": "append_eof", "newText": "x\n"}]
        await person.call("patch", {"path": path, "patches": patches})

    asyncio.run(work())


def test_what_could_not_be_removed_is_removed_after_the_next_start(tmp_path: Path) -> None:
    left = tmp_path / "w" / ".stet-0123456789abcdef.tmp"
    left.parent.mkdir()
    left.write_bytes(b"")

    class Keeping(Disk):
        def unlink(self, name: str, dir_fd: int | None = None) -> None:
            if name == left.name:
                raise PermissionError(errno.EPERM, "Operation not permitted")
            super().unlink(name, dir_fd)

    daemon = in_process(tmp_path, Keeping())
    person = daemon.connect(control=True, peer=own_peer("test"))
    asyncio.run(person.call("workspace_allow", {"root": str(left.parent)}))
    [workspace] = daemon.writer.state.open.values()
    workspace.worktree.leftovers.add(left.name)
    daemon.close()
    assert left.exists()
    in_process(tmp_path, Disk()).close()
    assert not left.exists()
