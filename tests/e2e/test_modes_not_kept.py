"""File systems that give every file one mode, whatever it is told to have (FAT, NTFS, shares)."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import in_process
from own_peer import own_peer
from stet.wire.failures import Kind, Refused
from stetd.storage.disk import Disk

MODE = 0o777


class OneMode(Disk):
    """Every file has one mode; one name can't be exchanged."""

    def fchmod(self, fd: int, mode: int) -> None:
        super().fchmod(fd, MODE)

    def exchange(self, first: str, second: str, dir_fd: int) -> None:
        if second == "mounted":
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
        super().exchange(first, second, dir_fd)


class Agent:
    """A session in a workspace on such a file system."""

    def __init__(self, base: Path) -> None:
        self.root = base / "ws"
        self.root.mkdir()
        self.daemon = in_process.opened(base, OneMode())
        self._person = self.daemon.connect(control=True, peer=own_peer("test"))
        self.call("workspace_allow", root=str(self.root))
        self.call("hello", protocol=1, workspace=str(self.root), session="s", agent="a")

    def call(self, method: str, **params: Any) -> Any:
        return asyncio.run(self._person.call(method, params))

    def write(self, path: str) -> None:
        (self.root / path).write_text("one\n")
        (self.root / path).chmod(MODE)

    def overwrite(self, path: str, text: str) -> dict[str, Any]:
        patches = [{"operation": "overwrite", "newText": text}]
        return {"method": "patch", "params": {"path": path, "patches": patches}}

    def transaction(self, *calls: dict[str, Any]) -> Any:
        return self.call("transaction", calls=list(calls))


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    made = Agent(tmp_path)
    yield made
    made.daemon.close()


def test_the_creation_of_a_file_is_undone(agent: Agent) -> None:
    for path in ("a.txt", "new/b.txt"):
        agent.transaction(agent.overwrite(path, "one\n"))
        agent.call("undo")
        assert not (agent.root / path).exists()
    kinds = [each.kind for each in agent.call("log").commits]
    assert kinds == ["undo", "edit", "undo", "edit"]


def test_a_call_that_the_disk_refuses_leaves_no_new_file(agent: Agent) -> None:
    agent.write("mounted")
    with pytest.raises(Refused) as refused:
        agent.transaction(agent.overwrite("a.txt", "one\n"), agent.overwrite("mounted", "two\n"))
    assert refused.value.kind == Kind.IO_ERROR
    assert os.listdir(agent.root) == ["mounted"]
    assert [each.kind for each in agent.call("log").commits] in ([], ["outside"])
