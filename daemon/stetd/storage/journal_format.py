"""The journal's records and their format on disk.

A journal is a directory of segments ``NNNNNNNN.wal``, read in the order of their numbers. A segment
is

    8 bytes   b"STETWAL" and the format version, one byte (now 1)
    frames    each: length (4 bytes, big-endian), CRC-32 of length and payload (4 bytes),
              payload (MessagePack of one record below)
    zeros     space reserved ahead; a length of 0 ends the segment

The first record of a segment is :class:`Opened`. A frame whose length runs past the end of the file
or whose CRC does not match ends the segment: it is the torn tail of a write that was never
acknowledged. Later segments are still read, because every start of the daemon opens a new one.

Records are MessagePack arrays, tagged with their name. Evolution: fields are only appended, with
a default, and record types added. The first such change after a release raises LEVEL, which is in
the first record of each segment. An older version would ignore a field that it does not know and
lose its content, so it refuses a higher level. Any other change needs a new format version. In
every version the frames are the same and the first record is an :class:`Opened`, so that a version
that refuses a segment can name the version that wrote it.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from stetd.history.commits import CommitMeta
from stetd.history.objects import Image
from stetd.session.modes import Grant, Standing
from stetd.session.sessions import Session, with_clipboards
from stetd.session.upgrades import UpgradeRequest

FORMAT_VERSION = 1
#: Level of all files in the state directory; each start of the daemon writes it first.
LEVEL = 1
MAGIC = b"STETWAL" + bytes([FORMAT_VERSION])
_FRAME = struct.Struct(">II")
_LENGTH = struct.Struct(">I")


class _Record(msgspec.Struct, frozen=True, array_like=True, tag=True):
    pass


class PathChange(msgspec.Struct, frozen=True, array_like=True):
    """The change of one path: image before, image after (None: no file).

    ``temporary`` is the name, in the path's directory, of the new content before the exchange
    and of the displaced file after it; empty if nothing is written.
    """

    path: str
    before: Image | None
    after: Image | None
    temporary: str = ""


class CommitRecord(msgspec.Struct, frozen=True, array_like=True):
    """A commit of a record: all that is needed to make it again, and its id as a check."""

    oid: str
    parent: str | None
    meta: CommitMeta
    #: Path to its new image; None: deleted.
    changes: dict[str, Image | None]
    #: The tree that the changes are made to, which Git durably has; "": the parent's.
    tree: str = ""


class Cut(msgspec.Struct, frozen=True, array_like=True):
    """The last time that retention has dropped the beginning of a history.

    ``oldest`` is the oldest commit that is left, ``parent`` the one before it, ``dropped`` the
    number of all commits that were ever dropped, ``time`` in seconds since the epoch.
    """

    oldest: str
    parent: str
    dropped: int
    time: int
    why: str


class Rewritten(msgspec.Struct, frozen=True, array_like=True):
    """A path was forgotten: the history goes on from another commit, which Git durably has.

    ``commits``: the number of commits up to ``head``. A second record, with ``head`` "", says that
    all that was derived from the old history is rewritten, too.
    """

    head: str
    commits: int
    paths: list[str]
    blobs: list[str] = []


#: What moves the head of a history.
Step = CommitRecord | Rewritten


class Reached(msgspec.Struct, frozen=True, array_like=True):
    """The head of a history without its tree: the newest commit, and the number of commits."""

    head: str | None
    commits: int

    def after(self, step: Step) -> Reached:
        """The head after one more commit, or in a rewritten history."""
        if isinstance(step, Rewritten):
            return Reached(step.head, step.commits)
        return Reached(step.oid, self.commits + 1)


class Opened(_Record, frozen=True):
    """The first record of a segment. ``boot``: the kernel's boot id when it was opened.

    ``version`` is the version of stetd, ``level`` the LEVEL of the records.
    """

    segment: int
    boot: str
    version: str
    level: int = 0


class Change(_Record, frozen=True):
    """A transaction, or edits made outside.

    ``number`` increases over the life of the state directory. Once this record is durable it
    will be carried out, unless an :class:`Abort` voids it.
    """

    number: int
    workspace: str
    paths: list[PathChange]
    commits: list[CommitRecord]
    #: Contents that Git does not durably have yet: blob id to bytes.
    blobs: dict[str, bytes]
    session: str | None = None
    clipboards: dict[str, str | None] = {}
    request: str | None = None
    #: SHA-256 of the call, to distinguish a retry from another call with the same request id.
    digest: bytes = b""
    #: The reply without its diff, MessagePack.
    reply: bytes = b""
    time: int = 0
    #: Nothing has to be written to the workspace: the record needs no publishing.
    performed: bool = False
    #: Directories to remove at the end if they are empty, the deepest first.
    leftover_directories: list[str] = []
    cut: Cut | None = None
    rewritten: Rewritten | None = None
    #: Contents of excluded files: for recovery only, never for Git. The next checkpoint drops the
    #: segment.
    private: dict[str, bytes] = {}


class Published(_Record, frozen=True):
    """The files of record ``number`` are in place. Not synced: only a hint for recovery."""

    number: int


class Abort(_Record, frozen=True):
    """Voids the records ``voided``: their calls never happen; the outside edits in them stay.

    ``commits`` replace those of the voided records, from ``parent`` on; ``stands`` has for every
    path of every voided record the image that holds afterwards; ``blobs`` the contents that
    Git does not durably have yet.
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


def steps(record: Change | Abort) -> Sequence[Step]:
    """The commits of a record, and the history that it changes to."""
    rewritten = record.rewritten if isinstance(record, Change) else None
    return [*record.commits, rewritten] if rewritten and rewritten.head else record.commits


