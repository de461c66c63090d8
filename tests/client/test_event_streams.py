"""Streams of events over connections that fail at a bad moment: what is told, what stays open."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from typing import Any

import pytest

import stet
from client.scripted_daemon import HangUp, Raw, Refusal, Script, ScriptedDaemon, Silence, scripted
from stet.calls import Call
from stet.session.connection import Connection
from stet.session.event_stream import EventStream
from stet.wire.events import CommitEvent, LostEvent, ModeEvent
from stet.wire.failures import Kind
from stet.wire.framing import Encoding, enclose
from stet.wire.messages import Request, encode_error, encode_event, encode_result

MODE: dict[str, object] = {
    "event": "mode",
    "workspace": "/ws",
    "session": None,
    "mode": "restricted",
    "session_mode": None,
    "workspace_mode": "restricted",
}


def opened(daemon: ScriptedDaemon) -> stet.Session:
    return stet.connect("/ws", "s1", endpoint=daemon.endpoint, start=False)


def awaited(daemon: ScriptedDaemon) -> stet.aio.AsyncSession:
    return stet.aio.connect("/ws", "s1", endpoint=daemon.endpoint, start=False)


def subscribed(request: Request, *events: dict[str, object]) -> Raw:
    """The answer to ``subscribe``, with events behind it; the history never goes on."""
    result: dict[str, object] = {"events": [], "head": None, "heads": {"/ws": "1" * 40}}
    payloads = [encode_result(Encoding.MSGPACK, request.id, result)]
    payloads += [encode_event(Encoding.MSGPACK, event) for event in events]
    return Raw(b"".join(enclose(Encoding.MSGPACK, payload) for payload in payloads))


def loses_events_and_itself() -> Script:
    """A daemon that leaves events out, and is gone when it is asked what they were."""
    lost: dict[str, object] = {"event": "lost", "count": 3}
    told = iter([lost, MODE])

    def answer(request: Request) -> object:
        return HangUp() if request.method == "log" else subscribed(request, next(told))

    return answer


EXPECTED = [LostEvent(3), ModeEvent("/ws", None, "restricted", None, "restricted")]


def test_that_events_are_lost_is_told_also_when_the_connection_is_lost_then() -> None:
    lossy = scripted(loses_events_and_itself())
    with lossy as daemon, opened(daemon) as session, session.events() as events:
        assert [events.wait(20), events.wait(20)] == EXPECTED


def test_a_stream_whose_connection_is_closed_for_what_it_holds_goes_on_with_another() -> None:
    closed = encode_error(Encoding.MSGPACK, None, -32000, "holds", {"kind": "overloaded"})
    answers = iter([enclose(Encoding.MSGPACK, closed), b""])

    def answer(request: Request) -> object:
        more = next(answers)
        return Raw(subscribed(request, *([] if more else [MODE])).data + more)

    with scripted(answer) as daemon, opened(daemon) as session, session.events() as events:
        assert events.wait(20) == EXPECTED[1]


def test_an_event_of_another_shape_is_an_error_and_not_asked_for_without_end() -> None:
    odd = scripted(lambda request: subscribed(request, {**MODE, "workspace": 7}))
    with odd as daemon, opened(daemon) as session, session.events() as events:
        with pytest.raises(stet.GarbledReply, match="event has another shape"):
            events.wait(20)
        assert len(daemon.requests) == 1


def test_a_stream_is_subscribed_again_if_the_daemon_is_restarted_just_then() -> None:
    answers = iter([HangUp(), Refusal(Kind.SHUTTING_DOWN)])

    def answer(request: Request) -> object:
        return next(answers, None) or subscribed(request, MODE)

    with scripted(answer) as daemon, opened(daemon) as session, session.events() as events:
        assert events.wait(20) == EXPECTED[1]
        assert events.connections == 1


def test_commits_that_the_log_could_not_tell_at_once_are_told_by_the_next_wait() -> None:
    def answer(request: Request) -> object:
        if request.method == "subscribe":
            return {"events": [], "head": None, "heads": {"/ws": heads.pop(0)}}
        refused, answers[:] = answers[:1], answers[1:]
        return refused[0] if refused else {"commits": page, "cursor": None}

    def commit(digit: str, parent: str | None) -> dict[str, object]:
        return {"commit": digit * 40, "parent": parent, "time": "", "kind": "edit"}

    page = [commit("2", "1" * 40), commit("1", None)]
    heads, answers = ["1" * 40, "2" * 40, "2" * 40], [Refusal(Kind.OVERLOADED)]
    with scripted(answer) as daemon, opened(daemon) as session, session.events() as events:
        daemon.hang_up()
        with pytest.raises(stet.Overloaded):
            events.wait(20)
        event = events.wait(20)
        assert isinstance(event, CommitEvent)
        assert event.commit.commit == "2" * 40


async def test_that_events_are_lost_is_told_with_asyncio_too() -> None:
    with scripted(loses_events_and_itself()) as daemon:
        session = awaited(daemon)
        async with session, session.events() as events:
            assert [await anext(events), await anext(events)] == EXPECTED


async def test_a_stream_of_a_session_that_is_not_open_yet_is_of_the_same_session() -> None:
    def answer(request: Request) -> object:
        if request.method == "subscribe":
            return subscribed(request, MODE)
        return {"version": "9", "protocol": 1}

    with scripted(answer) as daemon:
        session = stet.aio.connect("/ws", endpoint=daemon.endpoint, start=False)
        async with session.events() as events:
            assert await anext(events) == EXPECTED[1]
        async with session:
            await session.status()
        assert [hello.get("session") for hello in daemon.hellos] == [None, "made-up"]


async def test_tasks_that_share_a_stream_are_given_each_event_once() -> None:
    other = {**MODE, "session": "s2"}

    with scripted(lambda request: subscribed(request, MODE, other)) as daemon:
        before = sockets()
        session = awaited(daemon)
        stream = session.events()
        given = await asyncio.gather(anext(stream), anext(stream))
        assert [None, "s2"] == [event.session for event in given if isinstance(event, ModeEvent)]
        await stream.close()
        await session.close()
        assert len(daemon.requests) == 1
        assert await asyncio.to_thread(closed_again, before)


async def test_an_event_that_comes_as_the_wait_is_cancelled_is_given_to_the_next() -> None:
    with scripted(subscribed) as daemon:
        stream = awaited(daemon).events()
        async with stream:
            found = stream._waiting = asyncio.get_running_loop().create_future()
            waits = asyncio.create_task(anext(stream))
            await asyncio.sleep(0)
            found.set_result(EXPECTED[1])
            waits.cancel()
            await asyncio.wait({waits})
            assert waits.cancelled()
            assert await anext(stream) is EXPECTED[1]


def sockets() -> int:
    """How many sockets this process has open, those of the scripted daemon included."""
    found = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            found += os.readlink(f"/proc/self/fd/{name}").startswith("socket:")
        except FileNotFoundError:  # the directory itself, which was open meanwhile
            continue
    return found


def closed_again(before: int) -> bool:
    """Whether no more sockets are open than before; waits for the daemon's ends."""
    deadline = time.monotonic() + 60
    while sockets() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    return sockets() <= before


