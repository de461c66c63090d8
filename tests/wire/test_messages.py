"""Messages as bytes and back: what is taken, what is refused and with which words."""

from __future__ import annotations

import contextlib
import tracemalloc
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stet.wire.failures import Kind
from stet.wire.framing import Encoding
from stet.wire.messages import (
    MAX_DEPTH,
    Answer,
    ErrorObject,
    MalformedMessage,
    Request,
    check_params,
    decode_answer,
    decode_request,
    decode_result,
    encode_error,
    encode_event,
    encode_request,
    encode_result,
)
from stet.wire.results import ClipboardName

JSON, MSGPACK = Encoding.JSON, Encoding.MSGPACK


def pack(value: object) -> bytes:
    return msgspec.msgpack.encode(value)


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("expected", "encoding", "frame"),
    [
        (Request("a", {}, 1), JSON, b'{"id":1,"method":"a"}'),
        (Request("a", {}, "x"), JSON, b' {"id":"x","method":"a","params":null} \r'),
        (Request("a", {}, None), JSON, b'{"method":"a","id":null}'),
        (Request("a", {}, None), JSON, b'{"method":"a","params":{}}'),
        (Request("a", {"n": [1.5]}, 0), JSON, b'{"id":0,"method":"a","params":{"n":[1.5]}}'),
        (Request("a", {}, -1), JSON, b'{"jsonrpc":"2.0","id":-1,"method":"a"}'),
        (Request("\U0001f600", {}, 1), JSON, rb'{"id":1,"method":"\ud83d\ude00"}'),
        (Request("a", {}, 1), MSGPACK, pack({"id": 1, "method": "a"})),
        (Request("a", {"n": 2}, 1), MSGPACK, pack({"id": 1, "method": "a", "params": {"n": 2}})),
    ],
)  # fmt: skip
def test_request_is_understood(expected: Request, encoding: Encoding, frame: bytes) -> None:
    assert expected == decode_request(encoding, frame)


@pytest.mark.parametrize(
    ("expected", "encoding", "frame"),
    [
        ("is not JSON: Input data was truncated", JSON, b"{"),
        ("is not JSON: JSON is malformed: trailing characters", JSON, b'{"method":"a"} x'),
        ("is not JSON", JSON, b'{"method":"a","params":{"n":NaN}}'),
        ("Number out of range", JSON, b'{"method":"a","params":{"n":1e999}}'),
        ("`int` <=", JSON, b'{"method":"a","params":{"n":9223372036854775808}}'),
        ("Integer", JSON, b'{"method":"a","params":{"n":' + b"9" * 100_000 + b"}}"),
        ("is not JSON", JSON, rb'{"method":"a","params":{"n":"\ud800"}}'),
        ("is not UTF-8", JSON, b'{"method":"a\xff"}'),
        ("is not UTF-8", JSON, b'{"method":"a\xed\xa0\x80"}'),
        ("Expected `object`, got `array`", JSON, b'[{"id":1,"method":"a"}]'),
        ("missing required field `method`", JSON, b'{"id":1}'),
        ("Expected `str`, got `int` - at `$.method`", JSON, b'{"id":1,"method":5}'),
        ("Expected `int | str | null`, got `bool` - at `$.id`", JSON, b'{"id":true,"method":"a"}'),
        ("Expected `int | str | null`, got `float` - at `$.id`", JSON, b'{"id":1.0,"method":"a"}'),
        ("Expected `int | str | null`, got `array` - at `$.id`", JSON, b'{"id":[],"method":"a"}'),
        ("unknown field `parms`", JSON, b'{"id":1,"method":"a","parms":{}}'),
        ("says jsonrpc '1.0'; only \"2.0\" is spoken", JSON, b'{"jsonrpc":"1.0","method":"a"}'),
        ("nest at most 8 deep", JSON, b'{"method":"a","params":' + b"[" * 30_000),
        ("nest at most 8 deep", JSON, b'{"method":"a","params":' + b'{"a":' * 30_000),
        ("is not UTF-8", MSGPACK, b"\x81\xa6method\xa1\xff"),
        ("got `bytes`", MSGPACK, pack({"method": "a", "params": {"n": b"x"}})),
        ("got `ext`", MSGPACK, pack({"method": "a", "params": {"n": msgspec.msgpack.Ext(1, b"")}})),
        ("Expected `str`, got `int` - at `key`", MSGPACK, pack({"method": "a", "params": {1: 2}})),
        ("Expected `float`", MSGPACK, pack({"method": "a", "params": {"n": float("nan")}})),
        ("Expected `float`", MSGPACK, pack({"method": "a", "params": {"n": float("-inf")}})),
        ("not MessagePack: Input data was truncated", MSGPACK, b"\xdf\xff\xff\xff\xff"),
        ("is not MessagePack", MSGPACK, b"\x81\xa6method\xdb\xff\xff\xff\xff"),
        ("trailing characters", MSGPACK, pack({"method": "a"}) + b"x"),
        ("nest at most 8 deep", MSGPACK, b"\x82\xa6method\xa1a\xa6params" + b"\x91" * 30_000),
    ],
)  # fmt: skip
def test_malformed_message_is_refused_without_an_id(
    expected: str, encoding: Encoding, frame: bytes
) -> None:
    with pytest.raises(MalformedMessage) as caught:
        decode_request(encoding, frame)
    assert expected in caught.value.message
    assert (caught.value.kind, caught.value.id) == (Kind.PARSE_ERROR, None)


