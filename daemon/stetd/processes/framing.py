"""Messages between the engine and its child processes: each has its length before it."""

from __future__ import annotations

import socket
import struct

LENGTH = struct.Struct("!I")


def framed(content: bytes) -> bytes:
    """A message as it is sent."""
    return LENGTH.pack(len(content)) + content


def receive(connected: socket.socket) -> bytearray | None:
    """The next message, in a child; None at the end."""
    head = _exactly(connected, LENGTH.size)
    return _exactly(connected, *LENGTH.unpack(head)) if head is not None else None


def _exactly(connected: socket.socket, size: int) -> bytearray | None:
    content = bytearray(size)
    missing = memoryview(content)
    while missing:
        try:
            count = connected.recv_into(missing)
        except OSError:
            return None
        if not count:
            return None
        missing = missing[count:]
    return content
