"""Every call is carried out exactly once: servers and daemons that are killed, retries, cancelling.

The usual run does a sample; with STET_TEST_ALL=1 eight clients have a server each while the
daemon is killed again and again.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.running_daemon import PATIENCE_S, DaemonProcess, Site, running
from mcp_server.raw_client import RawClient, Starting
from rigs import findings
from stet.mcp.sessions import MOST_UNDER_WAY
from stet.service.spawn import Endpoint, holder

FULL = os.environ.get("STET_TEST_ALL") == "1"
CLIENTS, CALLS, KILLS = (8, 25, 6) if FULL else (3, 8, 2)


def append(text: str, path: str = "a.txt") -> dict[str, Any]:
    return {"path": path, "patches": [{"operation": "append_eof", "newText": f"{text}\n"}]}


class Crowd:
    """Clients that call, each in a thread, and how many calls were answered so far."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answered = 0
        self.retried = 0
        self.troubles: list[BaseException] = []

    @property
    def answered(self) -> int:
        with self._lock:
            return self._answered

    def call_all(self, client: RawClient, name: str) -> None:
        """Calls one after the other; one whose outcome is not known is made again."""
        try:
            for number in range(CALLS):
                self._call_until_known(client, f"{name}-{number}")
        except BaseException as trouble:
            self.troubles.append(trouble)
            raise

    def _call_until_known(self, client: RawClient, text: str) -> None:
        while True:
            result = client.result(client.begin_call("patch", **append(text)))
            with self._lock:
                if not result["isError"]:
                    self._answered += 1
                    return
                self.retried += 1
            kind = result["structuredContent"]["error"]["kind"]
            assert kind in ("connection_lost", "daemon_unreachable", "outcome_unknown"), result


def kill_daemon(daemon: DaemonProcess) -> None:
    """SIGKILL whichever process is the daemon now; the servers start the next one."""
    endpoint = Endpoint(str(daemon.runtime), str(daemon.state), control=False)
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        pid = holder(endpoint)
        if pid is not None:
            os.kill(pid, signal.SIGKILL)
            return
        time.sleep(0.005)
    raise AssertionError("no daemon to kill")


@pytest.fixture
def left_alone() -> Iterator[Site]:
    """A workspace whose daemon is whichever the servers start; that one is ended at the end."""
    with running() as daemon:
        site = daemon.site("w")
        assert daemon.stop() == 0
        yield site
        kill_daemon(daemon)


@pytest.mark.timeout(600)
def test_servers_and_a_daemon_that_is_killed_again_and_again(
    left_alone: Site, starting: Starting
) -> None:
    site, crowd = left_alone, Crowd()
    site.write("a.txt", "")
    workspace = ("--workspace", str(site.root))
    servers = [starting(*workspace, **site.daemon.environment) for _ in range(CLIENTS)]
    for server in servers:
        server.initialize().call("read", path="a.txt")
    threads = [
        threading.Thread(target=crowd.call_all, args=(server, f"c{number}"))
        for number, server in enumerate(servers)
    ]
    for thread in threads:
        thread.start()
    for kill in range(KILLS):
        enough = CLIENTS * CALLS * (kill + 1) // (KILLS + 1)
        while crowd.answered < enough and any(thread.is_alive() for thread in threads):
            time.sleep(0.002)
        kill_daemon(site.daemon)
    for thread in threads:
        thread.join()
    assert crowd.troubles == []
    expected = sorted(f"c{one}-{two}" for one in range(CLIENTS) for two in range(CALLS))
    assert expected == sorted(site.bytes_of("a.txt").decode().split())
    commits = servers[0].call("log", limit=1000)["commits"]
    assert len(expected) == sum(commit["kind"] == "edit" for commit in commits)
    tally = findings.begin("MCP servers")
    tally.points = KILLS
    tally.notes.append(f"{len(expected)} calls, {crowd.retried} made again by the client")


@pytest.fixture(scope="module")
def site(shared_daemon: DaemonProcess) -> Site:
    """One workspace for all; each test has a file and a session of its own."""
    return shared_daemon.site("w")