@pytest.mark.parametrize("encoding", Encoding)
@pytest.mark.parametrize("params", [[1], "text", 5, True])
def test_params_of_another_shape_are_refused_with_the_requests_id(
    encoding: Encoding, params: object
) -> None:
    with pytest.raises(MalformedMessage, match="params must be an object") as caught:
        decode_request(encoding, encode_request(encoding, "r1", "a", params))
    assert (caught.value.kind, caught.value.id) == (Kind.INVALID_PARAMS, "r1")


@pytest.mark.parametrize("encoding", Encoding)
def test_params_nest_as_deep_as_the_limit_and_no_deeper(encoding: Encoding) -> None:
    deepest = {"n": nested(MAX_DEPTH - 1)}
    assert decode_request(encoding, encode_request(encoding, 1, "a", deepest)).params == deepest
    with pytest.raises(MalformedMessage):
        decode_request(encoding, encode_request(encoding, 1, "a", {"n": nested(MAX_DEPTH)}))


@pytest.mark.parametrize("encoding", Encoding)
def test_announced_sizes_inside_a_message_take_no_memory(encoding: Encoding) -> None:
    """Arrays, maps and texts of 4 GiB, announced in a few bytes."""
    head = b"\x82\xa6method\xa1a\xa6params\x81\xa1n"
    tracemalloc.start()
    for bomb in (b"\xdd", b"\xdf", b"\xdb", b"\xc6", b"\xc9"):
        with pytest.raises(MalformedMessage):
            decode_request(encoding, head + bomb + b"\xff\xff\xff\xff")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000


def test_json_payload_never_holds_a_newline() -> None:
    assert b"\n" not in encode_result(JSON, 1, {"text": "a\nb\r\n\u2028"})


@pytest.mark.parametrize("encoding", Encoding)
def test_result_error_and_event_come_back_as_what_they_were(encoding: Encoding) -> None:
    reply = decode_answer(encoding, encode_result(encoding, 7, ClipboardName("c")))
    assert (reply.id, reply.error) == (7, None)
    assert decode_result(encoding, reply.result, ClipboardName) == ClipboardName("c")

    error = encode_error(encoding, None, -32000, "no", {"kind": "stale"})
    expected = Answer(None, error=ErrorObject(-32000, "no", {"kind": "stale"}))
    assert expected == decode_answer(encoding, error)

    event = encode_event(encoding, {"event": "commit", "n": 1})
    assert decode_answer(encoding, event).is_event
    assert decode_answer(encoding, event).params == {"event": "commit", "n": 1}


@pytest.mark.parametrize("encoding", Encoding)
def test_null_result_is_a_result(encoding: Encoding) -> None:
    reply = decode_answer(encoding, encode_result(encoding, "a", None))
    assert not reply.is_event
    assert decode_result(encoding, reply.result, None) is None


def test_wire_bytes_are_these() -> None:
    assert encode_request(JSON, 1, "a", {"b": 2}) == b'{"id":1,"method":"a","params":{"b":2}}'
    assert encode_result(JSON, "x", [1]) == b'{"id":"x","result":[1]}'
    assert encode_error(JSON, None, -32700, "m", {"kind": "parse_error"}) == (
        b'{"id":null,"error":{"code":-32700,"message":"m","data":{"kind":"parse_error"}}}'
    )
    assert encode_event(JSON, {"a": 1}) == b'{"method":"event","params":{"a":1}}'
    assert encode_result(MSGPACK, 1, True) == b"\x82\xa2id\x01\xa6result\xc3"


