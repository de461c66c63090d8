"""Restricted mode: whom it binds, when a change of it counts, and what ends.

What it refuses is in test_rights_table.py.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from e2e.rights_table import TOOL_DISABLED
from e2e.running_daemon import Client, ConnectionEnded, DaemonProcess, Refusal, Site, running
from e2e.test_events import Listener
from stetd.storage.journal_format import ModeSet, read_segment

LONG = 3600
CODEX = "*** Begin Patch\n*** Add File: new.txt\n+new\n*** End Patch"
ONE = [{"operation": "replace", "oldText": "one", "newText": "1"}]


def restrict(site: Site, what: str) -> None:
    """The session, or the whole workspace."""
    more = {"scope": "workspace"} if what == "workspace" else {"session": site.session}
    site.person.call("mode_set", mode="restricted", **more)


@pytest.fixture
def restricted_daemon() -> Iterator[DaemonProcess]:
    """A daemon in which new sessions are restricted."""
    with running({"default_mode": '"restricted"'}) as daemon:
        yield daemon


def test_a_call_that_was_carried_out_is_answered_so_also_in_restricted_mode(site: Site) -> None:
    first = site.overwrite("a.txt", "x\n", request_id="r")
    restrict(site, "workspace")
    again = site.overwrite("a.txt", "x\n", request_id="r")
    assert (first["commit"], True) == (again["commit"], again["replayed"])


# -- whom it binds


def test_with_a_restricted_default_no_new_name_escapes(restricted_daemon: DaemonProcess) -> None:
    site = restricted_daemon.site("w")
    for session in ("conv-1", "conv-2", "cli", "person", " x".strip()):
        fresh = site.another(session)
        assert fresh.call("mode_get")["mode"] == "restricted"
        assert fresh.refusal("apply_patch", input=CODEX).message == TOOL_DISABLED
    unnamed = site.greeted(restricted_daemon.agent())
    assert unnamed.refusal("apply_patch", input=CODEX).message == TOOL_DISABLED
    restricted_daemon.kill()
    restricted_daemon.start()
    site.connect()
    assert site.another("after-a-kill").call("mode_get")["mode"] == "restricted"


def test_the_stricter_holds_whichever_was_set_last(site: Site) -> None:
    restrict(site, "workspace")
    answer = site.person.call("mode_set", mode="unrestricted", session=site.session)
    assert answer == {
        "mode": "restricted", "session_mode": "unrestricted", "workspace_mode": "restricted"
    }  # fmt: skip
    assert site.agent.refusal("apply_patch", input=CODEX).message == TOOL_DISABLED
    restrict(site, "session")
    site.person.call("mode_set", mode="unrestricted", scope="workspace")
    assert site.agent.refusal("apply_patch", input=CODEX).message == TOOL_DISABLED
    site.person.call("mode_set", mode="unrestricted", session=site.session)
    site.agent.call("apply_patch", input=CODEX)


def test_a_person_without_a_session_is_asked_for_one(site: Site) -> None:
    refusal = site.person.refusal("mode_set", mode="restricted")
    assert refusal.kind == "invalid_params"
    assert "there is no session of this connection in this workspace. Name one" in refusal.message


def test_the_mode_of_another_workspace_is_told_without_ones_own_session(
    own_daemon: DaemonProcess,
) -> None:
    here, there = own_daemon.site("here"), own_daemon.site("there")
    person = here.greeted(own_daemon.control(), session=here.session)
    person.call("mode_set", mode="restricted")
    told = person.call(
        "mode_set", mode="unrestricted", scope="workspace", workspace=str(there.root)
    )
    assert (told["mode"], told["session_mode"]) == ("unrestricted", None)


def test_a_restricted_workspace_is_not_written_from_the_one_around_it(site: Site) -> None:
    inner = site.root / "deep/inner"
    inner.mkdir(parents=True)
    site.write("deep/inner/a.txt", "one\n")
    site.write("deep/inner-evil/a.txt", "one\n")
    (site.root / "link").symlink_to("deep/inner")
    control = site.daemon.control()
    control.call("workspace_allow", root=str(inner))
    before = site.replace("deep/inner/a.txt", "one", "two")["commit"]
    control.call("mode_set", mode="restricted", scope="workspace", workspace=str(inner))
    move = (
        "*** Begin Patch\n*** Update File: deep/inner-evil/a.txt\n*** Move to: {}\n@@\n-one\n+1\n"
    )
    calls: list[tuple[str, dict[str, Any]]] = [
        ("patch", {"path": "deep/inner/new/b.txt", "patches": [
            {"operation": "overwrite", "newText": "x"}]}),
        ("patch", {"path": "link/a.txt", "patches": [
            {"operation": "overwrite", "newText": "x"}]}),
        ("apply_patch", {"input": move.format("deep/inner/b.txt") + "*** End Patch"}),
        ("undo", {"commits": [before]}),
    ]  # fmt: skip
    for method, params in calls:
        for preview in (False, True):
            refusal = site.agent.refusal(method, **params, preview=preview)
            assert refusal.kind == "path_protected"
            assert f"lies in the workspace {inner}, which is restricted" in refusal.message
    assert site.bytes_of("deep/inner/a.txt") == b"two\n"
    site.agent.call("apply_patch", input=move.format("deep/moved.txt") + "*** End Patch")
    site.person.call("undo", commits=[before])
    assert site.bytes_of("deep/inner/a.txt") == b"one\n"
    control.call("mode_set", mode="unrestricted", scope="workspace", workspace=str(inner))
    site.replace("deep/inner/a.txt", "one", "three")


# -- when a change counts


class Writer(threading.Thread):
    """Sends one edit after the other until one is refused; notes the commits."""

    def __init__(self, client: Client, number: int) -> None:
        super().__init__()
        self._client, self._number = client, number
        self.commits: list[str] = []
        self.refused = ""

    def run(self) -> None:
        n = 0
        try:
            while not self.refused:
                n += 1
                edit = {"operation": "append_eof", "newText": f"{self._number} {n}\n"}
                path = f"{self._number % 2}.txt"
                answer = self._client.call("patch", path=path, patches=[edit])
                self.commits.append(answer["commit"])
        except Refusal as refusal:
            self.refused = refusal.message
        except (ConnectionEnded, OSError) as error:
            self.refused = repr(error)


@pytest.mark.parametrize("what", ["session", "workspace"])
def test_a_change_waits_for_calls_in_flight_and_binds_the_next_one(site: Site, what: str) -> None:
    """Once it is answered, all calls that were let through are in the history; no other comes."""
    for _ in range(5):
        if what == "session":
            clients = [site.another("s") for _ in range(6)]
            scope = {"session": "s"}
        else:
            clients = [site.another(f"s{n}") for n in range(6)]
            scope = {"scope": "workspace"}
        writers = [Writer(client, n) for n, client in enumerate(clients)]
        for writer in writers:
            writer.start()
        while sum(len(writer.commits) for writer in writers) < 12:
            time.sleep(0.001)
        site.person.call("mode_set", mode="restricted", **scope)
        commits = site.log(limit=1000)
        for writer in writers:
            writer.join()
        assert [TOOL_DISABLED] * 6 == [writer.refused for writer in writers]
        assert site.log(limit=1000) == commits
        told = {commit for writer in writers for commit in writer.commits}
        assert told <= {each["commit"] for each in commits}
        site.person.call("mode_set", mode="unrestricted", **scope)
        for client in clients:
            client.close()


def test_calls_that_were_there_before_are_carried_out_first(site: Site) -> None:
    """Those of other connections, too; though the new one has used less of the daemon's time.

    The person would wait for them for some seconds only.
    """
    site.write("a.txt", "".join(f"line {n}\n" for n in range(5000)))
    # The first is of so much text that it is planned beside the others; these wait behind it.
    large = {"operation": "append_eof", "newText": "long\n" * 20_000}
    site.agent.send("patch", path="a.txt", patches=[large])
    for n in range(5):
        edit = {"operation": "replace", "oldText": f"line {n}\n", "newText": f"{n}\n"}
        site.agent.send("patch", path="a.txt", patches=[edit])
    site.agent.until_begun()
    site.another(site.session).call("mode_set", mode="restricted")
    replies = [site.agent.receive() for _ in range(6)]
    assert [None] * 6 == [reply.error for reply in replies]
    assert site.agent.refusal("apply_patch", input=CODEX).message == TOOL_DISABLED


def test_the_very_next_call_of_a_pipeline_is_bound(site: Site) -> None:
    client = site.greeted(site.daemon.control(), session=site.session)
    site.write("a.txt", "one\n")
    client.send("patch", path="a.txt", patches=ONE)
    client.send("mode_set", mode="restricted", scope="workspace")
    client.send("apply_patch", input=CODEX)
    client.send("mode_set", mode="unrestricted", scope="workspace")
    client.send("apply_patch", input=CODEX)
    replies = {reply.id: reply for reply in (client.receive() for _ in range(5))}
    errors = [replies[number].error for number in sorted(replies, key=str)]
    assert [None, None, TOOL_DISABLED, None, None] == [each and each.message for each in errors]


# -- grants that end


def test_a_grant_says_when_it_ends_and_does(site: Site) -> None:
    restrict(site, "session")
    with closing(Listener(site)) as listener:
        listener.hello(site)
        listener.subscribe(events=["mode"])
        answer = site.person.call(
            "mode_set", mode="unrestricted", session=site.session, **{"for": 0.5}
        )
        given, ended = listener.event(), listener.event()
    assert ("unrestricted", "unrestricted") == (answer["mode"], answer["session_mode"])
    assert answer["until"] == answer["session_until"] == given["until"]
    own = {"event": "mode", "workspace": str(site.root), "session": site.session}
    open_workspace = {"workspace_mode": "unrestricted"}
    assert given == {
        **own, **open_workspace, "mode": "unrestricted", "session_mode": "unrestricted",
        "until": answer["until"],
    }  # fmt: skip
    assert ended == {
        **own, **open_workspace, "mode": "restricted", "session_mode": "restricted"
    }  # fmt: skip
    assert site.agent.call("mode_get") == {
        "mode": "restricted", "session_mode": "restricted", "workspace_mode": "unrestricted"
    }  # fmt: skip
    assert site.agent.refusal("apply_patch", input=CODEX).message == TOOL_DISABLED


def test_a_grant_of_the_workspace_ends_as_well(site: Site) -> None:
    restrict(site, "workspace")
    with closing(Listener(site, "agent.sock")) as listener:
        listener.hello(site, session=site.session)
        listener.subscribe(events=["mode"])
        grant: dict[str, Any] = {"mode": "unrestricted", "scope": "workspace"}
        answer = site.person.call("mode_set", **grant, **{"for": LONG})
        assert site.agent.call("mode_get")["until"] == answer["workspace_until"]
        site.agent.call("apply_patch", input=CODEX)
        site.person.call("mode_set", **grant, **{"for": 0.5})
        for _ in range(2):
            assert listener.event()["workspace_mode"] == "unrestricted"
        assert listener.event()["workspace_mode"] == "restricted"
    assert site.agent.refusal("apply_patch", input=CODEX).message == TOOL_DISABLED
    [own] = [
        each for each in site.person.call("workspace_list")["workspaces"]
        if each["root"] == str(site.root)
    ]  # fmt: skip
    assert own["mode"] == "restricted"


def test_the_end_that_is_told_with_a_mode_is_that_of_the_mode(site: Site) -> None:
    """Of two grants the first to end counts; a mode that is restricted all the same has none."""
    restrict(site, "session")
    restrict(site, "workspace")
    own: dict[str, Any] = {"mode": "unrestricted", "session": site.session, "for": 2 * LONG}
    whole: dict[str, Any] = {"mode": "unrestricted", "scope": "workspace", "for": LONG}
    with closing(Listener(site)) as listener:
        listener.hello(site)
        listener.subscribe(events=["mode"])
        for setting in (own, whole, own):
            told = site.person.call("mode_set", **setting)
            event = listener.event()
            assert (event["mode"], event.get("until")) == (told["mode"], told.get("until"))
            [listed] = site.person.call("session_list", workspace=str(site.root))["sessions"]
            now = site.agent.call("mode_get")
            assert (listed["mode"], listed.get("until")) == (now["mode"], now.get("until"))


def test_an_ended_grant_binds_the_next_call_though_nobody_was_woken(own_site: Site) -> None:
    """The daemon is stopped while the grant ends; then the calls are there at once."""
    site = own_site
    restrict(site, "session")
    site.person.call("mode_set", mode="unrestricted", session=site.session, **{"for": 0.3})
    os.kill(site.daemon.process.pid, signal.SIGSTOP)
    try:
        for _ in range(20):
            site.agent.send("apply_patch", input=CODEX)
        time.sleep(0.5)
    finally:
        os.kill(site.daemon.process.pid, signal.SIGCONT)
    for _ in range(20):
        reply = site.agent.receive()
        assert reply.error is not None
        assert reply.error.message == TOOL_DISABLED
    assert site.log() == []


@pytest.mark.parametrize("end", ["restrict", "lift", "shorten"])
def test_setting_a_mode_takes_the_place_of_a_grant(site: Site, end: str) -> None:
    restrict(site, "session")
    own: dict[str, Any] = {"session": site.session}
    site.person.call("mode_set", mode="unrestricted", **own, **{"for": LONG})
    if end == "restrict":
        site.agent.call("mode_set", mode="restricted")  # an agent gives it back
        assert site.agent.refusal("apply_patch", input=CODEX).message == TOOL_DISABLED
    elif end == "lift":
        answer = site.person.call("mode_set", mode="unrestricted", **own)
        assert "until" not in answer
    else:
        with closing(Listener(site)) as listener:
            listener.hello(site)
            listener.subscribe(events=["mode"])
            site.person.call("mode_set", mode="unrestricted", **own, **{"for": 0.2})
            listener.event()
            assert listener.event()["mode"] == "restricted"


@pytest.mark.parametrize("checkpointed", [False, True], ids=["journal", "checkpoint"])
def test_a_grant_outlives_the_daemon_and_so_does_its_end(
    own_site: Site, checkpointed: bool
) -> None:
    site = own_site
    restrict(site, "session")
    restrict(site, "workspace")
    grant: dict[str, Any] = {"mode": "unrestricted", "for": LONG}
    site.person.call("mode_set", session=site.session, **grant)
    answer = site.person.call("mode_set", scope="workspace", **grant)
    if checkpointed:
        site.restart()
    site.crash()
    now = site.agent.call("mode_get")
    assert (now["mode"], now["workspace_until"]) == ("unrestricted", answer["workspace_until"])
    site.agent.call("apply_patch", input=CODEX)


@pytest.mark.parametrize("boot", ["the same", "another"])
@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_grant_that_ended_while_the_daemon_was_down_has_ended(
    own_site: Site, how: str, boot: str
) -> None:
    site = own_site
    site.daemon.stop()
    site.daemon.start(STET_BOOT_ID="the same")
    site.connect()
    restrict(site, "session")
    site.person.call("mode_set", mode="unrestricted", session=site.session, **{"for": 0.5})
    getattr(site.daemon, how)()
    time.sleep(0.6)
    site.daemon.start(STET_BOOT_ID=boot)
    site.connect()
    assert "until" not in site.agent.call("mode_get")
    assert site.agent.refusal("apply_patch", input=CODEX).message == TOOL_DISABLED


def test_a_grant_holds_in_another_boot_until_its_end(own_site: Site) -> None:
    site = own_site
    restrict(site, "session")
    site.person.call("mode_set", mode="unrestricted", session=site.session, **{"for": LONG})
    site.crash(STET_BOOT_ID="another")
    assert site.agent.call("mode_get")["mode"] == "unrestricted"


def test_the_end_of_a_grant_is_in_the_journal_too(own_site: Site) -> None:
    """So that a clock that is set back afterwards does not bring it back."""
    site = own_site
    restrict(site, "session")
    with closing(Listener(site)) as listener:
        listener.hello(site)
        listener.subscribe(events=["mode"])
        site.person.call("mode_set", mode="unrestricted", session=site.session, **{"for": 0.2})
        listener.event()
        listener.event()
    site.daemon.kill()
    segments = sorted((site.daemon.state / "journal").iterdir())
    records = [
        record
        for segment in segments
        for _, record in read_segment(segment.read_bytes())[0]
        if isinstance(record, ModeSet)
    ]
    assert records[-1] == ModeSet(records[-1].workspace, site.session, "restricted")


def test_a_mode_of_a_workspace_survives_forgetting_and_allowing_it_again(own_site: Site) -> None:
    site = own_site
    restrict(site, "workspace")
    control = site.daemon.control()
    root = str(site.root)
    control.call("workspace_forget", root=root)
    site.daemon.kill()
    site.daemon.start()
    control = site.daemon.control()
    assert control.call("workspace_allow", root=root)["mode"] == "restricted"
    site.connect()
    assert site.agent.refusal("apply_patch", input=CODEX).message == TOOL_DISABLED
