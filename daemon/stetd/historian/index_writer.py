"""The thread that keeps the query indexes: it follows Git, and nobody waits for it.

It is woken when Git has new commits, waits a moment for more, and adds what is missing in small
transactions.

An index that is missing, damaged, of another version, or not on the chain of the head is made
anew. Whatever goes wrong here is logged once, and tried again at the next commits: queries walk
the history meanwhile.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
from collections.abc import Iterator

import msgspec

from stetd.historian.index.history_index import HistoryIndex
from stetd.historian.index.schema import remove
from stetd.historian.index.writer import GrowingIndex, is_damage
from stetd.historian.queries.commit_changes import commit_parts, commit_row
from stetd.repository.priority import BEHIND_EDITS, give_way
from stetd.repository.shallow import read_shallow
from stetd.repository.stored_objects import StoredObjects

_log = logging.getLogger(__name__)
#: Seconds for which new commits gather.
_GATHER_S = 1.0
#: Most commits, and characters of their texts, that one transaction adds.
_BATCH_COMMITS, _BATCH_TEXT = 64, 1 << 20
#: Commits of which more is remembered than the id while they wait, oldest first; the others are
#: read twice. There are others only where indexing has fallen very far behind.
_COMMITS = 2000
#: Bytes of a commit's id.
_ID = 20


def catch_up(index: GrowingIndex, repository: StoredObjects, head: str | None) -> Iterator[int]:
    """Bring an index to a head, step by step; after each step, how many commits are missing.

    Raises MissingObject, sqlite3.DatabaseError.
    """
    missing = bytearray()
    for _ in _find_missing(index, repository, head, missing):
        yield len(missing) // _ID
    while missing:
        with index.adding():
            commits = text = 0
            while missing and commits < _BATCH_COMMITS and text < _BATCH_TEXT:
                commit = repository.commit(bytes(missing[-_ID:]).hex())
                del missing[-_ID:]
                commits += 1
                for part in index.add(commit_row(commit), commit_parts(repository, commit)):
                    text += len(part.text or "")
                    yield len(missing) // _ID


def _find_missing(
    index: GrowingIndex, repository: StoredObjects, head: str | None, missing: bytearray
) -> Iterator[None]:
    """The ids of the commits that are not indexed, newest first, one after the other.

    Clears an index that is on no chain of this head, or ahead of it, or begins before it.
    """
    if not index.begins_at(read_shallow(repository.path)):
        index.clear()
    last = index.last()
    oid = head
    while oid is not None:
        position = index.position(oid)
        if last is not None and position == last[0]:
            return
        if position is not None:
            index.clear()
            last = None
        missing += bytes.fromhex(oid)
        oid = repository.commit(oid).parent
        yield
    if last is not None:
        index.clear()


class _Task(msgspec.Struct, frozen=True):
    repository: str
    #: A reader found the index damaged.
    anew: bool = False


class Indexer:
    """The thread, and what it is asked for."""

    def __init__(self) -> None:
        self._tasks: dict[str, _Task] = {}
        self._changed = threading.Condition()
        self._stopping = False
        self._busy = False
        self._complained: set[str] = set()
        self._thread = threading.Thread(target=self._run, name="stet-index", daemon=True)

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    def follow(self, repository: str) -> None:
        """A shadow repository has new commits; from any thread."""
        self._put(_Task(repository))

    def rebuild(self, repository: str) -> None:
        """The index of this repository was found damaged; from any thread."""
        self._put(_Task(repository, anew=True))

    def wait(self, timeout: float) -> bool:
        """Wait until there is nothing to do; False if there still is. For tests."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._tasks and not self._busy, timeout)

    def close(self) -> None:
        """Stop after the present step. What is missing is added at the next start."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join()

    def _put(self, task: _Task) -> None:
        with self._changed:
            known = self._tasks.get(task.repository)
            if known is None or task.anew:
                self._tasks[task.repository] = task
                self._changed.notify_all()

    def _run(self) -> None:
        give_way(BEHIND_EDITS)
        while True:
            with self._changed:
                self._busy = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: bool(self._tasks) or self._stopping)
                self._changed.wait_for(lambda: self._stopping, _GATHER_S)
                if self._stopping:
                    return
                task = self._tasks.pop(next(iter(self._tasks)))
                self._busy = True
            self._try(task)

    def _try(self, task: _Task) -> None:
        try:
            self._index(task)
            self._complained.discard(task.repository)
        except Exception as error:  # noqa: BLE001 - nothing here may end the daemon
            if task.repository not in self._complained:
                self._complained.add(task.repository)
                _log.warning("the index of %s can't be kept: %r", task.repository, error)
            if isinstance(error, sqlite3.DatabaseError) and is_damage(error) and not task.anew:
                self.rebuild(task.repository)

    def _index(self, task: _Task) -> None:
        path = HistoryIndex.path_for(task.repository)
        if task.anew:
            remove(path)
        if not os.path.isdir(task.repository):
            return
        repository = StoredObjects(task.repository, _COMMITS)
        try:
            head = repository.head()
            if head is None and not os.path.exists(path):
                return
            index = GrowingIndex.open(path)
            try:
                self._work(catch_up(index, repository, head))
            finally:
                index.close()
        finally:
            repository.close()

    def _work(self, steps: Iterator[int]) -> None:
        for _ in steps:
            if self._stopping:
                return
