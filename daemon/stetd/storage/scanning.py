"""Scanning all files of a workspace by their stat data; none is read.

What ``.gitignore`` files leave out is skipped, unless the history has it already (as with
Git). Never scanned: ``.git`` in any disguise, embedded bare repositories, other file systems,
names that no path of the history can have, and what is neither a file nor a link. Directories are
opened under the workspace's own handle; links are not followed.
"""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from stet.wire.failures import Refused
from stet.wire.results import SkippedPath
from stetd.editing.paths import (
    TEMPORARY_PREFIX,
    check_component,
    is_git_directory_name,
    may_be_link,
)
from stetd.history.excluding import NOTHING_EXCLUDED, Excludes
from stetd.history.ignoring import IgnoreFile, is_ignored
from stetd.history.objects import TREE, Entry, Image, LoadTree
from stetd.storage.stat_cache import Known, Stamp
from stetd.storage.worktree import Worktree

_LARGEST_IGNORE_FILE = 1 << 20
_MOST_SKIPPED = 100
#: How many places that could not be scanned are named, and one more if there are more.
MOST_PASSED = 1000
#: Names that no rule is about: asking all rules takes longer than all else.
_ORDINARY = re.compile(r"(?![Gg][Ii][Tt]~)[A-Za-z0-9_-][A-Za-z0-9_. -]*")
_BARE = {"HEAD", "objects", "refs"}
#: Files are counted up to so many times the limit.
_COUNTED = 10


@dataclass(slots=True, eq=False)
class Folder:
    """A directory. ``path`` is "" for the root, else it ends in a slash.

    ``tree`` and ``tracked``: what the history has there. ``entries``: what is known of its
    files already.
    """

    path: str
    tree: str | None
    tracked: Mapping[str, Entry]
    stamps: dict[str, Stamp] = field(default_factory=dict)
    entries: dict[str, Entry] = field(default_factory=dict)
    #: The stamps under which contents may be known the next time.
    cached: dict[str, tuple[Stamp, bytes]] = field(default_factory=dict)


class _Waiting(NamedTuple):
    path: str
    tree: str | None
    ignores: Sequence[IgnoreFile]
    #: Left out, but for what the history has in it.
    ignored: bool


