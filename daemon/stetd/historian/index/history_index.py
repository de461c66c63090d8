"""The index of a workspace's history: an SQLite file that is derived from Git alone.

``<state>/index/<workspace name>.sqlite3`` answers in milliseconds what would else take a
walk over the whole history. :mod:`stetd.historian.index.keeping` brings it up to date; the
tables are in :mod:`stetd.historian.index.schema`.

This module knows SQL and nothing of Git. Any method may raise sqlite3.DatabaseError.
"""

from __future__ import annotations

import heapq
import os
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from itertools import groupby
from typing import Any

import msgspec

from stetd.historian.index.schema import BUSY_S, VERSION, version_of
from stetd.history.commit_rows import FileRow, Hunk, Wanted

#: Trigrams of a search that are looked up; what they find is verified anyway.
_MOST_TRIGRAMS = 32
#: The rows of texts: the number of the commit, then so many bits for the number of the part.
_PART_BITS = 20
_FILES = (
    "SELECT new.path, status, before, after, old.path, added, removed, hunks, files.n"
    " FROM files JOIN paths AS new ON new.id = files.path"
    " LEFT JOIN paths AS old ON old.id = files.old_path"
)
_NOT_SURELY_UNDONE = (
    "edit = 1 AND n <= ? AND NOT EXISTS (SELECT 1 FROM reverts AS taken"
    " WHERE taken.target = n AND taken.by_n <= ? AND NOT EXISTS (SELECT 1 FROM reverts AS again"
    " WHERE again.target = taken.by_n AND again.by_n <= ?))"
)


def first_row(n: int) -> int:
    """The row of the first text of a commit."""
    return n << _PART_BITS


def searchable(text: str | None) -> str:
    """A text as both sides of a search have it: the tokenizer stops at a NUL."""
    return (_plain(text) or "").replace("\0", "\ufffd")


def newest_first(*each: Iterator[int]) -> Iterator[int]:
    """Numbers that come in descending order, merged; each once."""
    return (n for n, _ in groupby(heapq.merge(*each, reverse=True)))


