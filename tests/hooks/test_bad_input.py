"""Whatever ``stet hook`` is given, and whoever answers: it ends with 0, soon, and says a line.

That nothing is printed on standard output and the status is 0 is asserted by ``run_hook``.
"""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from e2e.running_daemon import DaemonProcess, Site
from hooks.conftest import Pipe
from hooks.hooking import claude, run_hook

GARBAGE = [
    b"", b"{", b"\xff\xfe\x00", b"[]", b"null", b'"text"', b"[" * 100_000, b"{}",
    b'{"hook_event_name": 7}', b'{"hook_event_name": "PreToolUse"}',
    b'{"hook_event_name": "PreToolUse", "tool_name": "Edit"}',
    b'{"hook_event_name": "PreToolUse", "tool_name": "Edit", "cwd": "relative"}',
    b'{"hook_event_name": "PreToolUse", "tool_name": "Edit", "cwd": "/", "tool_input": 3}',
    b'{"hook_event_name": "PreToolUse", "tool_name": "Edit", "cwd": "/", "session_id": "s",'
    b' "tool_input": {"file_path": ["x"]}}',
    b'{"hook_event_name": "PreToolUse", "tool_name": "Edit", "cwd": "/", "session_id": "s",'
    b' "tool_input": {"file_path": "a\\u0000b"}}',
]  # fmt: skip


@pytest.mark.parametrize("payload", GARBAGE, ids=range(len(GARBAGE)))
def test_a_payload_that_says_nothing_usable_is_warned_of(
    shared_daemon: DaemonProcess, payload: bytes
) -> None:
    said = run_hook(shared_daemon, payload)
    assert said.startswith("stet hook: ")
    assert said.endswith("\n")


@pytest.mark.parametrize(
    "payload",
    [
        {"hook_event_name": "SessionStart", "session_id": "s", "cwd": "/"},
        {"hook_event_name": "AnEventOfTheFuture"},
        {"hook_event_name": "PreToolUse", "tool_name": "Read", "tool_input": {"file_path": "/x"}},
        {"hook_event_name": "PreToolUse", "tool_name": "mcp__stet__patch", "tool_input": {}},
        {"hook_event_name": "PostToolUse", "tool_name": "a tool of the future"},
    ],
)
def test_what_is_about_no_edit_is_passed_over_in_silence(
    shared_daemon: DaemonProcess, payload: dict[str, Any]
) -> None:
    assert run_hook(shared_daemon, payload) == ""


def test_a_huge_payload_is_read_to_its_end_and_warned_of(shared_daemon: DaemonProcess) -> None:
    said = run_hook(shared_daemon, b'{"a": "' + b"x" * (33 << 20) + b'"}')
    assert said == "stet hook: nothing was recorded: the payload has more than 33554432 bytes\n"


@pytest.mark.parametrize(
    "words", [["--nonsense"], ["a", "b"], ["a/b"], ["x", "--before", "x"], ["x", "--after"]]
)
def test_a_wrong_command_line_is_warned_of(shared_daemon: DaemonProcess, words: list[str]) -> None:
    assert run_hook(shared_daemon, b"{}", *words).startswith("stet hook: ")


def test_unknown_fields_and_types_do_no_harm(site: Site) -> None:
    payload = claude("PreToolUse", "Edit", {"file_path": str(site.root / "a")}, "t", site.root)
    more = {"future": {"deep": [1]}, "permission_mode": None, "tool_response": 3.5}
    assert run_hook(site.daemon, {**payload, **more}) == ""


def test_in_a_directory_that_is_not_allowed_nothing_is_said(
    shared_daemon: DaemonProcess,
) -> None:
    root = shared_daemon.base / "elsewhere"
    root.mkdir(exist_ok=True)
    for tool, given in [("Bash", {"command": "x"}), ("Write", {"file_path": str(root / "a")})]:
        for event in ("SessionStart", "PreToolUse", "PostToolUse", "Stop"):
            assert run_hook(shared_daemon, claude(event, tool, given, "t", root)) == ""


def test_where_no_daemon_has_ever_been_nothing_is_said_nor_started(
    unstarted: DaemonProcess, tmp_path: Path
) -> None:
    for tool, given in [("Bash", {"command": "x"}), ("Write", {"file_path": "a"})]:
        for event in ("SessionStart", "PreToolUse", "PostToolUse", "Stop"):
            payload = claude(event, tool, given, "t", tmp_path)
            assert run_hook(unstarted, payload, "gemini", "--after", "50") == ""
    assert not unstarted.state.exists()


