"""The head of a history, and its number of commits, read from the journal on disk.

The historian reads it while the writer appends. The result must be that of recovery: the newest
checkpoint, then the records after its watermark that no abort voids. If a checkpoint drops segments
meanwhile, FileNotFoundError is raised, and the caller asks again with a new position.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from stetd.storage.disk import read_file
from stetd.storage.journal import Position, segment_numbers, segment_path
from stetd.storage.journal_format import (
    Abort,
    Change,
    Checkpoint,
    CommitRecord,
    FormatError,
    Reached,
    Record,
    Step,
    WorkspaceAllowed,
    read_segment,
    steps,
)


def read_heads(directory: str, until: Position, workspace: str) -> tuple[Reached, list[str]]:
    """The history of a workspace up to a position that the writer gave, and a sentence for each
    part of the journal that can't be read or is contradictory.

    Raises FileNotFoundError (see above), OSError.
    """
    damage: list[str] = []
    checkpoint: Checkpoint | None = None
    # Place, number and steps of each record; no steps: a new history begins.
    changes: list[tuple[tuple[int, int], int, Sequence[Step] | None]] = []
    voided: set[int] = set()
    for place, record in _records(directory, until, damage):
        match record:
            case Checkpoint():
                checkpoint = record
            case WorkspaceAllowed(name=name, anew=True) if name == workspace:
                changes.append((place, 0, None))
            case Change() | Abort() if record.workspace == workspace:
                changes.append((place, record.number, steps(record)))
                if isinstance(record, Abort):
                    voided.update(record.voided)
    mark, reached = (1, 0), Reached(None, 0)
    if checkpoint is not None:
        mark = checkpoint.segment, checkpoint.offset
        for known in checkpoint.workspaces:
            if known.name == workspace:
                reached = known.reached
    # Without a checkpoint all are needed: one recorded after ``until`` may have dropped some.
    for number in range(mark[0], until.segment + 1):
        os.stat(segment_path(directory, number))
    valid = [each[1:] for each in changes if each[0] >= mark and each[1] not in voided]
    return _follow(reached, valid, damage), damage


def _follow(
    reached: Reached, changes: Sequence[tuple[int, Sequence[Step] | None]], damage: list[str]
) -> Reached:
    for number, made in changes:
        if made is None:
            reached = Reached(None, 0)
        for step in made or ():
            if isinstance(step, CommitRecord) and step.parent != reached.head:
                damage.append(
                    f"record {number} of the journal continues {step.parent}, but the history "
                    f"stood at {reached.head}"
                )
            reached = reached.after(step)
    return reached


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
