"""The head of a history, and its number of commits, read from the journal on disk.

The historian reads it while the writer appends. The result must be that of recovery: the newest
checkpoint, then the records after its watermark that no abort voids. If a checkpoint drops segments
meanwhile, FileNotFoundError is raised, and the caller asks again with a new position.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from stetd.storage.disk import read_file
from stetd.storage.journal import Position, segment_numbers, segment_path
from stetd.storage.journal_format import (
    Abort,
    Change,
    Checkpoint,
    FormatError,
    Record,
    WorkspaceAllowed,
    read_segment,
)


class _Commits(NamedTuple):
    """The commits of one record: (id, parent), oldest first. ``place``: segment and offset."""

    place: tuple[int, int]
    number: int
    commits: list[tuple[str, str | None]]
    #: The new head and number of commits, if the record begins or changes to another history.
    start: tuple[str | None, int] | None = None


class JournalHead(NamedTuple):
    """A history as the journal has it.

    ``damage``: a sentence for each part of the journal that can't be read or is contradictory.
    """

    head: str | None
    commits: int
    damage: list[str]


def read_heads(directory: str, until: Position, workspace: str) -> JournalHead:
    """The history of a workspace up to a position that the writer gave.

    Raises FileNotFoundError (see above), OSError.
    """
    damage: list[str] = []
    checkpoint: Checkpoint | None = None
    changes: list[_Commits] = []
    voided: set[int] = set()
    for place, record in _records(directory, until, damage):
        match record:
            case Checkpoint():
                checkpoint = record
            case WorkspaceAllowed(name=name, anew=True) if name == workspace:
                changes.append(_Commits(place, 0, [], start=(None, 0)))
            case Change() | Abort() if record.workspace == workspace:
                start = None
                if isinstance(record, Abort):
                    voided.update(record.voided)
                elif record.rewritten is not None and record.rewritten.head:
                    start = record.rewritten.head, record.rewritten.commits
                commits = [(commit.oid, commit.parent) for commit in record.commits]
                changes.append(_Commits(place, record.number, commits, start))
    mark, head, count = (0, 0), None, 0
    if checkpoint is not None:
        for number in range(checkpoint.segment, until.segment + 1):
            os.stat(segment_path(directory, number))
        mark = checkpoint.segment, checkpoint.offset
        for known in checkpoint.workspaces:
            if known.name == workspace:
                head, count = known.head, known.commits
    valid = [each for each in changes if each.place >= mark and each.number not in voided]
    return _follow(head, count, valid, damage)


def _follow(head: str | None, count: int, valid: list[_Commits], damage: list[str]) -> JournalHead:
    for change in valid:
        if change.start is not None:
            head, count = change.start
        for oid, parent in change.commits:
            if parent != head:
                damage.append(
                    f"record {change.number} of the journal continues {parent}, but the history "
                    f"stood at {head}"
                )
            head, count = oid, count + 1
    return JournalHead(head, count, damage)


def _records(
    directory: str, until: Position, damage: list[str]
) -> Iterator[tuple[tuple[int, int], Record]]:
    numbers = segment_numbers(directory)
    os.stat(segment_path(directory, until.segment))
    for number in numbers:
        if number > until.segment:
            break
        path = segment_path(directory, number)
        name = os.path.basename(path)
        data = read_file(path, until.offset if number == until.segment else -1)
        if number == until.segment and len(data) < until.offset:
            damage.append(f"segment {name} of the journal is cut short")
        try:
            records, end = read_segment(data)
        except FormatError as error:
            damage.append(f"segment {name} of the journal can't be read: {error}")
            continue
        rest = data[end:]
        if rest.strip(b"\0") or (number == until.segment and rest):
            damage.append(
                f"segment {name} of the journal is damaged at byte {end}, and the rest of it lost"
            )
        for offset, record in records:
            yield (number, offset), record
