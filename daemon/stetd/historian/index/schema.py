"""The tables of the query index, and opening its file.

Commits are numbered by ``n`` from 1 at the root. Tables:

    commits       n, id, time, kind, method, agent, session, request, subject;
                  edit: 1 if ``undo last: n`` counts it
    paths         a number for each path
    files         what a commit did to a path: as in CONTRACT.md 3; ``hunks`` for blame: a
                  MessagePack list of four numbers a hunk (lines counted from 0: first old
                  line, number of old ones, first new one, number of new ones); NULL where
                  the file was too large to be compared
    parts         of a commit with many files, or much text, the pieces in which they are kept;
                  scanned: 1 if the text is too large to be indexed: a search has to look into it
    touched       the commits that changed a path, or something below it
    reverts       the commits that a commit took back (both by n)
    changed_text  (FTS5, trigrams, without content) message, added and removed lines of a part;
                  the row is n * 2^20 + part
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress

VERSION = 3
#: Seconds that a connection waits for another one's lock.
BUSY_S = 5.0
_CACHE_KIB = 4096
_SCHEMA = """
CREATE TABLE commits (
    n INTEGER PRIMARY KEY, oid BLOB NOT NULL UNIQUE,
    time INTEGER NOT NULL, kind TEXT NOT NULL, method TEXT,
    agent TEXT, session TEXT, request TEXT, subject TEXT NOT NULL, edit INTEGER NOT NULL
);
CREATE INDEX commits_time ON commits (time);
CREATE INDEX commits_kind ON commits (kind);
CREATE INDEX commits_method ON commits (method) WHERE method IS NOT NULL;
CREATE INDEX commits_agent ON commits (agent) WHERE agent IS NOT NULL;
CREATE INDEX commits_session ON commits (session) WHERE session IS NOT NULL;
CREATE INDEX commits_request ON commits (request) WHERE request IS NOT NULL;
CREATE TABLE paths (id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE);
CREATE TABLE files (
    path INTEGER NOT NULL, n INTEGER NOT NULL, status TEXT NOT NULL, before BLOB, after BLOB,
    added INTEGER, removed INTEGER, old_path INTEGER, hunks BLOB, part INTEGER NOT NULL,
    PRIMARY KEY (path, n)
) WITHOUT ROWID;
CREATE INDEX files_of_commit ON files (n, part);
CREATE INDEX files_moved ON files (n) WHERE old_path IS NOT NULL;
CREATE TABLE touched (
    path INTEGER NOT NULL, n INTEGER NOT NULL, PRIMARY KEY (path, n)
) WITHOUT ROWID;
CREATE TABLE parts (
    n INTEGER NOT NULL, part INTEGER NOT NULL, scanned INTEGER NOT NULL, PRIMARY KEY (n, part)
) WITHOUT ROWID;
CREATE INDEX parts_scanned ON parts (n) WHERE scanned = 1;
CREATE TABLE reverts (
    target INTEGER NOT NULL, by_n INTEGER NOT NULL, PRIMARY KEY (target, by_n)
) WITHOUT ROWID;
"""
_TEXT_SCHEMA = """
CREATE VIRTUAL TABLE changed_text USING fts5 (
    text, content = '', detail = none, columnsize = 0, tokenize = 'trigram case_sensitive 1'
);
"""


def is_corrupt(error: sqlite3.Error) -> bool:
    """Whether a file is no database, or a damaged one."""
    return primary_code(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def primary_code(error: sqlite3.Error) -> int:
    """SQLite's code of an error, without its extension."""
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """One transaction; nothing of it is there if it is not finished."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield db
        db.execute("COMMIT")
    finally:
        if db.in_transaction:  # SQLite may have rolled back by itself
            db.execute("ROLLBACK")


def remove(path: str) -> None:
    """Remove an index; readers that have it open keep what they have."""
    for suffix in ("", "-wal", "-shm"):
        if os.path.exists(path + suffix):
            os.unlink(path + suffix)


def version_of(db: sqlite3.Connection) -> int:
    """Which version's tables the file holds; 0 if none."""
    version: int = db.execute("PRAGMA user_version").fetchone()[0]
    return version


def open_index(path: str) -> sqlite3.Connection:
    """A connection that may write, with the tables made if there are none.

    Raises sqlite3.DatabaseError, also for a file of another version.
    """
    db = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
    try:
        db.execute("PRAGMA journal_mode = WAL")
        # A power cut may take the newest commits of the index, and leaves it sound.
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        if version_of(db) != VERSION:
            _create(db, path)
    except BaseException:
        db.close()
        raise
    return db


def _create(db: sqlite3.Connection, path: str) -> None:
    if db.execute("SELECT 1 FROM sqlite_master").fetchone():
        raise sqlite3.DatabaseError(f"{path}: an index of another version")
    db.executescript(f"BEGIN; {_SCHEMA}")
    # Without FTS5 or trigrams, texts are looked for in Git.
    with suppress(sqlite3.OperationalError):
        db.execute(_TEXT_SCHEMA)
    db.execute(f"PRAGMA user_version = {VERSION}")
    db.execute("COMMIT")
