"""Framing, sans-I/O: one table of streams, each fed whole, byte by byte, and with a tail."""

from __future__ import annotations

import tracemalloc
from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stet.wire.failures import Kind
from stet.wire.framing import Encoding, FrameError, Framer, enclose

LIMIT = 32


@dataclass(frozen=True)
class Stream:
    """A stream of bytes, the payloads in it, and the error that ends it (None: it is sound)."""

    name: str
    stream: bytes
    payloads: list[bytes]
    error: Kind | None = None
    mid_frame: bool = False


STREAMS = [
    Stream("nothing", b"", []),
    Stream("one line", b'{"id":1}\n', [b'{"id":1}']),
    Stream("two lines", b"{}\n{a}\n", [b"{}", b"{a}"]),
    Stream("line that ends with CR LF", b"{}\r\n", [b"{}\r"]),
    Stream("unfinished line", b'{}\n{"id"', [b"{}"], mid_frame=True),
    Stream("later line that is no object", b"{}\n[1]\n", [b"{}", b"[1]"]),
    Stream("line of exactly the limit", b"{" * LIMIT + b"\n", [b"{" * LIMIT]),
    Stream("line one over the limit", b"{" * (LIMIT + 1) + b"\n", [], Kind.FRAME_TOO_LARGE),
    Stream("endless line", b"{" * (LIMIT + 1), [], Kind.FRAME_TOO_LARGE),
    Stream("empty line", b"{}\n\n", [b"{}"], Kind.PARSE_ERROR),
    Stream("blank line", b"{}\n \t\r\n", [b"{}"], Kind.PARSE_ERROR),
    Stream("one counted frame", b"\0\0\0\2ab", [b"ab"]),
    Stream("counted frame that holds LF", b"\0\0\0\2\n{", [b"\n{"]),
    Stream("two counted frames", b"\0\0\0\1a\0\0\0\1b", [b"a", b"b"]),
    Stream("unfinished length", b"\0\0\0", [], mid_frame=True),
    Stream("unfinished counted frame", b"\0\0\0\1a\0\0\0\2b", [b"a"], mid_frame=True),
    Stream("counted frame of exactly the limit", b"\0\0\0\x20" + b"x" * 32, [b"x" * 32]),
    Stream("counted frame one over the limit", b"\0\0\0\x21", [], Kind.FRAME_TOO_LARGE),
    Stream("length bomb", b"\xff\xff\xff\xff", [], Kind.FRAME_TOO_LARGE),
    Stream("an HTTP request", b"GET / HTTP/1.1\r\n", [], Kind.FRAME_TOO_LARGE),
    Stream("a space before the object", b" {}\n", [], Kind.FRAME_TOO_LARGE),
    Stream("empty counted frame", b"\0\0\0\0", [], Kind.PARSE_ERROR),
    Stream("counted, then an empty one", b"\0\0\0\1a\0\0\0\0", [b"a"], Kind.PARSE_ERROR),
]
SOUND = [case for case in STREAMS if case.error is None and not case.mid_frame and case.stream]


def drain(framer: Framer) -> tuple[list[bytes], Kind | None]:
    payloads = []
    try:
        while (payload := framer.next_frame()) is not None:
            payloads.append(payload)
    except FrameError as error:
        return payloads, Kind(error.kind)
    return payloads, None


@pytest.mark.parametrize("case", STREAMS, ids=lambda case: case.name)
def test_stream_fed_whole(case: Stream) -> None:
    framer = Framer(LIMIT)
    framer.feed(case.stream)
    assert (case.payloads, case.error) == drain(framer)
    assert case.mid_frame == framer.mid_frame


@pytest.mark.parametrize("case", STREAMS, ids=lambda case: case.name)
def test_stream_fed_byte_by_byte(case: Stream) -> None:
    framer, payloads, error = Framer(LIMIT), [], None
    for byte in case.stream:
        framer.feed(bytes([byte]))
        some, error = drain(framer)
        payloads += some
        if error:
            break
    assert (case.payloads, case.error) == (payloads, error)
    assert case.mid_frame == framer.mid_frame


