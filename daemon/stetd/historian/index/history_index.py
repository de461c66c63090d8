"""The index of a workspace's history: an SQLite file that is derived from Git alone.

``<state>/index/<workspace name>.sqlite3`` answers in milliseconds what would else take a
walk over the whole history. :mod:`stetd.historian.index.keeping` brings it up to date; the
tables are in :mod:`stetd.historian.index.schema`.

This module knows SQL and nothing of Git. A connection belongs to one thread. Any method
may raise sqlite3.DatabaseError.
"""

from __future__ import annotations

import heapq
import os
import sqlite3
from collections.abc import Collection, Iterator, Sequence

import msgspec

from stetd.historian.index.query import Query, first_row, matching, plain, trigrams
from stetd.historian.index.schema import BUSY_S, VERSION, version_of
from stetd.history.commit_rows import FileRow, Hunk, Wanted


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
        row = self.db.execute(
            "SELECT n FROM commits WHERE oid = ?", (bytes.fromhex(oid),)
        ).fetchone()
        return row[0] if row else None

    def oid(self, n: int) -> str | None:
        """The id of the n-th commit."""
        row = self.db.execute("SELECT oid FROM commits WHERE n = ?", (n,)).fetchone()
        return row[0].hex() if row else None

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
        row = self.db.execute("SELECT id FROM paths WHERE path = ?", (plain(path),)).fetchone()
        return row[0] if row else None

    def files(self, n: int) -> list[FileRow]:
        """What a commit did to its files, by path."""
        rows = self.db.execute(_FILES + " WHERE files.n = ? ORDER BY new.path", (n,))
        return [_file_row(row) for row in rows]

    def last_change(self, path: str, upto: int) -> tuple[int, FileRow] | None:
        """The newest commit among the first ``upto`` that has this file, and what it did to it.

        A file that was moved away is not a change of the old path.
        """
        number = self.path_number(path)
        if number is None:
            return None
        row = self.db.execute(
            _FILES + " WHERE files.path = ? AND files.n <= ? ORDER BY files.n DESC LIMIT 1",
            (number, upto),
        ).fetchone()
        return (row[-1], _file_row(row)) if row else None

    def last_move(self, path: str, after: int, upto: int) -> tuple[int, str] | None:
        """The newest commit after one, among the first ``upto``, that moved a file to a path;
        and where from.
        """
        number = self.path_number(path)
        row = self.db.execute(
            "SELECT n, paths.path FROM files JOIN paths ON paths.id = files.old_path"
            " WHERE files.path = ? AND n > ? AND n <= ? ORDER BY n DESC LIMIT 1",
            (number, after, upto),
        ).fetchone()
        return (row[0], row[1]) if row else None

    def last_with(self, path: str, blob: str, upto: int) -> int | None:
        """The newest commit among the first ``upto`` that left this content at a path."""
        row = self.db.execute(
            "SELECT n FROM files WHERE path = ? AND after = ? AND n <= ? ORDER BY n DESC LIMIT 1",
            (self.path_number(path), bytes.fromhex(blob), upto),
        ).fetchone()
        return row[0] if row else None

    def kind(self, n: int) -> str | None:
        """The kind of the n-th commit."""
        row = self.db.execute("SELECT kind FROM commits WHERE n = ?", (n,)).fetchone()
        return row[0] if row else None

    def taken_back_by(self, n: int, upto: int) -> list[int]:
        """The commits among the first ``upto`` that took this one back, newest first."""
        rows = self.db.execute(
            "SELECT by_n FROM reverts WHERE target = ? AND by_n <= ? ORDER BY by_n DESC", (n, upto)
        )
        return [by for (by,) in rows]

    def took_back(self, n: int) -> list[int]:
        """The commits that this one took back, newest first."""
        rows = self.db.execute(
            "SELECT target FROM reverts WHERE by_n = ? ORDER BY target DESC", (n,)
        )
        return [target for (target,) in rows]

    def select(self, wanted: Wanted, upto: int) -> Iterator[int]:
        """The commits among the first ``upto`` that may be wanted, newest first.

        All that are, and some that are not: texts are found by their trigrams, so they must
        be verified. A text that has no trigram leaves every commit to be verified.
        """
        query = Query(upto)
        for column in ("session", "agent", "method", "kind"):
            value = getattr(wanted, column)
            if value is not None:
                query.where(f"commits.{column} = ?", plain(value))
        if wanted.path:
            number = self.path_number(wanted.path)
            if number is None:
                return
            query.of_path(number)
        if wanted.since is not None:
            query.where("commits.time >= ?", wanted.since)
            query.above(self._first_since(wanted.since))
        if wanted.until is not None:
            query.where("commits.time <= ?", wanted.until)
            query.below(self._last_until(wanted.until))
        sought = trigrams(wanted.text) if wanted.text is not None and self.has_text else []
        if sought:
            yield from self._with_text(query, sought)
        else:
            yield from self._numbers(*query.build())

    def _numbers(self, sql: str, parameters: Sequence[object]) -> Iterator[int]:
        return (n for (n,) in self.db.execute(sql, parameters))

    def _with_text(self, query: Query, sought: list[str]) -> Iterator[int]:
        """What the trigrams find, merged with what is too large to be indexed."""
        found = self._numbers(*query.build(matching(sought)))
        query.where("commits.n IN (SELECT n FROM parts INDEXED BY parts_scanned WHERE scanned = 1)")
        scanned = self._numbers(*query.build())
        last = None
        for n in heapq.merge(found, scanned, reverse=True):
            if n != last:  # several parts of it may match
                yield n
            last = n

    def files_with(self, n: int, text: str) -> list[FileRow] | None:
        """The files of a commit that may have a text in their changed lines.

        None if the commit was not divided, so that any may.
        """
        parts = dict(self.db.execute("SELECT part, scanned FROM parts WHERE n = ?", (n,)))
        if not parts:
            return None
        sought = trigrams(text) if self.has_text else []
        if sought:
            rows = self.db.execute(
                "SELECT rowid FROM changed_text WHERE changed_text MATCH ?"
                " AND rowid BETWEEN ? AND ?",
                (matching(sought), first_row(n), first_row(n + 1) - 1),
            )
            found = {row - first_row(n) for (row,) in rows}
            parts = {part: scanned for part, scanned in parts.items() if scanned or part in found}
        return [row for part in sorted(parts) for row in self._files_of(n, part)]

    def _files_of(self, n: int, part: int) -> list[FileRow]:
        rows = self.db.execute(_FILES + " WHERE files.n = ? AND files.part = ?", (n, part))
        return [_file_row(row) for row in rows]

    def _first_since(self, time: float) -> int:
        """No commit before this number was made at this time or later."""
        row = self.db.execute(
            "SELECT n FROM commits WHERE latest >= ? ORDER BY latest, n LIMIT 1", (time,)
        ).fetchone()
        return row[0] if row else _BEYOND

    def _last_until(self, time: float) -> int:
        """No commit after this number was made at this time or earlier."""
        row = self.db.execute(
            "SELECT n FROM commits WHERE latest <= ? ORDER BY latest DESC, n DESC LIMIT 1", (time,)
        ).fetchone()
        late = self.db.execute(
            "SELECT max(n) FROM commits INDEXED BY commits_late WHERE time < latest AND time <= ?",
            (time,),
        ).fetchone()
        return max(row[0] if row else 0, late[0] or 0)

    def edits(self, *, session: str | None, agent: str | None, upto: int) -> Iterator[int]:
        """The edits among the first ``upto`` that may stand as of the last of these, newest first.

        All that do. The flag in the table is as of the newest commit, which may be a later one.
        """
        last = self.last()
        conditions = ["standing = 1" if last and last[0] == upto else "edit = 1", "n <= ?"]
        parameters: list[object] = [upto]
        for column, value in (("session", session), ("agent", agent)):
            if value is not None:
                conditions.append(f"{column} = ?")
                parameters.append(plain(value))
        return self._numbers(
            f"SELECT n FROM commits WHERE {' AND '.join(conditions)} ORDER BY n DESC",  # noqa: S608
            parameters,
        )

    def moving(self, after: int, upto: int) -> list[int]:
        """The commits after one, among the first ``upto``, that moved files, newest first."""
        rows = self.db.execute(
            "SELECT DISTINCT n FROM files INDEXED BY files_moved"
            " WHERE old_path IS NOT NULL AND n > ? AND n <= ? ORDER BY n DESC",
            (after, upto),
        )
        return [n for (n,) in rows]

    def of_request(self, request: str, upto: int) -> Iterator[int]:
        """The commits with this request id, newest first."""
        return self._numbers(
            "SELECT n FROM commits WHERE request = ? AND n <= ? ORDER BY n DESC",
            (plain(request), upto),
        )

    def touches(self, n: int, paths: Sequence[str]) -> bool:
        """Whether a commit changed one of these files, or one below them; "" is the root."""
        numbers = [number for path in paths if (number := self.path_number(path)) is not None]
        if "" in paths and self.db.execute("SELECT 1 FROM files WHERE n = ?", (n,)).fetchone():
            return True
        sql = "SELECT 1 FROM touched WHERE path = ? AND n = ?"
        return any(self.db.execute(sql, (number, n)).fetchone() for number in numbers)


_BEYOND = (1 << 62) - 1
_FILES = (
    "SELECT new.path, status, before, after, old.path, added, removed, hunks, files.n"
    " FROM files JOIN paths AS new ON new.id = files.path"
    " LEFT JOIN paths AS old ON old.id = files.old_path"
)


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
