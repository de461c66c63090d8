"""Streams of events over connections that fail at a bad moment: what is told, what stays open."""

from __future__ import annotations

import asyncio
from typing import Any

import stet
from client.scripted_daemon import HangUp, Raw, scripted
from stet.wire.events import LostEvent, ModeEvent
from stet.wire.framing import Encoding, enclose
from stet.wire.messages import Request, encode_event, encode_result

MODE = {"event": "mode", "workspace": "/ws", "session": None, "mode": "restricted",
        "session_mode": None, "workspace_mode": "restricted"}  # fmt: skip


def subscribed(request: Request, *events: dict[str, Any]) -> Raw:
    """The answer to ``subscribe``, with events behind it; the history never goes on."""
    result = {"events": [], "head": None, "heads": {"/ws": "1" * 40}}
    payloads = [encode_result(Encoding.MSGPACK, request.id, result)]
    payloads += [encode_event(Encoding.MSGPACK, event) for event in events]
    return Raw(b"".join(enclose(Encoding.MSGPACK, payload) for payload in payloads))


def loses_events_and_itself() -> Any:
    """A daemon that leaves events out, and is gone when it is asked what they were."""
    subscriptions = iter([[{"event": "lost", "count": 3}], [MODE]])

    def answer(request: Request) -> object:
        return HangUp() if request.method == "log" else subscribed(request, *next(subscriptions))

    return answer


EXPECTED = [LostEvent(3), ModeEvent("/ws", None, "restricted", None, "restricted")]


def test_that_events_are_lost_is_told_also_when_the_connection_is_lost_then() -> None:
    with scripted(loses_events_and_itself()) as daemon:
        session = stet.connect("/ws", "s1", endpoint=daemon.endpoint, start=False)
        with session, session.events() as events:
            assert [events.wait(20), events.wait(20)] == EXPECTED


def test_that_events_are_lost_is_told_with_asyncio_too() -> None:
    async def story() -> None:
        session = stet.aio.connect("/ws", "s1", endpoint=daemon.endpoint, start=False)
        async with session, session.events() as events:
            assert [await anext(events), await anext(events)] == EXPECTED

    with scripted(loses_events_and_itself()) as daemon:
        asyncio.run(asyncio.wait_for(story(), 20))
