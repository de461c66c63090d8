"""A checkpoint's waits for the disk are nobody else's."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from pathlib import Path
from typing import Any

from e2e.running_daemon import DaemonProcess
from in_process import InProcess
from own_peer import own_peer
from stetd.config.directories import Directories
from stetd.config.settings import Settings
from stetd.storage.disk import Disk


def test_edits_go_on_while_old_journal_segments_are_removed(tmp_path: Path) -> None:
    daemon = DaemonProcess({"checkpoint_bytes": 65536, "checkpoint_idle_s": 0.1})
    trace = tmp_path / "trace"
    daemon.start(STET_FAILPOINT="journal.dropped_one@sleep=600", STET_FAILPOINT_TRACE=str(trace))
    try:
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
    finally:
        daemon.close()


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
