"""The engine's knowledge of a history, against which ``verify`` checks Git."""

from __future__ import annotations

import msgspec

from stetd.storage.journal import Position
from stetd.storage.journal_format import Cut, Reached
from stetd.storage.journal_heads import JournalHead


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
    """A moment, with the journal as it was read then.

    ``journal_trouble``: why the journal could not be read. ``reference``: the value of
    ``refs/heads/history`` after that: an id, None, or "" if it is damaged.
    """

    journal: JournalHead | None = None
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
