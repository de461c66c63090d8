"""The query index of a workspace's history: an SQLite file, derived from Git alone.

``<state>/index/<workspace name>.sqlite3`` answers in milliseconds what would otherwise need a walk
over the whole history. :mod:`stetd.historian.index.keeping` updates it. This module knows SQL, but
not Git. Any method may raise sqlite3.DatabaseError.

Commits are numbered by ``n`` from 1 at the root. Tables:

    commits       n, id, time, kind, method, agent, session, request, subject;
                  edit: 1 if ``undo last: n`` counts it
    paths         a number for each path
    files         a commit's change of a path, as in a FileChange; ``hunks``: a MessagePack list of
                  four numbers a hunk (first old line, counted from 0, number of old lines, first
                  new line, number of new lines); NULL if the file was too large to compare; part:
                  of the commit's texts, that which has the file's; scanned: 1 if its text is too
                  large to index, so that a search has to read it in Git
    touched       the commits that changed a path, or a path below it
    reverts       the commits that a commit reverted (both by n)
    changed_text  (FTS5, trigrams, without content) added and removed lines of some files, one
                  after the other; part 0 begins with the message; the row id is n * 2^20 + part
"""

from __future__ import annotations

import heapq
import os
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from itertools import groupby
from typing import Any, NamedTuple

import msgspec

from stetd.editing.paths import directories_above
from stetd.history.commits import CommitMeta, StoredCommit
from stetd.history.line_diffs import Hunk
from stetd.history.undone import TAKES_BACK, is_edit

_VERSION = 5
#: Seconds that a connection waits for another connection's lock.
_BUSY_S = 5.0
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
    scanned INTEGER NOT NULL, PRIMARY KEY (path, n)
) WITHOUT ROWID;
CREATE INDEX files_of_commit ON files (n, part);
CREATE INDEX files_scanned ON files (n) WHERE scanned = 1;
CREATE INDEX files_moved ON files (n) WHERE old_path IS NOT NULL;
CREATE TABLE touched (
    path INTEGER NOT NULL, n INTEGER NOT NULL, PRIMARY KEY (path, n)
) WITHOUT ROWID;
CREATE TABLE reverts (
    target INTEGER NOT NULL, by_n INTEGER NOT NULL, PRIMARY KEY (target, by_n)
) WITHOUT ROWID;
"""
_TEXT_SCHEMA = """
CREATE VIRTUAL TABLE changed_text USING fts5 (
    text, content = '', detail = none, columnsize = 0, tokenize = 'trigram case_sensitive 1'
);
"""
#: Trigrams of a search that are looked up; the results are verified in Git anyway.
_MAX_TRIGRAMS = 32
#: Row ids of texts: the commit's number, then this many bits for the part's number.
_PART_BITS = 20
#: Files of a part, and the length of its text at which it ends: many small files are indexed much
#: faster together.
_PART_FILES, _PART_TEXT = 64, 1 << 20
_FILES = (
    "SELECT new.path, status, before, after, old.path, added, removed, hunks, files.n"
    " FROM files JOIN paths AS new ON new.id = files.path"
    " LEFT JOIN paths AS old ON old.id = files.old_path"
)
_OF_PATH = " WHERE files.path = (SELECT id FROM paths WHERE path = ?)"
#: Commits with a text that is too large to index.
_SCANNED = "commits.n IN (SELECT n FROM files INDEXED BY files_scanned WHERE scanned = 1)"
#: Edits that no commit reverted, except commits that were reverted themselves.
_IN_EFFECT = (
    "edit = 1 AND NOT EXISTS (SELECT 1 FROM reverts AS taken"
    " WHERE taken.target = commits.n AND taken.by_n <= {upto} AND NOT EXISTS (SELECT 1"
    " FROM reverts AS again WHERE again.target = taken.by_n AND again.by_n <= {upto}))"
)


class FileRow(NamedTuple):
    """A commit's change of a path. The last fields are None if the file is too large to compare."""

    path: str
    status: str
    before: str | None
    after: str | None
    old_path: str | None = None
    added: int | None = None
    removed: int | None = None
    hunks: tuple[Hunk, ...] | None = None


class IndexedFile(NamedTuple):
    """A file of a commit, and its removed and added lines; None: too large to index."""

    row: FileRow
    text: str | None


class CommitFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Filters of a query; None: no filter.

    ``path``: the canonical path of a file or directory; "" is the root. Times are in seconds, both
    ends inclusive. ``standing``: only edits that are in effect.
    """

    path: str | None = None
    session: str | None = None
    agent: str | None = None
    method: str | None = None
    kind: str | None = None
    since: float | None = None
    until: float | None = None
    text: str | None = None
    request: str | None = None
    standing: bool = False

    def matches(self, meta: CommitMeta) -> bool:
        """Whether a commit's metadata passes; path, text and standing are not compared."""
        return (
            self.session in (None, meta.session)
            and self.agent in (None, meta.agent)
            and self.method in (None, meta.method)
            and self.kind in (None, meta.kind)
            and self.request in (None, meta.request)
            and (self.since is None or meta.time >= self.since)
            and (self.until is None or meta.time <= self.until)
        )


def _first_row(n: int) -> int:
    """The row of the first text of a commit."""
    return n << _PART_BITS


def _searchable(text: str | None) -> str:
    """A text in the form in which it is indexed and searched: the tokenizer stops at a NUL."""
    return (_plain(text) or "").replace("\0", "\ufffd")


def newest_first(*each: Iterator[int]) -> Iterator[int]:
    """Merge iterators of descending numbers, without duplicates."""
    return (n for n, _ in groupby(heapq.merge(*each, reverse=True)))


