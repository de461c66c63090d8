"""Follows the journal: makes Git objects from its records.

A commit's id was computed when its record was written; here the commit is made again from the
record, and its id is checked. Nothing behind the durable end is read. Every record before that end
is settled: an abort and the records that it voids are before the same end.
"""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, suppress

import msgspec

from stetd.history.objects import NewObject
from stetd.processes.historian_messages import Begin
from stetd.repository.git_writer import GitWriter
from stetd.repository.references import HISTORY, write_reference
from stetd.repository.stored_objects import BrokenRepository, MissingObject, StoredObjects
from stetd.state.state import shadow_path
from stetd.state.workspace import head_at
from stetd.storage.disk import Disk
from stetd.storage.journal import Position, segment_path
from stetd.storage.journal_format import (
    MAGIC,
    Abort,
    Change,
    Reached,
    Record,
    Rewritten,
    WorkspaceAllowed,
    WorkspaceForgotten,
    decode,
    payloads,
    steps,
)
from stetd.storage.priority import yield_processor
from stetd.storage.request_record import RequestRecord, answered
from stetd.transaction.heads import Head, HistoryBuilder, RecordContradicts, remake

_log = logging.getLogger(__name__)


class _Line(msgspec.Struct):
    """A history that is followed, and its head. ``begun``: a commit was made."""

    repository: StoredObjects
    head: Head
    begun: bool = False