def test_a_stream_that_nobody_waits_for_is_closed_by_close() -> None:
    with scripted(subscribed) as daemon:
        before = sockets()
        with opened(daemon) as session:
            stream = session.events()
        stream.close()
        assert closed_again(before)
        assert stream.wait(0) is None


def test_a_stream_that_is_closed_in_a_wait_is_closed_when_that_ends() -> None:
    with scripted(subscribed) as daemon:
        before = sockets()
        with opened(daemon) as session:
            stream = session.events()
        closing = threading.Timer(0.1, stream.close)
        closing.start()
        assert list(stream) == []
        closing.join()
        assert closed_again(before)


def has_ended(waiting: threading.Thread, daemon: ScriptedDaemon) -> bool:
    """Whether a thread ends by itself; if it does not, the daemon goes, so that it ends."""
    waiting.join(30)
    ended = not waiting.is_alive()
    daemon.stop_listening()
    daemon.hang_up()
    waiting.join()
    return ended


@pytest.mark.parametrize("silent", ["subscribe", "log"])
def test_close_ends_a_wait_that_subscribes_again_and_gets_no_answer(silent: str) -> None:
    asked = threading.Event()

    def answer(request: Request) -> object:
        if len(daemon.requests) == 1:
            return subscribed(request)
        if request.method != silent:
            return {"events": [], "head": None, "heads": {"/ws": "2" * 40}}
        asked.set()
        return Silence()

    with scripted(answer) as daemon:
        session = stet.connect("/ws", "s1", endpoint=daemon.endpoint, start=False, timeout=None)
        with session, session.events() as stream:
            daemon.hang_up()
            waiting = threading.Thread(target=stream.wait)
            waiting.start()
            assert asked.wait(60)
            stream.close()
            assert has_ended(waiting, daemon)


def test_close_ends_a_wait_for_events_after_the_log_was_read() -> None:
    def answer(request: Request) -> object:
        if request.method == "subscribe":
            return {"events": [], "head": None, "heads": {"/ws": heads.pop(0)}}
        return {"commits": page, "cursor": None}

    ids = ["2" * 40, "1" * 40]
    page = [{"commit": each, "parent": None, "time": "", "kind": "edit"} for each in ids]
    heads = ["1" * 40, "2" * 40]
    with scripted(answer) as daemon, opened(daemon) as session, session.events() as stream:
        daemon.hang_up()
        assert isinstance(stream.wait(20), CommitEvent)
        waiting = threading.Thread(target=stream.wait, args=(60,))
        waiting.start()
        while not stream._turn.locked():
            time.sleep(0.01)
        stream.close()
        assert has_ended(waiting, daemon)


def test_a_stream_that_is_closed_before_it_subscribes_connects_to_nothing() -> None:
    with scripted(subscribed) as daemon, opened(daemon) as session:
        stream = EventStream(session._opening, None)
        stream.close()
        stream.open()
        assert len(daemon.hellos) == 1  # the session's
        assert stream.wait() is None


