"""What the engine says of a history that is to be verified."""

from __future__ import annotations

import msgspec

from stetd.storage.journal_format import Cut, Reached
from stetd.storage.journal_heads import JournalHead


class Moment(msgspec.Struct, frozen=True):
    """What the engine knows of a history at one moment, and where its journal is then.

    ``cut``: what retention has dropped. ``recorded``: how far the journal has the history, where
    Git can't have it at present.
    """

    head: str | None
    commits: int
    segment: int
    offset: int
    cut: Cut | None = None
    recorded: Reached | None = None


class Claim(Moment, frozen=True):
    """What the daemon says of a history at one time, its journal included.

    ``journal_trouble``: why that could not be read. ``reference``: what ``refs/heads/history``
    held after that: an id, None, or "" if it is damaged.
    """

    journal: JournalHead | None = None
    journal_trouble: str | None = None
    reference: str | None = None


class Verifying(msgspec.Struct, frozen=True):
    """A history is to be verified. ``trouble``: why the workspace is deferred."""

    state: str
    name: str
    root: str
    max_file_bytes: int
    before: Claim
    claim: Claim
    expect: str | None = None
    trouble: str | None = None
