"""Values of the query index: the data of a commit, and the filters of a query."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from stetd.history.commits import CommitMeta


class Hunk(NamedTuple):
    """Old lines that became new lines; lines count from 0, either number may be 0."""

    old_start: int
    old_lines: int
    new_start: int
    new_lines: int


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
    ends inclusive.
    """

    path: str | None = None
    session: str | None = None
    agent: str | None = None
    method: str | None = None
    kind: str | None = None
    since: float | None = None
    until: float | None = None
    text: str | None = None

    def matches(self, meta: CommitMeta) -> bool:
        """Whether a commit's metadata passes; path and text are not compared."""
        return (
            self.session in (None, meta.session)
            and self.agent in (None, meta.agent)
            and self.method in (None, meta.method)
            and self.kind in (None, meta.kind)
            and (self.since is None or meta.time >= self.since)
            and (self.until is None or meta.time <= self.until)
        )
