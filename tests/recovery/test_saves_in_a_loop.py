"""Somebody saves a file again and again while agents edit it, on the real daemon.

Every text that was saved is in the history, or on disk, or was done away with by its own
writer's next save.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.running_daemon import Refusal, Site, eventually, fsck, git, running
from stetd.storage.disk import Disk

SECONDS = 2.0
AGENTS = 2


@pytest.fixture
def site() -> Iterator[Site]:
    with running() as daemon:
        yield daemon.site("w")


class Saver(threading.Thread):
    """Saves a new text again and again; remembers what it saved, and what it did away with.

    By rename it exchanges the names, so it knows exactly what it displaced. In place it reads
    and writes through one handle, as an editor does that keeps the inode.
    """

    def __init__(self, path: Path, *, by_rename: bool) -> None:
        super().__init__()
        self._path = path
        self._by_rename = by_rename
        self.saved: list[bytes] = []
        self.removed: set[bytes] = set()
        self.done = threading.Event()

    def run(self) -> None:
        number = 0
        while not self.done.is_set():
            number += 1
            content = f"save {number}\n".encode() + b"text to edit\n" + b"end\n"
            if self._by_rename:
                self._exchange(content)
            else:
                self._write_in_place(content)
            self.saved.append(content)
            time.sleep(random.random() * 0.02)

    def _exchange(self, content: bytes) -> None:
        aside = self._path.with_name("aside~")
        aside.write_bytes(content)
        fd = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            Disk().exchange("aside~", self._path.name, fd)
        finally:
            os.close(fd)
        self.removed.add(aside.read_bytes())
        aside.unlink()

    def _write_in_place(self, content: bytes) -> None:
        with open(self._path, "r+b", buffering=0) as file:
            self.removed.add(file.read())
            file.seek(0)
            file.write(content)
            file.truncate()


def agents_edit_until(
    site: Site, done: threading.Event
) -> tuple[list[threading.Thread], list[str]]:
    """Agents that edit as fast as they can; kinds of their refusals, and their commits."""
    outcomes: list[str] = []

    def work(number: int) -> None:
        agent = site.another(f"agent-{number}")
        while not done.is_set():
            patch = {"operation": "append_eof", "newText": f"agent {number}\n"}
            try:
                result = agent.call("patch", path="a.txt", patches=[patch])
            except Refusal as refusal:
                outcomes.append(refusal.kind)
            else:
                outcomes.append(result["commit"])

    threads = [threading.Thread(target=work, args=(n,)) for n in range(AGENTS)]
    for thread in threads:
        thread.start()
    return threads, outcomes


def contents_in_history(site: Site) -> set[bytes]:
    names = git(site.shadow, "rev-list", "--objects", "history").split("\n")
    oids = {line.split(" ")[0] for line in names if line.endswith(" a.txt")}
    return {git(site.shadow, "cat-file", "blob", oid).encode() for oid in oids}


def contest(site: Site, *, by_rename: bool) -> None:
    file = site.write("a.txt", "text to edit\n")
    saver = Saver(file, by_rename=by_rename)
    agents, outcomes = agents_edit_until(site, saver.done)
    saver.start()
    time.sleep(SECONDS)
    assert eventually(
        lambda: len(saver.saved) > 20 and sum(len(each) == 40 for each in outcomes) > 20
    )
    saver.done.set()
    for thread in [saver, *agents]:
        thread.join()
    commits = [outcome for outcome in outcomes if len(outcome) == 40]
    assert set(outcomes) - set(commits) <= {"contended"}
    assert site.daemon.stop() == 0  # looks once more at what was written late
    history = contents_in_history(site)
    standing = site.bytes_of("a.txt")
    lost = [s for s in saver.saved if s not in history | {standing} | saver.removed]
    assert lost == []
    assert sorted(os.listdir(site.root)) == ["a.txt"]
    assert set(commits) <= set(git(site.shadow, "rev-list", "history").split())
    assert fsck(site.shadow) == ""


def test_no_save_by_rename_is_lost(site: Site) -> None:
    contest(site, by_rename=True)


def test_no_save_in_place_is_lost(site: Site) -> None:
    contest(site, by_rename=False)
