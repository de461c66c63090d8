"""Scanning all files of a workspace by their stat data. File contents are not read.

Files that ``.gitignore`` files name are skipped, unless the history has them already (as with
Git). Never scanned: ``.git`` in any spelling, embedded bare repositories, other file systems,
names that no path of the history can have, and entries that are neither files nor links.
Directories are opened below the workspace's root descriptor; links are not followed.
"""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec

from stet.wire.failures import Refused
from stet.wire.results import SkippedPath
from stetd.editing.paths import (
    TEMPORARY_PREFIX,
    check_component,
    is_git_directory_name,
    may_be_link,
)
from stetd.history.excluding import Excludes
from stetd.history.ignoring import IgnoreFile, is_ignored
from stetd.history.objects import TREE, Entry, Image, LoadTree
from stetd.storage.stat_cache import Known, Stamp
from stetd.storage.worktree import Worktree

_LARGEST_IGNORE_FILE = 1 << 20
_MOST_SKIPPED = 100
#: Paths in ``Scan.passed``; one more if there are more.
MOST_PASSED = 1000
#: Names that are allowed by every rule: checking all rules would take most of the time.
_ORDINARY = re.compile(r"(?![Gg][Ii][Tt]~)[A-Za-z0-9_-][A-Za-z0-9_. -]*")
_BARE = {"HEAD", "objects", "refs"}
#: Scanning ends at this many times the limit of files.
_COUNTING_FACTOR = 10


class Folder(msgspec.Struct, eq=False):
    """A directory. ``path`` is "" for the root, else it ends in a slash.

    ``tree`` and ``tracked``: its tree in the history. ``stamps``: of all its files. ``entries``:
    of files that have not changed, or are too large.
    """

    path: str
    tree: str | None
    tracked: Mapping[str, Entry]
    stamps: dict[str, Stamp] = {}
    entries: dict[str, Entry] = {}
    #: The entries for the next stat cache.
    cached: dict[str, tuple[Stamp, bytes]] = {}


class _Waiting(NamedTuple):
    path: str
    tree: str | None
    ignores: Sequence[IgnoreFile]
    #: Ignored: only files that the history has are scanned.
    ignored: bool


