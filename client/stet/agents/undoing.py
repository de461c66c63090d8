"""The formats of the files, and a file as it was before stet was connected. Pure.

The entries are taken out of the text. Where that gives a backup's bytes, the file is as it was, and
the backup is spent. What was empty in the newest backup stays empty, what was not there goes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

from stet.agents import clients, entries, jsonc
from stet.agents.config_file import Backup
from stet.agents.entries import Entries
from stet.agents.json_entries import Json
from stet.agents.json_splicing import CannotSplice
from stet.agents.toml_entries import Toml


class Whole:
    """A file that is stet's alone, and known by its first line."""

    name = "text"

    def check(self, text: str) -> None:
        """Raises CannotSplice for a text of somebody else."""
        if text and clients.OWN_MARK not in text.partition("\n")[0]:
            raise CannotSplice("there is a file of that name that stet connect has not written")

    def written(self, text: str, wanted: Entries) -> str:
        """The text; what was allowed with more options stays, and what a person has added."""
        whole = wanted.whole or ""
        return text if whole and text.startswith(whole) else whole

    def found(self, text: str, _shape: Entries) -> Entries:
        """All of it."""
        return Entries(whole=text)

    def commands(self, text: str, _shape: Entries) -> list[tuple[str, ...]]:
        """What is started from there."""
        return entries.own_hook_lists(text)

    def removed(self, _text: str, _shape: Entries, _before: str | None) -> str:
        """Nothing is left."""
        return ""

    def is_blank(self, text: str, _shape: Entries) -> bool:
        """Whether nobody would miss a file with this text."""
        return not text.removeprefix("\ufeff").strip()


#: How a file is written. ``shape`` gives the names and defaults, its values do not matter.
Format = Json | Toml | Whole


@dataclass(frozen=True)
class Undone:
    """What becomes of a file; ``text`` None: it goes. ``backup`` is what it was, if exact."""

    text: str | None
    exact: bool
    backup: Backup | None = None


def undone(kind: Format, text: str, shape: Entries, backups: Sequence[Backup]) -> Undone:
    """A file without stet in it, by its text and its backups, the newest first.

    Raises CannotSplice where the entries are in a form that was not written here.
    """
    own = kind.found(text, shape)
    if not own:
        return Undone(text, True)
    # Backups that can be read and in which stet was not connected.
    clean: list[tuple[Backup, str]] = []
    for backup in backups:
        with contextlib.suppress(ValueError, jsonc.NotJson, CannotSplice):
            before = backup.data.decode("utf-8")
            kind.check(before)
            if not kind.found(before, shape):
                clean.append((backup, before))
    left = kind.removed(text, shape, clean[0][1] if clean else None)
    if not clean and kind.is_blank(left, shape):
        # A person's comments in the entries are nowhere else.
        return Undone(None, kind.written("", own) == text)
    restored = next((backup for backup, before in clean if before == left), None)
    return Undone(left, restored is not None, restored)
