"""From bytes to inputs that get past the first check: text made of tokens, values, params.

A fuzzer changes bytes. Read as UTF-8 nearly all of what it makes is prose to a parser, so here a
byte below the number of tokens *is* that token (``===FIND===`` and a newline, say), other ASCII
bytes are themselves, and the upper half are characters with which programs have trouble.
Everything is total and deterministic: whatever the bytes, an input comes out, and the same one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

#: Bytes from 128 on: white space that is not ASCII, line ends that are none, marks. No halves of
#: surrogate pairs, which no wire carries.
_ODD = (
    "\u00a0", "\u0085", "\u2028", "\u200b", "\ufeff", "\u00e9", "e\u0301", "\u2019", "\u201c",
    "\u2013", "\u2026", "\ufffd", "\U0001f600", "\x0b", "\x0c", "\x1c", "\x7f", "\0", "\u3000",
    "\u0130", "\u00df",
)  # fmt: skip


def spelled(data: bytes, tokens: Sequence[str]) -> str:
    """The text that ``data`` spells, see the module."""
    return "".join(
        tokens[byte] if byte < len(tokens) else chr(byte) if byte < 128 else _odd(byte)
        for byte in data
    )


def unspelled(text: str, tokens: Sequence[str]) -> bytes:
    """Bytes that spell ``text``, for seeds: tokens as long as possible, the rest ASCII."""
    data = bytearray()
    while text:
        found = max((t for t in tokens if text.startswith(t)), key=len, default="")
        if not found:
            assert ord(text[0]) in range(len(tokens), 128), f"no way to spell {text[0]!r}"
        data.append(tokens.index(found) if found else ord(text[0]))
        text = text[len(found) or 1 :]
    return bytes(data)


def _odd(byte: int) -> str:
    return _ODD[(byte - 128) % len(_ODD)]


class Choices:
    """Decisions that are read from bytes one after the other; zeros once they are used up."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def more(self) -> bool:
        """Whether there are bytes left."""
        return self._at < len(self._data)

    def below(self, count: int) -> int:
        """One of 0 .. count - 1; counts over 256 are not for this."""
        self._at += 1
        return self._data[self._at - 1] % count if self._at <= len(self._data) else 0

    def once_in(self, count: int) -> bool:
        """True once in ``count``; never when the bytes are used up."""
        return self.below(count) == count - 1

    def one_of(self, items: Sequence[str]) -> str:
        """One of the items."""
        return items[self.below(len(items))]

    def text(self, tokens: Sequence[str]) -> str:
        """A text of at most 31 tokens and characters."""
        length = self.below(32)
        piece = self._data[self._at : self._at + length]
        self._at += length
        return spelled(piece, tokens)

    def value(self, words: Sequence[str], depth: int = 5) -> object:
        """Any value that a request can bring, with names and texts out of ``words``."""
        match self.below(12) if depth else self.below(8):
            case 0:
                return None
            case 1:
                return bool(self.below(2))
            case 2:
                return self.below(256) - 20
            case 3:
                return 2**63 - 1 - self.below(2) * (2**64 - 1)
            case 4:
                return (self.below(256) - 100) / 50
            case 5 | 6:
                return self.one_of(words)
            case 7:
                return self.text(words)
            case 8:
                return json.dumps(self.value(words, depth - 1))
            case 9 | 10:
                return self.members(words, depth - 1)
            case _:
                return [self.value(words, depth - 1) for _ in range(self.below(5))]

    def members(self, words: Sequence[str], depth: int = 5) -> dict[str, object]:
        """An object whose members are mostly called by ``words``."""
        return {
            self.one_of(words) if self.below(16) else self.text(words): self.value(words, depth)
            for _ in range(self.below(6))
        }
