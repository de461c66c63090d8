"""Where sockets, state and configuration are, and which directories are refused."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from stet.cli import doctor_places
from stet.service import socket_path
from stet.service.socket_path import UnsafeDirectory, check_private, make_private
from stet.service.spawn import Endpoint

UID = os.getuid()


@pytest.mark.parametrize(
    ("expected", "environ"),
    [
        ("/r", {"STET_RUNTIME_DIR": "/r", "XDG_RUNTIME_DIR": "/x"}),
        ("/x/stet", {"STET_RUNTIME_DIR": "", "XDG_RUNTIME_DIR": "/x"}),
        (f"/tmp/stet-{UID}", {"XDG_RUNTIME_DIR": "relative"}),
        (f"/tmp/stet-{UID}", {}),
    ],
)
def test_runtime_directory(expected: str, environ: dict[str, str]) -> None:
    assert expected == socket_path.runtime_directory(environ)


@pytest.mark.parametrize(
    ("expected", "environ"),
    [
        ("/s", {"STET_STATE_DIR": "/s", "XDG_STATE_HOME": "/x", "HOME": "/h"}),
        ("/x/stet", {"XDG_STATE_HOME": "/x", "HOME": "/h"}),
        ("/h/.local/state/stet", {"HOME": "/h"}),
        ("/h/.local/state/stet", {"HOME": "h"}),
        (os.path.expanduser("~/.local/state/stet"), {}),
    ],
)
def test_state_directory(expected: str, environ: dict[str, str]) -> None:
    assert expected == socket_path.state_directory(environ)


@pytest.mark.parametrize(
    ("expected", "environ"),
    [
        ("/c.toml", {"STET_CONFIG": "/c.toml", "XDG_CONFIG_HOME": "/x", "HOME": "/h"}),
        ("/x/stet/config.toml", {"XDG_CONFIG_HOME": "/x", "HOME": "/h"}),
        ("/h/.config/stet/config.toml", {"HOME": "/h"}),
    ],
)
def test_config_path(expected: str, environ: dict[str, str]) -> None:
    assert expected == socket_path.config_path(environ)


def test_a_directory_made_here_is_private_whatever_the_umask(tmp_path: Path) -> None:
    directory = str(tmp_path / "a" / "run")
    before = os.umask(0o277)
    try:
        os.umask(0o027)
        make_private(directory)
    finally:
        os.umask(before)
    assert os.stat(directory).st_mode & 0o7777 == 0o700
    make_private(directory)


@pytest.mark.parametrize("mode", [0o755, 0o750, 0o701, 0o1700, 0o600])
def test_another_mode_is_refused_with_the_command_that_mends_it(tmp_path: Path, mode: int) -> None:
    directory = tmp_path / "run"
    directory.mkdir()
    directory.chmod(mode)
    with pytest.raises(UnsafeDirectory, match=f"has mode {mode:04o}.* chmod 700 '{directory}'"):
        check_private(str(directory))


def test_a_symbolic_link_and_a_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "file").touch(0o700)
    with pytest.raises(UnsafeDirectory, match="is a symbolic link"):
        check_private(str(tmp_path / "link"))
    with pytest.raises(UnsafeDirectory, match="is not a directory"):
        make_private(str(tmp_path / "file"))


@pytest.mark.skipif(UID != 0, reason="only root can give a directory away")
def test_another_owner_is_refused(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    directory.mkdir(mode=0o700)
    os.chown(directory, 65534, 65534)
    with pytest.raises(UnsafeDirectory, match="belongs to user id 65534, not to you"):
        check_private(str(directory))


def test_a_directory_too_long_for_a_socket_is_refused(tmp_path: Path) -> None:
    directory = tmp_path / ("d" * 100)
    directory.mkdir(mode=0o700)
    with pytest.raises(UnsafeDirectory, match="Set STET_RUNTIME_DIR to a shorter directory"):
        check_private(str(directory))


def test_the_command_that_mends_it_holds_for_any_name(tmp_path: Path) -> None:
    directory = tmp_path / "it's; $(touch here)"
    directory.mkdir(mode=0o755)
    with pytest.raises(UnsafeDirectory) as refused:
        check_private(str(directory))
    assert refused.value.mend is not None
    subprocess.run(refused.value.mend, shell=True, check=True, cwd=tmp_path)
    check_private(str(directory))


def test_the_doctor_has_nothing_removed_where_the_directory_can_not_even_be_seen(
    tmp_path: Path,
) -> None:
    """Nor where it is another user's: su keeps the XDG_RUNTIME_DIR of the user before."""
    (tmp_path / "file").touch()
    found = doctor_places.runtime(Endpoint(str(tmp_path / "file/stet"), "/s", control=True))
    assert "unset STET_RUNTIME_DIR XDG_RUNTIME_DIR" == found.mend
