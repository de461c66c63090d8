"""Deltas between versions of an object, as packs hold them (Git's gitformat-pack). Pure.

    delta   length of the base, length of the result (7 bits a byte, lowest first); then
            copy    one byte with the top bit set, whose other bits say which bytes of offset
                    (4) and length (3) follow
            insert  one byte with a length from 1 to 127, then that many bytes

An agent's edit changes a few lines of a file and one entry of each directory above it. So what
both versions begin and end with is copied, and what lies between is matched token by token: a
line of a file, an entry of a directory.
"""

from __future__ import annotations

import re

_TREE_ENTRY = re.compile(rb"[^\0]*\0.{20}", re.DOTALL)
_LINE = re.compile(rb"[^\n]*\n|[^\n]+\Z")
#: A copy says at most so many bytes; it takes up to seven of its own.
_LONGEST_COPY = 0xFFFF
_LONGEST_INSERT = 0x7F
#: Tokens shorter than this are not worth a copy of their own.
_SHORTEST = 12
#: Between beginning and end, more than this is not looked at more closely.
_MOST_MATCHED = 1 << 20


def make_delta(kind: str, base: bytes, content: bytes) -> bytes | None:
    """What makes ``content`` out of ``base``; None if it is not much shorter than that."""
    start = _common_prefix(base, content)
    if kind == "tree":
        start = _entry_boundary(content, start)
    most = min(len(base), len(content)) - start
    end = _common_prefix(base[::-1][:most], content[::-1][:most]) if most else 0
    delta = bytearray(_size(len(base)) + _size(len(content)))
    if start:
        _copy(delta, 0, start)
    changed = content[start : len(content) - end]
    if len(changed) <= _MOST_MATCHED:
        _match(delta, kind, base[start : len(base) - end], start, changed)
    else:
        _insert(delta, changed)
    if end:
        _copy(delta, len(base) - end, end)
    return bytes(delta) if 2 * len(delta) < len(content) else None


def _entry_boundary(tree: bytes, before: int) -> int:
    """Where the entry of a tree begins that holds this place: tokens are told from there on."""
    last = 0
    for found in _TREE_ENTRY.finditer(tree):
        if found.end() > before:
            break
        last = found.end()
    return last


def _common_prefix(one: bytes, two: bytes) -> int:
    """How many bytes two contents begin with alike, compared in large pieces."""
    low, high = 0, min(len(one), len(two))
    if one[:high] == two[:high]:
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if one[low:middle] == two[low:middle]:
            low = middle
        else:
            high = middle
    return low if one[low : low + 1] != two[low : low + 1] else low + 1


def _match(delta: bytearray, kind: str, base: bytes, offset: int, content: bytes) -> None:
    """Copy the tokens that ``base``, which lies at ``offset``, has; insert the others."""
    token = _TREE_ENTRY if kind == "tree" else _LINE
    places = {found[0]: found.start() for found in token.finditer(base)}
    pending = at = 0  # what is inserted begins at ``pending``
    while at < len(content):
        found = token.match(content, at)
        text = found[0] if found is not None else content[at:]
        place = places.get(text)
        if place is None or len(text) < _SHORTEST:
            at += len(text)
            continue
        length = _extended(base, place, content, at, len(text))
        _insert(delta, content[pending:at])
        _copy(delta, offset + place, length)
        at += length
        pending = at
    _insert(delta, content[pending:])


def _extended(base: bytes, place: int, content: bytes, at: int, length: int) -> int:
    """How far two contents go on alike; looked at in pieces, so that a short match costs little."""
    piece = 256
    while True:
        more = _common_prefix(
            base[place + length : place + length + piece],
            content[at + length : at + length + piece],
        )
        length += more
        if more < piece:
            return length
        piece *= 2


def _size(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def _copy(delta: bytearray, offset: int, length: int) -> None:
    while length:
        piece = min(length, _LONGEST_COPY)
        command, numbers = 0x80, bytearray()
        for bit in range(4):
            byte = offset >> 8 * bit & 0xFF
            if byte:
                command |= 1 << bit
                numbers.append(byte)
        for bit in range(2):
            byte = piece >> 8 * bit & 0xFF
            if byte:
                command |= 0x10 << bit
                numbers.append(byte)
        delta.append(command)
        delta += numbers
        offset, length = offset + piece, length - piece


def _insert(delta: bytearray, text: bytes) -> None:
    for at in range(0, len(text), _LONGEST_INSERT):
        piece = text[at : at + _LONGEST_INSERT]
        delta.append(len(piece))
        delta += piece
