"""What the daemon refuses to rely on, as a table: what is wrong, what it says, what mends it.

Where a case's message gives a command, that command is run, and the check has to pass then.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stet.service.socket_path import UnsafeDirectory
from stetd.config import directories
from stetd.config.directories import Directories

Spoil = Callable[[Path], None]
OTHER = 65534
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give files away")


def prepared(base: Path) -> Directories:
    """Directories as a daemon leaves them, with what counts in them."""
    ours = Directories(str(base / "run"), str(base / "var" / "state"), str(base / "config.toml"))
    ours.prepare()
    for path in ("journal", "workspaces/w-1/objects", "workspaces/w-1/refs", "index"):
        os.makedirs(os.path.join(ours.state, path))
    for path in ("journal/00000001.wal", "workspaces/w-1/HEAD", "requests.sqlite3"):
        Path(ours.state, path).touch()
    Path(ours.config).touch()
    os.chmod(ours.state, 0o755)  # else nobody else gets to what is inside
    ours.prepare()
    return ours


def chmod(path: str, mode: int) -> Spoil:
    return lambda base: os.chmod(base / path, mode)


def link(path: str) -> Spoil:
    def replace(base: Path) -> None:
        (base / path).rename(base / "aside")
        (base / path).symlink_to(base / "aside")

    return replace


def file(path: str) -> Spoil:
    def replace(base: Path) -> None:
        (base / path).rename(base / "aside")
        (base / path).touch(0o600)

    return replace


def give(path: str) -> Spoil:
    return lambda base: os.chown(base / path, OTHER, OTHER, follow_symlinks=False)


MENDED = [
    ("a runtime directory that others enter", chmod("run", 0o755), "0755 where 0700 is needed"),
    ("a state directory that others write", chmod("var/state", 0o777), "mode 0777"),
    ("one that a group writes", chmod("var/state", 0o770), "mode 0770"),
    ("a parent that anybody writes", chmod("var", 0o777), "anybody could put another"),
    ("a journal that others write", chmod("var/state/journal", 0o777), "state/journal has mode"),
    ("a segment", chmod("var/state/journal/00000001.wal", 0o666), "00000001.wal has mode 0666"),
    ("a repository", chmod("var/state/workspaces/w-1", 0o775), "w-1 has mode 0775"),
    ("its objects", chmod("var/state/workspaces/w-1/objects", 0o777), "objects has mode"),
    ("answered calls", chmod("var/state/requests.sqlite3", 0o622), "requests.sqlite3 has mode"),
    ("a configuration that anybody writes", chmod("config.toml", 0o666), "anybody could change"),
    ("a link for the runtime directory", link("run"), "is a symbolic link"),
    ("a link to nothing", lambda base: (base / "var/state/x").symlink_to("gone"), "state/x is a"),
    ("a file in the place of the journal", file("var/state/journal"), "journal is not a directory"),
    ("one in that of the histories", file("var/state/workspaces"), "workspaces is not a directory"),
]
MENDED_AS_ROOT = [
    ("another's journal", give("var/state/journal"), "state/journal belongs to user id 65534"),
    ("another's segment", give("var/state/journal/00000001.wal"), "00000001.wal belongs to"),
    ("another's repository", give("var/state/workspaces/w-1"), "w-1 belongs to user id"),
    ("another's HEAD", give("var/state/workspaces/w-1/HEAD"), "HEAD belongs to user id"),
    ("another's state", give("var/state"), "var/state belongs to user id 65534"),
]
NOT_MENDED = [
    ("another's parent", give("var"), "Set STET_STATE_DIR to a place of your own"),
    ("another's runtime directory", give("run"), "Set STET_RUNTIME_DIR to a directory of your"),
    ("another's configuration", give("config.toml"), "Set STET_CONFIG to a file of your own"),
]


def refused(ours: Directories) -> UnsafeDirectory:
    with pytest.raises(UnsafeDirectory) as caught:
        ours.prepare()
    return caught.value


def cases(table: list[tuple[str, Spoil, str]], mended: bool, *marks: Any) -> list[Any]:
    return [pytest.param(spoil, told, mended, id=what, marks=marks) for what, spoil, told in table]


@pytest.mark.parametrize(
    ("spoil", "told", "mended"),
    [
        *cases(MENDED, True),
        *cases(MENDED_AS_ROOT, True, root_only),
        *cases(NOT_MENDED, False, root_only),
    ],
)
def test_refused_with_the_command_that_mends_it_where_there_is_one(
    tmp_path: Path, spoil: Spoil, told: str, mended: bool
) -> None:
    ours = prepared(tmp_path)
    spoil(tmp_path)
    refusal = refused(ours)
    assert told in str(refusal)
    assert (refusal.mend is not None) is mended
    if refusal.mend is not None:
        assert refusal.mend in str(refusal)
        subprocess.run(["sh", "-c", refusal.mend.removeprefix("sudo ")], check=True)
        ours.prepare()


@pytest.mark.parametrize("spoil", [spoil for _, spoil, _ in MENDED])
def test_the_command_can_be_run_where_a_name_has_a_quote(tmp_path: Path, spoil: Spoil) -> None:
    base = tmp_path / "o'b"
    base.mkdir(mode=0o700)
    ours = prepared(base)
    spoil(base)
    subprocess.run(["sh", "-c", refused(ours).mend or "false"], check=True)
    ours.prepare()


def test_a_link_within_the_state_is_refused(tmp_path: Path) -> None:
    ours = prepared(tmp_path)
    link("var/state/journal")(tmp_path)
    assert "state/journal is a symbolic link" in str(refused(ours))


def test_a_state_directory_may_be_a_link_of_ones_own(tmp_path: Path) -> None:
    ours = prepared(tmp_path)
    link("var/state")(tmp_path)
    ours.prepare()


@root_only
def test_another_users_link_to_ones_own_directory_is_refused(tmp_path: Path) -> None:
    ours = prepared(tmp_path)
    link("var/state")(tmp_path)
    give("var/state")(tmp_path)
    assert "var/state belongs to user id 65534" in str(refused(ours))


@pytest.mark.parametrize("mode", [0o1777, 0o775, 0o755, 0o700])
def test_parents_in_which_nobody_moves_anothers_directory_are_taken(
    tmp_path: Path, mode: int
) -> None:
    ours = prepared(tmp_path)
    chmod("var", mode)(tmp_path)
    ours.prepare()


def test_modes_inside_a_directory_that_nobody_enters_do_not_matter(tmp_path: Path) -> None:
    """As a umask of 002 makes them, which is the usual one with private groups."""
    ours = prepared(tmp_path)
    os.chmod(ours.state, 0o700)
    chmod("var/state/workspaces/w-1", 0o775)(tmp_path)
    chmod("var/state/requests.sqlite3", 0o664)(tmp_path)
    ours.prepare()


def test_the_daemon_says_so_and_ends(tmp_path: Path) -> None:
    ours = prepared(tmp_path)
    chmod("var/state/journal", 0o777)(tmp_path)
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith("STET_")},
        "STET_RUNTIME_DIR": ours.runtime,
        "STET_STATE_DIR": ours.state,
        "STET_CONFIG": ours.config,
    }
    command = [sys.executable, "-m", "stetd.cli"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert f"Run: chmod -R go-w '{ours.state}'" in done.stderr


def test_a_file_that_a_running_daemon_removes_meanwhile_is_no_trouble(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = str(tmp_path / "requests.sqlite3-journal")
    monkeypatch.setattr(directories, "_checked_paths", lambda _: iter([gone]))
    tmp_path.chmod(0o700)

    directories.check_state(str(tmp_path))
