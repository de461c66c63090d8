"""One connection at a time: encodings, order, errors, limits, and slow or vanished clients."""

from __future__ import annotations

import asyncio
import gc
import os
import re
import socket
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from server.echo_server import Served, eventually, serving
from stet.wire.framing import Encoding
from stet.wire.results import Peer
from stetd.methods.caller import Caller
from stetd.server.connection import ClientConnection


def run(directory: Path, story: Callable[[Served], Awaitable[None]], **options: Any) -> None:
    async def main() -> None:
        async with serving(directory, **options) as served:
            await story(served)

    asyncio.run(main())


async def still_serves(served: Served) -> None:
    async with await served.client() as other:
        assert await other.ask("echo", {"a": 1}) == {"id": 1, "result": {"a": 1}}


def test_notification_is_carried_out_and_not_answered(tmp_path: Path) -> None:
    async def story(served: Served) -> None:
        async with await served.client() as client:
            client.send("echo", {"n": "quiet"}, None)
            client.send("fail", {}, None)
            client.raw(b'{"method":"refuse","id":null}\n')
            assert await client.ask("echo", {"n": "loud"}, 9) == {"id": 9, "result": {"n": "loud"}}
            assert served.handlers.began == ["quiet", "fail", "refuse", "loud"]

    run(tmp_path, story)


def test_calls_begin_in_the_order_sent_and_fast_replies_overtake_slow_ones(tmp_path: Path) -> None:
    async def story(served: Served) -> None:
        async with await served.client() as client:
            client.send("wait", {"n": 0}, 0)
            for n in range(1, 50):
                client.send("echo", {"n": n}, n)
            replies = [(await client.receive())["id"] for _ in range(49)]
            assert replies == list(range(1, 50))
            served.handlers.gate.set()
            assert await client.receive() == {"id": 0, "result": {"n": 0}}
            assert served.handlers.began == list(range(50))

    run(tmp_path, story)


def test_call_that_ends_during_hello_does_not_let_the_next_one_begin(tmp_path: Path) -> None:
    async def story(served: Served) -> None:
        async with await served.client() as client:
            client.send("echo", {}, 1)
            client.send("hello", {}, 2)
            client.send("greeted", {}, 3)
            assert [(await client.receive())["id"] for _ in range(2)] == [1, 2]
            assert await client.receive() == {"id": 3, "result": True}

    run(tmp_path, story)


@pytest.mark.parametrize("method", ["fail", "unencodable"])
def test_defect_in_a_handler_is_internal_and_logged_and_told_without_details(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, method: str
) -> None:
    async def story(served: Served) -> None:
        async with await served.client() as client:
            error = (await client.ask(method))["error"]
            assert (error["code"], error["data"]["kind"]) == (-32603, "internal")
            assert "secret" not in str(error)
            assert "same request_id" in error["message"]
            assert (await client.ask("echo", {}, 2))["result"] == {}

    run(tmp_path, story)
    assert f"{method} failed" in caplog.text
    assert "Traceback" in caplog.text


@pytest.mark.parametrize(
    ("expected", "encoding", "data"),
    [
        ("parse_error", Encoding.JSON, b'{"id":5,"method":"echo"}\n\n'),
        ("parse_error", Encoding.MSGPACK, b"\0\0\0\0"),
        ("frame_too_large", Encoding.JSON, b"{" + b"x" * 4_000_000 + b"\n"),
        ("frame_too_large", Encoding.MSGPACK, b"\x00\x3d\x09\x00" + b"x" * 4_000_000),
        ("frame_too_large", Encoding.MSGPACK, b"GET / HTTP/1.1\r\n\r\n"),
    ],
)
def test_bad_frame_is_answered_even_to_a_client_that_is_still_sending_and_then_closed(
    tmp_path: Path, expected: str, encoding: Encoding, data: bytes
) -> None:
    """A blocking client, which reads only when it has sent everything."""

    def talk(path: str) -> bytes:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(20)
            client.connect(path)
            client.sendall(data)
            answer = b""
            while piece := client.recv(65536):
                answer += piece
            return answer

    async def story(served: Served) -> None:
        answer = await asyncio.to_thread(talk, str(tmp_path / "agent.sock"))
        assert expected.encode() in answer
        assert b'"id":null' in answer or b"\xa2id\xc0" in answer
        if b'"id":5' in data:
            assert answer.index(b'"id":null') >= 0
            assert b'{"id":5,"result":{}}\n' in answer
        await still_serves(served)

    run(tmp_path, story, max_frame=1024 * 1024)


