"""What the engine says of a history that is to be verified."""

from __future__ import annotations

import msgspec

from stetd.storage.journal_format import Cut, Reached
from stetd.storage.journal_heads import JournalHead


class Claim(msgspec.Struct, frozen=True):
    """What the daemon says of a history at one time.

    ``journal_trouble``: why the journal could not be read. ``cut``: what retention has dropped.
    ``recorded``: how far the journal has the history, where Git can't have it at present.
    """

    head: str | None
    commits: int
    journal: JournalHead | None
    journal_trouble: str | None = None
    cut: Cut | None = None
    recorded: Reached | None = None


class Moment(msgspec.Struct, frozen=True):
    """What the engine knows of a history at one moment, and where its journal is then."""

    head: str | None
    commits: int
    segment: int
    offset: int
    cut: Cut | None
    recorded: Reached | None = None


class Claiming(msgspec.Struct, frozen=True):
    """A claim is to be made of a history that is known by this name."""

    state: str
    name: str
    moment: Moment


class Claimed(msgspec.Struct, frozen=True):
    """The claim, and the reference as it was read after that."""

    claim: Claim
    reference: str | None


class Verifying(msgspec.Struct, frozen=True):
    """A history is to be verified. ``trouble``: why the workspace is deferred."""

    state: str
    name: str
    root: str
    max_file_bytes: int
    before: Claim
    reference: str | None
    claim: Claim
    expect: str | None = None
    trouble: str | None = None
