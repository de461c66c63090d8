"""Restarts among calls: nobody notices, every call is carried out once.

Started by the clients themselves, and by a service manager that holds the sockets.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

import stet
from client.live import Installation, installation
from e2e.running_daemon import fsck
from e2e.supervisor import SocketActivation
from stet.service.spawn import is_running

#: How often the daemon is ended under load, in a usual run and in a long one.
RESTARTS = 100 if os.environ.get("STET_TEST_ALL") else 4
CLIENTS = 4


@contextlib.contextmanager
def started_by_clients(own: Installation) -> Iterator[None]:
    yield
    own.stop()


@contextlib.contextmanager
def socket_activated(own: Installation) -> Iterator[SocketActivation]:
    base = Path(own.base)
    with SocketActivation(base / "run", base / "log", own.environ) as activation:
        yield activation


Way = Callable[[Installation], AbstractContextManager[object]]
WAYS: list[Way] = [started_by_clients, socket_activated]


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> Iterator[Installation]:
    with installation() as made:
        for name, value in made.environ.items():
            if name.startswith("STET_"):
                monkeypatch.setenv(name, value)
        yield made


def allow(own: Installation, **environ: str) -> None:
    """The first command, for which a daemon is started; what it says if it can't be."""
    run = own.stet("init", **environ)
    assert (run.returncode, run.stderr) == (0, "")


class Caller(threading.Thread):
    """One client that appends line after line, for as long as it is wanted."""

    def __init__(self, own: Installation, number: int) -> None:
        super().__init__()
        self.number = number
        self.answered: list[str] = []
        self.error: Exception | None = None
        self.enough = threading.Event()
        self._own = own

    def run(self) -> None:
        try:
            with stet.connect(
                self._own.workspace, f"s{self.number}", "a", endpoint=self._own.endpoint()
            ) as session:
                while not self.enough.is_set():
                    line = f"client {self.number} call {len(self.answered)}\n"
                    done = session.patch(f"{self.number % 2}.txt", [stet.append_eof(line)])
                    assert done.commit is not None
                    self.answered.append(done.commit)
        except Exception as error:  # noqa: BLE001 - told by the test
            self.error = error


def wait_for_progress(callers: list[Caller], calls: int) -> None:
    """Until each of them got so many more answers."""
    wanted = {caller: len(caller.answered) + calls for caller in callers}
    deadline = time.monotonic() + 100
    while any(len(caller.answered) < wanted[caller] for caller in callers):
        for caller in callers:
            assert caller.error is None, caller.error
        assert time.monotonic() < deadline, [len(caller.answered) for caller in callers]
        time.sleep(0.005)


def check(own: Installation, callers: list[Caller]) -> None:
    """Every call is there once, in the file and in the history, and nothing else."""
    expected = [
        f"client {caller.number} call {number}\n"
        for caller in callers
        for number in range(len(caller.answered))
    ]
    lines = [line for name in ("0.txt", "1.txt") for line in own.text(name).splitlines(True)]
    assert sorted(lines) == sorted(expected)
    with stet.connect(own.workspace, control=True, endpoint=own.endpoint(control=True)) as there:
        history = [info.commit for info in there.history(limit=1000)]
        assert there.verify().problems == []
        assert there.hello.workspace is not None
        shadow = there.hello.workspace.shadow
    assert sorted(history) == sorted(each for caller in callers for each in caller.answered)
    assert fsck(shadow) == ""


@pytest.mark.timeout(1800 if RESTARTS > 10 else 240)
@pytest.mark.parametrize("way", WAYS)
def test_every_call_is_carried_out_once_through_restarts(own: Installation, way: Way) -> None:
    """Every third time it is killed, else it is told to stop."""
    with way(own):
        allow(own)
        callers = [Caller(own, number) for number in range(CLIENTS)]
        for caller in callers:
            caller.start()
        try:
            for number in range(RESTARTS):
                wait_for_progress(callers, 2)
                pid = own.pid()
                assert pid is not None
                os.kill(pid, signal.SIGKILL if number % 3 == 2 else signal.SIGTERM)
            wait_for_progress(callers, 2)
        finally:
            for caller in callers:
                caller.enough.set()
            for caller in callers:
                caller.join()
        assert [caller.error for caller in callers] == [None] * CLIENTS
        check(own, callers)


@pytest.mark.parametrize("way", WAYS)
def test_commands_in_the_middle_of_a_restart_are_carried_out_once(
    own: Installation, way: Way
) -> None:
    own.write("a.txt", "")
    with way(own):
        allow(own)
        for number in range(3):
            pid = own.pid()
            assert pid is not None
            os.kill(pid, signal.SIGTERM)
            patches = f'[{{"operation": "append_eof", "newText": "{number}\\n"}}]'
            run = own.stet("patch", "--path", "a.txt", stdin=patches)
            assert (run.returncode, run.stderr) == (0, "")
        assert own.text("a.txt") == "0\n1\n2\n"


def test_an_idle_daemon_ends_and_the_next_client_has_another_one(own: Installation) -> None:
    Path(own.base, "config.toml").write_text("idle_exit_s = 0.3\n")
    with socket_activated(own) as activation:
        allow(own)
        with stet.connect(own.workspace, "s", "a", endpoint=own.endpoint()) as session:
            session.patch("a.txt", [stet.overwrite("one\n")])
            session.clipboard_set("c", "kept")
            first = own.pid()
            assert first is not None
        deadline = time.monotonic() + 60
        while is_running(first):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert sorted(os.listdir(os.path.join(own.base, "run"))) == [
            "agent.sock", "control.sock", "stetd.lock",
        ]  # fmt: skip
        with stet.connect(own.workspace, "s", "a", endpoint=own.endpoint()) as session:
            assert session.clipboard_get("c").text == "kept"
            assert [info.method for info in session.log().commits] == ["patch"]
            assert own.pid() not in (None, first)
        assert activation.starts >= 2
        assert set(activation.statuses) <= {0}


def test_clients_that_come_while_it_ends_for_idleness_are_served(own: Installation) -> None:
    """Each is there just when the daemon before it has had enough of waiting."""
    Path(own.base, "config.toml").write_text("idle_exit_s = 0.2\n")
    with socket_activated(own) as activation:
        allow(own)
        number = 0
        while number < 5 or activation.starts < 2:  # on a busy machine it ends later
            with stet.connect(own.workspace, "s", "a", endpoint=own.endpoint()) as session:
                session.patch("a.txt", [stet.append_eof(f"{number}\n")])
            time.sleep(0.2 + 0.004 * number)
            number += 1
        assert own.text("a.txt") == "".join(f"{each}\n" for each in range(number))
