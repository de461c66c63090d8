"""A checkpoint's waits for the disk are nobody else's."""

from __future__ import annotations

import time
from pathlib import Path

from e2e.running_daemon import DaemonProcess


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
