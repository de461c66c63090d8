"""The asyncio session: the same promises as the blocking one, with many calls under way."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from typing import Any

import pytest

import stet
from client.scripted_daemon import (
    HalfReply,
    HangUp,
    Raw,
    Refusal,
    ScriptedDaemon,
    Silence,
    empty_edit,
    in_turn,
    own_directories,
    scripted,
)
from stet import calls
from stet.service.spawn import Endpoint, reach
from stet.session import retrying
from stet.wire.failures import Kind
from stet.wire.messages import Request
from stet.wire.results import EditResult

PATCH = [stet.replace("a", "b")]


def opened(daemon: ScriptedDaemon, **options: Any) -> stet.aio.AsyncSession:
    return stet.aio.connect("/ws", "s1", endpoint=daemon.endpoint, start=False, **options)


async def test_a_session_is_opened_by_async_with_and_by_await() -> None:
    with scripted(lambda request: {"version": "9", "protocol": 1}) as daemon:
        async with opened(daemon) as session:
            assert (await session.status()).version == "9"
        session = await opened(daemon)
        assert (session.session, session.workspace) == ("s1", "/ws")
        await session.close()


@pytest.mark.parametrize("fault", [HangUp(), HalfReply(empty_edit("c" * 40))])
async def test_a_lost_connection_is_retried_once_with_the_same_request_id(fault: object) -> None:
    with scripted(in_turn(fault, empty_edit("d" * 40))) as daemon:
        async with opened(daemon) as session:
            assert (await session.patch("f", PATCH)).commit == "d" * 40
        assert len(daemon.hellos) == 2
        assert daemon.requests[0].params == daemon.requests[1].params
        assert "request_id" in daemon.requests[0].params


async def test_after_a_lost_connection_no_other_error_hides_that_it_may_be_carried_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(retrying, "PATIENCE", 0.3)

    def lose(request: Request) -> object:
        daemon.turn_away = Refusal(Kind.OVERLOADED, "too many connections")
        return HangUp()

    def lose_for_good(request: Request) -> object:
        daemon.stop_listening()
        return HangUp()

    with scripted(lose) as daemon:
        async with opened(daemon) as session:
            with pytest.raises(stet.ConnectionLost, match="too many connections") as lost:
                await session.patch("f", PATCH, request_id="mine")
            assert lost.value.request_id == "mine"
            assert isinstance(lost.value.__cause__, stet.Overloaded)
            with pytest.raises(stet.Overloaded):
                await session.patch("f", PATCH)
            daemon.turn_away = None
            daemon.script = in_turn(HangUp(), Refusal(Kind.NO_CHANGE))
            with pytest.raises(stet.NoChange):
                await session.patch("f", PATCH)
            daemon.script = lose_for_good
            with pytest.raises(stet.ConnectionLost, match="no stet daemon answers") as lost:
                await session.patch("f", PATCH, request_id="yours")
            assert lost.value.request_id == "yours"
            with pytest.raises(stet.DaemonUnreachable):
                await session.patch("f", PATCH)


async def test_calls_under_way_at_once_get_their_own_answers_over_one_connection() -> None:
    with scripted(lambda request: {"name": request.params["name"], "text": ""}) as daemon:
        async with opened(daemon) as session:
            names = [f"c{i}" for i in range(200)]
            answers = await asyncio.gather(*(session.clipboard_get(name) for name in names))
            assert [answer.name for answer in answers] == names
        assert [r.params["name"] for r in daemon.requests] == [f"c{i}" for i in range(200)]
        assert len(daemon.hellos) == 1


async def test_all_calls_under_way_survive_a_lost_connection() -> None:
    lost: list[str] = []

    def answer(request: Request) -> object:
        if request.params["name"] == "c7" and not lost:
            lost.append("once")
            return HangUp()
        return {"name": request.params["name"], "text": ""}

    with scripted(answer) as daemon:
        async with opened(daemon) as session:
            names = [f"c{i}" for i in range(20)]
            answers = await asyncio.gather(*(session.clipboard_get(name) for name in names))
            assert [answer.name for answer in answers] == names
        assert len(daemon.hellos) == 2


async def test_a_call_that_is_sent_again_comes_before_all_later_ones() -> None:
    refused = [Refusal(Kind.SHUTTING_DOWN)] * 3

    def answer(request: Request) -> object:
        if len(daemon.hellos) == 1:  # this daemon is killed, the next one stops, another follows
            return HangUp()
        if len(daemon.hellos) == 2:
            return refused.pop() if refused else HangUp()
        return empty_edit()

    with scripted(answer) as daemon:
        async with opened(daemon) as session:
            edits = []
            for number in range(20):
                edits.append(asyncio.create_task(session.patch("f", PATCH, message=str(number))))
                await asyncio.sleep(0.01)
            await asyncio.gather(*edits)
        order = [int(request.params["message"]) for request in daemon.requests]
        assert order[-20:] == list(range(20))


async def test_calls_that_find_no_daemon_are_patient_at_the_same_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(retrying, "PATIENCE", 1.0)

    with own_directories() as endpoint:
        session = stet.aio.connect("/ws", endpoint=endpoint, start=False)
        begun = time.monotonic()
        waiting = [session.status() for _ in range(10)]
        found = await asyncio.gather(*waiting, return_exceptions=True)
        assert {type(each) for each in found} == {stet.DaemonUnreachable}
        assert time.monotonic() - begun < 8  # and not ten, one after the other


async def test_a_refusal_is_raised_as_the_class_of_its_kind() -> None:
    data = {"conflicts": [{"path": "f", "hunks": []}]}
    with scripted(lambda request: Refusal(Kind.CONFLICT, "in the way", data)) as daemon:
        async with opened(daemon) as session:
            with pytest.raises(stet.Conflict, match="in the way") as refused:
                await session.undo(last=1)
            assert refused.value.conflicts == [{"path": "f", "hunks": []}]


async def test_a_garbled_reply_is_not_retried_and_the_next_call_reconnects() -> None:
    script = in_turn(Raw(b"\x00\x00\x00\x01\xc1"), {"version": "9", "protocol": 1})
    with scripted(script) as daemon:
        async with opened(daemon) as session:
            with pytest.raises(stet.GarbledReply) as garbled:
                await session.patch("f", PATCH, request_id="mine")
            assert garbled.value.request_id == "mine"
            assert (await session.status()).version == "9"
        assert len(daemon.requests) == 2


async def test_no_reply_in_time_leaves_other_calls_alone() -> None:
    def answer(request: Request) -> object:
        return Silence() if request.method == "patch" else {"version": "9", "protocol": 1}

    with scripted(answer) as daemon:
        async with opened(daemon) as session:
            session.timeout, usual = 0.3, session.timeout
            late = asyncio.create_task(session.patch("f", PATCH, request_id="mine"))
            await asyncio.sleep(0)
            session.timeout = usual
            assert (await session.status()).version == "9"
            with pytest.raises(stet.TimedOut) as error:
                await late
            assert error.value.request_id == "mine"
            assert (await session.status()).version == "9"
        assert len(daemon.hellos) == 1


async def test_a_daemon_that_refuses_while_it_is_being_sent_to_is_heard() -> None:
    with scripted(lambda request: None) as daemon:
        async with opened(daemon) as session:
            with pytest.raises(stet.FrameTooLarge, match="16777216"):
                await session.clipboard_set("c", "x" * 17 * 1024 * 1024)
        assert daemon.requests == []


async def test_a_refusal_that_names_no_request_is_no_answer_to_several() -> None:
    def answer(request: Request) -> object:
        if len(daemon.requests) == 1:
            return Silence()
        if len(daemon.requests) == 2:
            return Refusal(Kind.PARSE_ERROR, "no request", nobody=True)
        return empty_edit(request.params["path"] * 40)

    with scripted(answer) as daemon:
        async with opened(daemon) as session:
            both = await asyncio.gather(session.patch("c", PATCH), session.patch("d", PATCH))
            assert [done.commit for done in both] == ["c" * 40, "d" * 40]
        assert len(daemon.hellos) == 2
        sent = [request.params for request in daemon.requests]
        assert sent[:2] == sorted(sent[2:], key=lambda params: str(params["path"]))


async def test_the_one_that_is_too_large_is_refused_and_the_others_are_carried_out() -> None:
    with scripted(lambda request: empty_edit(request.params["path"] * 40)) as daemon:
        async with opened(daemon) as session:
            outcomes = await asyncio.gather(
                session.patch("c", PATCH),
                session.patch("x", [stet.overwrite("x" * 17 * 1024 * 1024)]),
                session.patch("d", PATCH),
                return_exceptions=True,
            )
        done = [each.commit for each in outcomes if isinstance(each, EditResult)]
        assert done == ["c" * 40, "d" * 40]
        assert isinstance(outcomes[1], stet.FrameTooLarge)


async def test_a_refusal_that_names_no_request_is_the_answer_to_the_only_one() -> None:
    refusal = Refusal(Kind.PARSE_ERROR, "no request", nobody=True)
    with scripted(in_turn(refusal, empty_edit("c" * 40))) as daemon:
        async with opened(daemon) as session:
            with pytest.raises(stet.ParseError, match="no request"):
                await session.patch("f", PATCH)
            assert (await session.patch("f", PATCH)).commit == "c" * 40
        assert len(daemon.hellos) == 2


async def test_what_cannot_be_sent_is_refused_here_and_other_calls_go_on() -> None:
    with scripted(in_turn(empty_edit("c" * 40))) as daemon:
        async with opened(daemon) as session:
            done, refused = await asyncio.gather(
                session.patch("f", PATCH),
                session.perform(calls.request("read", {"start": float("inf")})),
                return_exceptions=True,
            )
            assert isinstance(refused, stet.InvalidParams)
            assert "finite" in refused.message
            assert isinstance(done, EditResult)
            assert done.commit == "c" * 40
        assert [request.method for request in daemon.requests] == ["patch"]


async def test_a_cancelled_call_leaves_the_connection_in_order() -> None:
    asked, cancelled = threading.Event(), threading.Event()

    def late(request: Request) -> object:
        if request.params["name"] == "cancelled":
            asked.set()
            cancelled.wait(60)
        return {"name": request.params["name"], "text": ""}

    with scripted(late) as daemon:
        async with opened(daemon) as session:
            call = asyncio.create_task(session.clipboard_get("cancelled"))
            assert await asyncio.to_thread(asked.wait, 60)
            assert call.cancel()
            cancelled.set()
            assert (await session.clipboard_get("b")).name == "b"
        assert len(daemon.hellos) == 1


async def test_without_a_daemon_and_without_starting_one_it_fails_at_once() -> None:
    with own_directories() as endpoint, pytest.raises(stet.DaemonUnreachable):
        async with asyncio.timeout(retrying.PATIENCE / 2):
            await stet.aio.connect("/ws", endpoint=endpoint, start=False)


async def test_a_closed_session_says_so() -> None:
    with scripted(lambda request: None) as daemon:
        session = await opened(daemon)
        await session.close()
        await session.close()
        with pytest.raises(stet.ConnectionLost, match="session is closed"):
            await session.status()


@pytest.mark.parametrize("answer", [Silence(), Refusal(Kind.SHUTTING_DOWN)])
async def test_calls_that_wait_in_a_session_that_is_closed_fail_at_once(answer: object) -> None:
    with scripted(lambda request: answer) as daemon:
        session = await opened(daemon)
        waiting = [asyncio.create_task(session.patch(f"{n}", PATCH)) for n in range(20)]
        await asyncio.sleep(0.3)
        began = time.monotonic()
        await session.close()
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
        assert time.monotonic() - began < retrying.PATIENCE / 2
        # Which of them depends on how far each call was when the session closed.
        failed = {type(outcome) for outcome in outcomes}
        assert failed <= {stet.ConnectionLost, stet.ShuttingDown}


async def test_a_call_that_is_cancelled_while_it_connects_leaves_nothing_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun, cancelled = threading.Event(), threading.Event()
    reached: list[socket.socket] = []

    def reach_slowly(endpoint: Endpoint, *, start: bool) -> socket.socket:
        begun.set()
        cancelled.wait(60)
        reached.append(reach(endpoint, start=start))
        return reached[0]

    monkeypatch.setattr(stet.aio, "reach", reach_slowly)
    with scripted(lambda request: None) as daemon:
        call = asyncio.create_task(opened(daemon).status())
        await asyncio.to_thread(begun.wait, 60)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        cancelled.set()
        deadline = time.monotonic() + 30
        while not (reached and reached[0].fileno() < 0) and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
        assert [each.fileno() for each in reached] == [-1]


async def test_a_session_that_is_closed_while_it_connects_leaves_nothing_open() -> None:
    with scripted(lambda request: None) as daemon:
        session = opened(daemon)
        before = asyncio.all_tasks()
        call = asyncio.create_task(session.status())
        await asyncio.sleep(0)
        await session.close()
        with pytest.raises(stet.ConnectionLost, match="session is closed"):
            await call
        assert asyncio.all_tasks() == before


def test_both_sessions_have_the_same_methods() -> None:
    blocking = {name for name in dir(stet.Session) if not name.startswith("_")}
    awaited = {name for name in dir(stet.aio.AsyncSession) if not name.startswith("_")}
    # perform_all pipelines; with asyncio gather() does.
    assert blocking - awaited == {"perform_all"}
    assert awaited - blocking == set()
