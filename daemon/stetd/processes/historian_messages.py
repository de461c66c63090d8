"""Messages between the engine and the historian, in MessagePack.

Facts pass through the journal only. Messages say how far the journal is durable, ask, and answer.
"""

from __future__ import annotations

import asyncio
import socket

import msgspec

from stetd.config.settings import Settings
from stetd.processes import children
from stetd.processes.children import Declined, Failed, Message
from stetd.storage.journal import Position
from stetd.storage.journal_format import Checkpoint, Cut, Reached
from stetd.storage.progress import Progress


class WorkspaceView(Message, frozen=True):
    """The workspace that a question is about, as it was when the question was asked.

    ``number``: the record up to which Git must have the history; 0: any. ``directory``: that of the
    session, relative to the root. ``inner``: prefixes of the paths of workspaces inside this one.
    """

    root: str
    shadow: str
    head: str | None
    number: int
    directory: str = ""
    cut: Cut | None = None
    inner: list[str] = msgspec.field(default_factory=list)


# -- from the engine


class StartingPoint(msgspec.Struct):
    """Where a historian begins: the last checkpoint, at ``mark`` (segment, offset) in the journal.

    ``starts``: how far Git durably has each history then, by the workspace's name. ``held``:
    workspaces whose earlier records count as well, because Git lacks them. ``first``: the place of
    the first record that counts.
    """

    mark: tuple[int, int] = (0, 0)
    starts: dict[str, Reached] = {}
    held: list[str] = []
    first: tuple[int, int] = (0, 0)

    @classmethod
    def of(cls, checkpoint: Checkpoint | None) -> StartingPoint:
        """Where a checkpoint says to begin; None: at the first record."""
        if checkpoint is None:
            return cls()
        first = mark = checkpoint.segment, checkpoint.offset
        starts, held = {}, []
        for known in checkpoint.workspaces:
            starts[known.name] = known.reached
            unsettled = known.unsettled
            if unsettled is not None:
                starts[known.name] = unsettled.start or known.reached
                first = min(first, (unsettled.segment, unsettled.offset))
                held.append(known.name)
        return cls(mark, starts, held, first)


class Sender(msgspec.Struct, frozen=True):
    """What every version's first message has."""

    version: str


class Begin(Message, frozen=True):
    """The first message."""

    version: str
    state: str
    settings: Settings
    base: StartingPoint


class Reconfigured(Message, frozen=True):
    """Other settings are in force."""

    settings: Settings


class Durable(Message, frozen=True):
    """All records before this position are durable and settled (published or voided)."""

    position: Position


class MakeDurable(Message, frozen=True):
    """Make Git durable as far as the journal is; then answer.

    ``without``: workspaces to leave out, because the journal keeps their records.
    """

    id: int
    without: list[str]


class Ask(Message, frozen=True):
    """A question, by its name; ``params``: its parameters in MessagePack.

    ``long``: long questions are answered one after the other, and their progress is reported.
    """

    id: int
    question: str
    view: WorkspaceView | None
    params: bytes
    long: bool = False


class Ping(Message, frozen=True):
    """Asks for a Pong."""


class End(Message, frozen=True):
    """Write everything, then end."""


# -- from the historian


class Found(Message, frozen=True):
    """What was asked for, in MessagePack; nil (0xC0) if there is nothing to say."""

    result: msgspec.Raw = msgspec.Raw(b"\xc0")


class Cannot(Message, frozen=True):
    """Git can't be made durable now. ``sync_failed``: nor later, because a sync has failed."""

    reason: str
    sync_failed: bool = False


class Answer(Message, frozen=True):
    """The answer to a question."""

    id: int
    outcome: Found | Cannot | Declined | Failed


class Trouble(Message, frozen=True):
    """``reason``: why Git can't be written at present; None: it can again."""

    reason: str | None
    failures: int


class NewCommits(Message, frozen=True):
    """A repository has new commits."""

    shadow: str


class StoredReplies(Message, frozen=True):
    """The ids of all stored replies (:func:`stetd.processes.remembered.fingerprints`)."""

    ids: bytes


class Pong(Message, frozen=True):
    """A sign of life. ``work``: the progress of long work, by the question's id."""

    work: dict[int, Progress]


class OtherVersion(Message, frozen=True):
    """The historian has another version than the engine, and ends."""

    version: str


ToHistorian = Begin | Durable | MakeDurable | Ask | Reconfigured | Ping | End
ToEngine = Answer | Trouble | NewCommits | StoredReplies | Pong | OtherVersion
_to_historian = msgspec.msgpack.Decoder(ToHistorian)
_to_engine: msgspec.msgpack.Decoder[ToEngine] = msgspec.msgpack.Decoder(ToEngine)


async def read(reader: asyncio.StreamReader) -> ToEngine:
    """The next message, on the engine's side. Raises EOFError, OSError, msgspec.MsgspecError."""
    (size,) = children.LENGTH.unpack(await reader.readexactly(children.LENGTH.size))
    return _to_engine.decode(await reader.readexactly(size))


def receive(connected: socket.socket) -> ToHistorian | None:
    """The next message, on the historian's side; None at the end."""
    content = children.receive(connected)
    return None if content is None else _to_historian.decode(content)
