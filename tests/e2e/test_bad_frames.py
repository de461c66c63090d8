"""Bytes that are no requests: what is answered, which connection is closed, which goes on.

A malformed message in a sound frame is answered with ``id: null`` and the
connection goes on; a malformed, empty or oversized frame is answered and the connection
closes. Other connections notice nothing, and nothing is changed.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from e2e.running_daemon import (
    BOTH,
    Client,
    ConnectionEnded,
    DaemonProcess,
    Picture,
    Site,
    faultless,
)
from stet.wire.failures import Kind, code_of
from stet.wire.framing import Encoding, enclose
from stet.wire.messages import Answer

MAX_FRAME = 20_000
SETTINGS = {"max_frame": MAX_FRAME}
JSON, MSGPACK = Encoding.JSON, Encoding.MSGPACK


@pytest.fixture(scope="module")
def daemon() -> Iterator[DaemonProcess]:
    with faultless(SETTINGS) as process:
        yield process


@pytest.fixture(scope="module")
def world(daemon: DaemonProcess) -> Site:
    site = daemon.site("ws")
    site.write("a.txt", "one\n")
    site.replace("a.txt", "one", "two")
    site.agent.call("clipboard_set", name="c", text="kept")
    return site


@pytest.fixture
def as_before(world: Site) -> Iterator[Picture]:
    """Whatever a test sends, all is as before, and another connection still works."""
    before = world.picture()
    yield before
    assert world.picture() == before
    assert world.agent.call("read", path="a.txt")["text"] == "two\n"


def assert_error(reply: Answer, kind: Kind, *says: str, id: object = None) -> None:  # noqa: A002
    assert reply.error is not None
    assert kind == reply.error.data["kind"], reply.error.message
    assert code_of(kind) == reply.error.code
    assert reply.id == id
    for part in says:
        assert part in reply.error.message
    assert reply.error.data["failures"] == [{"kind": kind, "message": reply.error.message}]


def packed(value: Any) -> bytes:
    return msgspec.msgpack.encode(value)


def nested(depth: int) -> dict[str, Any]:
    value: Any = 0
    for _ in range(depth):
        value = [value]
    return {"id": 5, "method": "status", "params": {"x": value}}


SHAPE = 'Send an object like {"id": 1, "method": "status", "params": {}}'
MALFORMED: list[tuple[str, Encoding, bytes, tuple[str, ...]]] = [
    ("not JSON", JSON, b"{nonsense}", ("The message is not JSON", SHAPE)),
    ("two values on a line", JSON, b'{"method":"status"} {}', ("The message is not JSON", SHAPE)),
    ("a list", JSON, b"[1]", ("not a request", SHAPE)),
    ("text", JSON, b'"status"', ("not a request", SHAPE)),
    ("no method", JSON, b'{"id": 1}', ("`method`", SHAPE)),
    ("number as method", JSON, b'{"id": 1, "method": 5}', ("`$.method`", SHAPE)),
    ("float as id", JSON, b'{"id": 1.5, "method": "status"}', ("`$.id`", SHAPE)),
    ("boolean as id", JSON, b'{"id": true, "method": "status"}', ("`$.id`", SHAPE)),
    ("list as id", JSON, b'{"id": [], "method": "status"}', ("`$.id`", SHAPE)),
    ("huge id", JSON, b'{"id": 1' + b"0" * 30 + b', "method": "status"}', (SHAPE,)),
    ("misspelt member", JSON, b'{"id": 1, "method": "status", "parms": {}}', ("parms", SHAPE)),
    ("JSON-RPC 1.0", JSON, b'{"jsonrpc": "1.0", "method": "status"}', ('only "2.0" is spoken',)),
    ("bad UTF-8", JSON, b'{"id": 1, "method": "\xff"}', ("UTF-8",)),
    ("lone surrogate", JSON, b'{"id": 1, "method": "\\ud800"}', ("The message",)),
    ("NaN", JSON, b'{"id": 1, "method": "log", "params": {"since": NaN}}', ("not JSON",)),
    ("nested", JSON, json.dumps(nested(12)).encode(), ("nest at most 8 deep",)),
    ("nested very deep", JSON, b'{"method":"x","params":' + b"[" * 9_000, ("The message",)),
    ("garbage", MSGPACK, b"\xc1\xc1\xc1", ("The message is not MessagePack", SHAPE)),
    ("cut off", MSGPACK, packed({"id": 1, "method": "status"})[:-1], ("not MessagePack",)),
    ("more than one", MSGPACK, packed({"method": "status"}) * 2, ("not MessagePack",)),
    ("a list", MSGPACK, packed([1]), ("not a request", SHAPE)),
    ("no method", MSGPACK, packed({"id": 1}), ("`method`", SHAPE)),
    ("bytes as method", MSGPACK, packed({"id": 1, "method": b"status"}), (SHAPE,)),
    ("float as id", MSGPACK, packed({"id": 1.5, "method": "status"}), ("`$.id`", SHAPE)),
    ("NaN", MSGPACK, packed({"method": "log", "params": {"since": float("nan")}}), (SHAPE,)),
    ("bad UTF-8", MSGPACK, b"\x81\xa6method\xa2\xff\xfe", ("UTF-8",)),
    ("nested", MSGPACK, packed(nested(12)), ("nest at most 8 deep",)),
    ("nested very deep", MSGPACK, b"\x82\xa6method\xa1x\xa6params" + b"\x91" * 9_000, ("The m",)),
    ("a bomb of empty lists", MSGPACK, b"\xdd\x7f\xff\xff\xff" + b"\x90" * 100, ("not",)),
]


@pytest.mark.parametrize(
    ("encoding", "payload", "says"),
    [case[1:] for case in MALFORMED],
    ids=[f"{case[1]}-{case[0]}" for case in MALFORMED],
)
def test_a_malformed_message_is_answered_and_the_connection_goes_on(
    daemon: DaemonProcess,
    as_before: Picture,
    encoding: Encoding,
    payload: bytes,
    says: tuple[str, ...],
) -> None:
    client = daemon.agent(encoding)
    if encoding is JSON:
        client.call("status")  # the first byte of the connection must say that it is JSON
    client.send_bytes(enclose(encoding, payload))
    assert_error(client.receive(), Kind.PARSE_ERROR, *says)
    assert client.call("status")["protocol"] == 1


@pytest.mark.parametrize("encoding", BOTH, ids=str)
@pytest.mark.parametrize("params", [[1], "x", 5, True])
def test_params_that_are_no_object_are_answered_with_the_id(
    daemon: DaemonProcess, as_before: Picture, encoding: Encoding, params: object
) -> None:
    client = daemon.agent(encoding)
    client.send_bytes(client.frame("status", "mine", params))
    says = "params must be an object with named members"
    assert_error(client.receive(), Kind.INVALID_PARAMS, says, id="mine")
    assert client.call("status")["protocol"] == 1


def assert_closed(client: Client) -> None:
    with pytest.raises(ConnectionEnded):
        client.receive()


@pytest.mark.parametrize(
    ("encoding", "data", "says"),
    [
        (JSON, b"\n", "Empty frame. This connection speaks JSON"),
        (JSON, b" \t\r\n", "Empty frame."),
        (MSGPACK, bytes(4), "Empty frame. This connection speaks MessagePack"),
    ],
)
def test_an_empty_frame_is_answered_and_the_connection_closed(
    daemon: DaemonProcess, as_before: Picture, encoding: Encoding, data: bytes, says: str
) -> None:
    client = daemon.agent(encoding)
    client.call("status")
    client.send_bytes(data + client.frame("status", 9, {}))
    assert_error(client.receive(), Kind.PARSE_ERROR, says)
    assert_closed(client)


@pytest.mark.parametrize(
    ("encoding", "data"),
    [
        (JSON, b'{"' + b"x" * MAX_FRAME),
        (JSON, b'{"' + b"x" * MAX_FRAME + b'"}\n'),
        (MSGPACK, (MAX_FRAME + 1).to_bytes(4, "big")),
        (MSGPACK, b"\xff\xff\xff\xff"),
        (MSGPACK, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
    ],
    ids=["no newline", "too long a line", "length", "length bomb", "HTTP"],
)
def test_an_oversized_frame_is_answered_and_the_connection_closed(
    daemon: DaemonProcess, as_before: Picture, encoding: Encoding, data: bytes
) -> None:
    client = daemon.agent(encoding)
    client.send_bytes(data)
    says = f"the limit is {MAX_FRAME} bytes. Send less in one message"
    assert_error(client.receive(), Kind.FRAME_TOO_LARGE, says)
    assert_closed(client)


@pytest.mark.parametrize("encoding", BOTH, ids=str)
def test_a_frame_of_just_the_limit_is_taken(daemon: DaemonProcess, encoding: Encoding) -> None:
    client = daemon.agent(encoding)
    room = MAX_FRAME - len(client.frame("nothing", 1, {"x": ""}))
    for filler in range(room, room + 8):
        frame = client.frame("nothing", 1, {"x": "y" * filler})
        payload = frame[:-1] if encoding is JSON else frame[4:]
        if len(payload) == MAX_FRAME:
            break
    else:
        raise AssertionError("no filler gives a payload of just the limit")
    client.send_bytes(frame)
    assert_error(client.receive(), Kind.UNKNOWN_METHOD, "there is no method 'nothing'", id=1)


@pytest.mark.parametrize("encoding", BOTH, ids=str)
def test_an_end_inside_a_frame_is_answered_after_what_was_whole(
    daemon: DaemonProcess, as_before: Picture, encoding: Encoding
) -> None:
    client = daemon.agent(encoding)
    client.send_bytes(client.frame("status", 1, {}) + client.frame("status", 2, {})[:-3])
    client.socket.shutdown(socket.SHUT_WR)
    assert client.result_of(client.receive())["protocol"] == 1
    assert_error(client.receive(), Kind.PARSE_ERROR, "ended in the middle of a frame")
    assert_closed(client)


@pytest.mark.parametrize("encoding", BOTH, ids=str)
def test_a_call_cut_off_by_a_hang_up_is_not_carried_out(
    daemon: DaemonProcess, world: Site, as_before: Picture, encoding: Encoding
) -> None:
    client = world.greeted(daemon.agent(encoding), session="conv-1")
    overwrite = {"operation": "overwrite", "newText": "never"}
    client.send_bytes(client.frame("patch", 1, {"path": "a.txt", "patches": [overwrite]})[:-1])
    client.close()


@pytest.mark.parametrize("encoding", BOTH, ids=str)
def test_an_id_comes_back_as_it_was(daemon: DaemonProcess, encoding: Encoding) -> None:
    client = daemon.agent(encoding)
    for number in ("a", "", "ü", 0, -1, 2**63 - 1, -(2**63)):
        client.send_bytes(client.frame("status", number, {}))
        reply = client.receive()
        assert reply.id == number
        assert type(reply.id) is type(number)


def test_a_json_rpc_member_and_null_params_are_taken(daemon: DaemonProcess) -> None:
    client = daemon.agent(JSON)
    client.send_bytes(b'{"jsonrpc": "2.0", "id": 1, "method": "status", "params": null}\n')
    client.send_bytes(b'{"method": "status", "id": 2}\r\n')
    assert client.receive().id == 1
    assert client.receive().id == 2
