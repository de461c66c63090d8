"""What must stay bounded while calls go on: memory, file handles, the journal.

The daemon keeps things to be fast, each with a bound
(docs/decisions/0016-memory.md). So its memory grows until they are
full, and then no more: that is what is measured here. The warm-up fills those that
these calls use. A history from an earlier life of the daemon, whose index is lost, is indexed in
one go, which takes all that indexing may take; the others fill as calls are made.

After that nothing is left to fill, and memory may grow only by what allocators round up to.
A leak of 1 KB a call would take 5 MB in the short form, and 50 MB in the long one.
"""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

import pytest

from e2e.running_daemon import DaemonProcess, Refusal, Site, eventually
from rigs import findings
from stetd.historian.index.history_index import HistoryIndex, remove

COMPLETE = bool(os.environ.get("STET_TEST_ALL"))
CALLS = 50_000 if COMPLETE else 5_000
#: Commits of the earlier life: as many as indexing remembers, in directories of 60 files, so that
#: it reads trees of more than it keeps on the way.
EARLIER = 2_000
#: Enough for the ids of objects that were written lately (four a call), some checkpoints (one
#: every 400 calls) and, with the earlier ones, SQLite's share of the replies.
WARM_UP = 4_000 if COMPLETE else 2_000
CHECKPOINT_BYTES = 1 << 20
FILES = 420
#: What allocators take or keep in one piece is 1 MiB; this is a few of them. A leak of 1.3 KB a
#: call would be found; in full, one of 130 bytes.
GROWTH_BYTES = 6 << 20
#: Calls that are sent before the answer to the first is awaited.
AHEAD = 8


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


def text(number: int) -> str:
    """Some lines that no other number has, so that the index of changed text grows."""
    lines = (hashlib.sha256(f"{number} {line}".encode()).hexdigest() for line in range(20))
    return "".join(f"{line}\n" for line in lines)


def edit(site: Site, numbers: range) -> None:
    """An edit for each number, and for each tenth a refusal beside it."""
    sent = []
    for number in numbers:
        path = f"d{number % 7}/f{number % FILES}.txt"
        patch = {"operation": "overwrite", "newText": text(number)}
        if number >= FILES:  # searched, so that the forms of the file's text are made
            patch |= {"operation": "replace", "oldText": text(number - FILES)}
        sent.append(site.agent.send("patch", path=path, patches=[patch]))
        if number % 10 == 0:
            nothing = [{"operation": "replace", "oldText": "?"}]
            refused = site.agent.send("patch", path=path, patches=nothing)
            sent.append(-refused)
    for expected in sent:
        reply = site.agent.receive()
        assert reply.id == abs(expected)
        if expected > 0:
            site.agent.result_of(reply)
        else:
            with pytest.raises(Refusal):
                site.agent.result_of(reply)


def edits(site: Site, first: int, count: int) -> int:
    """So many edits; gives the largest journal that was seen."""
    journal = 0
    for number in range(first, first + count, AHEAD):
        edit(site, range(number, min(number + AHEAD, first + count)))
        if number // AHEAD % 25 == 0:
            journal = max(journal, site.person.call("status")["journal_bytes"])
    return journal


def with_a_past(daemon: DaemonProcess) -> Site:
    """A workspace with a history that the daemon has to index anew."""
    daemon.start()
    site = daemon.site("w")
    edits(site, 0, EARLIER)
    assert daemon.stop() == 0, daemon.log()
    remove(HistoryIndex.path_for(site.shadow))
    daemon.start()
    site.connect()
    return site


def newest(site: Site) -> None:
    """Ask for the newest commit; on a busy machine the index is far behind, and says so."""
    deadline = time.monotonic() + 600
    while True:
        try:
            site.person.call("log", limit=1)
            return
        except Refusal as refusal:
            if refusal.kind != "overloaded" or time.monotonic() > deadline:
                raise


@pytest.mark.timeout(3600)
def test_memory_handles_and_journal_stay_bounded() -> None:
    tally = findings.begin("limits")
    daemon = DaemonProcess({"checkpoint_bytes": CHECKPOINT_BYTES, "grace_s": 0.2})
    try:
        site = with_a_past(daemon)
        edits(site, EARLIER, WARM_UP)
        pid = daemon.process.pid
        memory = anonymous_bytes(pid)
        time.sleep(1.0)
        opened = handles(pid) + 16  # a pack that is being read is open, and there are few
        journal = edits(site, EARLIER + WARM_UP, CALLS)
        tally.points += CALLS
        newest(site)
        grown = anonymous_bytes(pid) - memory
        tally.notes.append(f"memory {grown / 1e6:+.1f} MB, journal at most {journal / 1e6:.1f} MB")
        assert grown < GROWTH_BYTES
        assert journal < 8 * CHECKPOINT_BYTES
        # What was displaced lately is watched for the grace period, then let go.
        assert eventually(lambda: handles(pid) <= opened)
    finally:
        daemon.close()
