"""The formats of the files, and a file as it was before stet was connected. Pure.

The entries are taken out of the text. Where that gives a backup's bytes, the file is as it was, and
the backup is spent. What was empty in the newest backup stays empty, what was not there goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stet.agents import clients, entries, json_entries, jsonc, toml_entries
from stet.agents.config_file import Backup
from stet.agents.entries import Entries
from stet.agents.json_splicing import CannotSplice


@dataclass(frozen=True)
class Format:
    """How a file is written; ``wanted`` gives the names and defaults, its values do not matter.

    ``whole``: the file is stet's alone, and known by its first line.
    """

    toml: bool = False
    strict: bool = False
    whole: bool = False

    @property
    def name(self) -> str:
        """What it is called."""
        return "text" if self.whole else "toml" if self.toml else "json"

    def check(self, text: str) -> None:
        """Raises ValueError, NotJson or CannotSplice for a text that can't be written into."""
        if self.whole:
            if text and clients.OWN_MARK not in text.partition("\n")[0]:
                raise CannotSplice("there is a file of that name that stet connect has not written")
        elif self.toml:
            toml_entries.value_of(text)
        else:
            json_entries.check(text, strict=self.strict)

    def written(self, text: str, wanted: Entries) -> str:
        """The text with these entries."""
        if self.whole:
            # What was allowed with more options stays, and what a person has added at the end.
            whole = wanted.whole or ""
            return text if whole and text.startswith(whole) else whole
        if self.toml:
            return toml_entries.written(text, wanted)
        return json_entries.written(text, wanted)

    def found(self, text: str, shape: Entries) -> Entries:
        """The entries in a text."""
        if self.whole:
            return Entries(whole=text)
        if self.toml:
            return toml_entries.found(text, shape.servers)
        return json_entries.found(text, shape)

    def commands(self, text: str, shape: Entries) -> list[tuple[str, ...]]:
        """What the entries in a text start."""
        if self.whole:
            return entries.own_hook_lists(text)
        server = entries.own_server(self.found(text, shape).server)
        hooks = [] if self.toml else json_entries.hook_commands(text)
        return [*([server] if server else []), *hooks]

    def removed(self, text: str, shape: Entries, before: str | None) -> str:
        """The text without the entries, down to what was in the text before."""
        if self.whole:
            return ""
        if self.toml:
            assert shape.servers is not None, "BUG: something was found"
            return toml_entries.removed(text, shape.servers)
        keep = None if before is None else jsonc.value_of(before)
        return json_entries.removed(text, shape, keep)

    def is_blank(self, text: str, shape: Entries) -> bool:
        """Whether nobody would miss a file with this text."""
        if self.toml or self.whole:
            return not text.removeprefix("\ufeff").strip()
        return json_entries.is_blank(text, shape)


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
    clean = [
        (backup, found) for backup in backups if (found := _usable(kind, backup, shape)) is not None
    ]
    left = kind.removed(text, shape, clean[0][1] if clean else None)
    if not clean and kind.is_blank(left, shape):
        # A person's comments in the entries are nowhere else.
        return Undone(None, kind.written("", own) == text)
    restored = next((backup for backup, before in clean if before == left), None)
    return Undone(left, restored is not None, restored)


def _usable(kind: Format, backup: Backup, shape: Entries) -> str | None:
    """The text of a backup, if it can be read and stet was not connected in it."""
    try:
        text = backup.data.decode("utf-8")
        kind.check(text)
        return None if kind.found(text, shape) else text
    except (ValueError, jsonc.NotJson, CannotSplice):
        return None
