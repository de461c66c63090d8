"""The query index of a workspace's history: an SQLite file that is derived from Git alone.

``<state>/index/<workspace name>.sqlite3`` answers in milliseconds what would else take a
walk over the whole history. It holds nothing that Git does not: whoever finds it missing,
damaged, of another version, or not on the history's chain walks instead, and the indexing
thread (:mod:`stetd.indexing`) makes it anew. It may lag behind; readers walk from the head
back to the last indexed commit and put that on top (:mod:`stetd.history_view`).

Commits are numbered by ``n`` from 1 at the root. Tables:

    commits       n, id, time, kind, method, agent, session, request, subject;
                  latest    the greatest time of this and all older commits: clocks may be set
                            back, this never is, so a time can be looked up in it
                  edit      1 if ``undo last: n`` counts it
                  standing  1 for such an edit that is not undone, else 0
                  undone    1 if a commit that takes it back stands
                  scanned   1 if its text is too large to be indexed; a search for text has
                            to look into it
    paths         a number for each path
    files         what a commit did to a path: as in CONTRACT.md 3; ``hunks`` for blame: a
                  MessagePack list of four numbers a hunk (lines counted from 0: first old
                  line, number of old ones, first new one, number of new ones); NULL where
                  the file was too large to be compared
    touched       the commits that changed a path, or something below it
    reverts       the commits that a commit took back (both by n)
    changed_text  (FTS5, trigrams, without content) message, added and removed lines, by n

This module knows SQL and nothing of Git. A connection belongs to one thread. Any method
may raise sqlite3.DatabaseError; what it means for a reader is that there is no index.
"""

from __future__ import annotations

import heapq
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

VERSION = 1
#: Shorter texts have no trigram.
SHORTEST_TEXT = 3
#: Trigrams of a search that are looked up; what they find is verified anyway.
_MOST_TRIGRAMS = 32
_BUSY_S = 5.0
_CACHE_KIB = 4096
_SCHEMA = """
CREATE TABLE commits (
    n INTEGER PRIMARY KEY, oid BLOB NOT NULL UNIQUE,
    time INTEGER NOT NULL, latest INTEGER NOT NULL, kind TEXT NOT NULL, method TEXT,
    agent TEXT, session TEXT, request TEXT, subject TEXT NOT NULL,
    edit INTEGER NOT NULL, standing INTEGER NOT NULL, undone INTEGER NOT NULL DEFAULT 0,
    scanned INTEGER NOT NULL
);
CREATE INDEX commits_latest ON commits (latest);
CREATE INDEX commits_late ON commits (time) WHERE time < latest;
CREATE INDEX commits_kind ON commits (kind);
CREATE INDEX commits_method ON commits (method) WHERE method IS NOT NULL;
CREATE INDEX commits_agent ON commits (agent) WHERE agent IS NOT NULL;
CREATE INDEX commits_session ON commits (session) WHERE session IS NOT NULL;
CREATE INDEX commits_request ON commits (request) WHERE request IS NOT NULL;
CREATE INDEX standing ON commits (standing) WHERE standing = 1;
CREATE INDEX standing_agent ON commits (agent) WHERE standing = 1;
CREATE INDEX standing_session ON commits (session) WHERE standing = 1;
CREATE INDEX commits_scanned ON commits (scanned) WHERE scanned = 1;
CREATE TABLE paths (id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE);
CREATE TABLE files (
    path INTEGER NOT NULL, n INTEGER NOT NULL, status TEXT NOT NULL, before BLOB, after BLOB,
    added INTEGER, removed INTEGER, old_path INTEGER, hunks BLOB,
    PRIMARY KEY (path, n)
) WITHOUT ROWID;
CREATE INDEX files_of_commit ON files (n);
CREATE TABLE touched (
    path INTEGER NOT NULL, n INTEGER NOT NULL, PRIMARY KEY (path, n)
) WITHOUT ROWID;
CREATE TABLE reverts (
    target INTEGER NOT NULL, by_n INTEGER NOT NULL, PRIMARY KEY (target, by_n)
) WITHOUT ROWID;
CREATE INDEX reverts_by ON reverts (by_n);
"""
_TEXT_SCHEMA = """
CREATE VIRTUAL TABLE changed_text USING fts5 (
    text, content = '', detail = none, columnsize = 0, tokenize = 'trigram case_sensitive 1'
);
"""


