"""Questions for long work on a history, and their answers."""

from __future__ import annotations

import msgspec

from stet.wire.results import ClipboardRef, ForgetResult, SnapshotResult


class Collected(msgspec.Struct, frozen=True):
    """Bytes of the repository before and after gc; how many objects were dropped."""

    bytes_before: int
    bytes_after: int
    dropped: int


class RetentionPolicy(msgspec.Struct, frozen=True):
    """A retention policy: limits of age (days) and size (bytes) of a history; 0: no limit."""

    days: int
    bytes: int

    def __bool__(self) -> bool:
        return bool(self.days or self.bytes)


class RetentionChoice(msgspec.Struct, frozen=True):
    """Which part of a history is kept: from ``oldest`` on. ``parent``: the newest commit that is
    dropped; ``dropped``: how many are; ``named``: the commits that references named.
    """

    oldest: str
    parent: str
    dropped: int
    why: str
    named: list[str]


class SnapshotLimits(msgspec.Struct, frozen=True):
    """Limits of a snapshot. ``skip_large``: leave out files that are too large."""

    max_files: int
    max_bytes: int
    max_file_bytes: int
    skip_large: bool


class SnapshotTree(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot's durable tree. ``permissions``: bits, by path, that Git's modes can't express."""

    tree: str
    result: SnapshotResult
    permissions: list[tuple[str, int]]


class ForgetRequest(msgspec.Struct, frozen=True):
    """A path to leave out of a history. ``clipboards``: with their texts, to search; ``preview``:
    write nothing.
    """

    path: str
    contents: bool
    preview: bool
    clipboards: list[tuple[ClipboardRef, str]]


class RewrittenHistory(msgspec.Struct, frozen=True, kw_only=True):
    """A history without a path, up to commit ``last``, whose new id is ``head``, with this tree.

    ``oldest``: its new first commit, if retention has cut it. ``result`` is that of a preview,
    without what only the engine knows.
    """

    last: str
    head: str
    tree: str
    blobs: list[str]
    oldest: str | None
    result: ForgetResult
