"""Keeps the indexes up to date: a thread follows Git, and a question adds missing commits itself.

An index that is missing, damaged, of another version, or not on the head's chain of parents is
rebuilt. If an index can't be stored (full disk, no permission), each question builds one in an
unnamed file. A power cut may lose the newest commits of an index, but does not damage it.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress

from stet.wire.failures import Kind, Refused, refuse
from stetd.historian.index.history_index import (
    GrowingIndex,
    HistoryIndex,
    is_damage,
    remove,
)
from stetd.historian.queries.commit_changes import files_to_index
from stetd.repository.references import read_shallow
from stetd.repository.stored_objects import MissingObject, StoredObjects
from stetd.storage.priority import BEHIND_EDITS, lower_priority, yield_processor

_log = logging.getLogger(__name__)
#: Seconds for which new commits gather before they are indexed.
_GATHER_S = 1.0
#: Commits, and characters of their texts, that one transaction adds at most.
_BATCH_COMMITS, _BATCH_TEXT = 64, 1 << 20
#: Length of a commit's id in bytes.
_ID = 20
#: By path, the lock that whoever adds to an index holds.
_writing: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
#: Indexes that questions wait for. The thread, which has a low priority, leaves these to them.
_wanted: Counter[str] = Counter()
#: Open connections to the most recent indexes: closing the last one makes SQLite sync.
_held: dict[str, GrowingIndex] = {}
_holding = threading.Lock()
_MAX_HELD = 8
#: Indexes that were removed because an answer contradicted Git.
_replaced: set[str] = set()


class _OtherHistory(sqlite3.DatabaseError):
    """The index has commits that this history has not: it was cut, or rewritten."""


def catch_up(index: GrowingIndex, repository: StoredObjects, head: str | None) -> Generator[int]:
    """Bring an index to a head, step by step; yields the number of missing commits.

    Raises MissingObject, sqlite3.DatabaseError, also if the index has another history.
    """
    missing = bytearray()  # the ids of the commits that are not indexed, newest first
    oid = head
    while oid is not None and index.position(oid) is None:
        missing += bytes.fromhex(oid)
        oid = repository.commit(oid).parent
        yield len(missing) // _ID
    last = index.last()
    goes_on = not missing or oid == (last[1] if last is not None else None)
    if not goes_on or not index.begins_at(read_shallow(repository.path)):
        raise _OtherHistory
    while missing:
        with index.db as db:
            db.execute("BEGIN IMMEDIATE")
            commits = text = 0
            while missing and commits < _BATCH_COMMITS and text < _BATCH_TEXT:
                commit = repository.commit(bytes(missing[-_ID:]).hex())
                del missing[-_ID:]
                commits += 1
                for added in index.add(commit, files_to_index(repository, commit)):
                    text += added
                    yield len(missing) // _ID


def opened(repository: StoredObjects, head: str | None, deadline: float) -> HistoryIndex:
    """Open an index that has the commits up to the head, in a transaction for consistent answers.

    Raises Refused (overloaded) after ``deadline`` (monotonic); MissingObject, sqlite3.Error.
    """
    path = HistoryIndex.path_for(repository.path)
    index = _up_to_date(path, repository, head)
    if index is None and head is not None:
        _wanted[path] += 1
        try:
            if not _writing[path].acquire(timeout=max(0.0, deadline - time.monotonic())):
                raise _not_ready("it is being made")
        finally:
            _wanted[path] -= 1
        try:
            _finish(_stored(path, repository, head), deadline)
            index = _up_to_date(path, repository, head)
        except (sqlite3.Error, OSError) as error:
            _log.warning("the index of %s can't be kept: %r", repository.path, error)
        finally:
            _writing[path].release()
    return index or _temporary(repository, head, deadline)


def _temporary(repository: StoredObjects, head: str | None, deadline: float) -> HistoryIndex:
    index = GrowingIndex.open("")  # for one question
    _finish(catch_up(index, repository, head), deadline)
    return index


def _up_to_date(path: str, repository: StoredObjects, head: str | None) -> HistoryIndex | None:
    if head is None:
        return None
    try:
        index = HistoryIndex.for_reading(path)
        if index is None:
            return None
        index.db.execute("BEGIN")
        if index.position(head) is not None and index.begins_at(read_shallow(repository.path)):
            return index
    except sqlite3.Error:
        return None
    index.close()
    return None


def release(most: int = 0) -> None:
    """Close the held connections, except the ``most`` newest."""
    with _holding:
        while len(_held) > most:
            _held.pop(next(iter(_held))).close()


@contextmanager
def _writing_to(path: str) -> Iterator[GrowingIndex]:
    """A connection for adding commits, which is held afterwards. The caller has the lock."""
    with _holding:
        index = _held.pop(path, None)
    if index is not None and not os.path.exists(path):  # the file was removed
        index.close()
        index = None
    if index is None:
        index = GrowingIndex.open(path)
    try:
        yield index
    finally:
        with _holding:
            _held[path] = index
        release(_MAX_HELD)


def _remove(path: str) -> None:
    with _holding:
        if path in _held:
            _held.pop(path).close()
    remove(path)


def _stored(path: str, repository: StoredObjects, head: str | None) -> Generator[int]:
    """As :func:`catch_up`, with the stored index. One that is damaged, of another version or of
    another history is made anew. The caller has the lock.
    """
    try:
        with _writing_to(path) as index:
            yield from catch_up(index, repository, head)
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            raise
        if not isinstance(error, _OtherHistory):
            _log.warning("the index of %s is made anew: %r", repository.path, error)
        _remove(path)
        with _writing_to(path) as index:
            yield from catch_up(index, repository, head)


def _finish(steps: Generator[int], deadline: float) -> None:
    with closing(steps):
        for missing in steps:
            if time.monotonic() > deadline:
                raise _not_ready(f"commits that are still to be read: {missing}")


def _not_ready(state: str) -> Refused:
    return refuse(
        Kind.OVERLOADED,
        f"The index of the history is not ready: {state}. Nothing was changed. "
        "Try again in a moment.",
    )


def instead(repository: StoredObjects, head: str | None, deadline: float) -> HistoryIndex | None:
    """Another index, instead of one that contradicts Git and is removed, at most once.

    None if it can't be made. The old index stays then, because the history itself is damaged.
    """
    path = HistoryIndex.path_for(repository.path)
    if path in _replaced or not os.path.exists(path):
        return None
    _replaced.add(path)
    try:
        index = _temporary(repository, head, deadline)
    except (Refused, MissingObject, sqlite3.Error, OSError):
        return None
    discard(repository.path)
    return index


def discard(repository: str) -> None:
    """Remove the index of a repository whose history was cut or rewritten."""
    path = HistoryIndex.path_for(repository)
    with _writing[path]:
        _remove(path)


class Indexer:
    """The indexing thread and its queue."""

    def __init__(self) -> None:
        self._waiting: set[str] = set()
        self._stopping = threading.Event()
        self._thread = ThreadPoolExecutor(
            1, thread_name_prefix="stet-index", initializer=lower_priority, initargs=(BEHIND_EDITS,)
        )

    def follow(self, repository: str) -> None:
        """Note that a shadow repository has new commits. May be called from any thread."""
        if repository not in self._waiting:
            self._waiting.add(repository)
            with suppress(RuntimeError):  # closed
                self._thread.submit(self._index_soon, repository)

    def close(self) -> None:
        """Stop after the present step. Missing commits are added after the next start."""
        self._stopping.set()
        self._thread.shutdown(cancel_futures=True)
        release()

    def _index_soon(self, repository: str) -> None:
        if self._stopping.wait(_GATHER_S):
            return
        self._waiting.discard(repository)
        try:
            self._index(repository)
        except Exception as error:  # noqa: BLE001 - nothing here may end the daemon
            _log.warning("the index of %s can't be kept: %r", repository, error)

    def _index(self, shadow: str) -> None:
        path = HistoryIndex.path_for(shadow)
        if not os.path.isdir(shadow):
            return
        with closing(StoredObjects(shadow)) as repository, _writing[path]:
            head = repository.head()
            if head is None and not os.path.exists(path):
                return
            with closing(_stored(path, repository, head)) as steps:
                for _ in steps:
                    yield_processor()
                    if self._stopping.is_set() or _wanted[path]:  # the question adds the rest
                        return