@pytest.mark.parametrize("encoding", Encoding)
def test_message_that_is_neither_reply_nor_event_is_malformed(encoding: Encoding) -> None:
    with pytest.raises(ValueError, match="neither a reply nor an event"):
        decode_answer(encoding, encode_request(encoding, 1, "status", {}))


def test_result_of_another_type_is_malformed() -> None:
    with pytest.raises(ValueError, match="not what was expected"):
        decode_result(JSON, msgspec.Raw(b'{"name":1}'), ClipboardName)


def test_unknown_members_of_a_reply_are_ignored() -> None:
    assert Answer(1, result=msgspec.Raw(b"2")) == decode_answer(
        JSON, b'{"id":1,"result":2,"new":[]}'
    )


@given(st.binary() | st.binary().map(lambda tail: b'{"method":' + tail), st.sampled_from(Encoding))
def test_random_bytes_are_a_message_or_malformed(frame: bytes, encoding: Encoding) -> None:
    with contextlib.suppress(MalformedMessage):
        decode_request(encoding, frame)
    with contextlib.suppress(ValueError):
        decode_answer(encoding, frame)


@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8,
))  # fmt: skip
def test_random_json_values_are_a_request_or_malformed(value: object) -> None:
    message = {"method": "a", "id": 1, "params": value}
    for encoding, encode in ((JSON, msgspec.json.encode), (MSGPACK, msgspec.msgpack.encode)):
        try:
            frame = encode(message)
        except (OverflowError, UnicodeEncodeError):
            continue
        try:
            assert decode_request(encoding, frame).method == "a"
        except MalformedMessage:
            continue


_params = st.dictionaries(
    st.text(),
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text()
    | st.floats(allow_nan=False, allow_infinity=False) | st.lists(st.text()),
)  # fmt: skip


@given(st.sampled_from(Encoding), st.none() | st.text() | st.integers(-(2**63), 2**63 - 1), _params)
def test_request_comes_back_as_it_was_sent(
    encoding: Encoding, request_id: str | int | None, params: dict[str, Any]
) -> None:
    frame = encode_request(encoding, request_id, "patch", params)
    assert Request("patch", params, request_id) == decode_request(encoding, frame)


class Text(str):
    """As libraries return texts: LangChain's TextAccessor, for one."""

    def __str__(self) -> str:
        return "something else"


@pytest.mark.parametrize("encoding", Encoding)
def test_texts_of_a_subclass_are_sent_as_what_they_are(encoding: Encoding) -> None:
    params = {"text": Text("a"), "paths": [Text()]}
    check_params(params)
    frame = encode_request(encoding, 1, "log", params)
    assert decode_request(encoding, frame) == Request("log", {"text": "a", "paths": [""]}, 1)
    for other in (Path("a"), type("float64", (float,), {})(1.5)):
        with pytest.raises(ValueError, match=f"a value is of the type {type(other).__name__}"):
            check_params({"since": other})
        with pytest.raises(TypeError):
            encode_request(encoding, 1, "log", {"since": other})


numbers = st.floats() | st.integers(-(2**64), 2**64)
values = st.recursive(
    st.none() | st.booleans() | numbers | st.text(max_size=3) | st.binary(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.text(max_size=2) | st.integers(0, 1), inner, max_size=2)
        | inner.map(lambda value: [[[[value]]]])
    ),
    max_leaves=4,
)


@given(st.dictionaries(st.text(max_size=2), values, max_size=3), st.sampled_from(Encoding))
def test_params_are_found_sendable_if_and_only_if_they_arrive_as_they_were(
    params: dict[str, Any], encoding: Encoding
) -> None:
    try:
        check_params(params)
        frame = encode_request(encoding, 1, "m", params)
    except (ValueError, OverflowError, TypeError):
        frame = None
    if frame is not None:
        assert decode_request(encoding, frame) == Request("m", params, 1)
        return
    try:  # what is refused would not have been taken, or not as it was
        arrived = decode_request(encoding, encode_request(encoding, 1, "m", params)).params
    except (MalformedMessage, ValueError, OverflowError, TypeError):
        return
    assert arrived != params
