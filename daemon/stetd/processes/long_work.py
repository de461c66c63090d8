"""Questions for long work on a history, and their answers."""

from __future__ import annotations

import msgspec

from stet.wire.results import ForgetResult, SnapshotResult
from stetd.storage.journal import Position
from stetd.storage.journal_format import Cut, Reached


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


class Moment(msgspec.Struct, frozen=True):
    """The engine's knowledge of a history at one moment, and its position in the journal then.

    ``cut``: what retention has dropped. ``recorded``: how far the journal has the history, if Git
    can't be as far at present.
    """

    head: str | None
    commits: int
    position: Position
    cut: Cut | None = None
    recorded: Reached | None = None


class Claim(Moment, frozen=True):
    """A moment, with what the journal had then: how far the history had come, and its damage.

    ``journal_trouble``: why the journal could not be read. ``reference``: the value of
    ``refs/heads/history`` after that: an id, None, or "" if it is damaged.
    """

    journal: tuple[Reached, list[str]] | None = None
    journal_trouble: str | None = None
    reference: str | None = None


class Verifying(msgspec.Struct, frozen=True):
    """Parameters of ``verify``. ``trouble``: why the workspace is deferred."""

    state: str
    name: str
    root: str
    max_file_bytes: int
    before: Claim
    claim: Claim
    expect: str | None = None
    trouble: str | None = None