def session_after(record: Change, session: Session | None) -> Session | None:
    """The session of a call as the call leaves it; None stays None."""
    if session is None:
        return None
    session = with_clipboards(session, record.clipboards)
    own = sum(commit.meta.kind != "outside" for commit in record.commits)
    return msgspec.structs.replace(session, commits=session.commits + own, last_seen=record.time)


class SessionOpened(_Record, frozen=True):
    """A new session, or one with another agent."""

    session: Session


class SessionEnded(_Record, frozen=True):
    """The person has ended a session. ``request``: its pending request, which is denied."""

    workspace: str
    session: str
    request: UpgradeRequest | None = None


class ModeSet(_Record, frozen=True):
    """The new mode of a session, or of a workspace if ``session`` is None.

    With ``grant`` it is unrestricted until the grant ends; then ``mode`` holds.
    """

    workspace: str
    session: str | None
    mode: str
    grant: Grant | None = None


class UpgradeSet(_Record, frozen=True):
    """A request for write access that is new, was changed, or was decided.

    ``mode`` and ``grant``, if it was approved: the new ones of its session, as in
    :class:`ModeSet`. One record, so that a decision always has its effect.
    """

    request: UpgradeRequest
    mode: str | None = None
    grant: Grant | None = None


class ClipboardSet(_Record, frozen=True):
    """A clipboard was set, or deleted (``text`` None), by its own method."""

    workspace: str
    session: str
    name: str
    text: str | None


class WorkspaceAllowed(_Record, frozen=True):
    """The person has allowed a workspace; ``name`` is its directory in the state directory.

    ``anew``: its old history is given up, and a new one begins.
    """

    name: str
    root: str
    anew: bool = False


class WorkspaceForgotten(_Record, frozen=True):
    """A workspace is no longer allowed; its history stays on disk."""

    name: str


class Unsettled(msgspec.Struct, frozen=True, array_like=True):
    """The place of the records that recovery could not settle in a workspace, because its
    directory is missing, a file can't be written, or its history is damaged.

    They begin at ``offset`` in ``segment``; the last is in segment ``last``. Checkpoints keep these
    segments. ``start``, if the history is damaged: the head in Git, on which the commits of these
    records must still be made.
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
    #: Files and directories that could not be removed yet: temporary files, and directories (with
    #: a slash at the end) that a call has left empty.
    leftovers: list[str] = []
    #: Of a deferred workspace: where its records are in the journal.
    unsettled: Unsettled | None = None
    #: Dropped commits are still counted in ``commits``.
    cut: Cut | None = None
    #: The forgetting of a path that is not finished yet.
    forgetting: Rewritten | None = None
    #: Unrestricted until the grant ends, whatever ``mode`` says.
    grant: Grant | None = None

    @property
    def reached(self) -> Reached:
        """The head of its history."""
        return Reached(self.head, self.commits)

    @property
    def standing(self) -> Standing:
        """Its mode and its grant."""
        return Standing(self.mode, self.grant)


class Checkpoint(_Record, frozen=True):
    """The state at the watermark. All that records before the watermark say is durable elsewhere.

    The watermark is ``segment`` and ``offset`` of the first record that recovery reads.
    ``number`` is the highest record number so far.
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
#: The record of a frame's payload. Raises msgspec.MsgspecError.
decode: Callable[[bytes], Record] = msgspec.msgpack.Decoder(Record).decode


class FormatError(Exception):
    """A segment that this version can't read."""


class TooNew(FormatError):
    """A newer version has written the segment; the message says which, and what to do."""


def frames(*records: Record) -> bytes:
    """The bytes of records in a segment."""
    whole = bytearray()
    for payload in map(_encoder.encode, records):
        length = _LENGTH.pack(len(payload))
        whole += _FRAME.pack(len(payload), zlib.crc32(payload, zlib.crc32(length))) + payload
    return bytes(whole)


def read_segment(data: bytes) -> tuple[list[tuple[int, Record]], int]:
    """The records of a segment with their offsets, and the offset where the intact part ends.

    A file with a torn header (a prefix of it, then zeros) has no records. Raises FormatError for
    another format version or a file that is no segment.
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
            # Its checksum is right, so a newer version has written it.
            raise TooNew(too_new(_writer_of(data))) from error
        if isinstance(record, Opened) and record.level > LEVEL:
            raise TooNew(too_new(record.version))
        records.append((offset, record))
        end = after
    return records, end


def payloads(data: bytes, offset: int) -> Iterator[tuple[int, bytes, int]]:
    """The intact frames from an offset on: the offset of each, its payload, its end."""
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


def too_new(version: str) -> str:
    """The message about a state that a newer stetd has written; ``version`` "" if unknown."""
    wanted = f"stetd {version}" if version else "a newer stetd"
    install = f"'stetd>={version}'" if version else "--upgrade stetd"
    return (
        f"this state was last used by {wanted}, and this is an older one, which can't read all of "
        f"it. Nothing was changed. Install that version again (pip install {install}), or begin "
        "a history beside it, with STET_STATE_DIR set to another directory."
    )


def _writer_of(segment: bytes) -> str:
    """The version of stetd that wrote a segment, of any format version; "" if unknown."""
    try:
        length, _ = _FRAME.unpack_from(segment, len(MAGIC))
        start = len(MAGIC) + _FRAME.size
        fields = msgspec.msgpack.decode(segment[start : start + length], type=list[Any])
        return str(fields[3]) if fields[0] == Opened.__name__ else ""
    except (struct.error, msgspec.MsgspecError, IndexError, TypeError):
        return ""
