"""Looking at a whole workspace: what is remembered of it, and what is said when time runs out."""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

import in_process
from e2e.running_daemon import eventually
from own_peer import own_peer
from stetd.historian.questions import Library
from stetd.history.objects import Entry
from stetd.observing.changed_files import KnownFiles, scan_workspace
from stetd.observing.current_content import ScanRequest
from stetd.repository.stored_objects import StoredObjects
from stetd.state.read_view import ReadView
from stetd.storage.disk import Disk
from stetd.storage.worktree import OnDisk, Worktree
from storage.histories import Histories


def test_directories_that_are_gone_are_not_remembered(tmp_path: Path) -> None:
    root = tmp_path / "w"
    for path in ("a.txt", "gone/a.txt"):
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("one\n")
        os.utime(file, (1, 1))
    histories, files = Histories(tmp_path), KnownFiles()
    histories.commit({"a.txt": "one\n", "gone/a.txt": "one\n"})
    worktree = Worktree(str(root), Disk())
    view = ReadView(worktree, histories.path, histories.oids[-1], "", 1 << 20)
    asked = ScanRequest(100, time.monotonic() + 60)

    def remembered() -> list[list[str]]:
        time.sleep(0.1)  # what was changed just now is not remembered
        assert scan_workspace(view, files, asked).why == ""
        return [list(files[histories.path](folder)) for folder in ("", "gone/")]

    assert remembered() == [["a.txt"], ["a.txt"]]
    shutil.rmtree(root / "gone")
    assert remembered() == [["a.txt"], []]
    worktree.close()


def test_what_the_history_does_not_know_is_not_read_before_it_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading all of a large workspace took the time in which it was to be recorded, each time."""
    root = tmp_path / "w"
    root.mkdir()
    for name in ("known.txt", "new.txt"):
        (root / name).write_text("one\n")
    histories = Histories(tmp_path)
    histories.commit({"known.txt": "one\n"})
    worktree, seen, read_path = Worktree(str(root), Disk()), list[str](), Worktree.read_path

    def reading(self: Worktree, path: str, limit: int) -> OnDisk | None:
        seen.append(path)
        return read_path(self, path, limit)

    monkeypatch.setattr(Worktree, "read_path", reading)
    view = ReadView(worktree, histories.path, histories.oids[-1], "", 1 << 20)
    asked = ScanRequest(100, time.monotonic() + 60)
    found = scan_workspace(view, {}, asked)
    worktree.close()
    assert (found.paths, found.why) == ([("new.txt", 4)], "")
    assert seen == ["known.txt"]


def test_nothing_is_remembered_of_a_workspace_that_was_forgotten_during_the_scan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "w").mkdir()
    histories, files = Histories(tmp_path), KnownFiles()
    histories.commit({"a.txt": "one\n"})
    worktree, tree_of = Worktree(str(tmp_path / "w"), Disk()), StoredObjects.load_tree

    def forgets(self: StoredObjects, oid: str) -> Mapping[str, Entry]:
        files.clear()
        return tree_of(self, oid)

    monkeypatch.setattr(StoredObjects, "load_tree", forgets)
    view = ReadView(worktree, histories.path, histories.oids[-1], "", 1 << 20)
    found = scan_workspace(view, files, ScanRequest(100, time.monotonic() + 60))
    worktree.close()
    assert (found.paths, found.why) == ([("a.txt", 0)], "")
    assert files == {}


def test_nothing_is_remembered_of_forgotten_workspaces(tmp_path: Path) -> None:
    """Worktrees that come and go took some megabytes each, until the next start."""

    def remembered() -> int:
        libraries = [each for each in gc.get_objects() if isinstance(each, Library)]
        return sum(len(each.files) for each in libraries)

    with in_process.running(tmp_path) as daemon:
        for number in range(3):
            root = tmp_path / f"w{number}"
            root.mkdir()
            (root / "a.txt").write_text("one\n")
            person = daemon.connect(control=True, peer=own_peer("test"))
            asyncio.run(person.call("workspace_allow", {"root": str(root)}))
            hello = {"protocol": 1, "workspace": str(root), "session": "s"}
            asyncio.run(person.call("hello", hello))
            asyncio.run(person.call("observe", {"phase": "before", "use": "u"}))
            assert remembered() == 1
            asyncio.run(person.call("workspace_forget", {"root": str(root)}))
            assert eventually(lambda: remembered() == 0)
