"""What the daemon and a process that plans say to each other, and how it gets across.

What passes here comes from files and requests of others. So it is data and stays data: a message is
MessagePack of one of the types below, and is checked against them where it arrives. Contents of
files follow their message as they are, and it tells how long they are; every piece says what it is.

A *channel* on which anything went wrong in the middle of a piece is of no use any more in that
direction, whatever the reason (a lack of memory, say): whoever read on would take what is inside a
file for a message. It refuses to.

Nothing is planned here; see :mod:`stetd.processes.planner`.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Literal

import msgspec

from stet.wire.failures import Failure, Refused
from stetd.editing.edits import Plan, SourceFile
from stetd.processes.recorded_plans import Answer, Question

#: What a piece is, and its bytes.
_HEAD = struct.Struct("!4sQ")
_MESSAGE, _CONTENT = b"stet", b"file"
#: Bytes of a piece: no process that plans may have more memory.
_MOST_BYTES = 4 << 30


class ChannelBroken(Exception):
    """The other side is gone, or what it says makes no sense."""


class Message(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """Base of all. ``contents``: the bytes of each content that follows."""

    contents: tuple[int, ...] = ()


# -- what a process that plans says


class Ready(Message, frozen=True):
    """It is there. It may be another version, if that was installed since the daemon began."""

    version: str


class Asked(Message, frozen=True):
    """What planning wants to know; the path in bytes, since it may be no sound text."""

    kind: Literal["read", "look", "clipboards", "root"]
    path: bytes

    @property
    def question(self) -> Question:
        """As the planning has asked it."""
        return self.kind, _text(self.path)


class Planned(Message, frozen=True):
    """A plan; what its files will hold follows, and what they held the daemon has itself."""

    plan: Plan


class Failed(Message, frozen=True):
    """Planning has met a defect of ours."""

    reason: str
    traceback: str


class Exhausted(Message, frozen=True):
    """Memory did not suffice. Nothing comes after this."""


# -- what the daemon says


class Call(Message, frozen=True):
    """One call of a dialect, to be planned."""

    method: str
    params: dict[str, Any]


class FileAnswer(Message, frozen=True):
    """A file; its content follows if it is there."""

    path: bytes
    mode: int | None


class RootAnswer(Message, frozen=True):
    """The path of the workspace."""

    root: bytes


class ClipboardsAnswer(Message, frozen=True):
    """The clipboards by name."""

    clipboards: dict[str, str]


# -- what both say


class Declined(Message, frozen=True):
    """A refusal: the outcome of planning, or an answer to what was asked."""

    failures: tuple[Failure, ...]
    extra: dict[str, Any]

    @classmethod
    def of(cls, refusal: Refused) -> Declined:
        """A refusal, to be said."""
        return cls(failures=refusal.failures, extra=refusal.extra)

    @property
    def refusal(self) -> Refused:
        """The same refusal, heard."""
        return Refused(*self.failures, extra=self.extra)


#: What can be heard: on either side, since both are one program.
Said = (
    Ready | Asked | Planned | Failed | Exhausted
    | Call | FileAnswer | RootAnswer | ClipboardsAnswer | Declined
)  # fmt: skip
_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[Said] = msgspec.msgpack.Decoder(Said)


def _pieces(message: Message, contents: Sequence[bytes]) -> list[bytes]:
    """What is sent: heads and pieces in turns. What can't be encoded raises what msgspec does."""
    sizes = tuple(map(len, contents))
    encoded = _ENCODER.encode(msgspec.structs.replace(message, contents=sizes))
    pieces = [_HEAD.pack(_MESSAGE, len(encoded)), encoded]
    for content in contents:
        pieces += [_HEAD.pack(_CONTENT, len(content)), content]
    return pieces


def _size(head: bytes, what: bytes, announced: int | None = None) -> int:
    """The bytes of the piece that follows. Raises ChannelBroken."""
    found, size = _HEAD.unpack(head)
    if found != what or size > _MOST_BYTES or announced not in (None, size):
        raise ChannelBroken(f"{size} bytes of {found!r} where {what!r} was to come")
    return int(size)


def _decoded(encoded: bytes) -> Said:
    try:
        return _DECODER.decode(encoded)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ChannelBroken(f"a message that is none: {error}") from error