class HistoryIndex:
    """One connection to the index of one workspace."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self.db = db
        tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
        #: Whether texts are indexed: SQLite may lack FTS5 or its trigrams.
        self.has_text = "changed_text" in tables

    @staticmethod
    def path_for(repository: str) -> str:
        """The path of a shadow repository's index: ``<state>/index/<name>.sqlite3``."""
        workspaces, name = os.path.split(os.path.abspath(repository))
        return os.path.join(os.path.dirname(workspaces), "index", f"{name}.sqlite3")

    @classmethod
    def for_reading(cls, path: str) -> HistoryIndex | None:
        """Open the index for reading; None if there is none of this version."""
        if not os.path.exists(path):
            return None
        db = _connected(path)
        try:
            db.execute("PRAGMA query_only = ON")
            if _version_of(db) == _VERSION:
                return cls(db)
        except sqlite3.DatabaseError:
            db.close()
            raise
        db.close()
        return None

    def close(self) -> None:
        """Close the connection."""
        self.db.close()

    def last(self) -> tuple[int, str] | None:
        """Number and id of the newest indexed commit."""
        row = self.db.execute("SELECT n, oid FROM commits ORDER BY n DESC LIMIT 1").fetchone()
        return (row[0], row[1].hex()) if row else None

    def begins_at(self, cut: Collection[str]) -> bool:
        """Whether the index begins with the history's first commit, after retention, too.

        ``cut``: the commits whose parents are missing (:mod:`stetd.repository.references`).
        """
        return not cut or self.oid(1) in (None, *cut)

    def position(self, oid: str) -> int | None:
        """The number of a commit, by its full id; None if it is not indexed."""
        return self._number("SELECT n FROM commits WHERE oid = ?", bytes.fromhex(oid))

    def oid(self, n: int) -> str | None:
        """The id of the n-th commit."""
        row = self.db.execute("SELECT oid FROM commits WHERE n = ?", (n,)).fetchone()
        return row[0].hex() if row else None

    def with_prefix(self, prefix: str, upto: int, limit: int) -> list[str]:
        """Ids with a prefix (4 to 40 hex digits), of the first ``upto`` commits."""
        least, most = bytes.fromhex(prefix.ljust(40, "0")), bytes.fromhex(prefix.ljust(40, "f"))
        rows = self.db.execute(
            "SELECT oid FROM commits WHERE oid BETWEEN ? AND ? AND n <= ? ORDER BY oid LIMIT ?",
            (least, most, upto, limit),
        )
        return [oid.hex() for (oid,) in rows]

    def path_number(self, path: str) -> int | None:
        """The number of a path; None if no commit touched it, or a path below it."""
        return self._number("SELECT id FROM paths WHERE path = ?", _plain(path))

    def files(self, n: int) -> list[FileRow]:
        """A commit's changes of files, ordered by path."""
        return self._files("files.n = ? ORDER BY new.path", n)

    def _files(self, condition: str, *values: object) -> list[FileRow]:
        rows = self.db.execute(f"{_FILES} WHERE {condition}", values)
        return [_file_row(row) for row in rows]

    def last_change(
        self, path: str, upto: int, *, after: int = 0, moved: bool = False, blob: str | None = None
    ) -> tuple[int, FileRow] | None:
        """The newest commit among the first ``upto`` that changed this file, and the change.

        ``after``: only commits after this one; ``moved``: only moves of a file to the path;
        ``blob``: only changes that left this content. Moving a file away does not count as a change
        of the old path.
        """
        only = _OF_PATH + " AND files.n > ? AND files.n <= ?"
        values: list[object] = [_plain(path), after, upto]
        if moved:
            only += " AND old_path IS NOT NULL"
        if blob is not None:
            only += " AND after = ?"
            values.append(bytes.fromhex(blob))
        sql = f"{_FILES}{only} ORDER BY files.n DESC LIMIT 1"
        row = self.db.execute(sql, values).fetchone()
        return (row[-1], _file_row(row)) if row else None

    def kind(self, n: int) -> str | None:
        """The kind of the n-th commit."""
        row = self.db.execute("SELECT kind FROM commits WHERE n = ?", (n,)).fetchone()
        return row[0] if row else None

    def reverted_by(self, n: int, upto: int) -> list[int]:
        """The commits among the first ``upto`` that reverted this one, newest first."""
        sql = "SELECT by_n FROM reverts WHERE target = ? AND by_n <= ? ORDER BY by_n DESC"
        return list(self._numbers(sql, (n, upto)))

    def select(self, wanted: CommitFilter, upto: int) -> Iterator[int]:
        """The commits among the first ``upto`` that may meet the filters, newest first.

        May give too many, but never too few: texts are found by their trigrams, if they have any,
        and whether an edit is in effect is not followed to the end.
        """
        sought = _trigrams(wanted.text) if wanted.text is not None and self.has_text else ""
        if not sought:
            return self._selected(wanted, upto)
        found = self._selected(wanted, upto, match=sought)
        return newest_first(found, self._selected(wanted, upto, _SCANNED))

    def _selected(
        self, wanted: CommitFilter, upto: int, *only: str, match: str | None = None
    ) -> Iterator[int]:
        """The commits that pass the filters and more conditions, and whose text matches.

        The first table gives the order: texts, a path, or the commits.
        """
        tables, order = "commits", "commits.n"
        first, last = 1, upto
        conditions = list(only)
        values: list[object] = []
        if match is not None:
            order = "changed_text.rowid"
            tables = f"changed_text CROSS JOIN commits ON commits.n = ({order} >> {_PART_BITS})"
            conditions.append("changed_text MATCH ?")
            values.append(match)
        if wanted.path:
            if match is not None:
                tables += " CROSS JOIN touched ON touched.n = commits.n"
            else:
                order = "touched.n"
                tables = f"touched CROSS JOIN commits ON commits.n = {order}"
            conditions.append("touched.path = ?")
            values.append(self.path_number(wanted.path))
        if wanted.standing:
            conditions.append(_IN_EFFECT.format(upto=upto))
        for column in ("session", "agent", "method", "kind", "request"):
            value = getattr(wanted, column)
            if value is not None:
                conditions.append(f"commits.{column} = ?")
                values.append(_plain(value))
        if wanted.since is not None:
            conditions.append("commits.time >= ?")
            values.append(wanted.since)
            oldest = self._number("SELECT min(n) FROM commits WHERE time >= ?", wanted.since)
            first = oldest or last + 1
        if wanted.until is not None:
            conditions.append("commits.time <= ?")
            values.append(wanted.until)
            newest = self._number("SELECT max(n) FROM commits WHERE time <= ?", wanted.until)
            last = min(last, newest or 0)
        if match is not None:
            first, last = _first_row(first), _first_row(last + 1) - 1
        return self._numbers(
            f"SELECT commits.n FROM {tables}"  # noqa: S608 - made of the above
            f" WHERE {' AND '.join([*conditions, f'{order} BETWEEN ? AND ?'])}"
            f" ORDER BY {order} DESC",
            (*values, first, last),
        )

    def _numbers(self, sql: str, parameters: Sequence[object]) -> Iterator[int]:
        return (n for (n,) in self.db.execute(sql, parameters))

    def _number(self, sql: str, *parameters: object) -> int | None:
        """The first number that a statement gives; None if it gives no row."""
        return next(self._numbers(sql, parameters), None)

    def files_with(self, n: int, text: str) -> list[FileRow]:
        """The files of a commit that may have a text in their changed lines."""
        # To look for trigrams takes longer than to read a few files.
        several = self.has_text and self._number("SELECT 1 FROM files WHERE n = ? AND part > 0", n)
        sought = _trigrams(text) if several else ""
        if not sought:
            return self.files(n)
        texts = "SELECT rowid - ? FROM changed_text WHERE changed_text MATCH ?"
        first, last = _first_row(n), _first_row(n + 1) - 1
        return self._files(
            f"files.n = ? AND (scanned = 1 OR part IN ({texts} AND rowid BETWEEN ? AND ?))",
            *(n, first, sought, first, last),
        )

    def moving(self, after: int, upto: int) -> list[int]:
        """The commits after ``after``, among the first ``upto``, that moved files, newest first."""
        sql = (
            "SELECT DISTINCT n FROM files INDEXED BY files_moved"
            " WHERE old_path IS NOT NULL AND n > ? AND n <= ? ORDER BY n DESC"
        )
        return list(self._numbers(sql, (after, upto)))

    def touches(self, n: int, paths: Sequence[str]) -> bool:
        """Whether a commit changed one of these files, or one below them; "" is the root."""
        if "" in paths and self._number("SELECT 1 FROM files WHERE n = ?", n):
            return True
        sql = "SELECT 1 FROM touched WHERE path = ? AND n = ?"
        return any(self._number(sql, self.path_number(path), n) for path in paths)


