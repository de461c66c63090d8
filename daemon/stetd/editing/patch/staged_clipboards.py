"""The clipboards as the patches of one call see them: the session's, and what the call stores.

Nothing of it reaches the session before the call commits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from stet.wire.results import ClipboardNote


class Stored(msgspec.Struct, frozen=True):
    """What one edit put into a clipboard; ``modified``: it is not the text that was asked for."""

    index: int
    name: str
    text: str
    modified: bool


class StagedClipboards:
    """A session's clipboards with the stores of the call in progress laid over them."""

    def __init__(self, session: Mapping[str, str]) -> None:
        self._session = session
        self._stored: dict[str, Stored] = {}
        self._owed: set[str] = set()

    def get(self, name: str) -> str | None:
        """The text that an edit at this point of the call sees."""
        stored = self._stored.get(name)
        return stored.text if stored else self._session.get(name)

    def names(self) -> Iterable[str]:
        """Every clipboard that an edit at this point of the call can use."""
        return {*self._session, *self._stored}

    def store(self, stored: Stored) -> None:
        """The later of two stores under one name holds."""
        self._owed.discard(stored.name)
        self._stored[stored.name] = stored

    def owe(self, name: str) -> None:
        """An edit that failed would have stored ``name``; only its own failure is reported."""
        self._owed.add(name)

    def owed(self, name: str) -> bool:
        """Whether ``name`` is absent, or out of date, because an earlier edit failed."""
        return name in self._owed

    @property
    def changes(self) -> dict[str, str]:
        """Name to new text, of what the call stores."""
        return {name: stored.text for name, stored in self._stored.items()}

    @property
    def notes(self) -> tuple[ClipboardNote, ...]:
        """What the result says of each clipboard that the call stores."""
        return tuple(ClipboardNote(each.name, each.modified) for each in self._stored.values())

    @property
    def stores(self) -> tuple[Stored, ...]:
        """The stores that hold, one a name."""
        return tuple(self._stored.values())
