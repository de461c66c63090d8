"""Counting the values of a message without making them."""

from __future__ import annotations

import tracemalloc
from itertools import cycle, islice
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stet.wire.failures import Kind
from stet.wire.framing import Encoding
from stet.wire.messages import MAX_VALUES, MalformedMessage, decode_request
from stet.wire.value_count import holds_more_values_than

JSON, MSGPACK = Encoding.JSON, Encoding.MSGPACK
SIZE = 16 * 1024 * 1024 - 100
_HEAD = b'{"method":"a","id":7,"params":{"n":'
_PACKED_HEAD = b"\x83\xa6method\xa1a\xa2id\x07\xa6params\x81\xa1n"


def count(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + sum(1 + count(inner) for inner in value.values())
    if isinstance(value, list):
        return 1 + sum(count(inner) for inner in value)
    return 1


_texts = st.text(st.sampled_from('a"\\,[]{}: \n\x00\u20ac'))
_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | _texts
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner) | st.dictionaries(_texts, inner),
)  # fmt: skip


@settings(max_examples=30)
@given(st.lists(_values, min_size=1, max_size=5), st.integers(0, 3000), st.integers(0, 15))
def test_count_is_exact_of_many_small_and_large_values(
    some: list[Any], many: int, wide: int
) -> None:
    """They are counted by the thousand where they are small."""
    value = [*islice(cycle(some), many), "x" * (1 << wide), *some, " ," * many]
    expected, message = count(value), msgspec.json.encode(value)
    assert not holds_more_values_than(expected, JSON, message)
    assert holds_more_values_than(expected - 1, JSON, message)


#: Values of 16 bytes: with the list that they are in 999, the next is the last of a thousand.
_NUMBERS = b"1234567890.1234," * 998


@pytest.mark.parametrize(
    "long",
    [b"7" * 600, b'"' + b"x" * 600 + b'"', b'"' + b'\\"' * 300 + b'"', b'"' + b",[" * 300 + b'"'],
)
@pytest.mark.parametrize("after", range(0, 640, 7))
def test_a_value_across_the_end_of_what_is_counted_together_is_one(long: bytes, after: int) -> None:
    """Of a thousand values 16 KiB are looked at; what is at the end may be cut off."""
    message = b"[" + b" " * after + _NUMBERS + long + b"," + _NUMBERS * 2
    message += b'"' + b",:" * 5000 + b'"]'
    expected = len(msgspec.json.decode(message)) + 1
    assert not holds_more_values_than(expected, JSON, message)
    assert holds_more_values_than(expected - 1, JSON, message)


def test_values_of_all_of_a_large_message_are_counted() -> None:
    value = list(range(200_000))
    message = msgspec.json.encode(value)
    assert not holds_more_values_than(200_001, JSON, message)
    assert holds_more_values_than(200_000, JSON, message)


@given(_values)
def test_count_is_exact_in_both_encodings(value: Any) -> None:
    expected = count(value)
    for encoding, message in (
        (JSON, msgspec.json.encode(value)),
        (JSON, msgspec.json.format(msgspec.json.encode(value))),
        (MSGPACK, msgspec.msgpack.encode(value)),
    ):
        assert not holds_more_values_than(expected, encoding, message)
        assert holds_more_values_than(expected - 1, encoding, message)


@pytest.mark.parametrize("size", [0, 31, 32, 255, 256, 65535, 65536])
@pytest.mark.parametrize("kind", ["text", "bytes", "ext", "list", "map"])
def test_every_size_of_every_packed_type_is_skipped_whole(kind: str, size: int) -> None:
    value: Any = {
        "text": "x" * size,
        "bytes": b"\x90" * size,
        "ext": msgspec.msgpack.Ext(1, b"\x90" * size),
        "list": [None] * size,
        "map": dict.fromkeys(range(size)),
    }[kind]
    inside = {"list": size, "map": 2 * size}.get(kind, 0)
    message = msgspec.msgpack.encode([value, 1])
    assert not holds_more_values_than(3 + inside, MSGPACK, message)
    assert holds_more_values_than(2 + inside, MSGPACK, message)


@given(st.binary(), st.sampled_from(Encoding))
def test_random_bytes_are_counted_somehow(message: bytes, encoding: Encoding) -> None:
    assert holds_more_values_than(3, encoding, message) in (True, False)


@pytest.mark.parametrize(
    ("encoding", "bomb"),
    [
        (MSGPACK, _PACKED_HEAD + b"\xdd" + SIZE.to_bytes(4, "big") + b"\x90" * SIZE),
        (MSGPACK, _PACKED_HEAD + b"\xdd" + SIZE.to_bytes(4, "big") + b"\x80" * SIZE),
        (JSON, _HEAD + b"[" + b"[]," * (SIZE // 3) + b"1]}}"),
        (JSON, _HEAD + b"[" + b'"a",' * (SIZE // 4) + b"1]}}"),
        (JSON, _HEAD + b"[" + b"1," * (SIZE // 2) + b"1]}}"),
        (JSON, _HEAD + b"[" + b"1,   " * (SIZE // 5) + b"1]}}"),
    ],
    ids=["packed lists", "packed maps", "lists", "texts", "numbers", "spaces"],
)
def test_message_of_millions_of_values_is_refused_with_its_id_and_costs_little(
    encoding: Encoding, bomb: bytes
) -> None:
    tracemalloc.start()
    with pytest.raises(MalformedMessage, match="more than 100,000 values") as caught:
        decode_request(encoding, bomb)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (caught.value.kind, caught.value.id) == (Kind.INPUT_TOO_LARGE, 7)
    assert peak < 10_000_000


@pytest.mark.parametrize("text", ["[{,:" * 1_000_000, '"' * 2_000_000, "\\" * 2_000_000])
@pytest.mark.parametrize("encoding", Encoding)
def test_large_text_full_of_marks_is_one_value(encoding: Encoding, text: str) -> None:
    message = {"method": "a", "params": {"n": text}}
    encode = msgspec.json.encode if encoding is JSON else msgspec.msgpack.encode
    frame = encode(message)
    assert len(frame) > MAX_VALUES
    assert decode_request(encoding, frame).params == {"n": text}


@pytest.mark.parametrize("tail", [b'\\"' * 2_000_000, b'"\\' * 2_000_000, b'",' * 2_000_000])
def test_text_without_an_end_is_looked_at_once(tail: bytes) -> None:
    """A search that starts again inside the text takes hours on these."""
    with pytest.raises(MalformedMessage):
        decode_request(JSON, _HEAD + b'"' + tail)
