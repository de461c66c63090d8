"""What must stay bounded while calls go on: memory, file handles, the journal."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from e2e.running_daemon import DaemonProcess, Site
from rigs import findings

CALLS = 50_000 if os.environ.get("STET_TEST_ALL") else 1_500
WARM_UP = 600
CHECKPOINT_BYTES = 1 << 20
#: Caches of known size (trees, written ids, request replies since a checkpoint) fill up at
#: first; beyond that, growth would be a leak. 50,000 calls that each leaked 1 KB would
#: exceed it by half.
GROWTH_BYTES = 32 << 20


def resident_bytes(pid: int) -> int:
    fields = Path(f"/proc/{pid}/statm").read_text().split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")


def handles(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def edit(site: Site, number: int) -> None:
    path = f"d{number % 7}/f{number % 13}.txt"
    site.overwrite(path, f"content {number}\n" * 20)
    if number % 10 == 0:
        site.agent.refusal("patch", path=path, patches=[{"operation": "replace", "oldText": "?"}])


@pytest.mark.timeout(3600)
def test_memory_handles_and_journal_stay_bounded() -> None:
    tally = findings.begin("limits")
    daemon = DaemonProcess({"checkpoint_bytes": CHECKPOINT_BYTES, "grace_s": 0.2})
    try:
        daemon.start()
        site = daemon.site("w")
        for number in range(WARM_UP):
            edit(site, number)
        pid = daemon.process.pid
        memory, journal = resident_bytes(pid), 0
        time.sleep(1.0)
        opened = handles(pid) + 16  # a pack that is being read is open, and there are few
        for number in range(WARM_UP, WARM_UP + CALLS):
            edit(site, number)
            tally.points += 1
            if number % 200 == 0:
                journal = max(journal, site.person.call("status")["journal_bytes"])
        site.person.call("log", limit=1)
        grown = resident_bytes(pid) - memory
        tally.notes.append(f"memory {grown / 1e6:+.1f} MB, journal at most {journal / 1e6:.1f} MB")
        assert grown < GROWTH_BYTES
        assert journal < 8 * CHECKPOINT_BYTES
        # What was displaced lately is watched for the grace period, then let go.
        time.sleep(1.0)
        assert handles(pid) <= opened
    finally:
        daemon.close()
