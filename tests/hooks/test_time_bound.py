"""The agent waits for ``stet hook`` no longer than it is told, and reads what is true."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from e2e.running_daemon import DaemonProcess
from hooks.conftest import Pipe
from hooks.hooking import claude, run_hook
from hooks.test_bad_input import impostor

COMMAND = [sys.executable, "-P", "-m", "stet.cli", "hook", "x"]
HOOK = [*COMMAND, "--before", "1", "--after", "1"]
#: Alarms are blocked, as it is with a file system that hangs: no handler is ever run.
DEAF = """
import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
os.execv(sys.argv[1], sys.argv[1:])
"""
#: A thread's stack is to be larger than the memory that there is to address.
THREADLESS = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_STACK, (1 << 47, resource.getrlimit(resource.RLIMIT_STACK)[1]))
os.execv(sys.argv[1], sys.argv[1:])
"""


def greet(connection: socket.socket) -> None:
    """Answer the hello, and read the observe that follows."""
    connection.recv(1 << 16)
    connection.sendall(b'{"id": 1, "result": {"workspace": {"root": "/"}}}\n')
    connection.recv(1 << 16)


@pytest.mark.parametrize(
    ("start", "said"),
    [
        pytest.param(DEAF, b"there was no time", id="no signal"),
        pytest.param(THREADLESS, b"RuntimeError: can't start new thread", id="no thread"),
    ],
)
def test_a_process_in_which_something_is_not_to_be_had_ends_all_the_same(
    start: str, said: bytes, pipe: Pipe
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", start, *HOOK], stdin=pipe.reading, capture_output=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, b"")
    assert done.stderr == b"stet hook: nothing was recorded: " + said + b"\n"


def test_standard_error_that_nobody_reads_is_not_waited_for(pipe: Pipe) -> None:
    os.set_blocking(pipe.writing, False)
    room = select.poll()
    room.register(pipe.writing, select.POLLOUT)
    while room.poll(0):
        os.write(pipe.writing, b"x" * 4096)
    os.set_blocking(pipe.writing, True)
    done = subprocess.run(
        HOOK, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=pipe.writing, timeout=60,
        check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, b"")


def test_what_was_sent_before_the_time_was_over_is_perhaps_recorded(
    unstarted: DaemonProcess, tmp_path: Path
) -> None:
    sent = threading.Event()

    def answer(connection: socket.socket) -> None:
        greet(connection)
        sent.set()

    with impostor(unstarted, answer):
        hook = subprocess.Popen(
            [*COMMAND, "--before", "6"], env=unstarted.environment, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        payload = claude("PreToolUse", "Bash", {"command": "x"}, "t", tmp_path)
        assert hook.stdin is not None
        with hook.stdin as stdin:
            stdin.write(json.dumps(payload).encode())
        hook.stdin = None
        assert sent.wait(60)
        hook.send_signal(signal.SIGSTOP)
        time.sleep(6.5)
        hook.send_signal(signal.SIGCONT)
        out, said = hook.communicate(timeout=60)
    assert (hook.returncode, out) == (0, b"")
    assert said.startswith(b"stet hook: perhaps not recorded: ")


def test_a_broken_connection_after_it_was_sent_is_perhaps_recorded(
    unstarted: DaemonProcess, tmp_path: Path
) -> None:

    def answer(connection: socket.socket) -> None:
        connection.recv(1 << 16)
        connection.sendall(b'{"id": 1, "result": {"workspace": {"root": "/"}}}\n')
        connection.recv(1)  # what is not read makes the end a reset
        connection.close()

    with impostor(unstarted, answer):
        payload = claude("PreToolUse", "Bash", {"command": "x"}, "t", tmp_path)
        said = run_hook(unstarted, payload, "claude-code", "--before", "50")
    assert said.startswith("stet hook: perhaps not recorded: ")


def test_the_reply_about_very_many_files_is_read(unstarted: DaemonProcess, tmp_path: Path) -> None:
    files = [{"path": f"{n}" * 40, "status": "A", "before": None} for n in range(100_000)]
    reply = json.dumps({"id": 2, "result": {"files": files, "warnings": []}}).encode()
    assert len(reply) > 16 << 20

    def answer(connection: socket.socket) -> None:
        greet(connection)
        connection.sendall(reply + b"\n")

    with impostor(unstarted, answer):
        payload = claude("PostToolUse", "Bash", {"command": "x"}, "t", tmp_path)
        assert run_hook(unstarted, payload, "claude-code", "--after", "50") == ""


def test_a_daemon_that_goes_between_two_workspaces_has_recorded_something(
    unstarted: DaemonProcess, tmp_path: Path
) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    root = json.dumps(str(tmp_path / "one")).encode()

    def answer(connection: socket.socket) -> None:
        connection.recv(1 << 16)
        connection.sendall(b'{"id": 1, "result": {"workspace": {"root": ' + root + b"}}}\n")
        connection.recv(1 << 16)
        (unstarted.runtime / "agent.sock").unlink()
        connection.sendall(b'{"id": 2, "result": {"warnings": []}}\n')

    with impostor(unstarted, answer):
        given = {"files": [str(tmp_path / "one/a"), str(tmp_path / "two/b")]}
        payload = claude("PreToolUse", "editFiles", given, "t", tmp_path)
        said = run_hook(unstarted, payload, "vscode", "--before", "50")
    assert said == f"stet hook: not recorded: {tmp_path}/two/b: no stet daemon answers\n"
