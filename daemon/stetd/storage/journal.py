"""The write-ahead log: appending records durably, reading them back, dropping old segments.

Space is reserved with every append, so that a transaction can be aborted even if the disk is full
(ARCHITECTURE.md 4, step 6). On a file system that overwrites in place the space is filled with
zeros: a sync then writes no metadata, and does not wait for what other programs do there.
"""

from __future__ import annotations

import errno
import logging
import os
import time
from collections import deque
from collections.abc import Iterable
from contextlib import suppress

import msgspec

from stetd.failpoints import failpoint
from stetd.storage.disk import Disk, read_file
from stetd.storage.journal_format import (
    LEVEL,
    MAGIC,
    Abort,
    Change,
    Checkpoint,
    FormatError,
    Opened,
    Record,
    frames,
    read_segment,
)

_log = logging.getLogger(__name__)
#: Bytes: space is reserved in steps of _STEP once a segment is larger than _SMALL.
_STEP, _SMALL = 4 << 20, 32 << 10
#: How many of the newest syncs count for the time of a sync.
_REMEMBERED_SYNCS = 8


class JournalBroken(Exception):
    """A sync failed: the content on disk is unknown, so nothing more is appended."""


class Position(msgspec.Struct, frozen=True):
    """A place in the journal: segment number and byte offset."""

    segment: int
    offset: int


class PlacedRecord(msgspec.Struct, frozen=True):
    """A record, its place in the journal, and the id of the boot in which it was written."""

    segment: int
    offset: int
    boot: str
    record: Record


def segment_path(directory: str, number: int) -> str:
    """The path of a segment's file."""
    return os.path.join(directory, f"{number:08d}.wal")


def segment_numbers(directory: str) -> list[int]:
    """The numbers of the segments in a directory, in order."""
    names = (name for name in os.listdir(directory) if name.endswith(".wal"))
    return sorted(int(name[:-4]) for name in names if name[:-4].isdigit())


def check_complete(directory: str, numbers: list[int], records: Iterable[Record]) -> None:
    """Raise FormatError if the newest checkpoint, or a segment after it, is missing: later records
    can't be understood without it.
    """
    checkpoints = [record.segment for record in records if isinstance(record, Checkpoint)]
    expected = checkpoints[-1] if checkpoints else 1  # they are counted from 1
    for number in numbers:
        if number > expected:
            lost = os.path.basename(segment_path(directory, expected))
            what = f"{lost} is missing" if checkpoints else "its newest checkpoint is lost"
            raise FormatError(
                f"{directory}: {what}, so the journal can't be read. Put it back from a copy. "
                "Without one, move the journal away, and stet init begins new histories; pins "
                "keep the old"
            )
        expected = max(expected, number + 1)


def read_journal(directory: str, disk: Disk) -> list[PlacedRecord]:
    """All records in order. Every segment is made durable as it was read (ARCHITECTURE.md 6).

    A torn tail is cut off, so that a later recovery never reads anything else. Raises FormatError
    for a segment of a newer version, and if one is missing, and then changes nothing.
    """
    placed = []
    ends = {}
    numbers = segment_numbers(directory)
    for number in numbers:
        path = segment_path(directory, number)
        data = read_file(path)
        try:
            records, end = read_segment(data)
        except FormatError as error:
            raise FormatError(f"{path}: {error}") from error
        first = records[0][1] if records else None
        boot = first.boot if isinstance(first, Opened) else ""
        placed += [PlacedRecord(number, offset, boot, record) for offset, record in records]
        ends[path] = end, len(data)
    check_complete(directory, numbers, (each.record for each in placed))
    for path, (end, length) in ends.items():
        fd = disk.open(path, os.O_RDWR)
        try:
            if end < length:
                disk.truncate(fd, end)
            disk.fsync(fd)
        finally:
            os.close(fd)
    disk.sync_path(directory)
    return placed


