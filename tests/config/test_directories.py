"""The daemon's directories: what is made, what is refused, and that only one daemon has them."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from stet.service.socket_path import UnsafeDirectory
from stetd.config.directories import LOCK_NAME, AlreadyRunning, Directories, instance_lock


def prepared(base: Path) -> Directories:
    ours = Directories(str(base / "run"), str(base / "var" / "state"), str(base / "config.toml"))
    ours.prepare()
    return ours


def test_environment_says_where_they_are() -> None:
    environ = {"STET_RUNTIME_DIR": "/r", "XDG_STATE_HOME": "/s", "HOME": "/h"}
    expected = Directories("/r", "/s/stet", "/h/.config/stet/config.toml")
    assert expected == Directories.from_environment(environ)


def test_missing_directories_are_made_private_whatever_the_umask(tmp_path: Path) -> None:
    old_mask = os.umask(0)
    try:
        ours = prepared(tmp_path)
    finally:
        os.umask(old_mask)
    assert stat.S_IMODE(os.stat(ours.runtime).st_mode) == 0o700
    assert stat.S_IMODE(os.stat(ours.state).st_mode) == 0o700
    ours.prepare()


@pytest.mark.parametrize("which", ["runtime", "state"])
def test_file_in_place_of_a_directory_is_refused(tmp_path: Path, which: str) -> None:
    ours = prepared(tmp_path)
    os.rmdir(getattr(ours, which))
    Path(getattr(ours, which)).write_bytes(b"")
    with pytest.raises(UnsafeDirectory, match="is not a directory"):
        ours.prepare()


def test_second_daemon_is_refused_with_the_id_of_the_first(tmp_path: Path) -> None:
    ours = prepared(tmp_path)
    told = rf"another stetd \(process {os.getpid()}\) is using"
    with (
        instance_lock(ours),
        pytest.raises(AlreadyRunning, match=told),
        instance_lock(ours),
    ):
        raise AssertionError
    with instance_lock(ours):
        pass


@pytest.mark.parametrize("shared", ["runtime", "state"])
def test_one_directory_in_common_is_enough_to_be_refused(tmp_path: Path, shared: str) -> None:
    one, two = prepared(tmp_path / "1"), prepared(tmp_path / "2")
    mixed = Directories(
        one.runtime if shared == "runtime" else two.runtime,
        one.state if shared == "state" else two.state,
        "",
    )
    with instance_lock(one):
        with pytest.raises(AlreadyRunning, match=getattr(one, shared)), instance_lock(mixed):
            raise AssertionError
        with instance_lock(two):  # nothing of it stayed locked
            pass


def test_lock_file_that_a_cleaner_removed_is_made_anew(tmp_path: Path) -> None:
    ours = prepared(tmp_path)
    with instance_lock(ours):
        os.unlink(os.path.join(ours.runtime, LOCK_NAME))
        # The state's is still held.
        with pytest.raises(AlreadyRunning), instance_lock(ours):
            raise AssertionError


def test_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    ours = prepared(tmp_path)
    script = (
        "import os, signal, sys\n"
        "from stetd.config.directories import Directories, instance_lock\n"
        "with instance_lock(Directories(*sys.argv[1:])):\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    arguments = [sys.executable, "-c", script, ours.runtime, ours.state, ours.config]
    assert subprocess.run(arguments, check=False).returncode == -9
    with instance_lock(ours):
        pass