@pytest.mark.parametrize("case", SOUND, ids=lambda case: case.name)
def test_stream_with_the_beginning_of_another_frame_behind_it(case: Stream) -> None:
    framer = Framer(LIMIT)
    framer.feed(case.stream + case.stream[:1])
    assert (case.payloads, None) == drain(framer)
    assert framer.mid_frame
    framer.feed(case.stream[1:])
    assert (case.payloads, None) == drain(framer)
    assert not framer.mid_frame


@pytest.mark.parametrize(
    ("expected", "first"),
    [(Encoding.JSON, b"{"), (Encoding.MSGPACK, b"\0"), (Encoding.MSGPACK, b"["), (None, b"")],
)
def test_first_byte_decides_the_encoding(expected: Encoding | None, first: bytes) -> None:
    framer = Framer()
    framer.feed(first)
    assert expected == framer.encoding


def test_given_encoding_is_not_guessed() -> None:
    framer = Framer(encoding=Encoding.MSGPACK)
    framer.feed(b"\0\0\0\1{")
    assert framer.next_frame() == b"{"


def test_whole_frame_that_was_not_taken_yet_is_not_mid_frame() -> None:
    framer = Framer()
    framer.feed(b"{}\n")
    assert not framer.mid_frame


def test_error_repeats_and_later_bytes_are_dropped() -> None:
    framer = Framer(LIMIT)
    framer.feed(b"\xff" * 1000)
    for _ in range(3):
        framer.feed(b"{}\n" * 1000)
        assert drain(framer) == ([], Kind.FRAME_TOO_LARGE)
        assert not framer.mid_frame


def test_end_inside_a_frame_is_an_error_and_between_frames_is_not() -> None:
    framer = Framer()
    framer.end()
    framer.feed(b"{}\n{")
    assert framer.next_frame() == b"{}"
    with pytest.raises(FrameError, match="ended in the middle of a frame, after 1 bytes") as caught:
        framer.end()
    assert caught.value.kind is Kind.PARSE_ERROR


def test_too_large_frame_is_explained_with_both_sizes_and_the_other_encoding() -> None:
    framer = Framer(LIMIT)
    framer.feed(b"GET ")
    with pytest.raises(FrameError) as caught:
        framer.next_frame()
    assert caught.value.message == (
        "The frame has 1195725856 bytes; the limit is 32 bytes. Send less in one message, for "
        "example split the edit into several calls. (max_frame in the daemon's configuration) This "
        "connection speaks MessagePack, because its first byte was not '{': each message is a "
        "4-byte big-endian length and that many bytes of MessagePack. For JSON, let the first byte "
        "be '{' and send one object a line."
    )


def test_announced_length_takes_no_memory() -> None:
    tracemalloc.start()
    framers = [Framer(2**31) for _ in range(100)]
    for framer in framers:
        framer.feed(b"\x7f\xff\xff\xff....")
        assert framer.next_frame() is None
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000


def test_line_fed_in_small_pieces_is_searched_once() -> None:
    """A quadratic search would take minutes here, and the test's time limit is two."""
    framer = Framer(64 * 1024 * 1024)
    framer.feed(b"{")
    for _ in range(200_000):
        framer.feed(b"x" * 80)
        assert framer.next_frame() is None


@given(st.binary(max_size=200), st.lists(st.integers(0, 200)))
def test_random_bytes_give_frames_or_a_frame_error_however_they_are_cut(
    stream: bytes, cuts: list[int]
) -> None:
    whole = Framer(LIMIT)
    whole.feed(stream)
    expected = drain(whole)
    pieces = Framer(LIMIT)
    payloads: list[bytes] = []
    error = None
    bounds = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    for start, end in pairwise(bounds):
        pieces.feed(stream[start:end])
        some, error = drain(pieces)
        payloads += some
        if error:
            break
    assert expected == (payloads, error)
    assert whole.mid_frame == pieces.mid_frame


@given(st.lists(st.binary(min_size=1), min_size=1))
def test_enclosed_payloads_come_out_again_in_message_pack(payloads: list[bytes]) -> None:
    framer = Framer(encoding=Encoding.MSGPACK)
    framer.feed(b"".join(enclose(Encoding.MSGPACK, payload) for payload in payloads))
    assert (payloads, None) == drain(framer)