class Following(msgspec.Struct):
    """Reads the journal and hands new objects to the thread that writes Git."""

    begin: Begin
    git_writer: GitWriter
    #: Called with the shadow repository of a workspace that was forgotten.
    on_forgotten: Callable[[str], object] = lambda _: None
    #: Answered requests in the records read so far, for the next checkpoint.
    requests: list[RequestRecord] = []
    #: By workspace: histories that are followed, where the others start, and why some can't be
    #: continued.
    _lines: dict[str, _Line] = {}
    _starts: dict[str, Reached] = {}
    _troubles: dict[str, str] = {}
    #: Records that are not taken yet: a trouble may pass (a disk error, a directory put back).
    _waiting: dict[str, deque[Change | Abort]] = {}
    _place: tuple[int, int] = (0, 0)
    #: Why the journal can't be followed any more.
    damage: str | None = None
    #: What is missing of the journal just now; somebody may put it back.
    missing: str | None = None

    def __post_init__(self) -> None:
        self._place = self.begin.base.first
        self._starts = dict(self.begin.base.starts)

    def advance(self, end: Position) -> None:
        """Follow the journal up to this position."""
        if self.damage is not None:
            return
        self.missing = None
        found = list(self._records((end.segment, end.offset)))
        if self.missing is not None:
            return
        if self.damage is not None:
            _log.error("nothing more is followed: %s", self.damage)
            return
        voided = {n for _, record in found if isinstance(record, Abort) for n in record.voided}
        mark = self.begin.base.mark
        anew = {
            record.name: place
            for place, record in found
            if isinstance(record, WorkspaceAllowed) and record.anew
        }
        for place, record in found:
            yield_processor()
            workspace = getattr(record, "workspace", "")
            if place < mark and workspace not in self.begin.base.held:
                continue
            # The repository that is there now is that of a later history.
            moved_away = place < anew.get(workspace, place)
            if isinstance(record, WorkspaceAllowed | WorkspaceForgotten):
                self._allow_or_forget(record)
            elif isinstance(record, Abort) and not moved_away:
                self._take(record)
            elif isinstance(record, Change) and record.number not in voided:
                if not moved_away:
                    self._take(record)
                if place >= mark and record.request is not None:
                    self.requests.append(answered(record))
        for line in self._lines.values():
            line.repository.rest()

    def _allow_or_forget(self, record: WorkspaceAllowed | WorkspaceForgotten) -> None:
        shadow = shadow_path(self.begin.state, record.name)
        if isinstance(record, WorkspaceForgotten):
            self.git_writer.forgotten.add(shadow)
            self.on_forgotten(shadow)
            return
        self.git_writer.forgotten.discard(shadow)
        if record.anew:
            for known in (self._lines, self._starts, self._troubles, self._waiting):
                known.pop(record.name, None)

    def set_references(self, disk: Disk) -> None:
        """Set each history's reference to the checkpoint's head: Git may have come further."""
        for name, start in self.begin.base.starts.items():
            if start.head is None or name in self.begin.base.held:
                continue
            shadow = shadow_path(self.begin.state, name)
            try:
                with closing(StoredObjects(shadow)) as repository:
                    head = None
                    with suppress(MissingObject):  # the reference is damaged
                        head = repository.head()
                    if head != start.head and repository.is_commit(start.head):
                        write_reference(shadow, HISTORY, start.head, disk)
            except (BrokenRepository, OSError) as error:
                _log.error("the reference of %s can't be written: %s", shadow, error)

    def trouble_of(self, shadow: str) -> str | None:
        """Why a history can't be continued; None if it can."""
        return self.damage or self.missing or self._troubles.get(os.path.basename(shadow))

    def trouble_but_of(self, names: Collection[str]) -> str | None:
        """Why some history can't be continued, those of the workspaces ``names`` left out."""
        others = (why for name, why in self._troubles.items() if name not in names)
        return self.damage or self.missing or next(others, None)

    def close(self) -> None:
        """Close the repositories."""
        for line in self._lines.values():
            line.repository.close()

    def _records(self, end: tuple[int, int]) -> Iterator[tuple[tuple[int, int], Record]]:
        """The records from the present position up to ``end``."""
        segment, offset = self._place
        while (segment, offset) < end:
            last = segment == end[0]
            path = segment_path(os.path.join(self.begin.state, "journal"), segment)
            try:
                with open(path, "rb") as file:
                    file.seek(offset)
                    data = file.read(end[1] - offset if last else -1)
            except FileNotFoundError:
                if segment >= (self.begin.base.mark[0] or 1):  # they are counted from 1
                    self.missing = f"segment {os.path.basename(path)} of the journal is missing"
                    return
                data = b""  # a gap between segments that are kept for deferred workspaces
            if offset == 0:
                offset, data = len(MAGIC), data[len(MAGIC) :]
            sound = 0
            for at, payload, after in payloads(data, 0):
                yield_processor()
                yield (segment, offset + at), decode(payload)
                sound = after
            if last:
                if sound != len(data) or offset + sound != end[1]:
                    where = f"segment {os.path.basename(path)} of the journal"
                    self.damage = f"{where} is damaged at byte {offset + sound}"
                break
            segment, offset = segment + 1, 0
        self._place = end

    def try_again(self) -> None:
        """Go on with the histories that could not be continued, if they can be now."""
        for name in list(self._troubles):
            if name in self._lines:
                self._lines[name].repository.close()  # so that every pack is looked at anew
            self._go_on(name)

    def _take(self, record: Change | Abort) -> None:
        name = record.workspace
        if steps(record):
            self._waiting.setdefault(name, deque()).append(record)
            if name not in self._troubles:
                self._go_on(name)

    def _go_on(self, name: str) -> None:
        """Hand over the objects of the waiting records, or note why that can't be done."""
        shadow, waiting = shadow_path(self.begin.state, name), self._waiting[name]
        try:
            if name not in self._lines:
                start = self._starts.get(name, Reached(None, 0))
                # Packs that stay open after a failed attempt would be more with each.
                with closing(StoredObjects(shadow)) as repository:
                    head = head_at(repository, start.head, start.commits)
                self._lines[name] = _Line(repository, head)
            line = self._lines[name]
            while waiting:
                objects = _objects(line, waiting[0])
                assert line.head.commit is not None, "BUG: commits without a head"
                self.git_writer.write(shadow, objects, line.head.commit)
                waiting.popleft()
            self._troubles.pop(name, None)
        except (BrokenRepository, MissingObject, RecordContradicts, OSError) as error:
            if name not in self._troubles:
                _log.error("the history in %s can't be gone on with: %s", shadow, error)
            self._troubles[name] = str(error)


def _objects(line: _Line, record: Change | Abort) -> list[NewObject]:
    """The objects of a record. Raises MissingObject, RecordContradicts, OSError."""
    history = HistoryBuilder(line.head, line.repository.load_tree, 0)
    for step in steps(record):
        if isinstance(step, Rewritten):
            line.repository.reopen()
            history.head = head_at(line.repository, step.head, step.commits)
        # Records that are kept for a deferred workspace may begin before Git's head.
        elif line.begun or history.commits or step.parent == history.head.commit:
            remake(history, record.number, step)
    line.begun = line.begun or bool(history.commits)
    line.head = history.head
    return history.new_objects(record.blobs)