def test_a_daemon_that_is_away_is_started_and_the_change_recorded(own_site: Site) -> None:
    site = own_site
    site.write("a.txt", "one\n")
    payload = claude("PreToolUse", "Bash", {"command": "x"}, "t", site.root)
    assert run_hook(site.daemon, payload, "claude-code", "--before", "50") == ""
    site.daemon.stop()
    stop = {**payload, "hook_event_name": "Stop"}
    assert run_hook(site.daemon, stop, "claude-code", "--before", "50") == ""
    assert not (site.daemon.runtime / "agent.sock").exists()
    site.write("a.txt", "two\n")
    payload["hook_event_name"] = "PostToolUse"
    assert run_hook(site.daemon, payload, "claude-code", "--no-start") == (
        "stet hook: nothing was recorded: no stet daemon answers\n"
    )
    assert run_hook(site.daemon, payload, "claude-code", "--after", "50") == ""
    site.connect()
    try:
        assert site.kinds() == ["observed", "outside"]
    finally:
        pid = site.person.call("status")["pid"]
        site.person.call("shutdown")
        while Path(f"/proc/{pid}").exists():
            time.sleep(0.01)


Answer = Callable[[socket.socket], None]


def silent(connection: socket.socket) -> None:
    connection.recv(1)


def closing(connection: socket.socket) -> None:
    connection.recv(1 << 16)


def answering(line: bytes) -> Answer:
    def answer(connection: socket.socket) -> None:
        connection.recv(1 << 16)
        connection.sendall(line)
        connection.recv(1 << 16)

    return answer


@contextmanager
def impostor(daemon: DaemonProcess, answer: Answer) -> Iterator[None]:
    """Something else that listens where the daemon would."""
    daemon.runtime.mkdir(mode=0o700)
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(daemon.runtime / "agent.sock"))
    listening.listen()
    done = threading.Event()

    def serve() -> None:
        connection, _ = listening.accept()
        with connection, suppress(BrokenPipeError, ConnectionResetError):
            answer(connection)
            done.wait(100)

    def serve_and_close() -> None:
        connection, _ = listening.accept()
        with connection:
            closing(connection)

    thread = threading.Thread(target=serve_and_close if answer is closing else serve)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        listening.close()


@pytest.mark.parametrize(
    ("answer", "warning"),
    [
        (silent, "did not answer in time"),
        (closing, "closed the connection"),
        (answering(b"HTTP/1.1 400 Bad Request\r\n\r\n"), "is no stet daemon"),
        (answering(b"[]\n"), "is no stet daemon"),
        (answering(b'{"id": 1, "result": {"workspace": null}}\n'), "nothing was recorded"),
        (answering(b'{"id": 1, "error": {"message": "no\\u001b[2J\\nno"}}\n'), "no?[2J no"),
        (answering(b"x" * (5 << 20)), "recorded"),
    ],
    ids=["silent", "closing", "http", "list", "null", "escapes", "endless"],
)
def test_what_answers_is_no_daemon(
    unstarted: DaemonProcess, tmp_path: Path, answer: Answer, warning: str
) -> None:
    with impostor(unstarted, answer):
        payload = claude("PreToolUse", "Bash", {"command": "x"}, "t", tmp_path)
        said = run_hook(unstarted, payload, "claude-code", "--before", "3", "--after", "3")
        assert warning in said


def test_standard_input_that_does_not_end_is_given_up(
    shared_daemon: DaemonProcess, pipe: Pipe
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "stet.cli", "hook", "x", "--before", "1", "--after", "1"],
        stdin=pipe.reading, env=shared_daemon.environment, capture_output=True, timeout=100,
        check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, b"")
    assert done.stderr == b"stet hook: nothing was recorded: there was no time\n"


def test_a_hung_daemon_is_given_up(own_site: Site) -> None:
    payload = claude("PreToolUse", "Bash", {"command": "x"}, "t", own_site.root)
    own_site.daemon.process.send_signal(signal.SIGSTOP)
    try:
        said = run_hook(own_site.daemon, payload, "claude-code", "--before", "1")
    finally:
        own_site.daemon.process.send_signal(signal.SIGCONT)
    assert said == "stet hook: perhaps not recorded: the stet daemon did not answer in time\n"


def test_standard_error_that_is_closed_does_no_harm(shared_daemon: DaemonProcess) -> None:
    command = [sys.executable, "-m", "stet.cli", "hook", "x"]
    shell = f"{' '.join(command)} < /dev/null 2>&-"
    done = subprocess.run(["/bin/sh", "-c", shell], env=shared_daemon.environment, check=False)
    assert done.returncode == 0


def test_names_that_no_commit_could_hold_are_made_into_ones_that_can(site: Site) -> None:
    odd = "line\nbreak\u2028" + "x" * 500
    payload = claude("PreToolUse", "Write", {"file_path": str(site.root / "a")}, odd, site.root)
    payload["session_id"] = odd
    assert run_hook(site.daemon, payload) == ""
    site.write("a", "1\n")
    payload["hook_event_name"] = "PostToolUse"
    assert run_hook(site.daemon, payload) == ""
    [commit] = site.log()
    assert commit["kind"] == "observed"
    assert commit["session"].startswith("line_break_xxx")
    assert len(commit["session"]) <= 200
    assert json.dumps(commit["request"]) != json.dumps(odd)