class Hunk(NamedTuple):
    """Old lines that became new lines; lines count from 0, either number may be 0."""

    old_start: int
    old_lines: int
    new_start: int
    new_lines: int


class FileRow(NamedTuple):
    """What a commit did to a path. Of a file that is too large to compare the last are None."""

    path: str
    status: str
    before: str | None
    after: str | None
    old_path: str | None = None
    added: int | None = None
    removed: int | None = None
    hunks: tuple[Hunk, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRow:
    """A commit as it is indexed. ``text``: what a search looks in; None: it is too large.

    ``edit``: ``undo last: n`` counts it. ``reverts``: what it takes back, if its kind does.
    """

    oid: str
    time: int
    kind: str
    subject: str
    method: str | None = None
    agent: str | None = None
    session: str | None = None
    request: str | None = None
    edit: bool = False
    reverts: tuple[str, ...] = ()
    files: tuple[FileRow, ...] = ()
    text: str | None = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which commits are asked for; what is None does not matter.

    ``path``: a file or a directory, as the history spells it, "" is the root. Times are in
    seconds, both ends inclusive.
    """

    path: str | None = None
    session: str | None = None
    agent: str | None = None
    method: str | None = None
    kind: str | None = None
    since: float | None = None
    until: float | None = None
    text: str | None = None


class HistoryIndex:
    """One connection to the index of one workspace."""

    def __init__(self, path: str, db: sqlite3.Connection) -> None:
        self.path = path
        self._db = db
        tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
        #: Whether texts are indexed: this SQLite may lack FTS5 or its trigrams.
        self.has_text = "changed_text" in tables

    @classmethod
    def for_reading(cls, path: str) -> HistoryIndex | None:
        """The index as a reader uses it; None if there is none of this version."""
        if not os.path.exists(path):
            return None
        db = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
        try:
            db.execute("PRAGMA query_only = ON")
            if _version(db) == VERSION:
                return cls(path, db)
        except sqlite3.DatabaseError:
            db.close()
            raise
        db.close()
        return None

    @classmethod
    def for_writing(cls, path: str) -> HistoryIndex:
        """The index as the indexing thread uses it; made anew if it is of no use."""
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        try:
            return cls(path, _opened(path))
        except sqlite3.DatabaseError:
            remove(path)
            return cls(path, _opened(path))

    def close(self) -> None:
        """Close the connection."""
        self._db.close()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """All reads inside see one state, whatever is added meanwhile."""
        self._db.execute("BEGIN")
        try:
            yield
        finally:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")

    # -- adding

    def add(self, rows: Sequence[CommitRow]) -> None:
        """Put commits on top of the last one, in one transaction, oldest first."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            for row in rows:
                self._add(row)
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    def _add(self, row: CommitRow) -> None:
        last = self._db.execute("SELECT n, latest FROM commits ORDER BY n DESC LIMIT 1").fetchone()
        n, latest = (last[0] + 1, max(last[1], row.time)) if last else (1, row.time)
        scanned = int(row.text is None or not self.has_text)
        self._db.execute(
            "INSERT INTO commits VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?)",
            (
                n,
                bytes.fromhex(row.oid),
                row.time,
                latest,
                row.kind,
                row.method,
                row.agent,
                row.session,
                row.request,
                row.subject,
                int(row.edit),
                int(row.edit),
                scanned,
            ),
        )
        if not scanned:
            self._db.execute(
                "INSERT INTO changed_text (rowid, text) VALUES (?, ?)", (n, _searchable(row.text))
            )
        self._add_files(n, row.files)
        self._add_reverts(n, row.reverts)

    def _add_files(self, n: int, files: Iterable[FileRow]) -> None:
        touched: set[str] = set()
        ids: dict[str, int] = {}
        for file in files:
            for path in (file.path, file.old_path):
                if path is not None and path not in touched:
                    touched.add(path)
                    touched.update(_directories(path))
        for path in touched:
            ids[path] = self._path_id(path)
        self._db.executemany(
            "INSERT INTO touched VALUES (?, ?)", [(number, n) for number in ids.values()]
        )
        self._db.executemany(
            "INSERT INTO files VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (
                    ids[file.path],
                    n,
                    file.status,
                    _id(file.before),
                    _id(file.after),
                    file.added,
                    file.removed,
                    ids[file.old_path] if file.old_path is not None else None,
                    None
                    if file.hunks is None
                    else msgspec.msgpack.encode([x for hunk in file.hunks for x in hunk]),
                )
                for file in files
            ],
        )

    def _path_id(self, path: str) -> int:
        found = self._known_path(path)
        if found is not None:
            return found
        number = self._db.execute("INSERT INTO paths (path) VALUES (?)", (path,)).lastrowid
        assert number is not None, "BUG: an insertion without a row"
        return number

    def _known_path(self, path: str) -> int | None:
        row = self._db.execute("SELECT id FROM paths WHERE path = ?", (_text(path),)).fetchone()
        return row[0] if row else None

    def _add_reverts(self, n: int, reverts: Iterable[str]) -> None:
        targets = {target for oid in reverts if (target := self.position(oid)) is not None}
        self._db.executemany(
            "INSERT INTO reverts VALUES (?, ?)", [(target, n) for target in targets]
        )
        self._settle(targets)

    def _settle(self, changed: Iterable[int]) -> None:
        """See again whether commits are undone; and those that they took back, and so on.

        What takes back is newer than what it takes back, so going from the newest to the
        oldest settles each once.
        """
        waiting = [-n for n in changed]
        heapq.heapify(waiting)
        seen: set[int] = set()
        while waiting:
            n = -heapq.heappop(waiting)
            if n in seen:
                continue
            seen.add(n)
            row = self._db.execute("SELECT edit, undone FROM commits WHERE n = ?", (n,))
            edit, was = row.fetchone()
            now = self._db.execute(
                "SELECT EXISTS (SELECT 1 FROM reverts JOIN commits ON commits.n = by_n"
                " WHERE target = ? AND undone = 0)",
                (n,),
            ).fetchone()[0]
            if now == was:
                continue
            self._db.execute(
                "UPDATE commits SET undone = ?, standing = ? WHERE n = ?",
                (now, int(edit and not now), n),
            )
            for target in self.took_back(n):
                heapq.heappush(waiting, -target)

    def clear(self) -> None:
        """Forget everything: the history is another one."""
        self._db.execute("BEGIN IMMEDIATE")
        for table in ("commits", "paths", "files", "touched", "reverts"):
            self._db.execute(f"DELETE FROM {table}")  # noqa: S608 - names from above
        if self.has_text:
            self._db.execute("INSERT INTO changed_text (changed_text) VALUES ('delete-all')")
        self._db.execute("COMMIT")

    # -- reading

    def last(self) -> tuple[int, str] | None:
        """Number and id of the newest indexed commit."""
        row = self._db.execute("SELECT n, oid FROM commits ORDER BY n DESC LIMIT 1").fetchone()
        return (row[0], row[1].hex()) if row else None

    def position(self, oid: str) -> int | None:
        """The number of a commit, by its full id; None if it is not indexed."""
        row = self._db.execute(
            "SELECT n FROM commits WHERE oid = ?", (bytes.fromhex(oid),)
        ).fetchone()
        return row[0] if row else None

    def oid(self, n: int) -> str | None:
        """The id of the n-th commit."""
        row = self._db.execute("SELECT oid FROM commits WHERE n = ?", (n,)).fetchone()
        return row[0].hex() if row else None

    def with_prefix(self, prefix: str, upto: int, limit: int) -> list[str]:
        """Ids that begin so (4 to 40 hex digits), of the first ``upto`` commits."""
        least, most = bytes.fromhex(prefix.ljust(40, "0")), bytes.fromhex(prefix.ljust(40, "f"))
        rows = self._db.execute(
            "SELECT oid FROM commits WHERE oid BETWEEN ? AND ? AND n <= ? ORDER BY oid LIMIT ?",
            (least, most, upto, limit),
        )
        return [oid.hex() for (oid,) in rows]

    def files(self, n: int) -> list[FileRow]:
        """What a commit did to its files, by path."""
        rows = self._db.execute(_FILES + " WHERE files.n = ? ORDER BY new.path", (n,))
        return [_file_row(row) for row in rows]

    def last_change(self, path: str, upto: int) -> tuple[int, FileRow] | None:
        """The newest commit among the first ``upto`` that has this file, and what it did to it.

        A file that was moved away is not a change of the old path.
        """
        number = self._known_path(path)
        if number is None:
            return None
        row = self._db.execute(
            _FILES + " WHERE files.path = ? AND files.n <= ? ORDER BY files.n DESC LIMIT 1",
            (number, upto),
        ).fetchone()
        return (row[-1], _file_row(row)) if row else None

    def taken_back_by(self, n: int, upto: int) -> list[int]:
        """The commits among the first ``upto`` that took this one back, newest first."""
        rows = self._db.execute(
            "SELECT by_n FROM reverts WHERE target = ? AND by_n <= ? ORDER BY by_n DESC", (n, upto)
        )
        return [by for (by,) in rows]

    def took_back(self, n: int) -> list[int]:
        """The commits that this one took back, newest first."""
        rows = self._db.execute(
            "SELECT target FROM reverts WHERE by_n = ? ORDER BY target DESC", (n,)
        )
        return [target for (target,) in rows]

    def is_undone(self, n: int) -> bool:
        """Whether a commit is undone, as of the last indexed commit."""
        row = self._db.execute("SELECT undone FROM commits WHERE n = ?", (n,)).fetchone()
        return bool(row and row[0])

    def select(self, wanted: Wanted, upto: int) -> Iterator[tuple[int, str]]:
        """(n, id) of the commits among the first ``upto`` that may be wanted, newest first.

        All that are, and some that are not: texts are found by their trigrams, so they must
        be verified. A text that has no trigram leaves every commit to be verified.
        """
        query = _Query(upto)
        for column in ("session", "agent", "method", "kind"):
            value = getattr(wanted, column)
            if value is not None:
                query.where(f"commits.{column} = ?", _text(value))
        if wanted.path:
            number = self._known_path(wanted.path)
            if number is None:
                return
            query.of_path(number)
        if wanted.since is not None:
            query.where("commits.time >= ?", wanted.since)
            query.above(self._first_since(wanted.since))
        if wanted.until is not None:
            query.where("commits.time <= ?", wanted.until)
            query.below(self._last_until(wanted.until))
        trigrams = _trigrams(wanted.text) if wanted.text is not None and self.has_text else []
        if trigrams:
            yield from self._with_text(query, trigrams)
        else:
            yield from self._rows(*query.build())

    def _rows(self, sql: str, parameters: Sequence[object]) -> Iterator[tuple[int, str]]:
        for n, oid in self._db.execute(sql, parameters):
            yield n, oid.hex()

    def _with_text(self, query: _Query, trigrams: list[str]) -> Iterator[tuple[int, str]]:
        """What the trigrams find, merged with what is too large to be indexed."""
        match = " AND ".join('"' + trigram.replace('"', '""') + '"' for trigram in trigrams)
        found = self._rows(*query.build(match))
        query.where("commits.scanned = 1")
        scanned = self._rows(*query.build())
        yield from heapq.merge(found, scanned, reverse=True)

    def _first_since(self, time: float) -> int:
        """No commit before this number was made at this time or later."""
        row = self._db.execute(
            "SELECT n FROM commits WHERE latest >= ? ORDER BY latest, n LIMIT 1", (time,)
        ).fetchone()
        return row[0] if row else _BEYOND

    def _last_until(self, time: float) -> int:
        """No commit after this number was made at this time or earlier."""
        row = self._db.execute(
            "SELECT n FROM commits WHERE latest <= ? ORDER BY latest DESC, n DESC LIMIT 1", (time,)
        ).fetchone()
        late = self._db.execute(
            "SELECT max(n) FROM commits INDEXED BY commits_late WHERE time < latest AND time <= ?",
            (time,),
        ).fetchone()
        return max(row[0] if row else 0, late[0] or 0)

    def standing_edits(
        self, *, session: str | None, agent: str | None, upto: int
    ) -> Iterator[tuple[int, str]]:
        """(n, id) of the edits that are not undone as of the last indexed commit, newest first."""
        conditions, parameters = ["standing = 1", "n <= ?"], [upto, _text(session), _text(agent)]
        conditions += ["session = ?"] if session is not None else ["? IS NULL"]
        conditions += ["agent = ?"] if agent is not None else ["? IS NULL"]
        where = " AND ".join(conditions)
        return self._rows(
            f"SELECT n, oid FROM commits WHERE {where} ORDER BY n DESC",  # noqa: S608
            parameters,
        )

    def of_request(self, request: str, upto: int) -> Iterator[tuple[int, str]]:
        """(n, id) of the commits with this request id, newest first."""
        return self._rows(
            "SELECT n, oid FROM commits WHERE request = ? AND n <= ? ORDER BY n DESC",
            (_text(request), upto),
        )

    def touches(self, n: int, paths: Sequence[str]) -> bool:
        """Whether a commit changed one of these files, or one below them; "" is the root."""
        numbers = [number for path in paths if (number := self._known_path(path)) is not None]
        return "" in paths or any(
            self._db.execute(
                "SELECT 1 FROM touched WHERE path = ? AND n = ?", (number, n)
            ).fetchone()
            for number in numbers
        )


