"""What the engine and the historian say to each other, in MessagePack.

The journal is the only channel for facts. What passes here says how far it is durable, asks, and
answers.
"""

from __future__ import annotations

import asyncio
import socket

import msgspec

from stetd.processes import framing
from stetd.storage.journal_format import Checkpoint, Cut, Reached
from stetd.storage.progress import Progress


class Place(framing.Message, frozen=True):
    """The workspace that a question is about, as it was when the question came.

    ``number``: the record that the answer must have seen; 0: none. ``directory``: the session's,
    relative to the root. ``inner``: the workspaces inside this one, as prefixes of their paths.
    """

    name: str
    root: str
    shadow: str
    head: str | None
    number: int
    directory: str = ""
    cut: Cut | None = None
    inner: list[str] = msgspec.field(default_factory=list)


# -- what the engine says


class Options(framing.Message, frozen=True):
    """What the historian needs of the configuration; bytes, seconds."""

    exclude: list[str]
    max_file_bytes: int
    request_record_calls: int
    request_record_s: float


class Base(msgspec.Struct):
    """Where a historian begins: the last checkpoint, whose place in the journal is ``mark``.

    ``starts``: how far Git durably has each history there, by the workspace's name. ``held``: of
    these workspaces the records from ``held_from`` on count as well, because Git lacks them.
    """

    mark: tuple[int, int] = (0, 0)
    starts: dict[str, Reached] = {}
    held: list[str] = []
    held_from: tuple[int, int] = (0, 0)

    @classmethod
    def of(cls, checkpoint: Checkpoint | None) -> Base:
        """What a checkpoint says."""
        if checkpoint is None:
            return cls()
        base = cls((checkpoint.segment, checkpoint.offset))
        for known in checkpoint.workspaces:
            unsettled = known.unsettled
            start = Reached(known.head, known.commits)
            base.starts[known.name] = start
            if unsettled is not None:
                base.starts[known.name] = unsettled.start or start
                place = unsettled.segment, unsettled.offset
                base.held_from = min(base.held_from, place) if base.held else place
                base.held.append(known.name)
        return base


class Begin(framing.Message, frozen=True):
    """The first message."""

    version: str
    state: str
    options: Options
    base: Base


class Durable(framing.Message, frozen=True):
    """All records before this place are durable and settled: published, or voided."""

    segment: int
    offset: int


class MakeDurable(framing.Message, frozen=True):
    """Make all that is durable in the journal durable in Git; then answer.

    ``without``: workspaces whose records the journal keeps.
    """

    id: int
    without: list[str]


class Ask(framing.Message, frozen=True):
    """A question by its name; ``params`` are MessagePack of its parameters."""

    id: int
    question: str
    place: Place | None
    params: bytes


class Ping(framing.Message, frozen=True):
    """Say Pong."""


class End(framing.Message, frozen=True):
    """Write what is left to be written, and end."""


# -- what the historian says


class Cannot(framing.Message, frozen=True):
    """A question can't be answered now. ``sync_failed``: nothing more can be made durable."""

    id: int
    reason: str
    sync_failed: bool = False


class Answer(framing.Message, frozen=True):
    """The answer to a question, in MessagePack; None (0xC0) when what was asked is done."""

    id: int
    result: msgspec.Raw = msgspec.Raw(b"\xc0")


class Declined(framing.Declined, frozen=True):
    """A refusal is the answer."""

    id: int


class Failed(framing.Failed, frozen=True):
    """A defect of ours was met in place of an answer."""

    id: int


class Trouble(framing.Message, frozen=True):
    """Why Git can't be written at present; None: it can again."""

    reason: str | None
    failures: int


class NewCommits(framing.Message, frozen=True):
    """A repository has got commits."""

    shadow: str


class Answered(framing.Message, frozen=True):
    """The ids of all answered calls that are remembered
    (:class:`stetd.processes.remembered.IdFilter`).
    """

    filters: bytes


class Pong(framing.Message, frozen=True):
    """A sign of life. ``work``: how far long work has come, by the question's id."""

    work: dict[int, Progress] = msgspec.field(default_factory=dict)


class OtherVersion(framing.Message, frozen=True):
    """The historian is of another version than the engine, and ends."""

    version: str


ToHistorian = (
    Begin | Durable | MakeDurable | Ask | Options | Ping | End
)  # fmt: skip
ToEngine = (
    Cannot | Answer | Declined | Failed | Trouble | NewCommits | Answered
    | Pong | OtherVersion
)  # fmt: skip
_encoder = msgspec.msgpack.Encoder()
_to_historian = msgspec.msgpack.Decoder(ToHistorian)
_to_engine: msgspec.msgpack.Decoder[ToEngine] = msgspec.msgpack.Decoder(ToEngine)


def encoded(message: framing.Message) -> bytes:
    """A message as it is sent."""
    return framing.framed(_encoder.encode(message))


async def read(reader: asyncio.StreamReader) -> ToEngine:
    """The next message, on the engine's side. Raises EOFError, OSError, msgspec.MsgspecError."""
    (size,) = framing.LENGTH.unpack(await reader.readexactly(framing.LENGTH.size))
    return _to_engine.decode(await reader.readexactly(size))


def receive(connected: socket.socket) -> ToHistorian | None:
    """The next message, on the historian's side; None at the end."""
    content = framing.receive(connected)
    return None if content is None else _to_historian.decode(content)
