"""Replies by request id, for retries: the part of a checkpoint that is kept for long.

A call's reply is in its journal record; a checkpoint moves it here before that record
may be dropped, so that a retry is answered for at least ``keep_calls`` calls and
``keep_seconds`` (whichever is longer). SQLite, because a checkpoint then costs what is
new, not what is kept. Losing the file loses only the memory of old requests.

One table, ``requests``: workspace, session, request, digest (SHA-256 of the call), reply
(MessagePack EditResult without its diff), time (seconds), seq (counts up).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass

_SCHEMA = """
CREATE TABLE IF NOT EXISTS requests (
    workspace TEXT NOT NULL, session TEXT NOT NULL, request TEXT NOT NULL,
    digest BLOB NOT NULL, reply BLOB NOT NULL, time INTEGER NOT NULL, seq INTEGER NOT NULL,
    PRIMARY KEY (workspace, session, request)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS requests_by_seq ON requests (seq);
"""


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """What is remembered of an answered call. ``seq`` is its journal record's number."""

    workspace: str
    session: str
    request: str
    digest: bytes
    reply: bytes
    time: int
    seq: int

    @property
    def key(self) -> tuple[str, str, str]:
        """Request ids are scoped to workspace and session."""
        return self.workspace, self.session, self.request


class RequestStore:
    """The table, on one connection (one thread)."""

    def __init__(self, path: str) -> None:
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        self._db.executescript(_SCHEMA)

    def close(self) -> None:
        """Close the connection."""
        self._db.close()

    def find(self, workspace: str, session: str, request: str) -> RequestRecord | None:
        """The record of a request, None if it is not (or no longer) remembered."""
        row = self._db.execute(
            "SELECT workspace, session, request, digest, reply, time, seq FROM requests"
            " WHERE workspace = ? AND session = ? AND request = ?",
            (workspace, session, request),
        ).fetchone()
        return RequestRecord(*row) if row else None

    def add(self, records: Iterable[RequestRecord], *, keep_calls: int, forget_before: int) -> None:
        """Remember records, durably, and forget old ones.

        Forgotten is what is both older than the time and not among the newest calls.
        """
        self._db.execute("BEGIN IMMEDIATE")
        try:
            self._db.executemany(
                "INSERT OR REPLACE INTO requests VALUES (?, ?, ?, ?, ?, ?, ?)",
                [
                    (r.workspace, r.session, r.request, r.digest, r.reply, r.time, r.seq)
                    for r in records
                ],
            )
            self._db.execute(
                "DELETE FROM requests WHERE time < ? AND seq <="
                " (SELECT seq FROM requests ORDER BY seq DESC LIMIT 1 OFFSET ?)",
                (forget_before, keep_calls),
            )
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")