class Channel:
    """The end of a process that plans."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        #: Whether this side has said whole pieces only, and heard such.
        self.speaks = self.hears = True

    def send(self, message: Message, *contents: bytes) -> None:
        """Say something. Raises ChannelBroken; what can't be encoded raises what msgspec does,
        and nothing is said.
        """
        pieces = _pieces(message, contents)
        if not self.speaks:
            raise ChannelBroken("something was said by halves before")
        self.speaks = False
        try:
            for piece in pieces:
                self._socket.sendall(piece)
        except OSError as error:
            raise ChannelBroken(repr(error)) from error
        self.speaks = True

    def receive(self) -> tuple[Said, Sequence[bytes]]:
        """What is said next, and its contents. Raises ChannelBroken."""
        if not self.hears:
            raise ChannelBroken("something was heard by halves before")
        self.hears = False
        said = _decoded(self._read(_MESSAGE))
        contents = [self._read(_CONTENT, size) for size in said.contents]
        self.hears = True
        return said, contents

    def _read(self, what: bytes, announced: int | None = None) -> bytes:
        return self._exactly(_size(self._exactly(_HEAD.size), what, announced))

    def _exactly(self, size: int) -> bytes:
        piece = bytearray(size)
        missing = memoryview(piece)
        while missing:
            try:
                count = self._socket.recv_into(missing)
            except OSError as error:
                raise ChannelBroken(repr(error)) from error
            if not count:
                raise ChannelBroken("the other side is gone")
            missing = missing[count:]
        return bytes(piece)


class DaemonChannel:
    """The daemon's end; on the event loop. Who is cancelled has broken it."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        connected.setblocking(False)
        #: Whether this side has said whole pieces only.
        self.speaks = True

    async def send(self, message: Message, *contents: bytes) -> None:
        """As :meth:`Channel.send`."""
        pieces = _pieces(message, contents)
        if not self.speaks:
            raise ChannelBroken("something was said by halves before")
        self.speaks = False
        loop = asyncio.get_running_loop()
        try:
            for piece in pieces:
                await loop.sock_sendall(self._socket, piece)
        except OSError as error:
            raise ChannelBroken(repr(error)) from error
        self.speaks = True

    async def receive(self) -> tuple[Said, Sequence[bytes]]:
        """As :meth:`Channel.receive`."""
        said = _decoded(await self._read(_MESSAGE))
        return said, [await self._read(_CONTENT, size) for size in said.contents]

    def end(self) -> None:
        """Let whoever waits here hear that it is over."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Say and hear no more."""
        self._socket.close()

    async def _read(self, what: bytes, announced: int | None = None) -> bytes:
        return await self._exactly(_size(await self._exactly(_HEAD.size), what, announced))

    async def _exactly(self, size: int) -> bytes:
        piece = bytearray(size)
        missing = memoryview(piece)
        loop = asyncio.get_running_loop()
        while missing:
            try:
                count = await loop.sock_recv_into(self._socket, missing)
            except OSError as error:
                raise ChannelBroken(repr(error)) from error
            if not count:
                raise ChannelBroken("the other side is gone")
            missing = missing[count:]
        return bytes(piece)


def asked(question: Question) -> Asked:
    """A question, to be said."""
    kind, path = question
    return Asked(kind=kind, path=_raw(path))


def answered(answer: Answer) -> tuple[Message, Sequence[bytes]]:
    """An answer, to be said: the content of a file apart, since it may be long."""
    match answer:
        case Refused():
            return Declined.of(answer), ()
        case SourceFile():
            contents = () if answer.data is None else (answer.data,)
            return FileAnswer(path=_raw(answer.path), mode=answer.mode), contents
        case str():
            return RootAnswer(root=_raw(answer)), ()
        case _:
            return ClipboardsAnswer(clipboards=dict(answer)), ()


def understood(said: Said, contents: Sequence[bytes]) -> Answer:
    """An answer, heard; a refusal as well. Raises ChannelBroken if it is none."""
    match said:
        case Declined():
            return said.refusal
        case FileAnswer():
            return SourceFile(_text(said.path), contents[0] if contents else None, said.mode)
        case RootAnswer():
            return _text(said.root)
        case ClipboardsAnswer():
            return said.clipboards
        case _:
            raise ChannelBroken(f"{type(said).__name__} is no answer")


def _raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogatepass")
