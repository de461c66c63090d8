"""The journal's records and how they lie on disk.

A journal is a directory of segments ``NNNNNNNN.wal``, read in the order of their numbers. A segment
is

    8 bytes   b"STETWAL" and the format version, one byte (now 1)
    frames    each: length (4 bytes, big-endian), CRC-32 of length and payload (4 bytes),
              payload (MessagePack of one record below)
    zeros     space reserved ahead; a length of 0 ends the segment

The first record of a segment is :class:`Opened`. A frame whose length runs past the end of the file
or whose CRC does not match ends the segment: it is the torn tail of a write that was never
acknowledged. Later segments are still read, because every start of the daemon opens a new one.

Records are MessagePack arrays, tagged with their name. Evolution: fields are only ever appended,
with a default, and records added. A version that does so for the first time since a release raises
LEVEL, which is in the first record of each segment: an older reader would skip a field it does
not know, and lose what it says, so it refuses a higher level. Any other change takes a new format
version. In every version the frames are these and the first record is an :class:`Opened`, so that
whoever refuses a segment can say which version wrote it.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from stetd.history.commits import CommitMeta
from stetd.history.objects import Image
from stetd.session.modes import Grant
from stetd.session.sessions import Session
from stetd.session.upgrades import UpgradeRequest

FORMAT_VERSION = 1
#: Of everything in the state directory: each start of a daemon writes it, before anything else.
LEVEL = 1
MAGIC = b"STETWAL" + bytes([FORMAT_VERSION])
_FRAME = struct.Struct(">II")
_LENGTH = struct.Struct(">I")


class _Record(msgspec.Struct, frozen=True, array_like=True, tag=True):
    pass


class PathChange(msgspec.Struct, frozen=True, array_like=True):
    """What a record does to one path: image before, image after (None: no file).

    ``temporary`` is the name, in the path's directory, that holds the new content
    before the exchange and the displaced file after it; empty when nothing is written.
    """

    path: str
    before: Image | None
    after: Image | None
    temporary: str = ""


class CommitRecord(msgspec.Struct, frozen=True, array_like=True):
    """A commit that a record makes: enough to make it again, and its id to check against."""

    oid: str
    parent: str | None
    meta: CommitMeta
    #: path to what it becomes; None: removed
    changes: dict[str, Image | None]
    #: A tree that Git durably holds, to which the changes are made; "": the parent's.
    tree: str = ""


class Cut(msgspec.Struct, frozen=True, array_like=True):
    """Retention has dropped the beginning of a history, for the last time now.

    ``oldest`` is its oldest commit since, ``parent`` the one before that; ``dropped`` counts all
    commits that were ever dropped, ``time`` in seconds.
    """

    oldest: str
    parent: str
    dropped: int
    time: int
    why: str


class Rewritten(msgspec.Struct, frozen=True, array_like=True):
    """A path was forgotten: the history goes on from another commit, which Git durably holds.

    ``head`` "": what had to be done after that is done. ``commits``: how many there are.
    """

    head: str
    commits: int
    paths: list[str]
    blobs: list[str] = []


class Opened(_Record, frozen=True):
    """The first record of a segment. ``boot``: the kernel's boot id when it was opened.

    ``version`` is stetd's, ``level`` that of the records.
    """

    segment: int
    boot: str
    version: str
    level: int = 0


class Change(_Record, frozen=True):
    """A transaction, or edits made outside that were found and are recorded.

    ``number`` counts up through the life of the state directory. Once this record is
    durable it will happen, unless an :class:`Abort` names it.
    """

    number: int
    workspace: str
    paths: list[PathChange]
    commits: list[CommitRecord]
    #: Contents that the repository does not durably hold yet: blob id to bytes.
    blobs: dict[str, bytes]
    session: str | None = None
    clipboards: dict[str, str | None] = {}
    request: str | None = None
    #: SHA-256 over the call, to distinguish a retry from another call with the same id.
    digest: bytes = b""
    #: The reply without its diff, MessagePack.
    reply: bytes = b""
    time: int = 0
    #: Nothing had to be written to the workspace: it is published as it is.
    performed: bool = False
    #: Directories to be removed at the end, if nothing is left in them; deepest first.
    leftover_directories: list[str] = []
    cut: Cut | None = None
    rewritten: Rewritten | None = None
    #: Contents of files that the history does not keep: for recovery alone, never for Git. The
    #: next checkpoint drops the segment.
    private: dict[str, bytes] = {}


class Published(_Record, frozen=True):
    """The workspace files of record ``number`` are in place. Not synced; a hint."""

    number: int


class Abort(_Record, frozen=True):
    """Voids the records ``voided``: their calls never happen; what they found stays.

    ``commits`` are all commits that hold from the parent of the first voided record
    on; ``stands`` names for every path of every voided record the image that stands
    afterwards; ``blobs`` holds contents that only this record knows.
    """

    number: int
    workspace: str
    voided: list[int]
    parent: str | None
    stands: dict[str, Image | None]
    commits: list[CommitRecord]
    blobs: dict[str, bytes]
    time: int = 0
    #: As in a :class:`Change`.
    private: dict[str, bytes] = {}


class SessionOpened(_Record, frozen=True):
    """A session that is new, or whose agent or secret is now known."""

    session: Session


class SessionEnded(_Record, frozen=True):
    """A session that the person has ended; ``request``: its pending one, denied by that."""

    workspace: str
    session: str
    request: UpgradeRequest | None = None


class ModeSet(_Record, frozen=True):
    """The mode of a session, or of a workspace when ``session`` is None.

    With ``grant`` it is unrestricted until that ends, and ``mode`` what holds afterwards.
    """

    workspace: str
    session: str | None
    mode: str
    grant: Grant | None = None


class UpgradeSet(_Record, frozen=True):
    """A request for write access as it is now: new, asked again, or decided.

    ``mode`` and ``grant``, where it was approved: its session's since then, as in
    :class:`ModeSet`; one record, so that a decision and its effect are never apart.
    """

    request: UpgradeRequest
    mode: str | None = None
    grant: Grant | None = None


class ClipboardSet(_Record, frozen=True):
    """A clipboard set or deleted (``text`` None) by its own method."""

    workspace: str
    session: str
    name: str
    text: str | None


class WorkspaceAllowed(_Record, frozen=True):
    """A directory that the person allowed; ``name`` is its directory in the state.

    ``anew``: its old history is given up; a new one begins.
    """

    name: str
    root: str
    anew: bool = False


class WorkspaceForgotten(_Record, frozen=True):
    """A workspace that is no longer allowed; its history stays on disk."""

    name: str


class Reached(msgspec.Struct, frozen=True, array_like=True):
    """How far a history has come: its newest commit, and how many were made in it."""

    head: str | None
    commits: int


class Unsettled(msgspec.Struct, frozen=True, array_like=True):
    """Where the records lie that recovery could not bring to a workspace.

    Its directory was not there, a file could not be written, or its history is damaged. From
    ``segment`` and ``offset`` on; in no segment after ``last``. Checkpoints keep these segments
    until it can. ``start``, where the history is damaged: the commits of these records after
    that one are still to be made in Git.
    """

    segment: int
    offset: int
    last: int
    start: Reached | None = None

    def holds(self, segment: int, offset: int) -> bool:
        """Whether a record at this place may be one of them."""
        return (self.segment, self.offset) <= (segment, offset) and segment <= self.last


class WorkspaceState(msgspec.Struct, frozen=True, array_like=True):
    """A workspace in a checkpoint."""

    name: str
    root: str
    mode: str
    head: str | None
    commits: int
    allowed: bool = True
    #: What the disk did not let us remove yet: temporary files, and directories (with a
    #: slash at the end) that a call has left empty.
    leftovers: list[str] = []
    unsettled: Unsettled | None = None
    #: ``commits`` counts those that were dropped as well.
    cut: Cut | None = None
    #: What was begun to be forgotten, and is to be finished.
    forgetting: Rewritten | None = None
    #: Unrestricted until it ends, whatever ``mode`` says.
    grant: Grant | None = None


class Checkpoint(_Record, frozen=True):
    """Everything before the watermark is durable elsewhere.

    The state as it was at the watermark: ``segment`` and ``offset`` of the first record
    that recovery has to look at. ``number`` is the highest record number used so far.
    """

    segment: int
    offset: int
    number: int
    workspaces: list[WorkspaceState]
    sessions: list[Session]
    upgrades: list[UpgradeRequest] = []


Record = (
    Opened | Change | Published | Abort | SessionOpened | SessionEnded | ModeSet | UpgradeSet
    | ClipboardSet | WorkspaceAllowed | WorkspaceForgotten | Checkpoint
)  # fmt: skip

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Record)


class FormatError(Exception):
    """A segment that this version can't read."""


