"""Asking for write access and deciding about it, through a real daemon."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from e2e.running_daemon import (
    BOTH,
    Client,
    ConnectionEnded,
    DaemonProcess,
    Site,
    eventually,
    faultless,
    running,
)
from e2e.test_events import Listener
from stet.wire.framing import Encoding

CODEX = "*** Begin Patch\n*** Add File: new.txt\n+new\n*** End Patch"
LONG = 3600
MOST_PENDING = 100


@pytest.fixture(scope="module")
def restricting() -> Iterator[DaemonProcess]:
    """A daemon in which new sessions are restricted."""
    with faultless({"default_mode": '"restricted"'}) as daemon:
        yield daemon


@pytest.fixture
def ws(restricting: DaemonProcess, request: pytest.FixtureRequest) -> Site:
    """A workspace whose sessions are restricted."""
    return restricting.site(request.node.name.replace("[", "-").rstrip("]")[:60])


@pytest.fixture
def own_ws() -> Iterator[Site]:
    """The same on a daemon of its own."""
    with running({"default_mode": '"restricted"'}) as daemon:
        yield daemon.site("w")


def listed(site: Site, **params: Any) -> list[dict[str, Any]]:
    requests: list[dict[str, Any]] = site.person.call(
        "upgrade_list", workspace=str(site.root), **params
    )["requests"]
    return requests


def decide(
    site: Site, request: str, *, approve: bool = True, for_: float | None = None, **more: Any
) -> dict[str, Any]:
    length = {} if for_ is None else {"for": for_}
    return site.person.call("upgrade_decide", request=request, approve=approve, **length, **more)


def waiting(client: Client, **params: Any) -> int:
    """Have a request wait; when this returns, the daemon has it in work."""
    number = client.send("request_mode_upgrade", wait=LONG, **params)
    client.send("mode_get")
    assert client.result_of(client.receive())["mode"] == "restricted"
    return number


def answer_to(client: Client, number: int) -> dict[str, Any]:
    reply = client.receive()
    assert reply.id == number
    return client.result_of(reply)


# -- asking


@pytest.mark.parametrize("encoding", BOTH, ids=str)
def test_what_is_asked_is_listed_for_the_person(
    restricting: DaemonProcess, encoding: Encoding
) -> None:
    site = restricting.site(f"asked-{encoding}", encoding=encoding)
    answer = site.agent.call("request_mode_upgrade", reason="the tests need it")
    assert (answer["status"], answer["note"], answer["until"]) == ("pending", "", None)
    [request] = listed(site)
    assert isinstance(request.pop("time"), str)
    assert request == {
        "request": answer["request"], "workspace": str(site.root), "session": "conv-1",
        "agent": "tester", "reason": "the tests need it", "status": "pending", "note": "",
        "decided": None, "until": None,
    }  # fmt: skip
    control = restricting.control()
    control.call("hello", protocol=1)
    everywhere = control.call("upgrade_list")["requests"]
    assert answer["request"] in [each["request"] for each in everywhere]


def test_asked_again_it_is_the_same_request_with_the_newest_reason(ws: Site) -> None:
    first = ws.agent.call("request_mode_upgrade", reason="one")
    again = ws.agent.call("request_mode_upgrade", reason="two")
    silent = ws.agent.call("request_mode_upgrade")
    assert first["request"] == again["request"] == silent["request"]
    assert [(r["request"], r["reason"]) for r in listed(ws)] == [(first["request"], "two")]
    other = ws.another("conv-2").call("request_mode_upgrade")
    assert [r["request"] for r in listed(ws)] == [first["request"], other["request"]]


def test_who_may_write_already_is_told_so_and_nothing_is_asked(site: Site) -> None:
    answer = site.agent.call("request_mode_upgrade", reason="why not", wait=LONG)
    assert (answer["request"], answer["status"]) == (None, "approved")
    assert "may write already" in answer["message"]
    assert listed(site) == []


def test_without_a_session_there_is_nothing_to_ask_for(ws: Site) -> None:
    assert ws.person.refusal("request_mode_upgrade").kind == "invalid_params"


def test_so_many_may_wait_in_a_workspace_and_no_more(ws: Site) -> None:
    for n in range(MOST_PENDING):
        ws.another(f"s{n}").call("request_mode_upgrade")
    late = ws.another("late")
    refusal = late.refusal("request_mode_upgrade")
    assert refusal.kind == "overloaded"
    assert "100 requests of this workspace wait for the person already" in refusal.message
    ws.another("s7").call("request_mode_upgrade", reason="still mine")  # which waits already
    decide(ws, listed(ws)[0]["request"], approve=False)
    assert late.call("request_mode_upgrade")["status"] == "pending"
    elsewhere = ws.daemon.site("elsewhere")
    assert elsewhere.agent.call("request_mode_upgrade")["status"] == "pending"
    for request in listed(ws, status="pending"):
        decide(ws, request["request"], approve=False)


# -- deciding


def test_approving_lifts_the_mode_of_the_session_that_asked_and_of_no_other(ws: Site) -> None:
    other = ws.another("conv-2")
    request = ws.agent.call("request_mode_upgrade")["request"]
    decided = decide(ws, request, note="only this once")
    assert (decided["status"], decided["note"]) == ("approved", "only this once")
    assert decided["decided"] is not None
    ws.agent.call("apply_patch", input=CODEX)
    assert other.refusal("apply_patch", input=CODEX).kind == "tool_disabled"
    assert listed(ws) == [decided]
    assert listed(ws, status="pending") == []
    answer = ws.agent.call("request_mode_upgrade")
    assert (answer["request"], answer["status"], answer["note"]) == (
        request, "approved", "only this once"
    )  # fmt: skip


def test_denying_changes_nothing_and_is_told_once(ws: Site) -> None:
    request = ws.agent.call("request_mode_upgrade")["request"]
    assert decide(ws, request, approve=False, note="not now")["status"] == "denied"
    assert ws.agent.call("mode_get")["mode"] == "restricted"
    told = ws.agent.call("request_mode_upgrade", reason="please")
    assert (told["request"], told["status"], told["note"]) == (request, "denied", "not now")
    again = ws.agent.call("request_mode_upgrade", reason="please")
    assert again["status"] == "pending"
    assert again["request"] != request


def test_an_approval_may_have_an_end_which_is_told_while_nothing_else_happens(ws: Site) -> None:
    request = ws.agent.call("request_mode_upgrade")["request"]
    with closing(Listener(ws)) as listener:
        listener.hello(ws)
        listener.subscribe(events=["mode"])
        time.sleep(4)  # until nothing is to be done any more: a checkpoint was taken
        decided = decide(ws, request, for_=0.5)
        assert decided["until"] == listener.event()["until"]
        assert listener.event()["mode"] == "restricted"
    assert ws.agent.refusal("apply_patch", input=CODEX).kind == "tool_disabled"
    new = ws.agent.call("request_mode_upgrade")
    assert new["status"] == "pending"
    assert new["request"] != request


@pytest.mark.parametrize("for_", [None, 2 * LONG])
def test_an_approval_ends_with_the_workspaces_grant(ws: Site, for_: float | None) -> None:
    ws.person.call("mode_set", mode="restricted", scope="workspace")
    lifted = ws.person.call("mode_set", mode="unrestricted", scope="workspace", **{"for": LONG})
    request = ws.agent.call("request_mode_upgrade")["request"]
    assert decide(ws, request, for_=for_)["until"] == lifted["until"]
    assert ws.agent.call("mode_get")["until"] == lifted["until"]


def test_a_request_is_decided_once(ws: Site) -> None:
    request = ws.agent.call("request_mode_upgrade")["request"]
    decide(ws, request)
    before = ws.picture()
    for approve in (True, False):
        refusal = ws.person.refusal("upgrade_decide", request=request, approve=approve)
        assert refusal.kind == "invalid_params"
        assert f"request {request} was approved already at " in refusal.message
    assert ws.picture() == before


def test_while_the_workspace_is_restricted_approving_is_refused_with_that_reason(ws: Site) -> None:
    request = ws.agent.call("request_mode_upgrade")["request"]
    ws.person.call("mode_set", mode="restricted", scope="workspace")
    refusal = ws.person.refusal("upgrade_decide", request=request, approve=True)
    assert refusal.kind == "not_permitted"
    assert f"the workspace {ws.root} itself is restricted" in refusal.message
    assert listed(ws)[0]["status"] == "pending"
    ws.person.call("mode_set", mode="unrestricted", scope="workspace")
    assert ws.agent.call("mode_get")["mode"] == "restricted"
    assert decide(ws, request)["status"] == "approved"


def test_a_mode_that_the_person_lifts_answers_the_request(ws: Site) -> None:
    request = ws.agent.call("request_mode_upgrade")["request"]
    number = waiting(ws.agent)
    ws.person.call("mode_set", mode="unrestricted", session=ws.session, **{"for": LONG})
    answer = answer_to(ws.agent, number)
    assert (answer["request"], answer["status"]) == (request, "approved")
    assert answer["until"] == ws.agent.call("mode_get")["until"]
    assert [each["status"] for each in listed(ws)] == ["approved"]


def test_lifting_the_workspace_answers_those_whom_nothing_else_holds(site: Site) -> None:
    site.another("held").call("mode_set", mode="restricted")
    site.person.call("mode_set", mode="restricted", scope="workspace")
    for client in (site.agent, site.another("held")):
        client.call("request_mode_upgrade")
    site.person.call("mode_set", mode="unrestricted", scope="workspace")
    assert [(r["session"], r["status"]) for r in listed(site)] == [
        ("conv-1", "approved"), ("held", "pending")
    ]  # fmt: skip


def test_the_unique_beginning_of_an_id_will_do(ws: Site) -> None:
    request = ws.agent.call("request_mode_upgrade")["request"]
    for wrong in ("", request[:3], "zzzz", request + "0"):
        refusal = ws.person.refusal("upgrade_decide", request=wrong, approve=True)
        assert refusal.kind == "unknown_request"
        assert f"there is no request {wrong!r}" in refusal.message
    assert decide(ws, request[:8])["request"] == request


def test_requests_and_decisions_are_told_to_whom_they_concern(ws: Site) -> None:
    with closing(Listener(ws)) as person, closing(Listener(ws, "agent.sock")) as agent:
        person.hello(ws)
        agent.hello(ws, session=ws.session)
        for listener in (person, agent):
            listener.subscribe(events=["upgrade_request"])
        ws.another("conv-2").call("request_mode_upgrade", reason="mine")
        request = ws.agent.call("request_mode_upgrade", reason="one")["request"]
        ws.agent.call("request_mode_upgrade", reason="two")
        ws.agent.call("request_mode_upgrade", reason="two")  # nothing new
        decide(ws, request, note="yes")
        told = [person.event() for _ in range(4)]
        own = [agent.event() for _ in range(3)]
    assert own == told[1:]
    assert [(e["session"], e["reason"], e["status"], e.get("note")) for e in told] == [
        ("conv-2", "mine", "pending", None),
        ("conv-1", "one", "pending", None),
        ("conv-1", "two", "pending", None),
        ("conv-1", "two", "approved", "yes"),
    ]
    assert ["decided" in e for e in told] == [False, False, False, True]
    assert {(e["event"], e["workspace"], e["agent"]) for e in told} == {
        ("upgrade_request", str(ws.root), "tester")
    }


# -- waiting


@pytest.mark.parametrize("approve", [True, False])
def test_a_wait_ends_with_the_decision(ws: Site, approve: bool) -> None:
    number = waiting(ws.agent, reason="w")
    [request] = listed(ws)
    decide(ws, request["request"], approve=approve, note="so be it")
    answer = answer_to(ws.agent, number)
    assert answer["request"] == request["request"]
    assert answer["status"] == ("approved" if approve else "denied")
    assert answer["note"] == "so be it"
    if not approve:  # it knows; asking again is asking anew
        assert ws.agent.call("request_mode_upgrade")["status"] == "pending"


def test_a_wait_ends_with_its_time_and_the_request_stays(ws: Site) -> None:
    answer = ws.agent.call("request_mode_upgrade", wait=0.2)
    assert answer["status"] == "pending"
    assert [each["status"] for each in listed(ws)] == ["pending"]


def test_all_who_wait_for_a_request_are_told(ws: Site) -> None:
    clients = [ws.agent, *(ws.another(ws.session) for _ in range(3))]
    numbers = [waiting(client) for client in clients]
    decide(ws, listed(ws)[0]["request"])
    for client, number in zip(clients, numbers, strict=True):
        assert answer_to(client, number)["status"] == "approved"


def test_a_second_wait_of_a_connection_takes_the_place_of_the_first(ws: Site) -> None:
    first = waiting(ws.agent)
    second = ws.agent.send("request_mode_upgrade", wait=LONG)
    assert answer_to(ws.agent, first)["status"] == "pending"
    decide(ws, listed(ws)[0]["request"])
    assert answer_to(ws.agent, second)["status"] == "approved"


def test_waits_keep_nobody_from_working(ws: Site) -> None:
    """More of them than there are reading threads, or requests that a connection may pipeline."""
    clients = [ws.another(f"s{n}") for n in range(80)]
    numbers = [waiting(client) for client in clients]
    for _ in range(80):
        ws.agent.send("request_mode_upgrade", wait=LONG)
    for _ in range(79):
        assert ws.agent.result_of(ws.agent.receive())["status"] == "pending"
    assert ws.agent.call("clipboard_list")["clipboards"] == []
    writer = ws.greeted(ws.daemon.control())
    writer.call("apply_patch", input=CODEX)
    assert writer.call("read", path="new.txt")["text"] == "new\n"
    ws.person.call("verify")
    for request in listed(ws, status="pending"):
        decide(ws, request["request"], approve=False)
    for client, number in zip(clients, numbers, strict=True):
        assert answer_to(client, number)["status"] == "denied"


def test_a_client_that_goes_is_not_waited_for(own_ws: Site) -> None:
    """A stop does not wait, and the request stays for the next life."""
    client = own_ws.another("gone")
    waiting(client)
    client.close()
    half = own_ws.another("half")
    waiting(half)
    half.socket.shutdown(socket.SHUT_WR)
    number = waiting(own_ws.agent)
    own_ws.daemon.process.terminate()
    assert answer_to(own_ws.agent, number)["status"] == "pending"
    assert own_ws.daemon.wait() == 0
    assert "did not end" not in own_ws.daemon.log()
    own_ws.daemon.start()
    own_ws.connect()
    assert [each["session"] for each in listed(own_ws)] == ["gone", "half", "conv-1"]


def test_a_client_that_hung_up_leaves_nothing_behind(own_ws: Site) -> None:
    """Its connection is over at once, though the wait would have lasted an hour."""
    clients = [own_ws.another(f"s{n}") for n in range(20)]
    for client in clients:
        waiting(client)
    descriptors = len(open_files(own_ws))
    for client in clients:
        client.close()
    assert eventually(lambda: len(open_files(own_ws)) <= descriptors - 20)


def open_files(site: Site) -> list[str]:
    return os.listdir(f"/proc/{site.daemon.process.pid}/fd")


# -- what outlives the daemon


@pytest.mark.parametrize("checkpointed", [False, True], ids=["journal", "checkpoint"])
def test_requests_and_decisions_outlive_the_daemon(own_ws: Site, checkpointed: bool) -> None:
    site = own_ws
    requests = {}
    for session in ("pending", "approved", "denied", "for a while"):
        answer = site.another(session).call("request_mode_upgrade", reason=session)
        requests[session] = answer["request"]
    decide(site, requests["approved"], note="yes")
    decide(site, requests["denied"], approve=False, note="no")
    decide(site, requests["for a while"], for_=LONG)
    before = listed(site)
    if checkpointed:
        site.restart()
    site.crash()
    assert listed(site) == before
    assert site.another("approved").call("mode_get")["mode"] == "unrestricted"
    assert "until" in site.another("for a while").call("mode_get")
    assert site.another("denied").call("request_mode_upgrade")["status"] == "denied"
    again = site.another("pending").call("request_mode_upgrade")
    assert (again["request"], again["status"]) == (requests["pending"], "pending")
    assert decide(site, requests["pending"])["status"] == "approved"


POINTS = ["journal.before_sync", "journal.after_sync", "checkpoint.before_record"]


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("count", [2, 3, 4])  # the first is the checkpoint of the start
def test_killed_at_a_step_a_request_is_whole_or_not_there(
    own_ws: Site, point: str, count: int
) -> None:
    """Asked and approved for a while; a decision is never without its effect, nor the reverse."""
    site = own_ws
    site.daemon.stop()
    site.daemon.start(STET_FAILPOINT=f"{point}:{count}")
    answered: list[str] = []
    with contextlib.suppress(OSError, ConnectionEnded):
        site.connect()
        request = site.agent.call("request_mode_upgrade", reason="r")["request"]
        answered.append("asked")
        decide(site, request, for_=LONG)
        answered.append("approved")
        site.daemon.process.terminate()
    site.daemon.wait()
    site.daemon.start()
    site.connect()
    found = listed(site)
    mode = site.agent.call("mode_get")
    if "approved" in answered:
        assert [each["status"] for each in found] == ["approved"]
    if "asked" in answered:
        assert len(found) == 1
    assert len(found) <= 1
    lifted = [each["until"] for each in found if each["status"] == "approved"]
    assert lifted == ([mode["until"]] if mode["mode"] == "unrestricted" else [])
    assert site.person.call("verify")["ok"]