@pytest.fixture(scope="module")
def server(site: Site) -> Iterator[RawClient]:
    """One server for all."""
    server = RawClient(["--workspace", str(site.root)], site.daemon.environment).initialize()
    try:
        yield server
    finally:
        server.kill()


@contextlib.contextmanager
def standing_still(daemon: DaemonProcess) -> Iterator[None]:
    """The daemon does nothing; what was sent by the end of this has come to its socket."""
    daemon.process.send_signal(signal.SIGSTOP)
    try:
        yield
        time.sleep(0.3)  # long enough nearly always; too short can only hide a defect
    finally:
        daemon.process.send_signal(signal.SIGCONT)


def once_sent(server: RawClient) -> None:
    """Wait until a server has sent on what it was asked: it has had several turns since."""
    for _ in range(5):
        server.result(server.request("ping"))


def test_a_client_that_restarts_its_server_and_retries_applies_once(
    site: Site, starting: Starting
) -> None:
    def connected() -> RawClient:
        arguments = ("--workspace", str(site.root), "--session", "talk")
        server = starting(*arguments, **site.daemon.environment).initialize()
        server.call("log")
        return server

    key = {"stet/request_id": "step-1"}
    first = connected()
    with standing_still(site.daemon):
        first.begin_call("patch", key, **append("x", "retried.txt"))
        once_sent(first)
        first.kill()
    second = connected()
    again = second.call("patch", key, **append("x", "retried.txt"))
    assert (b"x\n", "step-1") == (site.bytes_of("retried.txt"), again["request"])
    third = second.result(second.begin_call("patch", key, **append("x", "retried.txt")))
    assert third["structuredContent"]["replayed"] is True
    assert third["structuredContent"]["commit"] == again["commit"]
    assert "carried out before" in third["content"][0]["text"]
    assert {"stet/session": "talk", "stet/request_id": "step-1"} == third["_meta"]
    assert second.refusal("patch", key, **append("y", "retried.txt")).kind == "invalid_params"
    assert site.bytes_of("retried.txt") == b"x\n"


def test_a_call_that_waits_for_its_turn_is_not_carried_out_when_it_is_cancelled(
    site: Site, server: RawClient
) -> None:
    talk = {"stet/session": "waits"}
    server.call("log", talk)
    with standing_still(site.daemon):
        reads = [server.begin_call("log", talk) for _ in range(MOST_UNDER_WAY)]
        cancelled = server.begin_call("patch", talk, **append("x", "waits.txt"))
        server.send(cancellation(cancelled))
    for read in reads:
        assert server.result(read)["isError"] is False
    assert server.call("log", talk, session="waits")["commits"] == []
    assert not (site.root / "waits.txt").exists()


def test_a_cancelled_call_that_was_sent_and_is_made_again_is_carried_out_once(
    site: Site, server: RawClient
) -> None:
    talk = {"stet/session": "sent"}
    server.call("patch", talk, **append("x", "sent.txt"))
    server.call("patch", talk, **append("y", "sent.txt"))
    with standing_still(site.daemon):
        cancelled = server.begin_call("undo", talk)
        once_sent(server)
        server.send(cancellation(cancelled))
    assert server.call("undo", talk)["replayed"] is True
    assert site.bytes_of("sent.txt") == b"x\n"
    assert server.call("undo", talk)["replayed"] is False, "a third one is a new one"
    assert not (site.root / "sent.txt").exists()


def test_what_is_made_after_something_else_is_no_retry(site: Site, server: RawClient) -> None:
    talk = {"stet/session": "else"}
    server.call("patch", talk, **append("x", "else.txt"))
    with standing_still(site.daemon):
        cancelled = server.begin_call("patch", talk, **append("y", "else.txt"))
        once_sent(server)
        server.send(cancellation(cancelled))
    server.call("patch", talk, **append("z", "else.txt"))
    assert server.call("patch", talk, **append("y", "else.txt"))["replayed"] is False
    assert site.bytes_of("else.txt") == b"x\ny\nz\ny\n"


def cancellation(number: int) -> dict[str, Any]:
    return {
        "jsonrpc": "2.0",
        "method": "notifications/cancelled",
        "params": {"requestId": number, "reason": "enough"},
    }