class TooNew(FormatError):
    """A segment that a newer version has written; the message says which, and what to do."""


def frame(record: Record) -> bytes:
    """The bytes of a record in a segment."""
    payload = _encoder.encode(record)
    length = _LENGTH.pack(len(payload))
    return _FRAME.pack(len(payload), zlib.crc32(payload, zlib.crc32(length))) + payload


def frames(records: Iterable[Record]) -> bytes:
    """The bytes of several records."""
    return b"".join(frame(record) for record in records)


def read_segment(data: bytes) -> tuple[list[tuple[int, Record]], int]:
    """The records of a segment with their offsets, and where the sound part ends.

    A file whose header is torn (a beginning of it, or nothing, before zeros) has no records.
    Raises FormatError for another format version or a file that is no segment.
    """
    begun = data.rstrip(b"\0")
    if len(begun) < len(MAGIC) and MAGIC.startswith(begun):
        return [], 0
    if data[: len(MAGIC) - 1] != MAGIC[:-1]:
        raise FormatError("not a journal segment")
    if data[len(MAGIC) - 1] != FORMAT_VERSION:
        raise TooNew(too_new(_writer_of(data)))
    records: list[tuple[int, Record]] = []
    end = len(MAGIC)
    for offset, payload, after in payloads(data, end):
        try:
            record = decode(payload)
        except msgspec.MsgspecError as error:
            # Its checksum is right: somebody has written it so.
            raise TooNew(too_new(_writer_of(data))) from error
        if isinstance(record, Opened) and record.level > LEVEL:
            raise TooNew(too_new(record.version))
        records.append((offset, record))
        end = after
    return records, end


