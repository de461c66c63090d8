"""Deltas between versions of an object (format: :mod:`stetd.repository.object_files`). Pure.

An agent's edit changes a few lines of a file and one entry of each directory above it. So the
common beginning and end of both versions are copied. Between them blocks of the base are searched.
"""

from __future__ import annotations

from rapidfuzz.distance import Postfix, Prefix

from stetd.repository.object_files import number_bytes

#: Longest copy in bytes; a copy takes up to seven bytes itself.
_LONGEST_COPY = 0xFFFF
_LONGEST_INSERT = 0x7F
#: Bytes of a block of the base: shorter common parts are not found.
_BLOCK = 32
#: Bytes between beginning and end up to which blocks are searched.
_MOST_SEARCHED = 1 << 20


def make_delta(base: bytes, content: bytes) -> bytes | None:
    """A delta from ``base`` to ``content``; None if it is not much shorter than ``content``."""
    start = Prefix.similarity(base, content)
    end = min(Postfix.similarity(base, content), min(len(base), len(content)) - start)
    stop, base_stop = len(content) - end, len(base) - end
    delta = bytearray(number_bytes(len(base)) + number_bytes(len(content)))
    _copy(delta, 0, start)
    blocks: dict[bytes, int] = {}
    if stop - start <= _MOST_SEARCHED:
        places = range(start, base_stop - _BLOCK + 1, _BLOCK)
        blocks = {base[at : at + _BLOCK]: at for at in places}
    pending = at = start  # ``pending``: where the next insertion begins
    while blocks and at <= stop - _BLOCK:
        place = blocks.get(content[at : at + _BLOCK])
        if place is None:
            at += 1
            continue
        while at > pending and place > start and content[at - 1] == base[place - 1]:
            at, place = at - 1, place - 1
        length = Prefix.similarity(
            base[place : min(place + _LONGEST_COPY, base_stop)],
            content[at : min(at + _LONGEST_COPY, stop)],
        )
        _insert(delta, content[pending:at])
        _copy(delta, place, length)
        at = pending = at + length
    _insert(delta, content[pending:stop])
    _copy(delta, base_stop, end)
    return bytes(delta) if 2 * len(delta) < len(content) else None


def _copy(delta: bytearray, offset: int, length: int) -> None:
    while length:
        piece = min(length, _LONGEST_COPY)
        command, numbers = 0x80, bytearray()
        for bit, byte in enumerate(offset.to_bytes(4, "little") + piece.to_bytes(2, "little")):
            if byte:
                command |= 1 << bit
                numbers.append(byte)
        delta.append(command)
        delta += numbers
        offset, length = offset + piece, length - piece


def _insert(delta: bytearray, text: bytes) -> None:
    for at in range(0, len(text), _LONGEST_INSERT):
        piece = text[at : at + _LONGEST_INSERT]
        delta.append(len(piece))
        delta += piece