class Scan(msgspec.Struct):
    """A scan of a workspace. ``tree``: the root tree of the history; None: there is none yet.

    ``known``: gives the stat cache's files of a directory. ``inner``: directories, each with a
    slash at its end, that are not scanned.
    """

    worktree: Worktree
    load_tree: LoadTree
    tree: str | None
    known: Callable[[str], Known]
    max_files: int
    max_file_bytes: int
    excludes: Excludes
    inner: Container[str] = ()
    #: The directories, each before its subdirectories.
    folders: list[Folder] = []
    #: (folder, name) of the files that must be read.
    unknown: list[tuple[Folder, str]] = []
    files: int = 0
    bytes: int = 0
    unknown_bytes: int = 0
    #: Files that are too large, largest first: (bytes, path). Their bytes are not counted.
    large: list[tuple[int, str]] = []
    #: Number of files by directory of the root.
    by_top: Counter[str] = msgspec.field(default_factory=Counter)
    skipped: list[SkippedPath] = []
    skipped_count: int = 0
    #: Paths that could not be scanned, with all below them ("": everything). Without ignored
    #: and excluded paths.
    passed: list[str] = []
    #: The ``.gitignore`` files that are followed: path to blob id.
    ignores: dict[str, str] = {}
    #: Those that differ from the history's. "": the history has one that is not followed.
    changed_ignores: dict[str, str] = {}
    #: Directory to the rules of its ``.gitignore`` file.
    rules: dict[str, IgnoreFile] = {}
    #: The root's.
    device: int = 0

    def walk(self) -> Iterator[None]:
        """Scan the workspace; yields often. Raises OSError if the root can't be read."""
        self.device = os.stat(self.worktree.root).st_dev
        waiting = [_Waiting("", self.tree, (), False)]
        while waiting and self.files <= _COUNTING_FACTOR * self.max_files:
            here = waiting.pop()
            below: list[_Waiting] = []
            yield from self._scan_directory(here, below)
            waiting += reversed(below)
        self.large.sort(reverse=True)

    def skip(self, path: str, why: str) -> None:
        """Note a path that is left out for another reason than a ``.gitignore`` file."""
        self.skipped_count += 1
        if len(self.skipped) < _MOST_SKIPPED:
            self.skipped.append(SkippedPath(path, why))

    def _note_unscanned(self, path: str, why: str = "") -> None:
        """Note a path that exists and can't be scanned."""
        if len(self.passed) <= MOST_PASSED:
            self.passed.append(path)
        if why:
            self.skip(path, why)

    def _scan_directory(self, here: _Waiting, below: list[_Waiting]) -> Iterator[None]:
        names = self._names(here)
        if names is None:
            return
        if here.path and names.keys() >= _BARE:
            self._note_unscanned(here.path, "it is a Git repository's own directory")
            return
        folder = Folder(here.path, here.tree, self.load_tree(here.tree) if here.tree else {})
        self.folders.append(folder)
        ignores = here.ignores
        if not here.ignored:
            own = self._ignore_file(folder, there=".gitignore" in names)
            ignores = [*ignores, own] if own else ignores
        known = self.known(here.path)
        for name in sorted(names):
            info = names[name]
            directory = stat.S_ISDIR(info.st_mode)
            tracked = folder.tracked.get(name)
            path = here.path + name
            ignored = here.ignored or is_ignored(path, ignores, directory=directory)
            # A file that has replaced a directory of the history is new, and vice versa.
            is_known = tracked is not None and (tracked.mode == TREE) == directory
            if (ignored and not is_known) or not self._is_usable(path, name, info):
                continue
            if not directory and self.excludes(path):
                self.skip(path, "it is excluded from the history (exclude, in the configuration)")
                continue
            if directory and path + "/" in self.inner:
                self._note_unscanned(path + "/", "it is a workspace of its own")
                continue
            if directory:
                tree = tracked.oid if tracked is not None and tracked.mode == TREE else None
                below.append(_Waiting(path + "/", tree, ignores, ignored))
            else:
                self._add_file(folder, name, Stamp.of(info), known)
            yield

    def _names(self, here: _Waiting) -> dict[str, os.stat_result] | None:
        """The names in a directory; None if it can't be read."""
        found = {}
        try:
            with self.worktree.resolver.locate(here.path + "x") as target:
                if target.missing or target.path != here.path + "x":
                    self._note_unscanned(here.path)
                    return None  # it is gone, or has become a link
                with os.scandir(target.dir_fd) as entries:
                    for entry in entries:
                        with suppress(FileNotFoundError):
                            found[entry.name] = entry.stat(follow_symlinks=False)
        except Refused as refusal:
            self._note_unscanned(here.path, refusal.message)
            return None
        except OSError as error:
            if not here.path:
                raise
            self._note_unscanned(here.path, error.strerror or repr(error))
            return None
        return found

    def _is_usable(self, path: str, name: str, info: os.stat_result) -> bool:
        """Whether the history can have a path. If not, the reason is noted unless it is plain."""
        if not _ORDINARY.fullmatch(name):
            if is_git_directory_name(name):
                return False
            try:
                check_component(name, path)
            except Refused as refusal:
                if not name.startswith(TEMPORARY_PREFIX):
                    self.skip(os.fsencode(path).decode("utf-8", "replace"), refusal.message)
                return False
        if info.st_dev != self.device:
            self._note_unscanned(path, "it lies on another file system")
            return False
        if stat.S_ISLNK(info.st_mode) and not may_be_link(name):
            self._note_unscanned(path, "Git does not accept a link of this name")
            return False
        return bool(stat.S_IFMT(info.st_mode) in (stat.S_IFREG, stat.S_IFLNK, stat.S_IFDIR))

    def _add_file(self, folder: Folder, name: str, stamp: Stamp, cached: Known) -> None:
        path, known = folder.path + name, cached.get(name)
        tracked = folder.tracked.get(name)
        folder.stamps[name] = stamp
        self.files += 1
        top, slash, _ = path.partition("/")
        self.by_top[top + slash if slash else "."] += 1
        if stamp.size > self.max_file_bytes:
            self.large.append((stamp.size, path))
            if tracked is not None and tracked.mode != TREE:
                folder.entries[name] = tracked
            return
        self.bytes += stamp.size
        if known is not None and known[0] == stamp and tracked is not None:
            image = Image(known[1].hex(), stamp.mode)
            if (tracked.mode, tracked.oid) == (image.git_mode, image.oid):
                folder.entries[name] = tracked
                folder.cached[name] = known
                return
        self.unknown.append((folder, name))
        self.unknown_bytes += stamp.size

    def _ignore_file(self, folder: Folder, *, there: bool) -> IgnoreFile | None:
        """The rules of a directory's ``.gitignore``; Git does not follow one that is a link."""
        path, found = folder.path + ".gitignore", None
        if there:
            with suppress(Refused):
                found = self.worktree.read_path(path, _LARGEST_IGNORE_FILE)
        if found is not None and found.data is not None and not found.is_link:
            self.ignores[path] = found.oid
            self.rules[folder.path] = IgnoreFile(found.data, folder.path)
        tracked = folder.tracked.get(".gitignore")
        recorded = tracked.oid if tracked is not None and tracked.mode != TREE else ""
        followed = self.ignores.get(path, "")
        if followed != recorded:
            self.changed_ignores[path] = followed
        return self.rules.get(folder.path)
