"""What long work on a history is asked for, and what comes of it."""

from __future__ import annotations

import msgspec

from stet.wire.results import SkippedPath
from stetd.repository.references import HISTORY, read_reference, references_below


class Collected(msgspec.Struct, frozen=True):
    """Bytes of the repository before and after a garbage collection; how many objects went."""

    bytes_before: int
    bytes_after: int
    dropped: int


class Choosing(msgspec.Struct, frozen=True):
    """What is to be chosen by: a policy, and the time (seconds since 1970)."""

    days: int
    bytes: int
    now: float


class Choice(msgspec.Struct, frozen=True):
    """Which part of a history stays.

    ``oldest``: the oldest commit that does; ``parent``: the newest that goes; ``dropped``: how
    many go; ``named``: the commits that references named.
    """

    oldest: str
    parent: str
    dropped: int
    why: str
    named: list[str]


class Taking(msgspec.Struct, frozen=True):
    """What a snapshot may have: files, bytes of all and of one.

    ``skip_large``: leave files out that are too large.
    """

    max_files: int
    max_bytes: int
    max_file_bytes: int
    skip_large: bool


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """The tree of the whole workspace, durable, and what it is made of.

    ``permissions``: of files for which Git's modes can't say them.
    """

    tree: str
    files: int
    bytes: int
    added: int
    modified: int
    removed: int
    permissions: list[tuple[str, int]]
    skipped: list[SkippedPath]
    skipped_count: int


class LeavingOut(msgspec.Struct, frozen=True):
    """What the historian is to leave out of a history. ``preview``: write nothing.

    ``oldest``: where the history begins that was cut off; ``texts``: of clipboards.
    """

    path: str
    contents: bool
    preview: bool
    oldest: str | None
    texts: list[str]


class LeftOut(msgspec.Struct, frozen=True, kw_only=True):
    """A history without a path, up to ``last``, which is ``head`` now, with this tree.

    ``touched``: commits that changed the path; ``rewritten``: those that have other ids now.
    ``oldest``: where it begins now, if it was cut off. ``holding``: the numbers of the texts that
    have something of the contents; ``also_at``: other paths of the newest commit with them.
    """

    last: str
    head: str
    tree: str
    paths: list[str]
    blobs: list[str]
    touched: int
    rewritten: int
    oldest: str | None
    holding: list[int]
    also_at: list[str]


class Finishing(msgspec.Struct, frozen=True):
    """A history that was rewritten: of which workspace, without which paths."""

    workspace: str
    paths: list[str]
    oldest: str | None


def named_commits(shadow: str) -> list[str]:
    """The commits that references name, but for the newest one."""
    names = (name for name in references_below(shadow, "refs") if name != HISTORY)
    found = (read_reference(shadow, name) for name in names)
    return sorted({oid for oid in found if oid is not None})