def payloads(data: bytes, offset: int) -> Iterator[tuple[int, bytes, int]]:
    """The sound frames from here on: where each begins, its payload, and where it ends."""
    while offset + _FRAME.size <= len(data):
        length, crc = _FRAME.unpack_from(data, offset)
        end = offset + _FRAME.size + length
        payload = data[offset + _FRAME.size : end]
        if length == 0 or end > len(data):
            break
        if zlib.crc32(payload, zlib.crc32(_LENGTH.pack(length))) != crc:
            break
        yield offset, payload, end
        offset = end


def decode(payload: bytes) -> Record:
    """The record of a frame that this version has written."""
    record: Record = _decoder.decode(payload)
    return record


def too_new(version: str) -> str:
    """What to say of a state that a newer stetd has written; ``version`` "" if unknown."""
    wanted = f"stetd {version}" if version else "a newer stetd"
    install = f"'stetd>={version}'" if version else "--upgrade stetd"
    return (
        f"this state was last used by {wanted}, and this is an older one, which can't read all of "
        f"it. Nothing was changed. Install that version again (pip install {install}), or begin "
        "a history beside it, with STET_STATE_DIR set to another directory."
    )


def _writer_of(segment: bytes) -> str:
    """Which version of stetd has begun a segment, of whatever format; "" if that can't be said."""
    try:
        length, _ = _FRAME.unpack_from(segment, len(MAGIC))
        start = len(MAGIC) + _FRAME.size
        fields = msgspec.msgpack.decode(segment[start : start + length], type=list[Any])
        return str(fields[3]) if fields[0] == Opened.__name__ else ""
    except (struct.error, msgspec.MsgspecError, IndexError, TypeError):
        return ""
