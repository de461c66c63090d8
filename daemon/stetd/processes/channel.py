"""Messages between a planner and the daemon: MessagePack, each after its length.

Their contents come from files and requests of others, and must stay data: the receiver checks that
a message is one of the types below. See :mod:`stetd.processes.planner`.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Any, Literal

import msgspec

from stet.wire.failures import Refused
from stetd.editing.edits import Plan, SourceFile
from stetd.processes import framing
from stetd.processes.framing import Declined, Failed, Message
from stetd.processes.recorded_plans import Answer, Question


class ChannelBroken(Exception):
    """The other side is gone, or its message can't be decoded."""


# -- from a planner


class Ready(Message, frozen=True):
    """The planner is ready. ``version`` differs if stetd was upgraded while the daemon runs."""

    version: str


class Asked(Message, frozen=True):
    """A question of planning. The path is bytes, because it may not be valid text."""

    kind: Literal["read", "look", "clipboards"]
    path: bytes

    @property
    def question(self) -> Question:
        """The question as a value."""
        return self.kind, _text(self.path)


class Planned(Message, frozen=True):
    """The plan of the call."""

    plan: Plan


class Exhausted(Message, frozen=True):
    """Planning ran out of memory. The process ends."""


# -- from the daemon


class Call(Message, frozen=True):
    """One call of a dialect, to be planned in the workspace ``root``."""

    method: str
    params: dict[str, Any]
    root: bytes


class FileAnswer(Message, frozen=True):
    """A file; ``data``: None if there is none."""

    path: bytes
    data: bytes | None
    mode: int | None


class ClipboardsAnswer(Message, frozen=True):
    """The clipboards by name."""

    clipboards: dict[str, str]


Said = (
    Ready | Asked | Planned | Failed | Exhausted
    | Call | FileAnswer | ClipboardsAnswer | Declined
)  # fmt: skip
_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[Said] = msgspec.msgpack.Decoder(Said)


def _decoded(content: bytearray) -> Said:
    try:
        return _DECODER.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ChannelBroken(f"no message: {error}") from error


class Channel:
    """The planner's end."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected

    def send(self, message: Message) -> None:
        """Send a message. Raises ChannelBroken, or msgspec's error if it can't be encoded: then
        nothing is sent.
        """
        encoded = framing.framed(_ENCODER.encode(message))
        try:
            self._socket.sendall(encoded)
        except OSError as error:
            raise ChannelBroken(repr(error)) from error

    def receive(self) -> Said:
        """The next message. Raises ChannelBroken."""
        content = framing.receive(self._socket)
        if content is None:
            raise ChannelBroken("the daemon is gone")
        return _decoded(content)


class DaemonChannel:
    """The daemon's end, on the event loop. Unusable after a send or receive was cancelled."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        connected.setblocking(False)

    async def send(self, message: Message) -> None:
        """As :meth:`Channel.send`."""
        encoded = framing.framed(_ENCODER.encode(message))
        try:
            await asyncio.get_running_loop().sock_sendall(self._socket, encoded)
        except OSError as error:
            raise ChannelBroken(repr(error)) from error

    async def receive(self) -> Said:
        """As :meth:`Channel.receive`."""
        (size,) = framing.LENGTH.unpack(await self._exactly(framing.LENGTH.size))
        return _decoded(await self._exactly(size))

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    async def _exactly(self, size: int) -> bytearray:
        content = bytearray(size)
        missing = memoryview(content)
        loop = asyncio.get_running_loop()
        while missing:
            try:
                count = await loop.sock_recv_into(self._socket, missing)
            except OSError as error:
                raise ChannelBroken(repr(error)) from error
            if not count:
                raise ChannelBroken("the planner is gone")
            missing = missing[count:]
        return content


def asked(question: Question) -> Asked:
    """A question as a message."""
    kind, path = question
    return Asked(kind=kind, path=_raw(path))


def answered(answer: Answer) -> Message:
    """An answer as a message."""
    match answer:
        case Refused():
            return Declined.of(answer)
        case SourceFile(path, data, mode):
            return FileAnswer(path=_raw(path), data=data, mode=mode)
        case _:
            return ClipboardsAnswer(clipboards=dict(answer))


def understood(said: Said) -> Answer:
    """A message as an answer, which may be a refusal. Raises ChannelBroken if it is no answer."""
    match said:
        case Declined():
            return said.refusal
        case FileAnswer():
            return SourceFile(_text(said.path), said.data, said.mode)
        case ClipboardsAnswer():
            return said.clipboards
        case _:
            raise ChannelBroken(f"{type(said).__name__} is no answer")


def _raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogatepass")
