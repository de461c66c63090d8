"""Looking at a whole workspace: what is remembered of it, and what is said when time runs out."""

from __future__ import annotations

import asyncio
import gc
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import in_process
from e2e.running_daemon import eventually
from own_peer import own_peer
from stetd.historian import questions
from stetd.observing.changed_files import KnownFiles, scan_workspace
from stetd.observing.current_content import ScanRequest
from stetd.state.read_view import ReadView
from stetd.storage.disk import Disk
from stetd.storage.scanning import Folder
from stetd.storage.stat_cache import Stamp
from stetd.storage.worktree import OnDisk, Worktree
from storage.histories import Histories

_KNOWN = (Stamp(1, 2, 3, 4, 0o100644), b"1" * 20)


def _folder(path: str) -> Folder:
    return Folder(path, None, {}, cached={"a.txt": _KNOWN})


def test_directories_that_are_gone_are_not_remembered(tmp_path: Path) -> None:
    known = KnownFiles(str(tmp_path / "no snapshot"))
    known.learn([_folder(""), _folder("gone/")])
    known.learn([_folder("")])
    assert (known.folder(""), known.folder("gone/")) == ({"a.txt": _KNOWN}, {})


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
    found = scan_workspace(view, KnownFiles(str(tmp_path / "no snapshot")), asked)
    worktree.close()
    assert (found.paths, found.why) == ([("new.txt", 4)], "")
    assert seen == ["known.txt"]


def test_nothing_is_remembered_of_forgotten_workspaces(tmp_path: Path) -> None:
    """Worktrees that come and go took some megabytes each, until the next start."""

    def remembered() -> int:
        return sum(isinstance(each, KnownFiles) for each in gc.get_objects())

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


def test_a_scan_beside_a_forget_of_its_workspace_has_known_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The forget is read on another thread, between two looks at what is known."""

    class Forgotten(dict[str, KnownFiles]):
        def __contains__(self, _: object) -> bool:
            return True  # a moment ago

    library: Any = SimpleNamespace(files=Forgotten())
    view: Any = SimpleNamespace(shadow=str(tmp_path))
    monkeypatch.setattr(questions, "scan_workspace", lambda _view, known, _asked: known)
    found: object = questions._differing(library, view, ScanRequest(10, 0.0))
    assert isinstance(found, KnownFiles)