def test_peer_that_pauses_inside_a_frame_is_told_and_closed(tmp_path: Path) -> None:
    async def story(served: Served) -> None:
        async with await served.client() as client:
            assert await client.ask("echo", {}) == {"id": 1, "result": {}}
            client.raw(b'{"id"')
            await asyncio.sleep(0.1)  # it is not looked at again before the first wait is over
            client.raw(b":2")
            assert await client.kinds_until_closed() == [(None, "parse_error")]
        await still_serves(served)

    run(tmp_path, story, frame_timeout_s=0.2)


def test_slow_sender_and_idle_client_are_left_in_peace(tmp_path: Path) -> None:
    async def story(served: Served) -> None:
        async with await served.client() as client:
            await asyncio.sleep(1.2)
            for byte in b'{"id":2,"method":"echo"}\n':
                client.raw(bytes([byte]))
                await asyncio.sleep(0.06)
            assert await client.receive() == {"id": 2, "result": {}}

    run(tmp_path, story, frame_timeout_s=1.0)


def test_client_that_closes_its_side_gets_its_answers_first(tmp_path: Path) -> None:
    async def story(served: Served) -> None:
        async with await served.client() as client:
            client.send("wait", {}, 1)
            for n in range(2, 200):
                client.send("echo", {}, n)
            client.writer.write_eof()
            for _ in range(2):
                await client.receive()
            served.handlers.gate.set()
            count = 2
            while await client.receive() is not None:
                count += 1
            assert count == 199

    run(tmp_path, story)


def test_client_that_closes_its_side_and_reads_late_gets_answers_to_what_was_held_back(
    tmp_path: Path,
) -> None:
    async def story(served: Served) -> None:
        async with await served.client() as client:
            for n in range(4):
                client.send("text", {"bytes": 6_000_000}, n)
            client.writer.write_eof()
            await eventually(lambda: bool(served.handlers.began))
            await asyncio.sleep(0.2)
            assert len(served.handlers.began) == 1
            answers = [await client.receive() for _ in range(5)]
            assert [len(answer["result"]) for answer in answers[:4]] == [6_000_000] * 4
            assert answers[4] is None

    run(tmp_path, story, max_pipelined=1)


def test_no_more_than_max_pipelined_calls_are_in_work(tmp_path: Path) -> None:
    async def story(served: Served) -> None:
        async with await served.client() as client:
            for n in range(1000):
                client.send("wait", {"n": n}, n)
            await eventually(lambda: len(served.handlers.began) == 8)
            await still_serves(served)
            assert served.handlers.began[:8] == list(range(8))
            assert len(served.handlers.began) == 9  # the other client's echo
            served.handlers.gate.set()
            assert {(await client.receive())["id"] for _ in range(1000)} == set(range(1000))

    run(tmp_path, story, max_pipelined=8)


def test_client_that_reads_nothing_is_not_read_from_and_then_dropped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(served: Served) -> None:
        with socket.socket(socket.AF_UNIX) as mute:
            mute.setblocking(False)
            mute.connect(str(tmp_path / "agent.sock"))
            request = b'{"id":1,"method":"text","params":{"bytes":1000000}}\n'
            mute.send(request * 1000)
            await eventually(lambda: len(served.handlers.began) > 0)
            await still_serves(served)
            await eventually(lambda: served.handlers.gone == 2)
            assert len(served.handlers.began) < 20

    run(tmp_path, story, frame_timeout_s=0.5, max_pipelined=4)
    assert "does not read its replies" in caplog.text


def test_client_that_asks_no_more_and_does_not_take_its_reply_is_dropped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(served: Served) -> None:
        with socket.socket(socket.AF_UNIX) as mute:
            mute.setblocking(False)
            mute.connect(str(tmp_path / "agent.sock"))
            mute.send(b'{"id":1,"method":"text","params":{"bytes":700000}}\n')
            mute.shutdown(socket.SHUT_WR)
            await eventually(lambda: served.handlers.gone == 1)

    run(tmp_path, story, frame_timeout_s=0.3)
    assert "does not read its replies" in caplog.text