class Scan:
    """The files of a workspace. ``load_tree`` and ``tree`` (None: none yet) say what is tracked.

    ``known``: what was known of the files in a directory. ``inner``: directories, each with a
    slash at its end, that are not scanned.
    """

    def __init__(
        self,
        worktree: Worktree,
        load_tree: LoadTree,
        tree: str | None,
        known: Callable[[str], Known],
        *,
        max_files: int,
        max_file_bytes: int,
        excludes: Excludes = NOTHING_EXCLUDED,
        inner: Container[str] = (),
    ) -> None:
        self._worktree = worktree
        self._load_tree = load_tree
        self._known = known
        self._max_files = max_files
        self._max_file_bytes = max_file_bytes
        self._excludes = excludes
        self._inner = inner
        self._device = os.stat(worktree.root).st_dev
        #: The directories, each before those in it.
        self.folders: list[Folder] = []
        #: (folder, name) of what has to be read.
        self.unknown: list[tuple[Folder, str]] = []
        self.files = self.bytes = self.unknown_bytes = 0
        #: Files that are too large, largest first: (bytes, path).
        self.large: list[tuple[int, str]] = []
        #: How many files there are in each directory of the root.
        self.by_top = Counter[str]()
        self.skipped: list[SkippedPath] = []
        self.skipped_count = 0
        #: What exists and could not be scanned, with all below it ("": everything). Not what is
        #: ignored or excluded.
        self.passed: list[str] = []
        #: The ``.gitignore`` files that are followed, and the ids of their contents. ``untold``:
        #: where that is something else than what is tracked; "": none is followed there.
        self.ignores: dict[str, str] = {}
        self.untold: dict[str, str] = {}
        #: What they say, by their directory.
        self.rules: dict[str, IgnoreFile] = {}
        self._tree = tree

    def walk(self) -> Iterator[None]:
        """Scan everything; yields often. Raises OSError for the root only."""
        waiting = [_Waiting("", self._tree, (), False)]
        while waiting and self.files <= _COUNTED * self._max_files:
            here = waiting.pop()
            below: list[_Waiting] = []
            yield from self._look_into(here, below)
            waiting += reversed(below)
        self.large.sort(reverse=True)

    def skip(self, path: str, why: str) -> None:
        """Note what is left out, other than by the workspace's own ``.gitignore`` files."""
        self.skipped_count += 1
        if len(self.skipped) < _MOST_SKIPPED:
            self.skipped.append(SkippedPath(path, why))

    def _pass(self, path: str, why: str = "") -> None:
        """Note something that there is, and that can't be read."""
        if len(self.passed) <= MOST_PASSED:
            self.passed.append(path)
        if why:
            self.skip(path, why)

    def _look_into(self, here: _Waiting, below: list[_Waiting]) -> Iterator[None]:
        names = self._names(here)
        if names is None:
            return
        if here.path and names.keys() >= _BARE:
            self._pass(here.path, "it is a Git repository's own directory")
            return
        folder = Folder(here.path, here.tree, self._load_tree(here.tree) if here.tree else {})
        self.folders.append(folder)
        ignores = here.ignores
        if not here.ignored:
            own = self._ignore_file(folder) if ".gitignore" in names else None
            ignores = [*ignores, own] if own else ignores
            self._tell_ignores(folder)
        known = self._known(here.path)
        for name in sorted(names):
            info = names[name]
            directory = stat.S_ISDIR(info.st_mode)
            tracked = folder.tracked.get(name)
            path = here.path + name
            ignored = here.ignored or is_ignored(path, ignores, directory=directory)
            # A file in place of a directory that the history has is another thing, and new.
            is_known = tracked is not None and (tracked.mode == TREE) == directory
            if (ignored and not is_known) or not self._is_usable(path, name, info):
                continue
            if not directory and self._excludes(path):
                self.skip(path, "it is excluded from the history (exclude, in the configuration)")
                continue
            if directory and path + "/" in self._inner:
                self._pass(path + "/", "it is a workspace of its own")
                continue
            if directory:
                tree = tracked.oid if tracked is not None and tracked.mode == TREE else None
                below.append(_Waiting(path + "/", tree, ignores, ignored))
            else:
                self._take(folder, name, Stamp.of(info), known.get(name))
            yield

    def _names(self, here: _Waiting) -> dict[str, os.stat_result] | None:
        """What is in a directory; None if it can't be looked into."""
        found = {}
        try:
            with self._worktree.resolver.locate(here.path + "x") as target:
                if target.missing or target.path != here.path + "x":
                    self._pass(here.path)
                    return None  # gone, or a link, since it was seen
                with os.scandir(target.dir_fd) as entries:
                    for entry in entries:
                        with suppress(FileNotFoundError):
                            found[entry.name] = entry.stat(follow_symlinks=False)
        except Refused as refusal:
            self._pass(here.path, refusal.message)
            return None
        except OSError as error:
            if not here.path:
                raise
            self._pass(here.path, error.strerror or repr(error))
            return None
        return found

    def _is_usable(self, path: str, name: str, info: os.stat_result) -> bool:
        """Whether the history can have it; if not, that is noted where it is not plain."""
        if not _ORDINARY.fullmatch(name):
            if is_git_directory_name(name):
                return False
            try:
                check_component(name, path)
            except Refused as refusal:
                if not name.startswith(TEMPORARY_PREFIX):
                    self.skip(os.fsencode(path).decode("utf-8", "replace"), refusal.message)
                return False
        if info.st_dev != self._device:
            self._pass(path, "it lies on another file system")
            return False
        if stat.S_ISLNK(info.st_mode) and not may_be_link(name):
            self._pass(path, "Git does not accept a link of this name")
            return False
        return bool(stat.S_IFMT(info.st_mode) in (stat.S_IFREG, stat.S_IFLNK, stat.S_IFDIR))

    def _take(
        self, folder: Folder, name: str, stamp: Stamp, known: tuple[Stamp, bytes] | None
    ) -> None:
        path = folder.path + name
        self.files += 1
        self.bytes += stamp.size
        top, slash, _ = path.partition("/")
        self.by_top[top + slash if slash else "."] += 1
        if stamp.size > self._max_file_bytes:
            self.large.append((stamp.size, path))
        folder.stamps[name] = stamp
        tracked = folder.tracked.get(name)
        if known is not None and known[0] == stamp and tracked is not None:
            image = Image(known[1].hex(), stamp.mode)
            if (tracked.mode, tracked.oid) == (image.git_mode, image.oid):
                folder.entries[name] = tracked
                folder.cached[name] = known
                return
        self.unknown.append((folder, name))
        self.unknown_bytes += stamp.size

    def _tell_ignores(self, folder: Folder) -> None:
        path = folder.path + ".gitignore"
        tracked = folder.tracked.get(".gitignore")
        stood = tracked.oid if tracked is not None and tracked.mode != TREE else ""
        followed = self.ignores.get(path, "")
        if followed != stood:
            self.untold[path] = followed

    def _ignore_file(self, folder: Folder) -> IgnoreFile | None:
        """A directory's ``.gitignore``; Git does not follow one that is a link."""
        path = folder.path + ".gitignore"
        try:
            found = self._worktree.read_path(path, _LARGEST_IGNORE_FILE)
        except Refused:
            return None
        if found is None or found.data is None or found.is_link:
            return None
        self.ignores[path] = found.oid
        self.rules[folder.path] = IgnoreFile(found.data, folder.path)
        return self.rules[folder.path]
