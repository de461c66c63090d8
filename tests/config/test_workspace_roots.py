"""Which directories may be workspaces, by their names alone; the rest is in e2e/test_workspaces."""

from __future__ import annotations

from pathlib import Path

import pytest

from stetd.config.directories import Directories
from stetd.config.workspace_roots import why_not

_OWN = Directories("/nowhere/runtime", "/nowhere/state", "/nowhere/stet/config.toml")


@pytest.mark.parametrize(
    ("expected", "path"),
    [
        (None, "/var/www/site"),
        ("it lies in a Git directory", "/var/www/site/.git"),
        ("it lies in a Git directory", "/usr/src/linux/.GIT/hooks"),
        ("it lies in a system directory", "/var/spool/site"),
    ],
)
def test_a_git_directory_below_a_system_directory_is_no_workspace(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, expected: str | None, path: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert expected == why_not(path, _OWN, [])