def test_slow_reader_that_does_read_gets_everything_and_is_kept(tmp_path: Path) -> None:
    async def story(served: Served) -> None:
        async with await served.client() as client:
            for n in range(12):
                client.send("text", {"bytes": 1_000_000}, n)
            for _ in range(12):
                await asyncio.sleep(0.1)
                assert len((await client.receive())["result"]) == 1_000_000
            await asyncio.sleep(1.2)
            client.send("text", {"bytes": 1})
            assert len((await client.receive())["result"]) == 1

    run(tmp_path, story, frame_timeout_s=1.0)


def test_of_a_lost_connection_with_calls_in_work_nothing_half_received_is_kept(
    tmp_path: Path,
) -> None:
    async def story(served: Served) -> None:
        client = await served.client()
        client.send("wait")
        await eventually(lambda: len(served.handlers.began) == 1)
        assert isinstance(client.writer.transport, asyncio.Transport)
        client.writer.transport.pause_reading()
        client.send("echo")
        client.raw(b'{"x":"' + b"x" * 3_000_000)
        made = [each for each in gc.get_objects() if isinstance(each, ClientConnection)]
        [connection] = [each for each in made if each._server is served.server]
        await eventually(lambda: connection.held > 3_000_000)
        await client.vanish()  # with something unread: the connection is reset, not ended
        await eventually(lambda: served.handlers.gone == 1)
        assert connection.tasks
        await eventually(lambda: connection.held < 1000)

    run(tmp_path, story)


def test_flood_of_bad_messages_does_not_keep_others_waiting(tmp_path: Path) -> None:
    async def story(served: Served) -> None:
        async with await served.client() as flood, await served.client() as other:

            async def pour() -> None:
                while True:
                    flood.raw(b"{}\n" * 20_000)
                    await flood.writer.drain()

            async def swallow() -> None:
                while await flood.reader.read(1 << 20):
                    pass

            tasks = [asyncio.create_task(pour()), asyncio.create_task(swallow())]
            slowest = 0.0
            for n in range(100):
                # Of the processor's time: by the clock others may keep this process waiting.
                asked = time.process_time()
                assert (await other.ask("echo", {}, n))["id"] == n
                slowest = max(slowest, time.process_time() - asked)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            assert slowest < 1.0

    run(tmp_path, story)


def test_events_that_a_slow_client_did_not_take_are_counted_not_kept(tmp_path: Path) -> None:
    async def story(served: Served) -> None:
        async with await served.client() as client:
            client.send("text", {"bytes": 4_000_000})
            await eventually(lambda: len(served.handlers.began) == 1)
            for _ in range(100):  # the reply is on its way, and does not fit
                await asyncio.sleep(0)
            for n in range(1000):
                served.handlers.connections[0].notify({"event": "commit", "n": n})
            assert len((await client.receive())["result"]) == 4_000_000
            expected = {"method": "event", "params": {"event": "lost", "count": 1000}}
            assert await client.receive() == expected

    run(tmp_path, story)


def test_events_for_a_connection_that_is_being_closed_harm_nobody(tmp_path: Path) -> None:
    async def story(served: Served) -> None:
        async with await served.client() as client:
            client.send("echo")
            client.raw(b"\n")
            assert (await client.receive())["id"] == 1
            assert await client.kinds_until_closed() == [(None, "parse_error")]
            # Its end of the connection is still open. An exception here would end the feed, and
            # other subscribers would miss the event.
            assert served.handlers.gone == 0
            served.handlers.connections[0].notify({"event": "commit"})

    run(tmp_path, story)


def test_log_has_a_line_per_call_and_no_contents(tmp_path: Path) -> None:
    lines = []

    async def story(served: Served) -> None:
        served.server.log_call = lambda caller, answer: lines.append((caller.text, answer.text))
        async with await served.client() as client:
            await client.ask("echo", {"text": "password"})
            await client.ask("refuse", {"text": "password"})
            await client.ask("password\nresult=ok", {})

    run(tmp_path, story)
    assert [re.sub(r"ms=[\d.]+ ", "", answer) for _, answer in lines] == [
        "method=echo result=ok",
        "method=refuse result=stale",
        "method=? result=unknown_method",
    ]
    assert lines[0][0].startswith(f"socket=agent pid={os.getpid()} command=")
    assert "password" not in str(lines)


def test_a_caller_does_not_show_its_secret() -> None:
    """It could come into the log with an exception."""
    nothing: Any = None
    caller = Caller(nothing, False, Peer(1, "x"), 0, nothing, secret="hush")
    assert "hush" not in repr(caller)
