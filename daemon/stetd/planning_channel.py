"""What the daemon and a process that plans say to each other, and how it gets across.

What passes here comes from files and requests of others. So it is data and stays data: a message is
MessagePack of one of the types below, and is checked against them where it arrives. Contents of
files follow their message as they are, and it tells how long they are; every piece says what it is.

A *channel* on which anything went wrong in the middle of a piece is of no use any more in that
direction, whatever the reason (a lack of memory, say): whoever read on would take what is inside a
file for a message. It refuses to.

Nothing is planned here; see :mod:`stetd.planning_process`.
"""

from __future__ import annotations

import math
import socket
import struct
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Literal

import msgspec

from stet.wire.failures import Failure, Refused
from stetd.editing.edits import Plan, SourceFile
from stetd.recorded_plans import Answer, Question

#: What a piece is, and its bytes.
_HEAD = struct.Struct("!4sQ")
_MESSAGE, _CONTENT = b"stet", b"file"
#: Bytes of a piece: no process that plans may have more memory.
_MOST_BYTES = 4 << 30


class ChannelBroken(Exception):
    """The other side is gone, or what it says makes no sense."""


class Late(Exception):
    """The other side did not speak, or listen, in time."""


class Message(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """Base of all. ``contents``: the bytes of each content that follows."""

    contents: tuple[int, ...] = ()


# -- what a process that plans says


class Ready(Message, frozen=True):
    """It is there."""


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


class Channel:
    """One end of the conversation."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        #: Whether this side has said whole pieces only, and heard such.
        self.speaks = self.hears = True

    def send(self, message: Message, *contents: bytes, until: float = math.inf) -> None:
        """Say something. Raises ChannelBroken; Late when (monotonic) ``until`` is over.

        What can't be encoded raises what msgspec raises, and nothing is said.
        """
        sizes = tuple(map(len, contents))
        encoded = _ENCODER.encode(msgspec.structs.replace(message, contents=sizes))
        if not self.speaks:
            raise ChannelBroken("something was said by halves before")
        self.speaks = False
        self._write(_MESSAGE, encoded, until)
        for content in contents:
            self._write(_CONTENT, content, until)
        self.speaks = True

    def receive(self, until: float = math.inf) -> tuple[Said, Sequence[bytes]]:
        """What is said next, and its contents. Raises as ``send`` does."""
        if not self.hears:
            raise ChannelBroken("something was heard by halves before")
        self.hears = False
        encoded = self._read(_MESSAGE, until)
        try:
            said = _DECODER.decode(encoded)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ChannelBroken(f"a message that is none: {error}") from error
        contents = [self._read(_CONTENT, until, size) for size in said.contents]
        self.hears = True
        return said, contents

    def end(self) -> None:
        """Let whoever waits here, on whatever thread, hear that it is over."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Say and hear no more."""
        self._socket.close()

    def _write(self, what: bytes, piece: bytes, until: float) -> None:
        for part in (_HEAD.pack(what, len(piece)), piece):
            self._wait_until(until)
            try:
                self._socket.sendall(part)
            except TimeoutError:
                raise Late from None
            except OSError as error:
                raise ChannelBroken(repr(error)) from error

    def _read(self, what: bytes, until: float, announced: int | None = None) -> bytes:
        found, size = _HEAD.unpack(self._exactly(_HEAD.size, until))
        if found != what or size > _MOST_BYTES or announced not in (None, size):
            raise ChannelBroken(f"{size} bytes of {found!r} where {what!r} was to come")
        return self._exactly(size, until)

    def _exactly(self, size: int, until: float) -> bytes:
        piece = bytearray(size)
        missing = memoryview(piece)
        while missing:
            self._wait_until(until)
            try:
                count = self._socket.recv_into(missing)
            except TimeoutError:
                raise Late from None
            except OSError as error:
                raise ChannelBroken(repr(error)) from error
            if not count:
                raise ChannelBroken("the other side is gone")
            missing = missing[count:]
        return bytes(piece)

    def _wait_until(self, until: float) -> None:
        if until == math.inf:
            self._socket.settimeout(None)
            return
        left = until - time.monotonic()
        if left <= 0:
            raise Late
        self._socket.settimeout(left)


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
