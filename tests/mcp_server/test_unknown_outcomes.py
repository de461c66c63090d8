"""Calls whose outcome is not known, made again by a model: the same request, come what may.

The daemon is a scripted one: it loses connections, or refuses them, when a test says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from client.scripted_daemon import HangUp, Refusal, ScriptedDaemon, empty_edit, scripted
from mcp_server.raw_client import RawClient
from stet.calls import Call, log
from stet.errors import ConnectionLost
from stet.mcp.sessions import MOST_OPEN, Sessions
from stet.mcp.tool_calls import Caller
from stet.wire.failures import Kind
from stet.wire.messages import Request
from stet.wire.results import EditResult

AGAIN = "Make the same call again, unchanged: it is not carried out twice"


def answer(request: Request) -> object:
    """What a daemon answers that does what it is asked."""
    if request.method == "undo":
        return empty_edit("c" * 40)
    return {"commits": [], "cursor": None}


def lose(request: Request) -> object:
    """A daemon that carries out an undo, and whose answer gets lost."""
    return HangUp() if request.method == "undo" else answer(request)


@pytest.fixture(scope="module")
def silent() -> Iterator[ScriptedDaemon]:
    with scripted(answer) as daemon:
        yield daemon


@pytest.fixture(scope="module")
def server(silent: ScriptedDaemon) -> Iterator[RawClient]:
    endpoint = silent.endpoint
    environment = {
        "STET_RUNTIME_DIR": endpoint.runtime,
        "STET_STATE_DIR": endpoint.state,
    }
    server = RawClient(["--workspace", "/"], environment).initialize()
    try:
        yield server
    finally:
        server.kill()


@pytest.fixture
def daemon(silent: ScriptedDaemon) -> Iterator[ScriptedDaemon]:
    """The same, which has heard nothing so far."""
    silent.requests.clear()
    yield silent
    silent.script, silent.turn_away = answer, None


def undos(daemon: ScriptedDaemon) -> set[str]:
    """The request ids of all undos that were asked for."""
    return {request.params["request_id"] for request in daemon.requests if request.method == "undo"}


def test_a_connection_that_is_refused_after_one_was_lost_leaves_the_outcome_unknown(
    daemon: ScriptedDaemon, server: RawClient
) -> None:
    talk = {"stet/session": "refused"}

    def lose_and_refuse(request: Request) -> object:
        daemon.turn_away = Refusal(Kind.OVERLOADED, "too many connections")
        return HangUp()

    daemon.script = lose_and_refuse
    first = server.refusal("undo", talk)
    assert ("connection_lost", True) == (first.kind, AGAIN in first.text), first.text
    assert "too many connections" in first.text
    second = server.refusal("undo", talk)
    assert second.kind == "overloaded"
    daemon.script, daemon.turn_away = answer, None
    server.call("undo", talk)
    assert len(undos(daemon)) == 1
    server.call("undo", talk)
    assert len(undos(daemon)) == 2, "one whose outcome is known is over"


def test_conversations_beside_it_do_not_make_a_call_a_new_one(
    daemon: ScriptedDaemon, server: RawClient
) -> None:
    talk = {"stet/session": "left"}
    daemon.script = lose
    assert AGAIN in server.refusal("undo", talk).text
    for number in range(MOST_OPEN + 1):
        server.call("log", {"stet/session": f"beside-{number}"})
    daemon.script = answer
    server.call("undo", talk)
    assert len(undos(daemon)) == 1


async def test_calls_that_close_sessions_at_the_same_time_are_all_answered(
    daemon: ScriptedDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STET_RUNTIME_DIR", daemon.endpoint.runtime)
    monkeypatch.setenv("STET_STATE_DIR", daemon.endpoint.state)

    async def ask_all(sessions: Sessions, name: str, count: int) -> None:
        callers = [Caller(f"{name}-{number}", "bot") for number in range(count)]
        await asyncio.gather(*(sessions.perform(caller, log()) for caller in callers))

    sessions = Sessions("/")
    await ask_all(sessions, "first", 3 * MOST_OPEN)
    await ask_all(sessions, "second", 4)
    assert len(sessions._open) == MOST_OPEN


async def test_equal_calls_at_the_same_time_are_each_made_once(
    daemon: ScriptedDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STET_RUNTIME_DIR", daemon.endpoint.runtime)
    monkeypatch.setenv("STET_STATE_DIR", daemon.endpoint.state)
    sessions, caller = Sessions("/"), Caller("parallel", "bot")

    async def undo_twice() -> list[object]:
        calls = (sessions.perform(caller, Call("undo", {}, EditResult)) for _ in range(2))
        return await asyncio.gather(*calls, return_exceptions=True)

    daemon.script = lose
    assert [type(each) for each in await undo_twice()] == [ConnectionLost, ConnectionLost]
    daemon.script = answer
    assert [type(each) for each in await undo_twice()] == [EditResult, EditResult]
    assert len(undos(daemon)) == 2
