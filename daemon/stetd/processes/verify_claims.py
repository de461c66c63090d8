"""What the engine says of a history that is to be verified."""

from __future__ import annotations

import msgspec

from stetd.storage.journal_format import Cut, Reached
from stetd.storage.journal_heads import JournalHead


class Claim(msgspec.Struct, frozen=True):
    """What the daemon says of a history, at one moment."""

    head: str | None
    commits: int
    journal: JournalHead | None
    #: Why the journal could not be read.
    journal_trouble: str | None = None
    #: What retention has dropped of the history's beginning.
    cut: Cut | None = None
    #: How far the journal has the history, where that can't be made in Git at present.
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
