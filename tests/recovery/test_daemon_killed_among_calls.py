"""The real daemon process, on its sockets, is killed while several clients are calling.

Each client appends numbered lines to a file of all and to one of its own, cuts into a
clipboard, and remembers what was answered. After the kill and a new start every client sends
every call again with the request id it had, answered or not.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from e2e.running_daemon import Client, ConnectionEnded, Site, fsck, running

CLIENTS = 4
CALLS_EACH = 50


def calls_of(client: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """The calls of a client in order, each with its request id."""
    for n in range(CALLS_EACH):
        line = f"client {client} line {n}\n"
        if n % 10 == 9:
            cut = f"client {client} line {n - 1}\n"
            patch = {"operation": "replace", "oldText": cut, "newText": "", "toClipboard": "cut"}
            yield "patch", {"path": f"own/{client}.txt", "patches": [patch]}
        elif n % 2:
            patch = {"operation": "append_eof", "newText": line}
            yield "patch", {"path": "shared.txt", "patches": [patch]}
        else:
            patch = {"operation": "append_eof", "newText": line}
            yield "patch", {"path": f"own/{client}.txt", "patches": [patch]}


class Caller(threading.Thread):
    """A client that calls until the daemon is gone."""

    def __init__(self, number: int, client: Client) -> None:
        super().__init__()
        self.number = number
        self.client = client
        self.answers: dict[str, dict[str, Any]] = {}
        #: Called after every answer.
        self.after_each: Callable[[], None] = lambda: None

    def run(self) -> None:
        try:
            for n, (method, params) in enumerate(calls_of(self.number)):
                request = f"{self.number}-{n}"
                self.answers[request] = self.client.call(method, **params, request_id=request)
                self.after_each()
        except (ConnectionEnded, OSError):
            return


def callers_on(site: Site) -> list[Caller]:
    return [Caller(n, site.another(f"session-{n}")) for n in range(CLIENTS)]


@pytest.mark.parametrize("seed", range(3))
def test_every_answered_call_is_there_and_none_twice(seed: int) -> None:
    with running() as daemon:
        site = daemon.site("w")
        site.write("shared.txt", "first line\n")
        callers = callers_on(site)
        site.person.call("mode_set", mode="restricted", session="conv-1")
        kill_after = random.Random(seed).randrange(20, CLIENTS * CALLS_EACH * 3 // 4)
        lock, killed = threading.Lock(), threading.Event()

        def kill_in_time() -> None:
            """By the caller itself: who only looks on may come too late."""
            with lock:
                enough = sum(len(caller.answers) for caller in callers) >= kill_after
                if enough and not killed.is_set():
                    daemon.process.kill()
                    killed.set()

        for caller in callers:
            caller.after_each = kill_in_time
            caller.start()
        for caller in callers:
            caller.join()
        daemon.kill()
        answers = {request: a for caller in callers for request, a in caller.answers.items()}
        assert kill_after <= len(answers) < CLIENTS * CALLS_EACH

        daemon.start()
        site.connect()
        assert site.person.call("mode_get")["workspace_mode"] == "unrestricted"
        assert site.agent.call("mode_get")["mode"] == "restricted"
        commits = {c["commit"]: c for c in site.log(limit=1000)}
        for request, answer in answers.items():
            assert commits[answer["commit"]]["request"] == request
        check_files(site, len(answers))

        again = callers_on(site)
        for caller in again:
            caller.start()
        for caller in again:
            caller.join()
            assert len(caller.answers) == CALLS_EACH
            for request, answer in caller.answers.items():
                if request in answers:
                    assert answer["replayed"] is True
                    assert answer["commit"] == answers[request]["commit"]
            text = caller.client.call("clipboard_get", name="cut")["text"]
            assert text == f"client {caller.number} line {CALLS_EACH - 2}\n"
        requests = [c["request"] for c in site.log(limit=1000) if c["kind"] == "edit"]
        assert len(requests) == len(set(requests)) == CLIENTS * CALLS_EACH
        check_files(site, CLIENTS * CALLS_EACH)
        assert daemon.stop() == 0
        assert fsck(site.shadow) == ""
        assert sorted(p.name for p in site.root.rglob("*")) == sorted(
            ["shared.txt", "own", *(f"{n}.txt" for n in range(CLIENTS))]
        )


def check_files(site: Site, at_least: int) -> None:
    """Every line at most once, in each client's order; every file as its history has it."""
    lines = site.bytes_of("shared.txt").decode().splitlines()
    assert lines[0] == "first line"
    assert len(lines) == len(set(lines))
    for client in range(CLIENTS):
        numbers = [int(line.split()[-1]) for line in lines if line.startswith(f"client {client} ")]
        assert numbers == sorted(numbers)
    assert site.person.call("diff")["diff"] == ""
    edits = [c for c in site.log(limit=1000) if c["kind"] == "edit"]
    assert len(edits) >= at_least
