"""The command ``stetd`` as a process: start, a second one, SIGTERM, SIGKILL, activation."""

from __future__ import annotations

import json
import os
import pty
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stetd import __version__

STETD = [sys.executable, "-P", "-m", "stetd.cli"]


class Machine:
    """Directories for daemons, and the daemons that were started in them."""

    def __init__(self, base: Path) -> None:
        self.runtime, self.state = base / "run", base / "state"
        kept = {name: value for name, value in os.environ.items() if not name.startswith("STET_")}
        self.environ = kept | {
            "STET_RUNTIME_DIR": str(self.runtime),
            "STET_STATE_DIR": str(self.state),
            "STET_CONFIG": str(base / "config.toml"),
        }
        self.daemons: list[subprocess.Popen[str]] = []

    def start(self, *arguments: str, command: list[str] | None = None) -> subprocess.Popen[str]:
        self.daemons.append(
            subprocess.Popen(
                [*(command or STETD), *arguments],
                env=self.environ,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        return self.daemons[-1]

    def started(self) -> subprocess.Popen[str]:
        daemon = self.start()
        self.ask("status")
        return daemon

    def ask(self, method: str, seconds: float = 60) -> Any:
        deadline = time.monotonic() + seconds
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(seconds)
            while True:
                try:
                    client.connect(str(self.runtime / "control.sock"))
                    break
                except (FileNotFoundError, ConnectionRefusedError):
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.02)
            client.sendall(json.dumps({"id": 1, "method": method}).encode() + b"\n")
            with client.makefile("rb") as lines:
                return json.loads(lines.readline())

    def run(self, *arguments: str) -> tuple[int, str]:
        daemon = self.start(*arguments)
        _, told = daemon.communicate(timeout=60)
        return daemon.returncode, told

    def end(self) -> None:
        for daemon in self.daemons:
            if daemon.poll() is None:
                daemon.kill()
            daemon.communicate(timeout=60)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(tmp_path)
    yield machine
    machine.end()


def test_version_is_printed(machine: Machine) -> None:
    done = subprocess.run([*STETD, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"stetd {__version__}\n"


def test_what_is_needed_later_or_never_is_not_loaded_at_the_start() -> None:
    later = "{'ssl', 'platform', 'tiktoken', 'rich', 'pygments', 'stet.cli', 'stet.aio'}"
    load = f"import stetd.cli, stetd.daemon, sys; print(sorted({later} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", load], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_daemon_serves_until_it_is_told_to_stop(machine: Machine) -> None:
    daemon = machine.started()
    assert machine.ask("status")["result"]["pid"] == daemon.pid
    daemon.send_signal(signal.SIGTERM)
    _, told = daemon.communicate(timeout=60)
    assert daemon.returncode == 0, told
    assert sorted(os.listdir(machine.runtime)) == ["stetd.lock"]
    lines = told.split("\n")
    assert f"Z INFO stetd: stetd {__version__} serves, process {daemon.pid}" in told
    assert any("call socket=control pid=" in line and "result=ok" in line for line in lines)
    assert told.endswith("INFO stetd: stopped\n")


def test_daemon_that_is_watched_in_a_terminal_ends_with_it(machine: Machine) -> None:
    """Elsewhere SIGHUP is for reading the configuration again."""
    keyboard, screen = pty.openpty()
    try:
        daemon = subprocess.Popen(STETD, env=machine.environ, stderr=screen)
        machine.daemons.append(daemon)  # type: ignore[arg-type]
        machine.ask("status")
        daemon.send_signal(signal.SIGHUP)
        assert daemon.wait(60) == 0
    finally:
        os.close(keyboard)
        os.close(screen)


def test_second_daemon_says_who_is_there_and_disturbs_nothing(machine: Machine) -> None:
    daemon = machine.started()
    status, told = machine.run()
    assert status == 5
    assert f"another stetd (process {daemon.pid}) is using {machine.state}" in told
    assert machine.ask("status")["result"]["pid"] == daemon.pid


def test_unusable_option_is_a_usage_error_with_its_place(machine: Machine) -> None:
    config = Path(machine.environ["STET_CONFIG"])
    config.write_text("max_frame = 4096\ncolour = 1\n")
    status, told = machine.run()
    assert status == 2
    assert told.startswith(f"stetd: {config}, line 2: there is no option colour.")
    assert machine.run("--config", "missing.toml") == (
        2,
        "stetd: missing.toml: there is no such configuration file\n",
    )


def test_file_in_the_way_of_a_socket_is_refused(machine: Machine) -> None:
    machine.runtime.mkdir(0o700)
    (machine.runtime / "agent.sock").write_bytes(b"")
    status, told = machine.run()
    assert status == 1
    assert told.endswith(f"is not a socket. Remove it: rm -r '{machine.runtime}/agent.sock'\n")
    assert "Traceback" not in told


@pytest.mark.skipif(
    shutil.which("systemd-socket-activate") is None, reason="needs systemd-socket-activate"
)
def test_sockets_that_were_opened_for_it_are_served_and_left_there(machine: Machine) -> None:
    machine.runtime.mkdir(0o700)
    paths = [str(machine.runtime / name) for name in ("agent.sock", "control.sock")]
    passed = [f"--setenv={name}={machine.environ[name]}" for name in
              ("STET_RUNTIME_DIR", "STET_STATE_DIR", "STET_CONFIG")]  # fmt: skip
    activator = ["systemd-socket-activate", "--fdname=agent:control", *passed]
    for path in paths:
        activator += ["-l", path]
    daemon = machine.start(command=[*activator, *STETD])
    assert machine.ask("status")["result"]["pid"] == daemon.pid
    daemon.send_signal(signal.SIGTERM)
    daemon.communicate(timeout=60)
    assert daemon.returncode == 0
    assert all(Path(path).is_socket() for path in paths)


def test_it_starts_with_closed_standard_streams(machine: Machine) -> None:
    daemon = machine.start(command=["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *STETD])
    assert machine.ask("status")["result"]["pid"] == daemon.pid
    daemon.terminate()
    assert daemon.wait(60) == 0