_BEYOND = (1 << 62) - 1
_FILES = (
    "SELECT new.path, status, before, after, old.path, added, removed, hunks, files.n"
    " FROM files JOIN paths AS new ON new.id = files.path"
    " LEFT JOIN paths AS old ON old.id = files.old_path"
)


class _Query:
    """A SELECT over commits, newest first, in the making."""

    def __init__(self, upto: int) -> None:
        self._conditions: list[str] = []
        self._values: list[object] = []
        self._from, self._upto = 1, upto
        self._path: int | None = None

    def where(self, condition: str, *values: object) -> None:
        self._conditions.append(condition)
        self._values += values

    def of_path(self, path: int) -> None:
        self._path = path

    def above(self, n: int) -> None:
        self._from = max(self._from, n)

    def below(self, n: int) -> None:
        self._upto = min(self._upto, n)

    def build(self, match: str | None = None) -> tuple[str, list[object]]:
        """The statement and its values; ``match``: only what has this in its text.

        What the order is taken from comes first: texts, a path, or the commits.
        """
        joined = " JOIN commits ON commits.n = "
        tables, order = "commits", "commits.n"
        conditions: list[str] = []
        values: list[object] = []
        if match is not None:
            order = "changed_text.rowid"
            tables = "changed_text CROSS" + joined + order
            conditions.append("changed_text MATCH ?")
            values.append(match)
        if self._path is not None:
            if match is None:
                order = "touched.n"
                tables = "touched CROSS" + joined + order
            else:
                tables += " CROSS JOIN touched ON touched.n = commits.n"
            conditions.append("touched.path = ?")
            values.append(self._path)
        conditions += [f"{order} BETWEEN ? AND ?", *self._conditions]
        values += [self._from, self._upto, *self._values]
        return (
            f"SELECT commits.n, commits.oid FROM {tables}"  # noqa: S608 - made of the above
            f" WHERE {' AND '.join(conditions)} ORDER BY {order} DESC",
            values,
        )


