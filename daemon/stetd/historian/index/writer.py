"""Adding commits to the query index; the indexing thread alone does that."""

from __future__ import annotations

import heapq
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import msgspec

from stetd.editing.paths import directories_above
from stetd.historian.index.history_index import HistoryIndex
from stetd.historian.index.query import first_row, searchable
from stetd.historian.index.schema import open_index, remove
from stetd.history.commit_rows import CommitRow, FileRow, Part

_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_PRIMARY = 0xFF  # of an extended result code


def is_damage(error: sqlite3.Error) -> bool:
    """Whether it is the file that is wrong, and not the disk that is full or slow."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is None or code & _PRIMARY in (*_DAMAGED, sqlite3.SQLITE_ERROR)


class GrowingIndex(HistoryIndex):
    """A connection that adds commits. One thread."""

    @classmethod
    def open(cls, path: str) -> GrowingIndex:
        """The index as the indexing thread uses it; made anew if it is of no use."""
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        try:
            return cls(path, open_index(path))
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            remove(path)
            return cls(path, open_index(path))

    @classmethod
    def temporary(cls) -> GrowingIndex:
        """An index for one question; SQLite keeps it in a file without a name."""
        return cls("", open_index(""))

    @contextmanager
    def adding(self) -> Iterator[None]:
        """One transaction; nothing of it is there if it is not finished."""
        self.db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.db.execute("COMMIT")
        finally:
            if self.db.in_transaction:
                self.db.execute("ROLLBACK")

    def add(self, row: CommitRow, parts: Iterable[Part]) -> Iterator[Part]:
        """Put a commit on top of the last one; gives each part when it has been added.

        Call it inside :meth:`adding`, and take all that it gives.
        """
        last = self.db.execute("SELECT n, latest FROM commits ORDER BY n DESC LIMIT 1").fetchone()
        n, latest = (last[0] + 1, max(last[1], row.time)) if last else (1, row.time)
        self.db.execute(
            "INSERT INTO commits VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0)",
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
            ),
        )
        self._add_reverts(n, row.reverts)
        touched: set[int] = set()
        for number, part in enumerate(parts):
            scanned = part.text is None or not self.has_text
            if number or scanned:
                self._divide(n, number, scanned=scanned)
            if not scanned:
                self.db.execute(
                    "INSERT INTO changed_text (rowid, text) VALUES (?, ?)",
                    (first_row(n) + number, searchable(part.text)),
                )
            self._add_files(n, number, part.files, touched)
            yield part

    def _divide(self, n: int, part: int, *, scanned: bool) -> None:
        """Note a part: that there are several, or that this one's text is not indexed."""
        if part:
            self.db.execute("INSERT OR IGNORE INTO parts VALUES (?, 0, 0)", (n,))
        self.db.execute("INSERT INTO parts VALUES (?, ?, ?)", (n, part, int(scanned)))

    def _add_files(self, n: int, part: int, files: Iterable[FileRow], touched: set[int]) -> None:
        ids: dict[str, int] = {}
        for file in files:
            for path in (file.path, file.old_path):
                if path is not None and path not in ids:
                    ids[path] = self._path_id(path)
                    for directory in directories_above(path):
                        if directory not in ids:
                            ids[directory] = self._path_id(directory)
        new = set(ids.values()) - touched
        touched |= new
        self.db.executemany("INSERT INTO touched VALUES (?, ?)", [(number, n) for number in new])
        self.db.executemany(
            "INSERT INTO files VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
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
                    part,
                )
                for file in files
            ],
        )

    def _path_id(self, path: str) -> int:
        found = self.path_number(path)
        if found is not None:
            return found
        number = self.db.execute("INSERT INTO paths (path) VALUES (?)", (path,)).lastrowid
        assert number is not None, "BUG: an insertion without a row"
        return number

    def _add_reverts(self, n: int, reverts: Iterable[str]) -> None:
        targets = {target for oid in reverts if (target := self.position(oid)) is not None}
        self.db.executemany(
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
            row = self.db.execute("SELECT edit, undone FROM commits WHERE n = ?", (n,))
            edit, was = row.fetchone()
            now = self.db.execute(
                "SELECT EXISTS (SELECT 1 FROM reverts JOIN commits ON commits.n = by_n"
                " WHERE target = ? AND undone = 0)",
                (n,),
            ).fetchone()[0]
            if now == was:
                continue
            self.db.execute(
                "UPDATE commits SET undone = ?, standing = ? WHERE n = ?",
                (now, int(edit and not now), n),
            )
            for target in self.took_back(n):
                heapq.heappush(waiting, -target)

    def clear(self) -> None:
        """Forget everything: the history is another one."""
        self.db.execute("BEGIN IMMEDIATE")
        for table in ("commits", "paths", "files", "parts", "touched", "reverts"):
            self.db.execute(f"DELETE FROM {table}")  # noqa: S608 - names from above
        if self.has_text:
            self.db.execute("INSERT INTO changed_text (changed_text) VALUES ('delete-all')")
        self.db.execute("COMMIT")


def _id(oid: str | None) -> bytes | None:
    return bytes.fromhex(oid) if oid is not None else None
