"""A segment as bytes: what is written is read back, and damage costs the end only."""

from __future__ import annotations

import struct
import zlib

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stet.wire.results import Peer
from stetd.history.commits import CommitMeta
from stetd.history.objects import Image
from stetd.session.sessions import Session
from stetd.storage.journal_format import (
    LEVEL,
    MAGIC,
    Abort,
    Change,
    Checkpoint,
    ClipboardSet,
    CommitRecord,
    FormatError,
    ModeSet,
    Opened,
    PathChange,
    Published,
    Record,
    SessionOpened,
    WorkspaceAllowed,
    WorkspaceForgotten,
    WorkspaceState,
    frames,
    read_segment,
)

IMAGE = Image("a" * 40, 0o100644)
META = CommitMeta(
    kind="edit", time=5, subject="s", why="w", peer=Peer(1, "p"), permissions=(("a", 0o600),)
)
COMMIT = CommitRecord("c" * 40, None, META, {"a": IMAGE, "b": None})
SESSION = Session(workspace="w", name="s", mode="unrestricted", created=1, last_seen=2)

ONE_OF_EACH: list[Record] = [
    Opened(1, "boot", "0.1"),
    SessionOpened(SESSION),
    Change(
        1,
        "w",
        [PathChange("a", IMAGE, None, "t"), PathChange("b", None, IMAGE)],
        [COMMIT],
        {"a" * 40: b"\0\xff"},
        session="s",
        clipboards={"k": "text", "gone": None},
        request="r",
        digest=b"d",
        reply=b"r",
        time=7,
    ),
    Published(1),
    Abort(2, "w", [1], None, {"a": IMAGE, "b": None}, [COMMIT], {"b" * 40: b""}, 8),
    ModeSet("w", None, "restricted"),
    ClipboardSet("w", "s", "k", None),
    WorkspaceAllowed("w", "/w"),
    WorkspaceForgotten("w"),
    Checkpoint(1, 8, 2, [WorkspaceState("w", "/w", "unrestricted", None, 0)], [SESSION]),
]
SEGMENT = MAGIC + frames(*ONE_OF_EACH)


def raw_frame(fields: list[object]) -> bytes:
    payload = msgspec.msgpack.encode(fields)
    length = struct.pack(">I", len(payload))
    return length + struct.pack(">I", zlib.crc32(payload, zlib.crc32(length))) + payload


def records_of(data: bytes) -> list[Record]:
    return [record for _, record in read_segment(data)[0]]


def test_every_record_is_read_back_with_its_offset() -> None:
    found, end = read_segment(SEGMENT)
    assert [record for _, record in found] == ONE_OF_EACH
    assert end == len(SEGMENT)
    for offset, record in found:
        assert SEGMENT[offset:].startswith(frames(record))


def test_every_truncation_gives_the_records_that_are_whole() -> None:
    ends = [len(MAGIC)]
    for record in ONE_OF_EACH:
        ends.append(ends[-1] + len(frames(record)))
    for length in range(len(SEGMENT) + 1):
        whole = sum(1 for end in ends[1:] if end <= length)
        records, end = read_segment(SEGMENT[:length])
        assert [record for _, record in records] == ONE_OF_EACH[:whole]
        assert end == (ends[whole] if length >= len(MAGIC) else 0)


@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
def test_every_damaged_byte_ends_the_segment_there(flip: int) -> None:
    starts = [offset for offset, _ in read_segment(SEGMENT)[0]]
    for position in range(len(MAGIC), len(SEGMENT)):
        damaged = bytearray(SEGMENT)
        damaged[position] ^= flip
        before = sum(1 for start in starts if start <= position) - 1
        assert records_of(bytes(damaged)) == ONE_OF_EACH[:before]


def test_reserved_zeros_end_a_segment() -> None:
    assert read_segment(SEGMENT + bytes(5000)) == read_segment(SEGMENT)


def test_record_after_zeros_is_not_read() -> None:
    assert records_of(SEGMENT + bytes(16) + frames(Published(9))) == ONE_OF_EACH


@pytest.mark.parametrize(
    "torn", [b"", b"STETWAL", bytes(8), bytes(4096), b"STE" + bytes(90), b"STETWAL" + bytes(90)]
)
def test_torn_beginning_of_a_segment_has_no_records(torn: bytes) -> None:
    assert read_segment(torn) == ([], 0)


def test_newer_format_is_refused_with_the_version_that_is_needed() -> None:
    newer = b"STETWAL\x02" + frames(Opened(1, "b", "7.8.9"), *ONE_OF_EACH)
    expected = (
        "this state was last used by stetd 7.8.9, and this is an older one, which can't read all "
        "of it. Nothing was changed. Install that version again (pip install 'stetd>=7.8.9'), or "
        "begin a history beside it, with STET_STATE_DIR set to another directory."
    )
    with pytest.raises(FormatError) as caught:
        read_segment(newer)
    assert expected == str(caught.value)


@pytest.mark.parametrize("rest", [b"", b"\xff" * 9, bytes(4096), frames(Published(1))])
def test_newer_format_that_says_no_version_is_refused_all_the_same(rest: bytes) -> None:
    with pytest.raises(FormatError, match="last used by a newer stetd, and this is an older"):
        read_segment(b"STETWAL\x02" + rest)


def test_higher_level_is_refused_and_a_lower_one_read() -> None:
    with pytest.raises(FormatError, match=r"last used by stetd 7\.8\.9"):
        read_segment(MAGIC + frames(Opened(1, "b", "7.8.9", LEVEL + 1)))
    for level in range(LEVEL + 1):
        opened = Opened(1, "b", "0.0.1", level)
        assert records_of(MAGIC + frames(opened)) == [opened]


def test_record_of_a_kind_that_is_not_known_is_refused() -> None:
    """It is whole, so it is no torn tail; passed over, what it says would be lost."""
    newer = MAGIC + frames(Opened(1, "b", "7.8.9", LEVEL)) + raw_frame(["Novelty", 1])
    with pytest.raises(FormatError, match=r"last used by stetd 7\.8\.9"):
        read_segment(newer)


def test_file_that_is_no_segment_is_refused() -> None:
    with pytest.raises(FormatError, match="not a journal segment"):
        read_segment(b"#!/bin/sh\n")


def test_record_with_a_field_of_a_later_version_is_read() -> None:
    """Where the level does not tell: between two releases."""
    assert records_of(MAGIC + raw_frame(["Published", 7, "of the future"])) == [Published(7)]


@settings(max_examples=200)
@given(st.binary(max_size=300))
def test_garbage_after_the_records_never_becomes_a_record_nor_an_error(garbage: bytes) -> None:
    assert records_of(SEGMENT + garbage)[: len(ONE_OF_EACH)] == ONE_OF_EACH
