"""Checks what a start of the daemon needs: ``python -m stetd.recovery.inspection``.

``stet doctor`` runs it, because the client imports none of the daemon's modules. It changes
nothing: a torn tail, which a start would cut off, is only reported. No daemon may have the journal
open: a record that is just being appended looks like a torn tail.
"""

from __future__ import annotations

import os
import sys

import msgspec

from stet.service.socket_path import UnsafeDirectory
from stetd.config.directories import Directories
from stetd.storage.disk import read_file
from stetd.storage.journal import segment_numbers, segment_path
from stetd.storage.journal_format import FormatError, TooNew, read_segment


class TornTail(msgspec.Struct, frozen=True):
    """Bytes at the end of a segment that are no record: the next start cuts them off."""

    path: str
    bytes: int


class Inspected(msgspec.Struct, frozen=True):
    """``refused``: a segment that a start would refuse, and why; ``newer``: a newer stetd wrote it.
    ``unreadable``: an error of the disk. ``unsafe``: why a start would refuse the directories or
    the configuration, and ``mend``, the command for that.
    """

    segments: int
    refused: str | None = None
    newer: bool = False
    torn: list[TornTail] = []
    unreadable: str | None = None
    unsafe: str | None = None
    mend: str | None = None


def inspect_all(directories: Directories, *, in_use: bool = False) -> Inspected:
    """Check the directories, and then the journal unless a daemon has it open (``in_use``)."""
    try:
        directories.check()
    except UnsafeDirectory as error:
        return Inspected(0, unsafe=str(error), mend=error.mend)
    except OSError:
        pass  # some of it is not there yet
    return Inspected(0) if in_use else inspect(directories.state)


def inspect(state: str) -> Inspected:
    """Check the journal in a state directory; a missing one is empty."""
    directory = os.path.join(state, "journal")
    try:
        numbers = segment_numbers(directory)
    except FileNotFoundError:
        return Inspected(0)
    torn = []
    try:
        for number in numbers:
            path = segment_path(directory, number)
            data = read_file(path)
            try:
                _, end = read_segment(data)
            except FormatError as error:
                newer = isinstance(error, TooNew)
                return Inspected(len(numbers), refused=f"{path}: {error}", newer=newer)
            rest = len(data[end:].rstrip(b"\0"))
            if rest:
                torn.append(TornTail(path, rest))
    except OSError as error:
        return Inspected(len(numbers), unreadable=f"{error.filename}: {error.strerror}")
    return Inspected(len(numbers), torn=torn)


if __name__ == "__main__":
    found = inspect_all(Directories.from_environment(), in_use="--in-use" in sys.argv)
    sys.stdout.buffer.write(msgspec.json.encode(found))
