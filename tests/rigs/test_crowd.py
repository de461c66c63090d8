"""Many clients on one workspace: the result is that of one order, the order of the commits.

Each client appends lines of its own to shared files, changes its last line, and counts up
a shared counter with an edit that is refused when somebody else was faster. Afterwards the
history is replayed from its beginning with plain string operations: every commit's files
must be what the calls, one after the other in the order of the commits, make of them.
"""

from __future__ import annotations

import os
import random
import threading
import time
from typing import Any

import pytest

from e2e.running_daemon import Client, Refusal, Site, fsck, git, running
from rigs import findings
from stet.wire.framing import Encoding
from stetd.repository.shadow_repo import ShadowRepository

CLIENTS = 16
CALLS = 5_000 if os.environ.get("STET_TEST_ALL") else 640
FILES = [f"shared/f{n}.txt" for n in range(6)]
COUNTER = "counter.txt"


class Member(threading.Thread):
    """One client of the crowd; ``done`` are its acknowledged calls in the order of replies."""

    def __init__(self, site: Site, number: int, calls: int) -> None:
        super().__init__()
        self.number = number
        self.calls = calls
        self.random = random.Random(number)
        self.done: list[tuple[str, str, str, str]] = []  # commit, path, old, new
        self.refused = 0
        self.failure: BaseException | None = None
        encoding = Encoding.MSGPACK if number % 2 else Encoding.JSON
        self.client: Client = site.greeted(site.daemon.agent(encoding), session=f"m{number}")

    def run(self) -> None:
        try:
            for step in range(self.calls):
                self.step(step)
        except BaseException as error:  # noqa: BLE001 - shown by the main thread
            self.failure = error

    def step(self, step: int) -> None:
        mine = f"client {self.number} step {step}\n"
        match self.random.randrange(4):
            case 0:
                self.count_up()
            case 1 if self.done and self.done[-1][1] != COUNTER:
                _, path, _, last = self.done[-1]
                self.edit(path, last, mine)
            case _:
                self.edit(self.random.choice(FILES), "", mine)

    def count_up(self) -> None:
        value = self.client.call("read", path=COUNTER)["text"]
        try:
            self.edit(COUNTER, value, f"counter {int(value.split()[1]) + 1}\n")
        except Refusal as refusal:
            if refusal.kind != "old_text_not_found":
                raise
            self.refused += 1

    def edit(self, path: str, old: str, new: str) -> None:
        patch: dict[str, Any] = {"operation": "append_eof", "newText": new}
        if old:
            patch = {"operation": "replace", "oldText": old, "newText": new}
        result = self.client.call("patch", path=path, patches=[patch])
        self.done.append((result["commit"], path, old, new))


def crowd(site: Site, clients: int, calls: int, first: int) -> tuple[list[Member], float]:
    members = [Member(site, first + n, calls // clients) for n in range(clients)]
    began = time.monotonic()
    for member in members:
        member.start()
    for member in members:
        member.join()
    return members, time.monotonic() - began


@pytest.mark.timeout(1800)
def test_a_crowd_has_the_effect_of_one_order() -> None:
    tally = findings.begin(f"crowd of {CLIENTS}")
    with running() as daemon:
        site = daemon.site("w")
        contents = dict.fromkeys(FILES, "") | {COUNTER: "counter 0\n"}
        for path, text in contents.items():
            site.write(path, text)
        alone, alone_s = crowd(site, 1, CALLS // 8, first=100)
        together, together_s = crowd(site, CLIENTS, CALLS, first=0)
        for member in [*alone, *together]:
            assert member.failure is None, member.failure
            tally.points += member.calls
        rate = (CALLS / together_s) / (CALLS // 8 / alone_s)
        tally.notes.append(f"{rate:.1f} times the calls a second of one client")
        judge(site, [*alone, *together], contents, tally)
        assert (tally.torn, tally.lost, tally.duplicated) == (0, 0, 0)
        assert daemon.stop() == 0
        assert fsck(site.shadow) == ""


def judge(
    site: Site, members: list[Member], contents: dict[str, str], tally: findings.Findings
) -> None:
    """Replay the history and compare every commit's file with what the calls make of it."""
    order = [commit for commit in reversed(site.git("rev-list", "history").split()) if commit]
    position = {commit: number for number, commit in enumerate(order)}
    calls = {done[0]: done for member in members for done in member.done}
    tally.duplicated += sum(len(member.done) for member in members) - len(calls)
    tally.lost += sum(commit not in position for commit in calls)
    for member in members:
        replies = [position[commit] for commit, *_ in member.done if commit in position]
        assert replies == sorted(replies), "replies came in another order than the commits"
    blobs = stored_blobs(site.shadow, order)
    for commit in order:
        if commit not in calls:
            continue  # what was there before the first edit
        _, path, old, new = calls[commit]
        before = contents[path]
        assert before.count(old) == 1 or not old
        contents[path] = before.replace(old, new) if old else before + new
        tally.torn += blobs[commit, path] != contents[path]
    for path, text in contents.items():
        tally.lost += site.bytes_of(path).decode() != text
    counted = sum(1 for done in calls.values() if done[1] == COUNTER)
    assert contents[COUNTER] == f"counter {counted}\n"


def stored_blobs(shadow: str, commits: list[str]) -> dict[tuple[str, str], str]:
    """The content that each commit gives to each file it changes."""
    listed = git(shadow, "log", "--format=commit %H", "--raw", "--no-abbrev", "history")
    named: dict[tuple[str, str], str] = {}
    commit = ""
    for line in listed.splitlines():
        if line.startswith("commit "):
            commit = line.split()[1]
        elif line.startswith(":"):
            meta, path = line.split("\t")
            named[commit, path] = meta.split()[3]
    repository = ShadowRepository(shadow)
    try:
        return {key: repository.blob(oid).decode() for key, oid in named.items()}
    finally:
        repository.close()
