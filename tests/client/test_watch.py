"""``stet watch`` as a person sees it and as a program reads it."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from client.live import Installation, installation
from e2e.running_daemon import PATIENCE_S

A = "def a():\n    return 1\n"


@pytest.fixture
def ws() -> Iterator[Installation]:
    with installation() as found:
        assert found.stet("init").returncode == 0
        found.write("src/a.py", A)
        yield found


class Watching:
    """A running ``stet watch``, whose output is gathered."""

    def __init__(self, ws: Installation, *arguments: str, terminal: bool = False) -> None:
        self._ours, theirs = pty.openpty() if terminal else os.pipe()
        environ = ws.environ | {"TERM": "dumb"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "stet.cli", "watch", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=subprocess.PIPE,
            cwd=ws.workspace,
            env=environ,
        )
        os.close(theirs)
        self.said = ""
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._ours, 65536)
            except OSError:  # EIO: the last writer has closed the terminal
                return
            if not data:
                return
            self.said += data.decode().replace("\r\n", "\n")

    def wait_for(self, text: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while text not in self.said:
            assert time.monotonic() < deadline, f"{text!r} is not in {self.said!r}"
            assert self.process.poll() is None, self.process.stderr
            time.sleep(0.02)

    def end(self) -> int:
        self.process.send_signal(signal.SIGINT)
        status = self.process.wait(PATIENCE_S)
        self._reading.join(PATIENCE_S)
        os.close(self._ours)
        assert self.process.stderr is not None
        assert self.process.stderr.read() == b""
        self.process.stderr.close()
        return status

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.said.splitlines()]


def begun(ws: Installation, *arguments: str, terminal: bool = False) -> Watching:
    """One that has subscribed: what happens from now on is seen."""
    watching = Watching(ws, *arguments, terminal=terminal)
    deadline = time.monotonic() + PATIENCE_S
    while sum("stet-watch" in line for line in _subscribers(ws)) < 1:
        assert time.monotonic() < deadline
        assert watching.process.poll() is None
        time.sleep(0.05)
    return watching


def _subscribers(ws: Installation) -> list[str]:
    """A line for each subscription that the daemon has logged."""
    log = os.path.join(ws.base, "state", "stetd.log")
    with open(log) as lines:
        return ["stet-watch" for line in lines if "method=subscribe" in line]


def test_a_program_reads_one_event_a_line(ws: Installation) -> None:
    watching = begun(ws, "--json")
    edit = ws.patch("src/a.py", "return 1", "return 10")
    ws.stet("mode", "restricted", "--session", "cli")
    watching.wait_for('"mode"')
    assert watching.end() == 0
    events = watching.events()
    assert [event["event"] for event in events] == ["commit", "commit", "mode"]
    assert [event["commit"]["kind"] for event in events[:2]] == ["outside", "edit"]
    assert events[1]["commit"]["commit"] == edit["commit"]
    assert events[1]["workspace"] == ws.workspace


def test_a_person_sees_who_did_what_and_the_beginning_of_the_diff(ws: Installation) -> None:
    watching = begun(ws, "--lines", "3", terminal=True)
    watching.wait_for("Ctrl-C ends it\n")
    edit = ws.patch("src/a.py", "return 1", "return 10\x1b[31m")
    watching.wait_for("has all of it")
    ws.stet("mode", "restricted")
    watching.wait_for("restricted\n")
    assert watching.end() == 0
    said = watching.said.splitlines()
    assert said[1] == "outside"
    assert said[2].split("  ")[2:] == ["first seen: src/a.py", "+2"]
    assert said[3] == "cli/cli"
    line = "src/a.py  + return 10\\x1b[31m  +1 -1"
    assert said[4][8:] == f"  {edit['commit'][:8]}  {line}"
    assert said[5:8] == ["@@ -1,2 +1,2 @@", " def a():", "-    return 1"]
    assert said[8] == f"          ... stet show {edit['commit'][:8]} has all of it"
    assert any(line.endswith("  the workspace is now restricted") for line in said)
    assert "\x1b" not in watching.said


def test_less_than_no_lines_is_wrong_usage(ws: Installation) -> None:
    refused = ws.stet("watch", "--lines", "-2")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "0 is none" in refused.stderr


def test_a_pipe_gets_exact_times_and_whole_diffs_of_a_few_lines(ws: Installation) -> None:
    watching = begun(ws, "--session", "cli")
    edit = ws.patch("src/a.py", "return 1", "return 10")
    watching.wait_for("+    return 10")
    assert watching.end() == 0
    time = ws.json("show")["time"]
    assert watching.said == (
        f"{time}  {edit['commit'][:8]}  cli/cli  patch src/a.py: 1 edit  +1 -1\n"
        "@@ -1,2 +1,2 @@\n def a():\n-    return 1\n+    return 10\n\n"
    )


def test_it_narrows_to_a_session(ws: Installation) -> None:
    watching = begun(ws, "--json", "--session", "two")
    ws.patch("src/a.py", "return 1", "return 2", STET_SESSION="one")
    ws.patch("src/a.py", "return 2", "return 3", STET_SESSION="two")
    watching.wait_for('"two"')
    assert watching.end() == 0
    assert [event["commit"]["session"] for event in watching.events()] == ["two"]


def test_it_lives_through_a_restart_and_shows_what_it_missed(ws: Installation) -> None:
    watching = begun(ws, terminal=True)
    ws.patch("src/a.py", "return 1", "return 2")
    watching.wait_for("+    return 2")
    ws.stop()
    watching.wait_for("the daemon is gone; waiting for it")
    ws.patch("src/a.py", "return 2", "return 3")  # starts a daemon
    ws.patch("src/a.py", "return 3", "return 4")
    watching.wait_for("the daemon is back")
    watching.wait_for("+    return 4")
    assert watching.end() == 0
    assert watching.said.index("+    return 3") < watching.said.index("+    return 4")


def test_a_reader_that_has_seen_enough_is_no_error(ws: Installation) -> None:
    watching = subprocess.Popen(
        ["sh", "-c", '"$@" | head -n 1', "sh", sys.executable, "-m", "stet.cli", "watch", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ws.workspace,
        env=ws.environ,
    )
    deadline = time.monotonic() + PATIENCE_S
    while not _subscribers(ws):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    for number in range(1, 4):
        ws.patch("src/a.py", f"return {number}", f"return {number + 1}")
    out, errors = watching.communicate(timeout=PATIENCE_S)
    assert (out.count(b"\n"), errors) == (1, b"")


def test_a_directory_that_is_not_allowed_is_refused(ws: Installation) -> None:
    os.mkdir(os.path.join(ws.base, "other"))
    run = ws.stet("watch", "-C", os.path.join(ws.base, "other"))
    assert run.returncode == 1
    assert "stet init" in run.stderr