def test_a_stream_that_is_closed_as_it_has_subscribed_keeps_no_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ask = Connection.ask

    def ask_and_close(connection: Connection, call: Call[Any], deadline: float | None) -> Any:
        result = ask(connection, call, deadline)
        if call.method == "subscribe":
            stream.close()
        return result

    monkeypatch.setattr(Connection, "ask", ask_and_close)
    with scripted(subscribed) as daemon, opened(daemon) as session:
        stream = EventStream(session._opening, None)
        stream.open()
        assert len(daemon.requests) == 1
        assert not stream.connected


def test_a_wait_with_a_limit_ends_also_if_nobody_answers_a_new_subscription() -> None:
    def answer(request: Request) -> object:
        return subscribed(request) if len(daemon.requests) == 1 else Silence()

    with scripted(answer) as daemon:
        session = stet.connect("/ws", "s1", endpoint=daemon.endpoint, start=False, timeout=None)
        with session, session.events() as stream:
            daemon.hang_up()
            waiting = threading.Thread(target=stream.wait, args=(0.1,))
            waiting.start()
            assert has_ended(waiting, daemon)


def test_waits_that_are_shorter_than_an_answer_takes_are_subscribed_again() -> None:
    def answer(request: Request) -> object:
        if len(daemon.requests) == 1:
            return subscribed(request)
        time.sleep(0.3)
        return subscribed(request, MODE)

    with scripted(answer) as daemon, opened(daemon) as session, session.events() as events:
        daemon.hang_up()
        deadline, told = time.monotonic() + 20, None
        while told is None and time.monotonic() < deadline:
            told = events.wait(0.01)
        assert told == EXPECTED[1]


async def test_a_stream_that_is_cancelled_while_it_subscribes_leaves_nothing_open() -> None:
    asked, answered = threading.Event(), threading.Event()

    def answer(request: Request) -> object:
        asked.set()
        answered.wait(60)
        return subscribed(request)

    with scripted(answer) as daemon:
        async with awaited(daemon) as session:
            before = sockets()
            subscribing = asyncio.create_task(session.events().__aenter__())
            await asyncio.to_thread(asked.wait, 60)
            subscribing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await subscribing
            answered.set()
            assert await asyncio.to_thread(closed_again, before)


async def test_a_stream_that_is_closed_while_it_subscribes_again_leaves_nothing_open() -> None:
    asked, answered = threading.Event(), threading.Event()

    def answer(request: Request) -> object:
        if len(daemon.requests) > 1:
            asked.set()
            answered.wait(60)
        return subscribed(request)

    with scripted(answer) as daemon:
        before = sockets()
        stream = awaited(daemon).events()
        async with stream:
            waiting = asyncio.create_task(anext(stream, None))
            await asyncio.sleep(0.05)
            daemon.hang_up()
            await asyncio.to_thread(asked.wait, 60)
            await stream.close()
            answered.set()
            assert await waiting is None
            assert await asyncio.to_thread(closed_again, before)


async def test_a_stream_that_is_closed_while_the_session_opens_does_not_subscribe(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with scripted(lambda request: subscribed(request, MODE)) as daemon:
        async with awaited(daemon) as session:

            async def close_stream() -> None:
                await stream.close()

            monkeypatch.setattr(session, "open", close_stream)
            stream = session.events()
            assert await anext(stream, None) is None
            assert daemon.requests == []


async def test_after_a_refused_subscription_the_next_wait_subscribes() -> None:
    answers = [Refusal(Kind.OVERLOADED)]

    def answer(request: Request) -> object:
        return answers.pop() if answers else subscribed(request, MODE)

    with scripted(answer) as daemon:
        async with awaited(daemon) as session:
            stream = session.events()
            with pytest.raises(stet.Overloaded):
                await anext(stream)
            assert await anext(stream) == EXPECTED[1]
            await stream.close()


@pytest.mark.parametrize("how", ["close", "cancel"])
async def test_a_first_subscription_that_gets_no_answer_can_be_ended(how: str) -> None:
    asked = threading.Event()

    def answer(request: Request) -> object:
        asked.set()
        return Silence()

    with scripted(answer) as daemon:
        session = stet.aio.connect("/ws", "s1", endpoint=daemon.endpoint, start=False, timeout=None)
        async with session:
            threads = set(threading.enumerate())
            stream = session.events()
            waiting = asyncio.create_task(anext(stream, None))
            await asyncio.to_thread(asked.wait, 60)
            subscribing = [t for t in set(threading.enumerate()) - threads if t.name == "stet"]
            if how == "close":
                await stream.close()
            else:
                waiting.cancel()
            done, _ = await asyncio.wait([waiting], timeout=30)
            for each in subscribing:
                await asyncio.to_thread(each.join, 30)
            ended = [not each.is_alive() for each in subscribing]
            daemon.stop_listening()
            daemon.hang_up()
            await asyncio.wait([waiting])
    assert (done, ended) == ({waiting}, [True])
    assert waiting.cancelled() or waiting.result() is None
