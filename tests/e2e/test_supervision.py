"""What a service manager is told: ready, status, heartbeats, more time; and what it is not."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import in_process
from e2e.running_daemon import DaemonProcess, Gate
from e2e.supervisor import Notified
from stetd.engine.fair_queue import Lane
from stetd.server.systemd import extend_timeout, heartbeat_interval, send_heartbeats, status_line


@pytest.fixture
def daemon() -> Iterator[DaemonProcess]:
    made = DaemonProcess()
    yield made
    made.close()


@pytest.fixture
def manager(daemon: DaemonProcess) -> Iterator[Notified]:
    made = Notified(daemon.base / "notify")
    daemon.environment["NOTIFY_SOCKET"] = made.address
    yield made
    made.close()


def statuses(manager: Notified) -> list[str]:
    return [line.removeprefix("STATUS=") for line in manager.lines if line.startswith("STATUS=")]


def test_life_of_a_daemon_in_status_lines(daemon: DaemonProcess, manager: Notified) -> None:
    daemon.start()
    assert manager.until("READY=1")
    site = daemon.site("w")
    assert manager.until("STATUS=Serving 1 workspace, 1 session")
    site.overwrite("a.txt", "x\n")
    assert daemon.stop() == 0
    assert manager.until("STATUS=Writing the last checkpoint")
    passing = "Serving 1 workspace, 0 sessions"  # if it looks just between the two
    assert [each for each in statuses(manager) if each != passing] == [
        "Reading the journal",
        "Serving 0 workspaces, 0 sessions",
        "Serving 0 workspaces, 0 sessions",
        "Serving 1 workspace, 1 session",
        "Stopping: 0 calls are being finished",
        "Writing the last checkpoint",
    ]
    assert manager.lines.index("STOPPING=1") < manager.lines.index(
        "STATUS=Stopping: 0 calls are being finished"
    )


def test_recovery_says_what_it_does(daemon: DaemonProcess, manager: Notified) -> None:
    daemon.start()
    daemon.site("w").overwrite("a.txt", "x\n")
    daemon.kill()
    manager.until("never", 0.1)
    manager.lines.clear()
    daemon.start()
    assert manager.until("READY=1")
    assert [each for each in statuses(manager) if "workspace 1 of 1" in each] != []


def test_daemon_that_is_read_only_says_so_and_why(tmp_path: Path) -> None:
    daemon = in_process.opened(tmp_path)
    assert status_line(daemon.writer) == "Serving 0 workspaces, 0 sessions"
    daemon.writer.become_read_only("fdatasync of the journal failed")
    reason = "Read-only until it is restarted: fdatasync of the journal failed"
    assert reason == status_line(daemon.writer)
    daemon.close()


def test_manager_that_does_not_listen_holds_nobody_up(
    daemon: DaemonProcess, manager: Notified
) -> None:
    """Its queue has room for a few datagrams, and it takes none of them."""
    daemon.environment["WATCHDOG_USEC"] = "1500000"
    daemon.start()
    site = daemon.site("w")
    for number in range(50):
        site.overwrite("a.txt", f"{number}\n")
    manager.fill()
    site.overwrite("a.txt", "the queue is full\n")
    assert daemon.stop() == 0


def test_heartbeats_come_three_times_in_a_period(daemon: DaemonProcess, manager: Notified) -> None:
    daemon.environment["WATCHDOG_USEC"] = "600000"
    daemon.start()
    for _ in range(5):
        assert manager.until("WATCHDOG=1")
    daemon.environment["WATCHDOG_PID"] = "1"
    daemon.restart()
    assert manager.until("READY=1")
    assert not manager.until("WATCHDOG=1", 1)


def test_call_that_hangs_has_no_heartbeat(daemon: DaemonProcess, manager: Notified) -> None:
    gate = Gate(daemon.base, "reply.before")
    daemon.environment |= {"WATCHDOG_USEC": "600000", **gate.environment}
    daemon.start()
    site = daemon.site("w")
    assert manager.until("WATCHDOG=1")
    site.agent.send("patch", path="a", patches=[{"operation": "overwrite", "newText": "z"}])
    gate.once_reached()
    assert not all(manager.until("WATCHDOG=1", 1.5) for _ in range(20))
    assert not manager.until("WATCHDOG=1", 1.5)
    # What the watchdog sends. The log then has where each thread was.
    daemon.process.send_signal(signal.SIGABRT)
    assert daemon.wait() == -signal.SIGABRT
    assert "failpoints.py" in daemon.log()
    del daemon.environment["STET_FAILPOINT"]
    daemon.start()
    site.connect()
    assert site.bytes_of("a") == b"z"


def test_hung_event_loop_has_no_heartbeat(daemon: DaemonProcess, manager: Notified) -> None:
    daemon.environment["WATCHDOG_USEC"] = "600000"
    daemon.start()
    assert manager.until("WATCHDOG=1")
    daemon.process.send_signal(signal.SIGSTOP)
    assert not all(manager.until("WATCHDOG=1", 1) for _ in range(20))
    daemon.process.send_signal(signal.SIGCONT)
    assert manager.until("WATCHDOG=1")


def test_much_work_that_gets_on_is_no_hang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The writer has been given five seconds of work; others of the loop have their turns."""
    manager = Notified(tmp_path / "notify")
    monkeypatch.setenv("NOTIFY_SOCKET", manager.address)
    daemon = in_process.opened(tmp_path)

    async def work() -> None:
        beating = asyncio.create_task(send_heartbeats(0.5))
        lane = Lane()
        pieces = [daemon.writer.submit(lambda: time.sleep(0.2), lane) for _ in range(25)]
        while not pieces[-1].done():
            await asyncio.sleep(0.05)
            manager.until("never", 0)
        beating.cancel()

    asyncio.run_coroutine_threadsafe(work(), daemon.daemon.loop).result(60)
    daemon.close()
    manager.close()
    assert manager.lines.count("WATCHDOG=1") >= 6


def compute() -> None:
    until = time.process_time() + 0.5
    while time.process_time() < until:
        pass


def read_and_write(path: Path) -> None:
    for _ in range(50):
        path.write_bytes(bytes(100_000))
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("expected", "work"),
    [
        (True, lambda _: compute()),
        (True, lambda directory: read_and_write(directory / "x")),
        (False, lambda _: time.sleep(1)),
    ],
)
def test_more_time_is_asked_for_while_something_gets_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: bool, work: Callable[[Path], None]
) -> None:
    manager = Notified(tmp_path / "notify")
    monkeypatch.setenv("NOTIFY_SOCKET", manager.address)
    monkeypatch.setattr("stetd.server.systemd._PROGRESS_INTERVAL_S", 0.2)
    with extend_timeout():
        work(tmp_path)
    manager.until("never", 0.1)
    manager.close()
    wanted = ["EXTEND_TIMEOUT_USEC=60000000", "WATCHDOG=1"]
    assert manager.lines[:2] == (wanted if expected else [])


@pytest.mark.parametrize(
    ("expected", "environ"),
    [
        (None, {}),
        (20.0, {"WATCHDOG_USEC": "60000000"}),
        (20.0, {"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": str(os.getpid())}),
        (None, {"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "1"}),
    ],
)
def test_heartbeats_are_sent_if_they_are_wanted_of_this_process(
    monkeypatch: pytest.MonkeyPatch, expected: float | None, environ: dict[str, str]
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert expected == heartbeat_interval()
