"""``subscribe`` through a real daemon: what happens is told, in order, to whom it concerns."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from e2e.running_daemon import BOTH, PATIENCE_S, Client, DaemonProcess, Site
from stet.wire.framing import Encoding


class Listener(Client):
    """A connection that takes replies and events as they come."""

    def __init__(
        self, site: Site, name: str = "control.sock", encoding: Encoding = Encoding.JSON
    ) -> None:
        super().__init__(str(site.daemon.runtime / name), encoding)

    def hello(self, site: Site, **more: Any) -> None:
        self.call("hello", protocol=1, workspace=str(site.root), **more)

    def subscribe(self, **params: Any) -> dict[str, Any]:
        return self.call("subscribe", **params)

    def event(self) -> dict[str, Any]:
        event = self.next()
        assert event.is_event
        return event.params

    def has_nothing(self, seconds: float = 0.3) -> bool:
        self.socket.settimeout(seconds)
        try:
            self.next()
        except TimeoutError:
            return True
        finally:
            self.socket.settimeout(PATIENCE_S)
        return False


@pytest.fixture
def listen(site: Site) -> Iterator[Callable[..., Listener]]:
    """A listener on the site's workspace that is subscribed already."""
    opened: list[Listener] = []

    def subscribed(
        name: str = "control.sock", *, events: list[str] | None = None, **hello: Any
    ) -> Listener:
        listener = Listener(site, name)
        opened.append(listener)
        listener.hello(site, **hello)
        listener.subscribe(**({} if events is None else {"events": events}))
        return listener

    yield subscribed
    for each in opened:
        each.close()


@pytest.mark.parametrize("encoding", BOTH)
def test_every_commit_is_told_as_log_has_it_in_its_order(site: Site, encoding: Encoding) -> None:
    (site.root / "a").write_text("one\ntwo\n")
    with closing(Listener(site, encoding=encoding)) as listener:
        listener.hello(site)
        assert listener.subscribe() == {
            "events": ["commit", "mode", "upgrade_request"],
            "head": None,
            "heads": {str(site.root): None},
        }
        site.replace("a", "one", "1", message="because")
        (site.root / "a").write_text("1\nzwei\n")
        site.overwrite("b/new", "x\n")
        site.replace("a", "1", "un")
        site.agent.call("undo", preview=True)
        refused = {"operation": "replace", "oldText": "zwei and more"}
        site.agent.refusal("patch", path="a", patches=[refused])
        site.agent.call("undo")
        told = [listener.event() for _ in range(6)]
        log = site.log()

    for commit in log:  # what was undone later was not undone when it was told
        commit["reverted_by"] = None
    assert [(each["event"], each["workspace"]) for each in told] == [("commit", str(site.root))] * 6
    assert [each["commit"] for each in told] == log[::-1]
    assert [each["kind"] for each in log[::-1]] == [
        "outside", "edit", "edit", "outside", "edit", "undo",
    ]  # fmt: skip


def test_a_forget_is_told_when_it_is_done(own_site: Site) -> None:
    site = own_site
    site.overwrite("secret", "x\n")
    with closing(Listener(site)) as listener:
        listener.hello(site)
        listener.subscribe()
        site.person.call("forget", path="secret")
        told = listener.event()
    assert told["commit"] == site.log()[0]
    assert told["commit"]["kind"] == "forget"


def test_concurrent_agents_are_told_in_the_order_of_the_history(site: Site) -> None:
    with closing(Listener(site)) as listener:
        listener.hello(site)
        listener.subscribe(events=["commit"])
        agents = [site.another(f"agent-{n}") for n in range(4)]
        for number in range(15):
            for name, agent in enumerate(agents):
                edit = {"operation": "overwrite", "newText": f"{number}\n"}
                agent.send("patch", path=f"f{name}", patches=[edit])
        told = [listener.event()["commit"]["commit"] for _ in range(60)]
    assert told == [each["commit"] for each in site.log(limit=100)[::-1]]


def test_the_first_event_follows_the_head_that_subscribe_gave(site: Site) -> None:
    for number in range(20):
        with closing(Listener(site)) as listener:
            listener.hello(site)
            listener.send("subscribe", events=["commit"])
            edit = {"operation": "overwrite", "newText": f"{number}\n"}
            site.agent.send("patch", path="a", patches=[edit])
            head = listener.result_of(listener.receive())["head"]
            commit = site.agent.result_of(site.agent.receive())["commit"]
            if head != commit:
                assert listener.event()["commit"]["parent"] == head
            else:
                assert listener.has_nothing(0.02)


def test_outside_edits_of_a_contended_call_and_late_writes_are_told(
    site: Site, listen: Callable[..., Listener]
) -> None:
    (site.root / "a").write_text("one\n")
    listener = listen()
    with (site.root / "a").open("r+") as held:
        site.replace("a", "one", "two")
        held.seek(0)
        held.write("late\n")
    kinds = [listener.event()["commit"]["kind"] for _ in range(4)]
    assert kinds == ["outside", "edit", "outside", "outside"]


