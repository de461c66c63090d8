"""Collects the data of a report from the daemon."""

from __future__ import annotations

import contextlib
import datetime
import os
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec

import stet
from stet.wire.results import BlameResult, ExportResult, ShowResult

#: The most files with an author for each line: those that were changed most often.
MOST_BLAMED = 30


class Report(msgspec.Struct, frozen=True):
    """The commits, oldest first, and the blames of the files that they changed."""

    workspace: str
    made: datetime.datetime
    #: The filters as text: "session conv-1", "since 2026-11-01".
    filters: list[str]
    commits: list[ShowResult]
    blames: list[BlameResult]


def export_pages(session: stet.Session, wanted: dict[str, Any]) -> Iterator[ExportResult]:
    """All pages of an export; ``wanted`` are the parameters of ``export``. Raises StetError."""
    cursor: str | None = None
    while True:
        page = session.export(**wanted, cursor=cursor)
        yield page
        cursor = page.cursor
        if cursor is None:
            return


def gather(session: stet.Session, filters: dict[str, Any]) -> Report:
    """Ask for all commits that pass the filters of ``export``. Raises StetError."""
    decode_lines = msgspec.json.Decoder(ShowResult).decode_lines
    exported = export_pages(session, {"format": "jsonl", **filters})
    commits = [commit for page in exported for commit in decode_lines(page.content)]
    said = [f"{name} {_filter_text(value)}" for name, value in filters.items() if value is not None]
    now = datetime.datetime.now(datetime.UTC)
    return Report(session.workspace or "", now, said, commits, _blames(session, commits))


def _filter_text(value: object) -> str:
    """A filter's value, as a reader of the page would write it."""
    if isinstance(value, list):
        return " ".join(value)
    if isinstance(value, int | float):
        with contextlib.suppress(ValueError, OverflowError):  # a year out of range
            moment = datetime.datetime.fromtimestamp(int(value), datetime.UTC)
            return moment.isoformat().replace("+00:00", "Z")
    return str(value)


def _blames(session: stet.Session, commits: list[ShowResult]) -> list[BlameResult]:
    counts = Counter(change.path for commit in commits for change in commit.files)
    found = []
    for path in sorted(counts, key=lambda each: (-counts[each], each))[:MOST_BLAMED]:
        with contextlib.suppress(stet.StetError):  # the file is deleted, excluded, or no text
            # Paths in replies are relative to the root; the session's directory may be below it.
            absolute = os.path.join(session.workspace or "", path)
            # Not the file on disk: an excluded one's content is for no page that others get.
            found.append(session.blame(absolute, at="HEAD"))
    return found
