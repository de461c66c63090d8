"""What must stay bounded while calls go on: memory, file handles, the journal."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from e2e.running_daemon import DaemonProcess, Site
from rigs import findings

COMPLETE = bool(os.environ.get("STET_TEST_ALL"))
CALLS = 50_000 if COMPLETE else 1_500
#: Caches of known size fill up at first: the ids of 20,000 objects written lately (four a
#: call), replies since a checkpoint, trees.
WARM_UP = 6_000 if COMPLETE else 600
CHECKPOINT_BYTES = 1 << 20
#: What the rest of the caches and the largest join of packs may take. Of 50,000 calls that
#: each leak 1 KB it would be a third.
GROWTH_BYTES = 16 << 20


def anonymous_bytes(pid: int) -> int:
    """Resident memory that no file stands behind.

    Packs and the request store are mapped: how much of them is resident is the kernel's
    choice, and what is mapped now says nothing about a leak.
    """
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("the kernel does not tell RssAnon")


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
        memory, journal = anonymous_bytes(pid), 0
        time.sleep(1.0)
        opened = handles(pid) + 16  # a pack that is being read is open, and there are few
        for number in range(WARM_UP, WARM_UP + CALLS):
            edit(site, number)
            tally.points += 1
            if number % 200 == 0:
                journal = max(journal, site.person.call("status")["journal_bytes"])
        site.person.call("log", limit=1)
        grown = anonymous_bytes(pid) - memory
        tally.notes.append(f"memory {grown / 1e6:+.1f} MB, journal at most {journal / 1e6:.1f} MB")
        assert grown < GROWTH_BYTES
        assert journal < 8 * CHECKPOINT_BYTES
        # What was displaced lately is watched for the grace period, then let go.
        time.sleep(1.0)
        assert handles(pid) <= opened
    finally:
        daemon.close()
