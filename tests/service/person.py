"""The person in whose name the private manager runs: commands, the service, clients in flight.

Imported inside the namespaces only. Nothing here asserts what a scenario is about.
"""

from __future__ import annotations

import collections
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import stet
from service.load import line_of, path_of
from stet.service.spawn import Endpoint

HOME = Path(os.environ["HOME"])
WORKSPACE = HOME / "workspace"
UNITS = HOME / ".config/systemd/user"
STATE = HOME / ".local/state/stet"
RUNTIME = Path(os.environ["XDG_RUNTIME_DIR"], "stet")
PATIENCE_S = 60.0


def run(*command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """A command in the workspace."""
    done = subprocess.run(
        command,
        cwd=WORKSPACE,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert not check or done.returncode == 0, f"{command}: {done.returncode}\n{done}"
    return done


def stet_command(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """``stet`` of this installation."""
    return run(sys.executable, "-m", "stet.cli", *arguments, check=check)


def as_json(*arguments: str) -> Any:
    """What a ``stet`` command prints with --json."""
    return json.loads(stet_command(*arguments, "--json").stdout)


def systemctl(*arguments: str) -> str:
    """``systemctl --user``."""
    return run("systemctl", "--user", *arguments).stdout


def shown(unit: str, name: str) -> str:
    """One property of a unit."""
    return systemctl("show", "--value", "--property", name, unit).strip()


def main_pid() -> int:
    """The process of the service; 0 if it does not run."""
    return int(shown("stetd.service", "MainPID"))


def answering_pid() -> int:
    """The process that answers on the sockets, whoever started it."""
    endpoint = Endpoint(str(RUNTIME), str(STATE), control=True)
    with stet.connect(None, control=True, start=False, endpoint=endpoint) as session:
        pid = session.status().pid
    assert pid is not None
    return pid


def until(what: str, happened: Callable[[], object]) -> None:
    """Wait for something; AssertionError if it does not happen."""
    deadline = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < deadline, f"it never happened: {what}"
        time.sleep(0.02)


def installed() -> None:
    """A service with an allowed workspace."""
    WORKSPACE.mkdir(exist_ok=True)
    stet_command("service", "install")
    stet_command("init")


def dropin(name: str, text: str) -> Path:
    """A drop-in for the service, as a person writes one; systemd has read it."""
    file = UNITS / "stetd.service.d" / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    systemctl("daemon-reload")
    return file


def only_the_service_ran() -> None:
    """No client has started a daemon of its own meanwhile."""
    assert answering_pid() == main_pid()
    assert not (STATE / "stetd.log").exists(), (STATE / "stetd.log").read_text()


class Flight:
    """Clients in flight, each a process of its own."""

    def __init__(self, clients: int, count: int) -> None:
        self.processes = [
            subprocess.Popen(
                [sys.executable, "-m", "service.load", str(number), str(count)],
                cwd=WORKSPACE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for number in range(clients)
        ]

    def written(self) -> int:
        """Bytes that their calls have put into files so far."""
        return sum(file.stat().st_size for file in WORKSPACE.glob("*.txt"))

    def landed(self) -> list[dict[str, str]]:
        """What was answered to each, by request; fails if any of them failed."""
        answers = []
        for process in self.processes:
            out, err = process.communicate(timeout=PATIENCE_S * 2)
            assert (process.returncode, err) == (0, ""), err
            answers.append(json.loads(out))
        return answers


@contextmanager
def flight(clients: int, count: int) -> Iterator[Flight]:
    """Clients in flight; none is left behind."""
    flying = Flight(clients, count)
    try:
        yield flying
    finally:
        for process in flying.processes:
            if process.poll() is None:
                process.kill()
                process.communicate()


def check_applied_once(answers: list[dict[str, str]]) -> int:
    """Every answered call is in files and history exactly once, and nothing else; how many."""
    expected: dict[str, list[str]] = collections.defaultdict(list)
    for client, given in enumerate(answers):
        for number in range(len(given)):
            expected[path_of(client, number)].append(line_of(client, number))
    for path, lines in expected.items():
        found = (WORKSPACE / path).read_text().splitlines()
        if path.startswith("shared"):
            assert sorted(lines) == sorted(found), path
        else:
            assert lines == found, path
    requests = {line: commit for given in answers for line, commit in given.items()}
    with stet.connect(WORKSPACE, control=True) as session:
        commits = [each for each in session.history(limit=500) if each.kind == "edit"]
        assert session.verify().ok
    logged = collections.Counter(each.request for each in commits)
    assert dict.fromkeys(requests, 1) == dict(logged)
    assert requests == {each.request: each.commit for each in commits}
    return len(requests)