def test_modes_are_told(site: Site, listen: Callable[..., Listener]) -> None:
    listener = listen()
    site.person.call("mode_set", mode="restricted", session=site.session)
    site.person.call("mode_set", mode="restricted", scope="workspace")
    event = {
        "event": "mode",
        "workspace": str(site.root),
        "session": site.session,
        "mode": "restricted",
        "session_mode": "restricted",
        "workspace_mode": "unrestricted",
    }
    assert listener.event() == event
    assert listener.event() == {
        **event,
        "session": None,
        "session_mode": None,
        "workspace_mode": "restricted",
    }


def test_an_agent_is_told_of_its_own_session_and_of_all_commits_of_its_workspace(
    site: Site, listen: Callable[..., Listener]
) -> None:
    agent = listen("agent.sock", session="other")
    site.person.call("mode_set", mode="restricted", session=site.session)
    site.person.call("mode_set", mode="restricted", session="other")
    site.person.call("mode_set", mode="unrestricted", session=site.session)
    site.overwrite("a", "x\n")
    assert agent.event()["session"] == "other"
    assert agent.event()["commit"]["session"] == site.session
    assert agent.has_nothing(0.1)


def test_only_what_was_asked_for_is_told_and_asking_again_changes_it(
    site: Site, listen: Callable[..., Listener]
) -> None:
    listener = listen(events=["mode"])
    site.overwrite("a", "x\n")
    site.person.call("mode_set", mode="unrestricted", scope="workspace")
    assert listener.event()["event"] == "mode"
    listener.subscribe(events=["commit"])
    site.person.call("mode_set", mode="unrestricted", scope="workspace")
    site.overwrite("a", "y\n")
    assert listener.event()["event"] == "commit"
    listener.subscribe(events=[])
    site.overwrite("a", "z\n")
    assert listener.has_nothing()


def test_workspaces_are_told_apart_and_control_without_one_is_told_of_all(
    shared_daemon: DaemonProcess, site: Site, listen: Callable[..., Listener]
) -> None:
    other = shared_daemon.site(f"{site.root.name}-other")
    own = listen()
    with closing(Listener(site)) as of_all:
        of_all.call("hello", protocol=1)
        heads = of_all.subscribe()["heads"]
        assert heads[str(site.root)] is None
        assert heads[str(other.root)] is None
        other.overwrite("a", "x\n")
        site.overwrite("a", "x\n")
        assert [of_all.event()["workspace"] for _ in range(2)] == [str(other.root), str(site.root)]
    assert own.event()["workspace"] == str(site.root)
    assert own.has_nothing(0.1)


@pytest.mark.parametrize(
    ("params", "complaint"),
    [
        ({"events": ["comit"]}, "there is no event 'comit'; events are: commit, mode"),
        ({"events": "commit"}, "Expected `array | null`, got `str`"),
        ({"event": []}, "unknown field `event`"),
    ],
)
def test_a_wrong_subscription_is_refused(
    site: Site, params: dict[str, Any], complaint: str
) -> None:
    refusal = site.person.refusal("subscribe", **params)
    assert refusal.kind == "invalid_params"
    assert complaint in refusal.message


def test_one_that_does_not_read_slows_nobody_and_is_told_how_much_it_lost(
    own_site: Site,
) -> None:
    """Every commit is told or counted; the daemon keeps no more than a few MiB for it."""
    site = own_site
    listener = Listener(site)
    listener.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    listener.hello(site)
    listener.subscribe(events=["commit"])
    why = "w" * 60_000
    calls = 80
    before = resident(site.daemon.process.pid)
    for number in range(calls):
        site.overwrite("a", f"{number}\n", message=why)
    grown = resident(site.daemon.process.pid) - before
    told: list[str] = []
    lost = 0
    while len(told) + lost < calls:
        event = listener.event()
        if event["event"] == "lost":
            lost += event["count"]
        else:
            told.append(event["commit"]["commit"])
    commits = [each["commit"] for each in site.log(limit=calls)[::-1]]
    listener.close()
    assert told[0] == commits[0]
    assert [each for each in commits if each in set(told)] == told
    assert lost > calls // 2
    assert grown < 60 << 20


def test_recovery_is_not_told_and_the_history_goes_on_from_the_head(own_site: Site) -> None:
    site = own_site
    last = site.overwrite("a", "x\n")["commit"]
    site.crash()
    with closing(Listener(site)) as listener:
        listener.hello(site)
        assert listener.subscribe()["head"] == last
        site.overwrite("a", "y\n")
        assert listener.event()["commit"]["parent"] == last


def resident(pid: int) -> int:
    """Bytes of memory that a process holds."""
    statm = Path(f"/proc/{pid}/statm").read_text().split()
    return int(statm[1]) * os.sysconf("SC_PAGE_SIZE")