class GrowingIndex(HistoryIndex):
    """A connection that adds commits. One thread."""

    @classmethod
    def open(cls, path: str) -> GrowingIndex:
        """Open the index for adding commits; creates the tables if there are none.

        ``path`` "": an unnamed temporary file. Raises sqlite3.DatabaseError, also for a file of
        another version.
        """
        if path:
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        db = _connected(path)
        try:
            db.execute("PRAGMA journal_mode = WAL")
            # A power cut may lose the newest commits of the index, but does not damage it.
            db.execute("PRAGMA synchronous = NORMAL")
            db.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
            if _version_of(db) != _VERSION:
                if db.execute("SELECT 1 FROM sqlite_master").fetchone():
                    raise sqlite3.DatabaseError(f"{path}: an index of another version")
                db.executescript(f"BEGIN; {_SCHEMA}")
                # Without FTS5 or trigrams, texts are searched in Git.
                with suppress(sqlite3.OperationalError):
                    db.execute(_TEXT_SCHEMA)
                db.execute(f"PRAGMA user_version = {_VERSION}")
                db.execute("COMMIT")
            return cls(db)
        except BaseException:
            db.close()
            raise

    def add(self, commit: StoredCommit, files: Iterable[IndexedFile]) -> Iterator[int]:
        """Add a commit after the last one. Yields the length of each text that has been added.

        Call it inside a transaction, and exhaust the iterator.
        """
        last = self.last()
        n = last[0] + 1 if last else 1
        meta = commit.meta
        fields = (
            n, bytes.fromhex(commit.oid), meta.time, meta.kind, meta.method, meta.agent,
            meta.session, meta.request, meta.subject, int(is_edit(meta)),
        )  # fmt: skip
        self.db.execute("INSERT INTO commits VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", fields)
        reverts = meta.reverts if meta.kind in TAKES_BACK else ()
        sql = "INSERT OR IGNORE INTO reverts SELECT n, ? FROM commits WHERE oid = ?"
        self.db.executemany(sql, [(n, bytes.fromhex(oid)) for oid in reverts])
        for number, part in enumerate(_in_parts(files)):
            texts = [] if number else [meta.message]
            text = "\n".join([*texts, *(file.text for file in part if file.text)])
            if self.has_text and text:
                self.db.execute(
                    "INSERT INTO changed_text (rowid, text) VALUES (?, ?)",
                    (_first_row(n) + number, _searchable(text)),
                )
            self._add_files(n, number, part)
            yield len(text)

    def _add_files(self, n: int, part: int, files: list[IndexedFile]) -> None:
        named = [path for row, _ in files for path in (row.path, row.old_path) if path is not None]
        paths = dict.fromkeys(each for path in named for each in (path, *directories_above(path)))
        sql = "INSERT OR IGNORE INTO paths (path) VALUES (?)"
        self.db.executemany(sql, [(path,) for path in paths])
        sql = "INSERT OR IGNORE INTO touched SELECT id, ? FROM paths WHERE path = ?"
        self.db.executemany(sql, [(n, path) for path in paths])
        values = [
            (
                n, row.status, _id(row.before), _id(row.after), row.added, row.removed,
                row.old_path, None if row.hunks is None else _packed(row.hunks), part,
                int(text is None), row.path,
            )
            for row, text in files
        ]  # fmt: skip
        self.db.executemany(
            "INSERT INTO files SELECT id, ?, ?, ?, ?, ?, ?,"
            " (SELECT id FROM paths WHERE path = ?), ?, ?, ? FROM paths WHERE path = ?",
            values,
        )


