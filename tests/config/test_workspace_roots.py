"""Which directories may be workspaces: what depends on where the home directory is."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from stetd.config.directories import Directories
from stetd.config.workspace_roots import why_not


def test_a_git_directory_is_refused_also_in_a_home_below_a_system_directory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As root's home is."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as home:
        monkeypatch.setenv("HOME", home)
        own = Directories(f"{home}/run", f"{home}/state", f"{home}/config.toml")
        git = Path(home, "project", ".git")
        git.mkdir(parents=True)
        assert why_not(str(git.parent), own, []) is None
        assert why_not(str(git), own, []) == "it lies in a Git directory"


def test_a_work_tree_in_a_bare_repository_is_a_project(tmp_path: Path) -> None:
    """As after ``git clone --bare``, then ``git worktree add`` in the clone."""
    own = Directories(f"{tmp_path}/run", f"{tmp_path}/state", f"{tmp_path}/stet/config.toml")
    bare = tmp_path / "bare"
    for parts in ("objects", "refs", "main/src", "main/.git", "main/fixture/objects"):
        (bare / parts).mkdir(parents=True)
    (bare / "main/fixture/refs").mkdir()
    for head in (bare / "HEAD", bare / "main/fixture/HEAD"):
        head.touch()
    for project in ("main", "main/src"):
        assert why_not(str(bare / project), own, []) is None
    for inside in ("", "refs", "main/.git", "main/fixture", "main/fixture/refs"):
        assert why_not(str(bare / inside), own, []) == "it lies in a Git directory"


def test_the_keys_are_refused_also_where_a_link_leads_to_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, keys = tmp_path / "home", tmp_path / "disk" / "keys"
    (keys / "old").mkdir(parents=True)
    home.mkdir()
    (home / ".ssh").symlink_to(keys)
    monkeypatch.setenv("HOME", str(home))
    own = Directories(f"{home}/run", f"{home}/state", f"{home}/stet/config.toml")
    for path in (keys.parent, keys, keys / "old"):
        assert why_not(str(path), own, []) == "it holds your keys"