class HistoryIndex:
    """One connection to the index of one workspace."""

    def __init__(self, path: str, db: sqlite3.Connection) -> None:
        self.path = path
        self.db = db
        tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
        #: Whether texts are indexed: this SQLite may lack FTS5 or its trigrams.
        self.has_text = "changed_text" in tables

    @staticmethod
    def path_for(repository: str) -> str:
        """Where the index of a shadow repository lies: ``<state>/index/<name>.sqlite3``."""
        workspaces, name = os.path.split(os.path.abspath(repository))
        return os.path.join(os.path.dirname(workspaces), "index", f"{name}.sqlite3")

    @classmethod
    def for_reading(cls, path: str) -> HistoryIndex | None:
        """The index as a reader uses it; None if there is none of this version."""
        if not os.path.exists(path):
            return None
        db = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
        try:
            db.execute("PRAGMA query_only = ON")
            if version_of(db) == VERSION:
                return cls(path, db)
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
        """Whether it begins where the history does, whose oldest commits may have been dropped.

        ``cut``: the commits whose parents are not there (:mod:`stetd.repository.shallow`).
        """
        return not cut or self.oid(1) in (None, *cut)

    def position(self, oid: str) -> int | None:
        """The number of a commit, by its full id; None if it is not indexed."""
        number: int | None = self._one("SELECT n FROM commits WHERE oid = ?", bytes.fromhex(oid))
        return number

    def oid(self, n: int) -> str | None:
        """The id of the n-th commit."""
        oid = self._one("SELECT oid FROM commits WHERE n = ?", n)
        return oid.hex() if oid is not None else None

    def with_prefix(self, prefix: str, upto: int, limit: int) -> list[str]:
        """Ids that begin so (4 to 40 hex digits), of the first ``upto`` commits."""
        least, most = bytes.fromhex(prefix.ljust(40, "0")), bytes.fromhex(prefix.ljust(40, "f"))
        rows = self.db.execute(
            "SELECT oid FROM commits WHERE oid BETWEEN ? AND ? AND n <= ? ORDER BY oid LIMIT ?",
            (least, most, upto, limit),
        )
        return [oid.hex() for (oid,) in rows]

    def path_number(self, path: str) -> int | None:
        """The number of a path; None if no commit touched it, or anything below it."""
        number: int | None = self._one("SELECT id FROM paths WHERE path = ?", _plain(path))
        return number

    def files(self, n: int) -> list[FileRow]:
        """What a commit did to its files, by path."""
        return self._files("files.n = ? ORDER BY new.path", n)

    def _files(self, condition: str, *values: object) -> list[FileRow]:
        rows = self.db.execute(f"{_FILES} WHERE {condition}", values)
        return [_file_row(row) for row in rows]

    def last_change(self, path: str, upto: int) -> tuple[int, FileRow] | None:
        """The newest commit among the first ``upto`` that has this file, and what it did to it.

        A file that was moved away is not a change of the old path.
        """
        row = self.db.execute(
            _FILES + " WHERE files.path = ? AND files.n <= ? ORDER BY files.n DESC LIMIT 1",
            (self.path_number(path), upto),
        ).fetchone()
        return (row[-1], _file_row(row)) if row else None

    def last_move(self, path: str, after: int, upto: int) -> tuple[int, str] | None:
        """The newest commit after one, among the first ``upto``, that moved a file to a path;
        and where from.
        """
        row = self.db.execute(
            "SELECT n, paths.path FROM files JOIN paths ON paths.id = files.old_path"
            " WHERE files.path = ? AND n > ? AND n <= ? ORDER BY n DESC LIMIT 1",
            (self.path_number(path), after, upto),
        ).fetchone()
        return (row[0], row[1]) if row else None

    def last_with(self, path: str, blob: str, upto: int) -> int | None:
        """The newest commit among the first ``upto`` that left this content at a path."""
        number: int | None = self._one(
            "SELECT max(n) FROM files WHERE path = ? AND after = ? AND n <= ?",
            self.path_number(path),
            bytes.fromhex(blob),
            upto,
        )
        return number

    def kind(self, n: int) -> str | None:
        """The kind of the n-th commit."""
        kind: str | None = self._one("SELECT kind FROM commits WHERE n = ?", n)
        return kind

    def taken_back_by(self, n: int, upto: int) -> list[int]:
        """The commits among the first ``upto`` that took this one back, newest first."""
        sql = "SELECT by_n FROM reverts WHERE target = ? AND by_n <= ? ORDER BY by_n DESC"
        return list(self._numbers(sql, (n, upto)))

    def select(self, wanted: Wanted, upto: int) -> Iterator[int]:
        """The commits among the first ``upto`` that may be wanted, newest first.

        All that are, and some that are not: texts are found by their trigrams, so they must
        be verified. A text that has no trigram leaves every commit to be verified.
        """
        sought = _trigrams(wanted.text) if wanted.text is not None and self.has_text else ""
        if not sought:
            return self._selected(wanted, upto)
        found = self._selected(wanted, upto, match=sought)
        # What is too large to be indexed.
        return newest_first(found, self._selected(wanted, upto, scanned=True))

    def _selected(
        self, wanted: Wanted, upto: int, *, match: str | None = None, scanned: bool = False
    ) -> Iterator[int]:
        """What passes the filters; with a text that matches, or only with one to be scanned.

        What the order is taken from comes first: texts, a path, or the commits.
        """
        tables, order = "commits", "commits.n"
        first, last = 1, upto
        conditions: list[str] = []
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
        if scanned:
            conditions.append(
                "commits.n IN (SELECT n FROM parts INDEXED BY parts_scanned WHERE scanned = 1)"
            )
        for column in ("session", "agent", "method", "kind"):
            value = getattr(wanted, column)
            if value is not None:
                conditions.append(f"commits.{column} = ?")
                values.append(_plain(value))
        if wanted.since is not None:
            conditions.append("commits.time >= ?")
            values.append(wanted.since)
            first = (
                self._one("SELECT min(n) FROM commits WHERE time >= ?", wanted.since) or last + 1
            )
        if wanted.until is not None:
            conditions.append("commits.time <= ?")
            values.append(wanted.until)
            newest = self._one("SELECT max(n) FROM commits WHERE time <= ?", wanted.until)
            last = min(last, newest or 0)
        if match is not None:
            first, last = first_row(first), first_row(last + 1) - 1
        return self._numbers(
            f"SELECT commits.n FROM {tables}"  # noqa: S608 - made of the above
            f" WHERE {' AND '.join([*conditions, f'{order} BETWEEN ? AND ?'])}"
            f" ORDER BY {order} DESC",
            (*values, first, last),
        )

    def _numbers(self, sql: str, parameters: Sequence[object]) -> Iterator[int]:
        return (n for (n,) in self.db.execute(sql, parameters))

    def _one(self, sql: str, *parameters: object) -> Any:
        """The one value that a statement gives; None if it gives none."""
        row = self.db.execute(sql, parameters).fetchone()
        return row[0] if row else None

    def files_with(self, n: int, text: str) -> list[FileRow] | None:
        """The files of a commit that may have a text in their changed lines.

        None if the commit was not divided, so that any may.
        """
        parts = dict(self.db.execute("SELECT part, scanned FROM parts WHERE n = ?", (n,)))
        if not parts:
            return None
        sought = _trigrams(text) if self.has_text else ""
        if sought:
            rows = self._numbers(
                "SELECT rowid FROM changed_text WHERE changed_text MATCH ?"
                " AND rowid BETWEEN ? AND ?",
                (sought, first_row(n), first_row(n + 1) - 1),
            )
            found = {row - first_row(n) for row in rows}
            parts = {part: scanned for part, scanned in parts.items() if scanned or part in found}
        return [
            row
            for part in sorted(parts)
            for row in self._files("files.n = ? AND files.part = ?", n, part)
        ]

    def edits(self, *, session: str | None, agent: str | None, upto: int) -> Iterator[int]:
        """The edits among the first ``upto`` that may stand as of the last of these, newest first.

        All that do. Left out are those that were taken back by what nothing took back.
        """
        conditions = [_NOT_SURELY_UNDONE]
        parameters: list[object] = [upto, upto, upto]
        for column, value in (("session", session), ("agent", agent)):
            if value is not None:
                conditions.append(f"{column} = ?")
                parameters.append(_plain(value))
        return self._numbers(
            f"SELECT n FROM commits WHERE {' AND '.join(conditions)} ORDER BY n DESC",  # noqa: S608
            parameters,
        )

    def moving(self, after: int, upto: int) -> list[int]:
        """The commits after one, among the first ``upto``, that moved files, newest first."""
        rows = self._numbers(
            "SELECT DISTINCT n FROM files INDEXED BY files_moved"
            " WHERE old_path IS NOT NULL AND n > ? AND n <= ? ORDER BY n DESC",
            (after, upto),
        )
        return list(rows)

    def of_request(self, request: str, upto: int) -> Iterator[int]:
        """The commits with this request id, newest first."""
        return self._numbers(
            "SELECT n FROM commits WHERE request = ? AND n <= ? ORDER BY n DESC",
            (_plain(request), upto),
        )

    def touches(self, n: int, paths: Sequence[str]) -> bool:
        """Whether a commit changed one of these files, or one below them; "" is the root."""
        if "" in paths and self._one("SELECT 1 FROM files WHERE n = ?", n):
            return True
        sql = "SELECT 1 FROM touched WHERE path = ? AND n = ?"
        return any(self._one(sql, self.path_number(path), n) for path in paths)


def _plain(text: str | None) -> str | None:
    """Text as SQLite can take it: what is not UTF-8 is nowhere in it."""
    return text.encode("utf-8", "replace").decode() if text is not None else None


def _trigrams(text: str) -> str:
    """The trigrams to look up for a text, as FTS5 takes them; "" if it is too short."""
    sought = searchable(text)
    found = list(dict.fromkeys(sought[at : at + 3] for at in range(len(sought) - 2)))
    step = -(-len(found) // _MOST_TRIGRAMS) or 1
    return " AND ".join('"' + trigram.replace('"', '""') + '"' for trigram in found[::step])


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
