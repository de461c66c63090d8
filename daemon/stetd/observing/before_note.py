"""The note that is recorded before a tool runs: which files did not exist then.

After the tool has run, the note decides whether the tool created a file that the history has never
seen. Undo deletes the files that a tool created, so a file counts as created only if it is known
not to have existed. A scan of the whole workspace shows that, except for the files that it left
out: because of ``.gitignore`` files or ``exclude`` at that time, or because it could not read them.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from stetd.editing.paths import directories_above
from stetd.history.excluding import Excludes
from stetd.history.ignoring import IgnoreFile, is_left_out
from stetd.repository.stored_objects import MissingObject, StoredObjects

#: A larger .gitignore file takes long to apply; the files that it ignored count as unknown.
_MAX_RULES_BYTES = 16 << 10


class BeforeNote(msgspec.Struct, frozen=True, omit_defaults=True):
    """The state of a workspace before a tool ran. It is stored in the recorded reply.

    ``whole``: the tool may touch the whole workspace. ``complete``: the scan met every file, and
    all are in the tree ``recorded`` of the history, except
    - ``passed``: paths that were not read, with everything below them,
    - files that were excluded then (``excludes``: digest of the patterns),
    - files that ``.gitignore`` files ignored then: those of the tree ``tree``, the history's when
      the scan began, except ``ignores``: blob ids by path, "" for a file that did not exist.

    ``paths``: the paths that the tool names, as the history spells them. ``lacking``: indexes of
    paths where no file was, and how many directories above were missing too. ``modes``:
    permission bits that Git does not store.
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

    def missing_directories(self) -> set[str]:
        """The directories above the named paths that did not exist."""
        missing = set[str]()
        for place, deep in self.lacking.items():
            parts = self.paths[place].split("/")[:-1]
            missing.update("/".join(parts[: len(parts) - less]) for less in range(deep))
        return missing


class FilesBefore(msgspec.Struct):
    """Answers from a note whether files that the history lacks existed before the tool ran.

    ``ignores``: blob ids of the ``.gitignore`` files that hold now; None if unknown. ``excludes``:
    the patterns that hold now.
    """

    note: BeforeNote
    repository: StoredObjects
    excludes: Excludes
    ignores: Mapping[str, str] | None
    _absent: set[str] = set()
    _passed: set[str] = set()
    _rules: dict[str, IgnoreFile] = {}
    _unchanged: dict[str, bool] = {}

    def __post_init__(self) -> None:
        self._absent = {self.note.paths[place] for place in self.note.lacking}
        self._passed = {path.rstrip("/") for path in self.note.passed}

    def was_absent(self, path: str) -> bool:
        """Whether it is certain that no file was at a path."""
        if path in self._absent:
            return True
        note = self.note
        if not note.complete or note.excludes != self.excludes.digest or self.was_skipped(path):
            return False
        try:
            was_there = self.repository.file_in(note.recorded, path) is not None
            return not was_there and not self._may_be_ignored(path)
        except MissingObject:
            return False

    def was_skipped(self, path: str) -> bool:
        """Whether the scan before the tool did not read the path, or a directory above it."""
        return not self._passed.isdisjoint(["", path, *directories_above(path)])

    def _may_be_ignored(self, path: str) -> bool:
        """Whether ``.gitignore`` files ignored a path then, or may have."""
        folders = ["", *(directory + "/" for directory in directories_above(path))]
        # What is not ignored now was not ignored then, by the same rules.
        unchanged = all(map(self._is_unchanged, folders))
        return not unchanged and is_left_out(path, self._rules_of)

    def _is_unchanged(self, folder: str) -> bool:
        """Whether a directory's ``.gitignore`` is the same now as then."""
        if self.ignores is None:
            return False
        if folder not in self._unchanged:
            now = self.ignores.get(folder + ".gitignore", "")
            self._unchanged[folder] = now == self._followed(folder)
        return self._unchanged[folder]

    def _followed(self, folder: str) -> str:
        """The blob id of a directory's ``.gitignore`` then; "" if there was none."""
        path = folder + ".gitignore"
        if path in self.note.ignores:
            return self.note.ignores[path]
        found = self.repository.file_in(self.note.tree, path)
        return found[1] if found is not None else ""

    def _rules_of(self, folder: str) -> IgnoreFile:
        """A directory's ``.gitignore`` then; one that ignores everything if it is too large."""
        if folder not in self._rules:
            oid = self._followed(folder)
            content = self.repository.blob(oid) if oid else b""
            content = content if len(content) <= _MAX_RULES_BYTES else b"*"
            self._rules[folder] = IgnoreFile(content, folder)
        return self._rules[folder]
