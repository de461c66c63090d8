"""Stopping in the middle of a flood of calls: what was answered stands, nothing is half done."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

from e2e.running_daemon import Client, ConnectionEnded, Site, eventually, fsck
from stet.wire.framing import Encoding

CLIENTS = 4
#: More of each than are in work at once, which a stop has finished.
CALLS = 150


@dataclass
class Flood:
    """One client's calls: all sent at once, then replies for as long as they come."""

    client: Client
    number: int
    #: Call number to commit.
    answered: dict[int, str] = field(default_factory=dict)
    refused: set[int] = field(default_factory=set)

    def params(self, call: int) -> dict[str, Any]:
        text = f"client {self.number} call {call}\n"
        patches = [{"operation": "append_eof", "newText": text}]
        path = "shared.txt" if call % 2 else f"own-{self.number}.txt"
        return {"path": path, "patches": patches, "request_id": f"{self.number}-{call}"}

    def run(self) -> None:
        try:
            for call in range(CALLS):
                self.client.send_bytes(self.client.frame("patch", call, self.params(call)))
        except OSError:
            pass  # the daemon is gone; what it answered before is still to be read
        try:
            while len(self.answered) + len(self.refused) < CALLS:
                reply = self.client.receive()
                assert isinstance(reply.id, int)
                if reply.error is None:
                    self.answered[reply.id] = self.client.result_of(reply)["commit"]
                else:
                    assert reply.error.data["kind"] == "shutting_down"
                    self.refused.add(reply.id)
        except (ConnectionEnded, OSError):
            pass


def begin(site: Site) -> tuple[list[Flood], list[threading.Thread]]:
    """Flood a daemon whose disk is slow: all calls are not done before somebody can stop it."""
    site.restart(STET_FAILPOINT="journal.before_sync:*@sleep=0.05")
    floods = [Flood(site.another(f"s{n}"), n) for n in range(CLIENTS)]
    threads = [threading.Thread(target=flood.run) for flood in floods]
    for thread in threads:
        thread.start()
    assert eventually(lambda: sum(len(flood.answered) for flood in floods) >= 40)
    return floods, threads


def lines_of(site: Site) -> list[str]:
    return [
        line
        for path in sorted(site.root.iterdir())
        for line in path.read_text().splitlines(keepends=True)
    ]


def check(site: Site, floods: list[Flood]) -> None:
    """Every answered call is there once, no refused one; then every call is retried."""
    lines = lines_of(site)
    commits = {each["commit"]: each["request"] for each in site.log(limit=1000)}
    assert len(lines) == len(set(lines)) == len(commits)
    for flood in floods:
        for call, commit in flood.answered.items():
            assert commits[commit] == f"{flood.number}-{call}"
            assert f"client {flood.number} call {call}\n" in lines
        for call in flood.refused:
            assert f"client {flood.number} call {call}\n" not in lines
    for path in site.root.iterdir():
        assert site.git("show", f"history:{path.name}").encode() == path.read_bytes()
    assert site.fsck() == ""
    retry(site, floods)


def retry(site: Site, floods: list[Flood]) -> None:
    there = {each["request"]: each["commit"] for each in site.log(limit=1000)}
    for flood in floods:
        client = site.another(f"s{flood.number}")
        for call in range(CALLS):
            result = client.call("patch", **flood.params(call))
            known = there.get(f"{flood.number}-{call}")
            assert result["replayed"] is (known is not None)
            assert known in (None, result["commit"])
    expected = {f"client {n} call {call}\n" for n in range(CLIENTS) for call in range(CALLS)}
    lines = lines_of(site)
    assert len(lines) == len(expected)
    assert set(lines) == expected
    assert site.fsck() == ""


def test_after_sigterm_in_a_flood_every_answered_call_stands(own_site: Site) -> None:
    own_site.encoding = Encoding.MSGPACK
    own_site.connect()
    own_site.agent.call("clipboard_set", name="c", text="kept")
    floods, threads = begin(own_site)
    assert own_site.daemon.stop() == 0
    for thread in threads:
        thread.join()
    assert any(len(flood.answered) < CALLS for flood in floods), "the stop came too late"
    own_site.daemon.start()
    own_site.connect()
    assert own_site.agent.call("clipboard_get", name="c")["text"] == "kept"
    check(own_site, floods)
    assert own_site.daemon.stop() == 0
    assert own_site.daemon.log() == ""


def test_after_sigkill_in_a_flood_every_answered_call_stands(own_site: Site) -> None:
    own_site.agent.call("clipboard_set", name="c", text="kept")
    own_site.another("locked").call("mode_set", mode="restricted")
    floods, threads = begin(own_site)
    own_site.daemon.kill()
    for thread in threads:
        thread.join()
    assert any(len(flood.answered) < CALLS for flood in floods), "the kill came too late"
    own_site.daemon.start()
    own_site.connect()
    assert own_site.agent.call("clipboard_get", name="c")["text"] == "kept"
    assert own_site.another("locked").call("mode_get")["mode"] == "restricted"
    check(own_site, floods)
    assert own_site.daemon.stop() == 0


def test_shutdown_stops_as_sigterm_does(own_site: Site) -> None:
    own_site.overwrite("a.txt", "x\n")
    assert own_site.daemon.control().call("shutdown") == {"stopping": True}
    assert own_site.daemon.wait() == 0
    assert not list(own_site.daemon.runtime.glob("*.sock"))
    own_site.daemon.start()
    own_site.connect()
    assert own_site.agent.call("read", path="a.txt", at="HEAD")["text"] == "x\n"


def test_a_stopped_daemon_leaves_a_small_journal_and_a_complete_repository(
    own_site: Site,
) -> None:
    for number in range(100):
        own_site.overwrite("a.txt", f"{number:08}" * 7_000 + "\n")
    assert own_site.daemon.stop() == 0
    journal = sum(path.stat().st_size for path in (own_site.daemon.state / "journal").iterdir())
    assert journal < 5_000_000
    assert fsck(own_site.shadow) == ""
    own_site.daemon.start()
    own_site.connect()
    assert len(own_site.log(limit=1000)) == 100
    assert len(own_site.git("rev-list", "history").split()) == 100
