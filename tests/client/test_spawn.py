"""Whether a daemon still runs, as clients see it: what is being ended keeps its locks."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from client.live import Installation, installation
from stet.errors import DaemonUnreachable
from stet.service import spawn
from stet.service.spawn import Endpoint, holder, is_running

# The first thread ends, and another goes on: what a killed process looks like while it ends.
_FIRST_THREAD_ENDS = """
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(600,)).start()
ctypes.CDLL(None).pthread_exit(None)
"""
PATCH = '[{"operation": "replace", "oldText": "two", "newText": "three"}]'
#: No process has this number.
_NOBODY = 1 << 22


@pytest.fixture
def ending() -> Iterator[subprocess.Popen[bytes]]:
    """A process of which only another thread than the first is left."""
    process = subprocess.Popen([sys.executable, "-c", _FIRST_THREAD_ENDS, "stetd"])
    try:
        _until_zombie(process.pid)
        yield process
    finally:
        process.kill()
        process.wait()


def _until_zombie(pid: int) -> None:
    deadline = time.monotonic() + 60
    while b") Z " not in Path(f"/proc/{pid}/stat").read_bytes():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _held_by(pid: int, directory: Path) -> Endpoint:
    (directory / "stetd.lock").write_text(f"{pid}\n")
    return Endpoint(str(directory), str(directory), control=True)


def test_process_runs_until_its_last_thread_ends(
    ending: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    endpoint = _held_by(ending.pid, tmp_path)
    assert is_running(ending.pid)
    assert holder(endpoint) == ending.pid
    ending.kill()
    while len(os.listdir(f"/proc/{ending.pid}/task")) > 1:
        time.sleep(0.01)
    assert not is_running(ending.pid)  # a zombie: this process has not waited for it
    assert holder(endpoint) is None


def test_a_copy_of_a_running_daemons_directory_is_nobodys() -> None:
    """Commands refused to look at it, and told its person to stop the other daemon."""
    with installation() as made:
        made.json("init")
        shutil.copytree(f"{made.base}/state", f"{made.base}/copy")
        own = {"STET_STATE_DIR": f"{made.base}/copy", "STET_RUNTIME_DIR": f"{made.base}/run2"}
        done = made.stet("status", **own)
        assert done.returncode == 0, done.stderr
        assert made.stet("stop", **own).returncode == 0
        assert holder(Endpoint(own["STET_RUNTIME_DIR"], own["STET_STATE_DIR"], True)) is None
        assert holder(made.endpoint()) == made.pid()


def test_number_of_a_killed_daemon_may_be_anothers(tmp_path: Path) -> None:
    assert is_running(os.getppid())
    with subprocess.Popen(["sleep", "600"]) as other:
        assert holder(_held_by(other.pid, tmp_path)) is None
        other.kill()
    assert not is_running(other.pid)


def test_process_of_the_kernel_is_no_daemon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It runs and tells no command. In a container there may be none to be seen, so one is feigned.
    with subprocess.Popen(["sleep", "600"]) as other:
        real = spawn._read
        monkeypatch.setattr(
            spawn, "_read", lambda path: b"" if path.endswith("cmdline") else real(path)
        )
        assert holder(_held_by(other.pid, tmp_path)) is None
        other.kill()


def test_directories_that_a_start_makes_are_closed_to_others_whatever_the_umask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")  # what would be started
    endpoint = Endpoint(str(tmp_path), str(tmp_path / "local" / "state" / "stet"), control=True)
    before = os.umask(0)
    try:
        with pytest.raises(DaemonUnreachable):
            spawn._start(endpoint)
    finally:
        os.umask(before)
    below = (tmp_path / "local", tmp_path / "local" / "state", Path(endpoint.state))
    assert [each.stat().st_mode & 0o777 for each in below] == [0o755, 0o755, 0o700]


def test_a_long_log_is_moved_away_at_a_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    endpoint = Endpoint(str(tmp_path), str(tmp_path / "state"), control=True)
    Path(endpoint.state).mkdir(0o700)
    for size, names in ((2**20, ["stetd.log"]), (2**20 + 1, ["stetd.log", "stetd.log.1"])):
        Path(endpoint.log).write_bytes(b"x" * size)
        with pytest.raises(DaemonUnreachable):
            spawn._start(endpoint)
        assert sorted(os.listdir(endpoint.state)) == names


@pytest.mark.parametrize("removed", ["run", "run/agent.sock"])
def test_a_daemon_whose_sockets_were_removed_makes_room(removed: str) -> None:
    """A logout removes $XDG_RUNTIME_DIR, and what cleans /tmp old sockets; the daemon runs on."""
    with installation() as made:
        made.json("init")
        made.write("a.txt", "one\n")
        made.patch("a.txt", "one", "two")
        first, path = made.pid(), Path(made.base, removed)
        path.unlink() if path.is_socket() else shutil.rmtree(path)
        done = made.stet("patch", "--path", "a.txt", stdin=PATCH)  # it may say that it waits
        assert done.returncode == 0, done.stderr
        assert made.text("a.txt") == "three\n"
        assert made.pid() not in (first, None)


def test_a_daemon_that_ends_just_after_another_one_gave_way_to_it_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = socket.socketpair()
    started: list[int] = []

    def start(_: Endpoint) -> tuple[int, int]:
        started.append(_NOBODY)
        return _NOBODY, 0

    monkeypatch.setattr(spawn, "_start", start)
    monkeypatch.setattr(spawn, "holder", lambda _: None if started else _NOBODY)
    monkeypatch.setattr(spawn, "connect", lambda _: ours if len(started) == 2 else None)
    with ours, theirs:
        endpoint = Endpoint(str(tmp_path), str(tmp_path), control=True)
        assert spawn._start_and_connect(endpoint) is ours


@pytest.mark.parametrize("which", ["run", "state"])
def test_a_directory_that_can_not_be_made_is_told_with_the_variable_for_another(
    tmp_path: Path, which: str
) -> None:
    made = {"run": str(tmp_path / "run"), "state": str(tmp_path / "state")}
    made[which] = "/proc/none/stet"  # nothing can be made there
    variable = {"run": "STET_RUNTIME_DIR", "state": "STET_STATE_DIR"}[which]
    with pytest.raises(DaemonUnreachable, match=f"Set {variable} to a directory of your own"):
        spawn.reach(Endpoint(made["run"], made["state"], control=True), start=True)


@pytest.mark.parametrize("command", ["stet.cli", "stetd.cli"])
def test_without_proc_no_daemon_starts_and_one_sentence_says_why(
    tmp_path: Path, command: str
) -> None:
    """As in a container or a sandbox that was given none."""
    without = ["unshare", "-rm", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh"]
    if subprocess.run([*without, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no namespaces can be made here")
    environ = os.environ | {
        "STET_RUNTIME_DIR": str(tmp_path / "run"),
        "STET_STATE_DIR": str(tmp_path / "state"),
        "STET_CONFIG": str(tmp_path / "config.toml"),
    }
    argv = [*without, sys.executable, "-P", "-m", command, *(["status"] * (command == "stet.cli"))]
    done = subprocess.run(argv, env=environ, capture_output=True, text=True, check=False)
    assert spawn.NO_PROC in done.stderr
    assert done.stderr.splitlines()[1:] in ([], ["Try: stet doctor"])


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give directories away")
@pytest.mark.parametrize("theirs", ["HOME", "XDG_RUNTIME_DIR"])
@pytest.mark.parametrize("command", ["stet.cli", "stetd.cli"])
def test_root_makes_nothing_in_the_directories_of_another_user(
    tmp_path: Path, command: str, theirs: str
) -> None:
    """As with sudo, which may leave HOME as it is."""
    environ = {name: text for name, text in os.environ.items() if name[:4] not in ("STET", "XDG_")}
    environ |= {"HOME": str(tmp_path / "home"), "XDG_RUNTIME_DIR": str(tmp_path / "run")}
    for name in ("home", "run"):
        tmp_path.joinpath(name).mkdir(0o700)
    os.chown(environ[theirs], 4242, 4242)
    argv = [sys.executable, "-P", "-m", command, *(["status"] * (command == "stet.cli"))]
    done = subprocess.run(argv, env=environ, capture_output=True, text=True, check=False)
    assert f"{environ[theirs]} belongs to user id 4242, and root makes nothing there" in done.stderr
    assert os.listdir(environ[theirs]) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give directories away")
def test_nothing_is_logged_into_the_state_of_another_user(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir(0o700)
    os.chown(state, 4242, 4242)
    with pytest.raises(DaemonUnreachable, match=f"{state} belongs to user id 4242, not to you"):
        spawn.reach(Endpoint(str(tmp_path / "run"), str(state), control=True), start=True)
    assert os.listdir(state) == []


def test_a_daemon_can_be_ended_though_its_client_had_blocked_the_signals(
    ws: Installation,
) -> None:
    """A program that waits for its signals (sigwait) blocks them, and so do those it starts."""
    assert ws.stet("stop").returncode == 0
    program = (
        "import os, signal, sys\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGHUP])\n"
        "os.execv(sys.executable, [sys.executable, '-m', 'stet.cli', 'status'])\n"
    )
    subprocess.run([sys.executable, "-c", program], env=ws.environ, check=True)
    with open(f"/proc/{ws.pid()}/status") as status:
        assert "SigBlk:\t0000000000000000\n" in status.readlines()