class Journal:
    """The open journal: appends go to the newest segment."""

    def __init__(
        self, directory: str, disk: Disk, *, boot: str, version: str, relaxed: bool = False
    ) -> None:
        self._directory = directory
        self._disk = disk
        self._boot = boot
        self._version = version
        self._relaxed = relaxed
        self._fd = -1
        self._reserved = 0
        self._syncs: deque[float] = deque(maxlen=_REMEMBERED_SYNCS)
        self.broken: str | None = None
        #: Monotonic time of the newest segment's first private content (journal_format.Change).
        self.private_since: float | None = None
        numbers = segment_numbers(directory)
        self._sizes = {n: os.path.getsize(segment_path(directory, n)) for n in numbers}
        self.position = Position(max(numbers, default=0), 0)
        self.start_segment()

    @property
    def bytes(self) -> int:
        """The size of all segments, without reserved space."""
        return sum(self._sizes.values())

    @property
    def sync_s(self) -> float:
        """Seconds of the shortest of the newest syncs; 0.0 if there was none.

        The shortest, because a disk that was busy once is not a slow disk.
        """
        return min(self._syncs, default=0.0)

    def start_segment(self) -> None:
        """Open the next segment. It is durable, with its name, when this returns."""
        number = self.position.segment + 1
        path = segment_path(self._directory, number)
        fd = self._disk.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        head = MAGIC + frames(Opened(number, self._boot, self._version, LEVEL))
        failpoint("journal.segment_created")
        try:
            self._disk.pwrite_all(fd, head, 0)
            failpoint("journal.segment_written")
            self._disk.fdatasync(fd)
            self._disk.sync_path(self._directory)
        except OSError:
            os.close(fd)
            self._disk.unlink(path)
            raise
        self.close()
        self._fd = fd
        self.private_since = None
        self._reserved = len(head)
        self.position = Position(number, len(head))
        self._sizes[number] = len(head)

    def append(self, *records: Record, reserve: int = 0) -> None:
        """Append records; they are durable only after :meth:`sync`.

        ``reserve``: bytes that can be written after them even if the disk fills up. Raises OSError
        (no space) if nothing was appended, JournalBroken if that is not certain.
        """
        if self.broken:
            raise JournalBroken(self.broken)
        self._check_place()
        data = frames(*records)
        start = self.position.offset
        needed = start + len(data) + reserve
        if needed > self._reserved:
            self._reserve(needed)
        try:
            self._disk.pwrite_all(self._fd, data, start)
        except OSError as error:
            self._wipe(start, len(data), error)
            raise
        self.position = Position(self.position.segment, start + len(data))
        self._sizes[self.position.segment] = self.position.offset
        if self.private_since is None and any(
            isinstance(record, Change | Abort) and record.private for record in records
        ):
            self.private_since = time.monotonic()

    def _check_place(self) -> None:
        """Raises OSError if the segment is elsewhere: the next start would not find the records."""
        path = segment_path(self._directory, self.position.segment)
        with suppress(FileNotFoundError):
            if os.path.samestat(os.stat(path), os.fstat(self._fd)):
                return
        what = "the journal was moved or removed. Put it back, or begin anew with: stet stop"
        raise FileNotFoundError(errno.ENOENT, what, path)

    def _reserve(self, needed: int) -> None:
        """Reserve space for a segment of ``needed`` bytes. Raises OSError."""
        length = needed - self._reserved
        if needed > _SMALL:
            # Where a step does not fit any more, an abort or a checkpoint may still do so.
            with suppress(OSError):
                self._disk.reserve(self._fd, self._reserved, length + _STEP)
                if self._disk.overwrites_in_place(self._fd):
                    self._disk.pwrite_all(self._fd, bytes(length + _STEP), self._reserved)
                self._reserved = needed + _STEP
                return
        self._disk.reserve(self._fd, self._reserved, length)
        self._reserved = needed

    def _wipe(self, start: int, length: int, cause: OSError) -> None:
        """Overwrite all that a failed append has written. Otherwise a later record as long as its
        first one would make the frames behind it readable again.
        """
        try:
            written = os.pread(self._fd, length, start).rstrip(b"\0")
            self._disk.pwrite_all(self._fd, bytes(len(written)), start)
        except OSError as error:
            self.broken = f"writing the journal failed: {cause.strerror}"
            raise JournalBroken(self.broken) from error

    def sync(self, *, always: bool = False) -> None:
        """Make all appended records durable; under ``durability = "relaxed"`` only if ``always``.

        A failure breaks the journal for good: a second sync might succeed with the data lost.
        """
        if self._relaxed and not always:
            return
        began = time.monotonic()
        self._sync(self._fd)
        self._syncs.append(time.monotonic() - began)

    def sync_in_thread(self) -> None:
        """Make them durable in another thread than the one that appends: for checkpoints.

        With a descriptor of its own: the kernel reports an error once to each descriptor.
        """
        path = segment_path(self._directory, self.position.segment)
        fd = self._disk.open(path, os.O_RDONLY)
        try:
            self._sync(fd)
        finally:
            os.close(fd)

    def _sync(self, fd: int) -> None:
        failpoint("journal.before_sync")
        try:
            self._disk.fdatasync(fd)
        except OSError as error:
            self.broken = f"fdatasync of the journal failed: {error.strerror}"
            raise JournalBroken(self.broken) from error
        failpoint("journal.after_sync")

    def segments_before(self, segment: int) -> list[int]:
        """The numbers of the segments before this one."""
        return [number for number in self._sizes if number < segment]

    def remove(self, segments: Iterable[int]) -> None:
        """Remove segments whose records are durable elsewhere. May take long; then call
        :meth:`forget`.
        """
        for number in segments:
            self._disk.unlink(segment_path(self._directory, number))
            failpoint("journal.dropped_one")
        self._disk.sync_path(self._directory)

    def forget(self, segments: Iterable[int]) -> None:
        """Note that these segments were removed."""
        for number in segments:
            del self._sizes[number]

    def close(self) -> None:
        """Close the segment and free its reserved space; if that fails, zeros mark the end."""
        if self._fd < 0:
            return
        try:
            self._disk.truncate(self._fd, self.position.offset)
        except OSError as error:
            _log.warning("a segment of the journal keeps its reserved space: %s", error)
        finally:
            os.close(self._fd)
            self._fd = -1
