"""Framing: cutting a byte stream into message payloads, without any I/O (docs/sockets.md).

Grammar of one direction of a connection::

    stream      = json-stream | msgpack-stream     ; the first byte decides
    json-stream = *( payload LF )                  ; first byte is "{"; JSON has no raw LF
    msgpack-stream = *( length payload )           ; any other first byte
    length      = 4 bytes, unsigned, big-endian    ; counts the payload only, 1..max_frame

Both directions of a connection use the same encoding; the side that sends first chooses it.
:mod:`stet.wire.messages` decodes the payloads.
"""

from __future__ import annotations

import re
from enum import StrEnum

from stet.wire.failures import Failure, Kind, Refused

#: Largest payload of a request, in bytes, unless the daemon is configured otherwise.
DEFAULT_MAX_FRAME = 16 * 1024 * 1024

#: For clients, which trust their daemon: the largest value of the length field. Memory is only
#: allocated for bytes that have arrived.
UNLIMITED_FRAME = 2**32 - 1

_LENGTH_BYTES = 4
_LF = b"\n"
_OPENING_BRACE = 0x7B
_BLANK_LINE = re.compile(rb"[ \t\r]*\n")
_JSON_FRAMES = "This connection speaks JSON: one JSON object a line, each ended by a newline."
_MSGPACK_FRAMES = (
    "This connection speaks MessagePack, because its first byte was not '{': each message is a "
    "4-byte big-endian length and that many bytes of MessagePack. For JSON, let the first byte be "
    "'{' and send one object a line."
)


class Encoding(StrEnum):
    """The encoding of a connection's messages."""

    JSON = "json"
    MSGPACK = "msgpack"


class FrameError(Refused):
    """No more frames can be cut from the stream. Answer it once, then close the connection.

    ``kind`` is PARSE_ERROR (an empty or incomplete frame) or FRAME_TOO_LARGE; ``message`` tells the
    peer what to send instead.
    """


class Framer:
    """Cuts one direction of one connection into payloads.

    Feed the received bytes, then call :meth:`next_frame` until it returns None. At most
    ``max_frame`` bytes of an unfinished frame are held, beside the last piece that was fed; no
    memory is allocated for bytes that were only announced. After a FrameError every further call
    raises the same error. ``encoding`` is None until the first byte is fed, unless it was given.
    """

    def __init__(
        self, max_frame: int = DEFAULT_MAX_FRAME, encoding: Encoding | None = None
    ) -> None:
        self.encoding = encoding
        self._max_frame = max_frame
        self._buffer = bytearray()
        #: What the buffer begins with: a frame (offsets of its payload's start and end, and of the
        #: byte after it), an error, or None if more bytes are needed.
        self._head: tuple[int, int, int] | FrameError | None = None
        #: The buffer has no LF before this offset; so feeding single bytes takes linear time.
        self._searched = 0

    def feed(self, data: bytes | memoryview) -> None:
        """Append received bytes. Never raises; after an error they are dropped."""
        if isinstance(self._head, FrameError) or not data:
            return
        if self.encoding is None:
            self.encoding = Encoding.JSON if data[0] == _OPENING_BRACE else Encoding.MSGPACK
        self._buffer += data
        if self._head is None:
            self._head = self._find()

    def next_frame(self) -> bytes | None:
        """The next payload, without its newline or length; None if more bytes are needed.

        Raises FrameError for an empty frame, and for one of more than ``max_frame`` bytes as soon
        as its length, or so many bytes without a newline, have arrived.
        """
        head = self._head
        if head is None:
            return None
        if isinstance(head, FrameError):
            raise head
        start, end, consumed = head
        with memoryview(self._buffer) as view:
            payload = bytes(view[start:end])
        del self._buffer[:consumed]
        self._searched = 0
        self._head = self._find() if self._buffer else None
        return payload

    def end(self) -> None:
        """Note the end of the stream. Raises FrameError if it is inside a frame."""
        if self.mid_frame:
            self._head = self._error(
                Kind.PARSE_ERROR,
                f"The connection ended in the middle of a frame, after {len(self._buffer)} "
                "bytes of it.",
            )
            raise self._head

    @property
    def mid_frame(self) -> bool:
        """Whether the buffer begins with an unfinished frame."""
        return self._head is None and bool(self._buffer)

    @property
    def has_frame(self) -> bool:
        """Whether next_frame() would return a payload or raise an error."""
        return self._head is not None

    @property
    def buffered(self) -> int:
        """The number of buffered bytes."""
        return len(self._buffer)

    @property
    def frame_bytes(self) -> int:
        """The size of the next payload; 0 if it has not arrived or there is an error."""
        head = self._head
        return head[1] - head[0] if isinstance(head, tuple) else 0

    def _find(self) -> tuple[int, int, int] | FrameError | None:
        """What the buffer begins with; see ``_head``. After an error it is empty."""
        if self.encoding is Encoding.JSON:
            newline = self._buffer.find(_LF, self._searched)
            length = self._searched = len(self._buffer) if newline < 0 else newline
            if length > self._max_frame:
                return self._too_large(f"at least {length}")
            if newline < 0:
                return None
            if _BLANK_LINE.match(self._buffer):
                return self._error(Kind.PARSE_ERROR, "Empty frame.")
            return 0, newline, newline + 1
        if len(self._buffer) < _LENGTH_BYTES:
            return None
        length = int.from_bytes(self._buffer[:_LENGTH_BYTES], "big")
        end = _LENGTH_BYTES + length
        if length == 0:
            return self._error(Kind.PARSE_ERROR, "Empty frame.")
        if length > self._max_frame:
            return self._too_large(str(length))
        return (_LENGTH_BYTES, end, end) if len(self._buffer) >= end else None

    def _too_large(self, length: str) -> FrameError:
        return self._error(
            Kind.FRAME_TOO_LARGE,
            f"The frame has {length} bytes; the limit is {self._max_frame} bytes. Send less in "
            "one message, for example split the edit into several calls. (max_frame in the "
            "daemon's configuration)",
        )

    def _error(self, kind: Kind, message: str) -> FrameError:
        self._buffer.clear()
        how = _JSON_FRAMES if self.encoding is Encoding.JSON else _MSGPACK_FRAMES
        return FrameError(Failure(kind, f"{message} {how}"))


def enclose(encoding: Encoding, payload: bytes) -> bytes:
    """``payload`` as one frame. A JSON payload must not contain a newline byte.
    Raises OverflowError for a MessagePack payload that is too long for the length field.
    """
    if encoding is Encoding.JSON:
        return payload + _LF
    return len(payload).to_bytes(_LENGTH_BYTES, "big") + payload
