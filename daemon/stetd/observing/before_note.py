"""The note of what was in a workspace before a tool ran, and what it says afterwards.

The question is whether the tool made a file that the history has never seen. Undo removes what a
tool has made, so a file is the tool's only where it is known that it did not exist. A scan of the
whole workspace shows that, but not of what it left out: by the ``.gitignore`` files of that time,
by ``exclude``, or because it could not be read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from stetd.editing.paths import directories_above
from stetd.history.excluding import Excludes
from stetd.history.ignoring import IgnoreFile, is_ignored
from stetd.repository.stored_objects import MissingObject, StoredObjects

#: A larger one takes long to read; what it left out is not known then.
_LARGEST_RULES = 16 << 10


class BeforeNote(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was there before a tool ran.

    ``whole``: the workspace was to be scanned; ``complete``: all of it was, and is in the history,
    but for what ``passed`` names, with all below it; what the patterns of that time exclude
    (``excludes``, their digest); and what its ``.gitignore`` files ignored. These were those of
    ``tree``, the history's when the scan began, except ``ignores``: ids by path, "" for none.
    ``recorded``: the history's tree when all that differed was in it.

    ``paths``: those that were named, as the history spells them; ``lacking``: the positions of
    those where no file was, and how many directories above it did not exist either. ``modes``:
    permission bits that Git lacks.
    """

    whole: bool = False
    complete: bool = False
    paths: list[str] = []
    passed: list[str] = []
    modes: dict[str, int] = {}
    tree: str = ""
    ignores: dict[str, str] = {}
    excludes: str = ""
    lacking: dict[int, int] = {}
    recorded: str = ""

    def absent_paths(self) -> set[str]:
        """Where no file was."""
        return {self.paths[place] for place in self.lacking}

    def missing_directories(self) -> set[str]:
        """The directories above these that were not there."""
        missing = set[str]()
        for place, deep in self.lacking.items():
            parts = self.paths[place].split("/")[:-1]
            missing.update("/".join(parts[: len(parts) - less]) for less in range(deep))
        return missing


@dataclass(slots=True)
class StoodBefore:
    """A note, asked about files that the history has not.

    ``ignores``: ids of the ``.gitignore`` files followed now; None if unknown. ``excludes``: the
    present patterns.
    """

    note: BeforeNote
    repository: StoredObjects
    excludes: Excludes
    ignores: Mapping[str, str] | None
    _absent: set[str] = field(default_factory=set)
    _passed: set[str] = field(default_factory=set)
    _rules: dict[str, IgnoreFile | None] = field(default_factory=dict)
    _unchanged: dict[str, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._absent = self.note.absent_paths()
        self._passed = {path.rstrip("/") for path in self.note.passed}

    def had_none(self, path: str) -> bool:
        """Whether it is known that there was no file at a path."""
        if path in self._absent:
            return True
        note = self.note
        known = note.complete and note.tree and note.recorded
        if not known or note.excludes != self.excludes.digest or self.was_passed_over(path):
            return False
        try:
            was_there = self.repository.file_in(note.recorded, path) is not None
            return not was_there and not self._may_be_ignored(path)
        except MissingObject:
            return False

    def was_passed_over(self, path: str) -> bool:
        """Whether the look then met something at a path, or above it, and could not take it."""
        return not self._passed.isdisjoint(["", path, *directories_above(path)])

    def _may_be_ignored(self, path: str) -> bool:
        """Whether the rules of that time ignored a path, or may have."""
        folders = ["", *(directory + "/" for directory in directories_above(path))]
        if all(map(self._is_unchanged, folders)):
            return False  # what is not ignored now was not ignored then
        files: list[IgnoreFile] = []
        for folder in folders:
            rules = self._rules_of(folder)
            if rules is None:
                return True
            if rules:
                files.append(rules)
            name, below, _ = path[len(folder) :].partition("/")
            if is_ignored(folder + name, files, directory=bool(below)):
                return True
        return False

    def _is_unchanged(self, folder: str) -> bool:
        """Whether the same rules are followed in a directory now."""
        if self.ignores is None:
            return False
        if folder not in self._unchanged:
            now = self.ignores.get(folder + ".gitignore", "")
            self._unchanged[folder] = now == self._followed(folder)
        return self._unchanged[folder]

    def _followed(self, folder: str) -> str:
        """The id of the rules that were followed in a directory; "": there were none."""
        path = folder + ".gitignore"
        if path in self.note.ignores:
            return self.note.ignores[path]
        found = self.repository.file_in(self.note.tree, path)
        return found[1] if found is not None else ""

    def _rules_of(self, folder: str) -> IgnoreFile | None:
        """The rules that were followed in a directory; None if they are not known."""
        if folder not in self._rules:
            oid = self._followed(folder)
            content = self.repository.blob(oid) if oid else b""
            known = len(content) <= _LARGEST_RULES
            self._rules[folder] = IgnoreFile(content, folder) if known else None
        return self._rules[folder]
