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