def remove(path: str) -> None:
    """Remove an index; readers that have it open keep what they have."""
    for suffix in ("", "-wal", "-shm"):
        if os.path.exists(path + suffix):
            os.unlink(path + suffix)


def _version(db: sqlite3.Connection) -> int:
    version: int = db.execute("PRAGMA user_version").fetchone()[0]
    return version


def _opened(path: str) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
    try:
        db.execute("PRAGMA journal_mode = WAL")
        # A power cut may take the newest commits of the index, and leaves it sound.
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        if _version(db) != VERSION:
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


def _id(oid: str | None) -> bytes | None:
    return bytes.fromhex(oid) if oid is not None else None


def _text(text: str | None) -> str | None:
    """Text as SQLite can take it: what is not UTF-8 is nowhere in it."""
    return text.encode("utf-8", "replace").decode() if text is not None else None


def _file_row(row: Sequence[object]) -> FileRow:
    path, status, before, after, old_path, added, removed, packed, _ = row
    hunks = None
    if isinstance(packed, bytes):
        numbers = msgspec.msgpack.decode(packed, type=list[int])
        hunks = tuple(Hunk(*numbers[at : at + 4]) for at in range(0, len(numbers), 4))
    return FileRow(
        path=str(path),
        status=str(status),
        before=before.hex() if isinstance(before, bytes) else None,
        after=after.hex() if isinstance(after, bytes) else None,
        old_path=None if old_path is None else str(old_path),
        added=added if isinstance(added, int) else None,
        removed=removed if isinstance(removed, int) else None,
        hunks=hunks,
    )


def _directories(path: str) -> Iterator[str]:
    """The directories above a path, without the root."""
    at = path.find("/")
    while at > 0:
        yield path[:at]
        at = path.find("/", at + 1)


def _searchable(text: str | None) -> str:
    """A text as both sides of a search have it: the tokenizer stops at a NUL."""
    return (_text(text) or "").replace("\0", "\ufffd")


def _trigrams(text: str) -> list[str]:
    """The trigrams to look up for a text; none if it is too short."""
    plain = _searchable(text)
    found = list(dict.fromkeys(plain[at : at + 3] for at in range(len(plain) - 2)))
    step = -(-len(found) // _MOST_TRIGRAMS) or 1
    return found[::step]
