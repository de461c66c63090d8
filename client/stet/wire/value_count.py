"""Counts the values of a message before it is decoded.

16 MiB of MessagePack can be 16 million empty lists, which take 1.3 GB as Python objects and several
seconds. Ordinary messages are large because of their texts, and hold few values. Both counters skip
texts at the speed of C and stop at the limit. The count of a malformed message may be wrong; the
decoder refuses it later.
"""

from __future__ import annotations

import re
from itertools import islice

from stet.wire.framing import Encoding

# Matches the separators before a value, and the value: a text (up to its end or the end of the
# message, so that no match starts inside a text), an opening bracket, or a run of characters of a
# number or a word; or the end of the message. So matches follow each other without a gap.
_JSON_VALUE = re.compile(
    rb"""[\s\]},:]*+ (?: ( "[^"\\]*+(?:\\.[^"\\]*+)*+"? | [\[{] | [^\s\[\]{},:"]++ ) | \Z )""",
    re.VERBOSE | re.DOTALL,
)
#: Bytes in which the marks before values are counted at once.
_WINDOW = 1 << 18


#: Bytes to skip, by the first byte of a MessagePack value, beside a length and what that counts. Of
#: a list or map only the head is skipped, because its elements are counted, too.
_SKIP = [1] * 256
_SKIP[0xA0:0xC0] = range(1, 33)  # short texts
_SKIP[0xC7:0xCA] = 2, 2, 2  # extensions: a byte for the type
_SKIP[0xCA:0xD4] = 5, 9, 2, 3, 5, 9, 2, 3, 5, 9  # float, uint, int
_SKIP[0xD4:0xD9] = 3, 4, 6, 10, 18  # extensions of fixed sizes
_SKIP[0xDC:0xE0] = 3, 5, 3, 5  # list, map
#: The size of the length that follows the first byte: of bytes, extensions, texts.
_LENGTH_SIZE = {0xC4: 1, 0xC5: 2, 0xC6: 4, 0xC7: 1, 0xC8: 2, 0xC9: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4}


def holds_more_values_than(limit: int, encoding: Encoding, message: bytes) -> bool:
    """Whether a message holds more than ``limit`` values, keys and containers included."""
    if encoding is not Encoding.JSON:
        return _msgpack_holds_more(limit, message)
    # Every value but the first follows one of these marks, so this count is never too low.
    marks = 1
    for start in range(0, len(message), _WINDOW):
        end = start + _WINDOW
        marks += sum(message.count(mark, start, end) for mark in (b",", b":", b"[", b"{"))
        if marks > limit:
            found = next(islice(_JSON_VALUE.finditer(message), limit, None), None)
            return found is not None and found[1] is not None
    return False


def _msgpack_holds_more(limit: int, message: bytes) -> bool:
    offset, end = 0, len(message)
    for _ in range(limit + 1):
        if offset >= end:
            return False
        first = message[offset]
        size = _LENGTH_SIZE.get(first)
        if size is not None:
            offset += size + int.from_bytes(message[offset + 1 : offset + 1 + size], "big")
        offset += _SKIP[first]
    return True
