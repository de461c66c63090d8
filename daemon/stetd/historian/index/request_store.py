"""The store of replies by request id, for retries.

A checkpoint moves replies here before their journal records may be dropped. The store is an SQLite
file, so a checkpoint's cost follows the number of new replies, not of all. A damaged file is
removed and a new one is made, because a copy would keep what ``stet forget`` is to remove. Only old
requests are forgotten; until the next start they are refused. A file with a higher
``user_version`` is a newer stetd's and is refused (FormatError): with a new file, calls that were
answered before would be applied twice.

One table, ``requests``, with the fields of a RequestRecord: workspace, session, request, digest
(SHA-256 of the call), reply (MessagePack EditResult without its diff), time (seconds), seq (counts
up).
"""

from __future__ import annotations

import errno
import logging
import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import msgspec
from msgspec.structs import astuple

from stetd.historian.index.history_index import is_corrupt, primary_code, remove
from stetd.processes.remembered import Key
from stetd.storage.disk import SyncFailed
from stetd.storage.request_record import VERSION, RequestRecord, check_version

_log = logging.getLogger(__name__)
T = TypeVar("T")
_SYNC_FAILED = (sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_DIR_FSYNC)
_SCHEMA = """
CREATE TABLE IF NOT EXISTS requests (
    workspace TEXT NOT NULL, session TEXT NOT NULL, request TEXT NOT NULL,
    digest BLOB NOT NULL, reply BLOB NOT NULL, time INTEGER NOT NULL, seq INTEGER NOT NULL,
    PRIMARY KEY (workspace, session, request)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS requests_by_seq ON requests (seq);
"""


@contextmanager
def _as_os_error(path: str) -> Iterator[None]:
    try:
        yield
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
        if code in _SYNC_FAILED:
            raise SyncFailed(errno.EIO, f"{path}: {error}") from error
        full = primary_code(error) == sqlite3.SQLITE_FULL
        raise OSError(errno.ENOSPC if full else errno.EIO, str(error), path) from error


class RequestStore(msgspec.Struct):
    """The table, on one connection, opened at its first use. Methods raise OSError, SyncFailed."""

    _path: str
    #: Called with the keys of all stored records.
    _on_open: Callable[[list[Key]], None] = lambda _: None
    _using: threading.Lock = msgspec.field(default_factory=threading.Lock)
    _db: sqlite3.Connection | None = None
    #: Whether a damaged file was replaced since the start.
    _anew: bool = False

    def open(self) -> None:
        """Open the connection, if it is not open."""
        self._do(lambda _: None)

    def close(self) -> None:
        """Close the connection."""
        if self._db is not None:
            self._db.close()
            self._db = None

    def find(self, workspace: str, session: str, request: str) -> RequestRecord | None:
        """The record of a request; None if it is not stored, or not any more.

        OSError if a damaged file was replaced: only what may have been in it is asked for.
        """
        sql = "SELECT * FROM requests WHERE workspace = ? AND session = ? AND request = ?"
        row = self._do(lambda db: db.execute(sql, (workspace, session, request)).fetchone())
        if row is None and self._anew:
            reason = "it was damaged, and nobody knows whether this request was answered"
            raise OSError(errno.EIO, reason, self._path)
        return RequestRecord(*row) if row else None

    def add(self, records: Iterable[RequestRecord], *, keep_calls: int, forget_before: int) -> None:
        """Store records durably, and delete old ones.

        Deletes what is older than ``forget_before`` and not among the ``keep_calls`` newest.
        """

        def add(db: sqlite3.Connection) -> None:
            if not os.path.exists(self._path):  # somebody removed it: the connection has it still
                db.execute("VACUUM INTO ?", (self._path,))
                self.close()
                db = self._connection()
            with db:
                db.execute("BEGIN IMMEDIATE")
                db.executemany(
                    "INSERT OR REPLACE INTO requests VALUES (?, ?, ?, ?, ?, ?, ?)",
                    map(astuple, records),
                )
                db.execute(
                    "DELETE FROM requests WHERE time < ? AND seq <="
                    " (SELECT seq FROM requests ORDER BY seq DESC LIMIT 1 OFFSET ?)",
                    (forget_before, keep_calls),
                )

        self._do(add)

    def _do(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run a function on the table; if it is damaged, on a new, empty one."""
        with self._using, _as_os_error(self._path):
            try:
                return work(self._connection())
            except sqlite3.DatabaseError as error:
                if not is_corrupt(error):
                    raise
                _log.error("%s: %s; it is made anew, old requests are forgotten", self._path, error)
                self.close()  # before a new one is opened: closing removes the log by name
                remove(self._path)
                self._anew = True
                return work(self._connection())

    def _connection(self) -> sqlite3.Connection:
        if self._db is None:
            self._db, keys = _opened(self._path)
            self._on_open(keys)
        return self._db

    def rewrite(self, workspace: str, change: Callable[[bytes], bytes]) -> None:
        """Change the replies of a workspace durably; the file keeps nothing of the old ones."""
        with self._using, _as_os_error(self._path):
            db = self._connection()
            db.execute("PRAGMA secure_delete = ON")
            rows = db.execute(
                "SELECT reply, workspace, session, request FROM requests WHERE workspace = ?",
                (workspace,),
            ).fetchall()
            with db:
                db.execute("BEGIN IMMEDIATE")
                db.executemany(
                    "UPDATE requests SET reply = ?"
                    " WHERE workspace = ? AND session = ? AND request = ?",
                    ((change(reply), *key) for reply, *key in rows),
                )
            db.execute("VACUUM")
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _opened(path: str) -> tuple[sqlite3.Connection, list[Key]]:
    check_version(path)
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        version: int = db.execute("PRAGMA user_version").fetchone()[0]
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        db.executescript(_SCHEMA)
        if version < VERSION:  # 0: a new file, or one without a version, which has the same tables
            db.execute(f"PRAGMA user_version = {VERSION}")
        keys = db.execute("SELECT workspace, session, request FROM requests").fetchall()
    except BaseException:
        db.close()
        raise
    return db, keys
