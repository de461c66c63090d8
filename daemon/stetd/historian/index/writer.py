"""Adding commits to the query index; the indexing thread alone does that."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator

import msgspec

from stetd.editing.paths import directories_above
from stetd.historian.index.history_index import HistoryIndex, first_row, searchable
from stetd.historian.index.schema import is_corrupt, open_index, primary_code, remove, transaction
from stetd.history.commit_rows import CommitRow, FileRow, Hunk, Part


def is_damage(error: sqlite3.Error) -> bool:
    """Whether it is the file that is wrong, and not the disk that is full or slow."""
    return is_corrupt(error) or primary_code(error) == sqlite3.SQLITE_ERROR


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

    def add(self, row: CommitRow, parts: Iterable[Part]) -> Iterator[Part]:
        """Put a commit on top of the last one; gives each part when it has been added.

        Call it inside a transaction, and take all that it gives.
        """
        last = self.last()
        n = last[0] + 1 if last else 1
        fields = (
            n, bytes.fromhex(row.oid), row.time, row.kind, row.method, row.agent, row.session,
            row.request, row.subject, int(row.edit),
        )  # fmt: skip
        self.db.execute("INSERT INTO commits VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", fields)
        targets = {target for oid in row.reverts if (target := self.position(oid)) is not None}
        self.db.executemany(
            "INSERT INTO reverts VALUES (?, ?)", [(target, n) for target in targets]
        )
        touched: set[int] = set()
        for number, part in enumerate(parts):
            scanned = part.text is None or not self.has_text
            if number:  # there are several
                self.db.execute("INSERT OR IGNORE INTO parts VALUES (?, 0, 0)", (n,))
            if number or scanned:
                values = (n, number, int(scanned))
                self.db.execute("INSERT INTO parts VALUES (?, ?, ?)", values)
            if not scanned:
                self.db.execute(
                    "INSERT INTO changed_text (rowid, text) VALUES (?, ?)",
                    (first_row(n) + number, searchable(part.text)),
                )
            self._add_files(n, number, part.files, touched)
            yield part

    def _add_files(self, n: int, part: int, files: Iterable[FileRow], touched: set[int]) -> None:
        named = [path for file in files for path in (file.path, file.old_path) if path is not None]
        paths = [each for path in named for each in (path, *directories_above(path))]
        ids = {path: self._path_id(path) for path in dict.fromkeys(paths)}
        new = set(ids.values()) - touched
        touched |= new
        self.db.executemany("INSERT INTO touched VALUES (?, ?)", [(number, n) for number in new])
        rows = []
        for file in files:
            old_path = ids[file.old_path] if file.old_path is not None else None
            hunks = None if file.hunks is None else _packed(file.hunks)
            rows.append((
                ids[file.path], n, file.status, _id(file.before), _id(file.after), file.added,
                file.removed, old_path, hunks, part,
            ))  # fmt: skip
        self.db.executemany("INSERT INTO files VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)

    def _path_id(self, path: str) -> int:
        found = self.path_number(path)
        if found is not None:
            return found
        number = self.db.execute("INSERT INTO paths (path) VALUES (?)", (path,)).lastrowid
        assert number is not None, "BUG: an insertion without a row"
        return number

    def clear(self) -> None:
        """Forget everything: the history is another one."""
        with transaction(self.db):
            for table in ("commits", "paths", "files", "parts", "touched", "reverts"):
                self.db.execute(f"DELETE FROM {table}")  # noqa: S608 - names from above
            if self.has_text:
                self.db.execute("INSERT INTO changed_text (changed_text) VALUES ('delete-all')")


def _packed(hunks: Iterable[Hunk]) -> bytes:
    return msgspec.msgpack.encode([number for hunk in hunks for number in hunk])


def _id(oid: str | None) -> bytes | None:
    return bytes.fromhex(oid) if oid is not None else None
