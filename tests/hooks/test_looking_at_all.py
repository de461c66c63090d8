"""Looking at a whole workspace: what is remembered of it, and what is said when time runs out."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

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
