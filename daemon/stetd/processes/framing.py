"""Framing of messages between the engine and its child processes: each after its length."""

from __future__ import annotations

import socket
import struct
from typing import Any, Self

import msgspec

from stet.wire.failures import Failure, Refused

LENGTH = struct.Struct("!I")


class Message(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """Base class of all messages."""


class Declined(Message, frozen=True):
    """A refusal."""

    failures: tuple[Failure, ...]
    extra: dict[str, Any]

    @classmethod
    def of(cls, refusal: Refused, **more: Any) -> Self:
        """The message for a refusal; ``more``: fields of a subclass."""
        return cls(failures=refusal.failures, extra=refusal.extra, **more)

    @property
    def refusal(self) -> Refused:
        """The refusal that was sent."""
        return Refused(*self.failures, extra=self.extra)


class Failed(Message, frozen=True):
    """A defect of stetd made the call fail."""

    reason: str
    traceback: str


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
