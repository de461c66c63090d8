"""Questions for long work on a history, and their answers."""

from __future__ import annotations

import msgspec

from stet.wire.results import ForgetResult, SnapshotResult


class Collected(msgspec.Struct, frozen=True):
    """Bytes of the repository before and after gc; how many objects were dropped."""

    bytes_before: int
    bytes_after: int
    dropped: int


class RetentionChoice(msgspec.Struct, frozen=True):
    """Which part of a history is kept: from ``oldest`` on. ``parent``: the newest commit that is
    dropped; ``dropped``: how many are; ``named``: the commits that references named.
    """

    oldest: str
    parent: str
    dropped: int
    why: str
    named: list[str]


class SnapshotTree(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot's durable tree. ``permissions``: bits, by path, that Git's modes can't express."""

    tree: str
    result: SnapshotResult
    permissions: list[tuple[str, int]]


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
