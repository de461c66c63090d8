"""What the query index keeps of a commit, and what it can be asked for, as values."""

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
    """What a commit did to a path. Of a file that is too large to compare the last are None."""

    path: str
    status: str
    before: str | None
    after: str | None
    old_path: str | None = None
    added: int | None = None
    removed: int | None = None
    hunks: tuple[Hunk, ...] | None = None


class Part(NamedTuple):
    """Some files of a commit, in the order of their paths, and what a search looks in.

    ``text``: their removed and added lines, of the first part the message before them; None: it
    is too large to be indexed.
    """

    files: tuple[FileRow, ...]
    text: str | None = ""


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
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


def meets(meta: CommitMeta, wanted: Wanted) -> bool:
    """Whether a commit is wanted by its metadata; path and text are not compared."""
    return (
        wanted.session in (None, meta.session)
        and wanted.agent in (None, meta.agent)
        and wanted.method in (None, meta.method)
        and wanted.kind in (None, meta.kind)
        and (wanted.since is None or meta.time >= wanted.since)
        and (wanted.until is None or meta.time <= wanted.until)
    )