def _in_parts(files: Iterable[IndexedFile]) -> Iterator[list[IndexedFile]]:
    """The files in their order, in lists with not too much text; at least one list.

    A file whose text is too large ends its list: it may have taken seconds to compare, and between
    two lists others get their turn.
    """
    part: list[IndexedFile] = []
    length = 0
    for file in files:
        if len(part) == _PART_FILES or length >= _PART_TEXT:
            yield part
            part, length = [], 0
        part.append(file)
        length += _PART_TEXT if file.text is None else len(file.text)
    yield part


def _plain(text: str | None) -> str | None:
    """Text that SQLite accepts: lone surrogates are replaced."""
    return text.encode("utf-8", "replace").decode() if text is not None else None


def _trigrams(text: str) -> str:
    """The FTS5 expression of the trigrams to look up for a text; "" if the text is too short."""
    sought = _searchable(text)
    found = list(dict.fromkeys(sought[at : at + 3] for at in range(len(sought) - 2)))
    step = -(-len(found) // _MAX_TRIGRAMS) or 1
    return " AND ".join('"' + trigram.replace('"', '""') + '"' for trigram in found[::step])


def _file_row(row: Sequence[Any]) -> FileRow:
    path, status, before, after, old_path, added, removed, packed, _ = row
    hunks = None
    if isinstance(packed, bytes):
        numbers = msgspec.msgpack.decode(packed, type=list[int])
        hunks = tuple(Hunk(*numbers[at : at + 4]) for at in range(0, len(numbers), 4))
    before, after = (oid.hex() if isinstance(oid, bytes) else None for oid in (before, after))
    return FileRow(path, status, before, after, old_path, added, removed, hunks)


def _packed(hunks: Iterable[Hunk]) -> bytes:
    return msgspec.msgpack.encode([number for hunk in hunks for number in hunk])


def _id(oid: str | None) -> bytes | None:
    return bytes.fromhex(oid) if oid is not None else None


# -- files


def is_corrupt(error: sqlite3.Error) -> bool:
    """Whether the error says that a file is damaged, or no database."""
    return primary_code(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def is_damage(error: sqlite3.Error) -> bool:
    """Whether the error is one of the file, and not of a full or slow disk."""
    return is_corrupt(error) or primary_code(error) == sqlite3.SQLITE_ERROR


def primary_code(error: sqlite3.Error) -> int:
    """SQLite's primary result code of an error."""
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF


def remove(path: str) -> None:
    """Remove an index; readers that have it open can go on reading."""
    for suffix in ("", "-wal", "-shm"):
        if os.path.exists(path + suffix):
            os.unlink(path + suffix)


def damage(path: str) -> str | None:
    """What SQLite's integrity check finds wrong; None if nothing, or if there is no file."""
    if not os.path.exists(path):
        return None
    try:
        with closing(_connected(path)) as db:
            found: str = db.execute("PRAGMA integrity_check(1)").fetchone()[0]
    except sqlite3.DatabaseError as error:
        return str(error) if is_corrupt(error) else None
    return None if found == "ok" else found


def _connected(path: str) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)


def _version_of(db: sqlite3.Connection) -> int:
    """The version of the tables in the file; 0 if there are none."""
    version: int = db.execute("PRAGMA user_version").fetchone()[0]
    return version
