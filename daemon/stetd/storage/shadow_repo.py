"""The shadow repository: an ordinary bare Git repository that holds what agents did.

The one module that knows libgit2. The repository has no index, no work tree and no
hooks; it ignores the user's Git configuration and every ``GIT_*`` variable (libgit2
reads those only when asked to). Ids are 40 hex digits everywhere.

An instance belongs to one thread. Objects may be written again at any time: they are
named by their content. Nothing here syncs; checkpoints do (:meth:`loose_path`).
"""

from __future__ import annotations

import hashlib
import os
import re
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import NamedTuple

import msgspec
import pygit2
from pygit2.enums import ConfigLevel, DiffOption, ObjectType
from pygit2.index import MergeFileResult

from stetd.history.commit_rows import Hunk
from stetd.history.commits import StoredCommit, parse_commit
from stetd.history.objects import FILE, Entry, NewObject
from stetd.storage.disk import Disk, replace_file
from stetd.storage.object_files import Damaged, Missing, ObjectFiles
from stetd.storage.packing import clear_half_packs
from stetd.storage.references import HISTORY, PINS, DamagedReference, pinned, read_reference
from stetd.storage.shallow import read_shallow
from stetd.storage.stored_trees import StoredTrees

_TREE_ENTRY = re.compile(rb"([0-7]+) ([^\0]+)\0(.{20})", re.DOTALL)
#: Trees that one handle remembers, and their entries together (some 200 bytes each).
_MOST_TREES, _TREE_ENTRIES = 256, 60_000
#: Commits that one handle remembers (some 1 KB each): more than the query index may lack. A call
#: about a commit far back reads all of those, on the writer; the next such call should not again.
_COMMITS = 6_000
_TYPES = {"blob": ObjectType.BLOB, "tree": ObjectType.TREE, "commit": ObjectType.COMMIT}
_REFERENCE = re.compile(rb"[0-9a-f]{40}\n")
#: The marker has no label where that side is empty.
_CONFLICT = re.compile(r"^<<<<<<<[^\n]*\n.*?^>>>>>>>[^\n]*\n?", re.MULTILINE | re.DOTALL)
#: Lines of a diff's header; no line of the content begins like that.
_INDEX = re.compile(r"^(index [0-9a-f]+\.\.[0-9a-f]+) [0-7]+$", re.MULTILINE)
_LONE_RETURN = re.compile(rb"\r(?!\n)")
_NEW_FILE = re.compile(r"^new file mode [0-7]+$", re.MULTILINE)
_DELETED_FILE = re.compile(r"^deleted file mode [0-7]+$", re.MULTILINE)

for _level in (ConfigLevel.SYSTEM, ConfigLevel.GLOBAL, ConfigLevel.XDG, ConfigLevel.PROGRAMDATA):
    pygit2.settings.search_path[_level] = ""
#: Packs that libgit2 keeps open, of all repositories together; by default it closes none.
pygit2.settings.mwindow_file_limit = 32
#: Bytes of trees and commits that libgit2 remembers, of all repositories together.
pygit2.settings.cache_max_size(16 << 20)


class MissingObject(Exception):
    """The repository does not hold an object that it should, or only a damaged one."""


class BrokenRepository(Exception):
    """The files that make a directory a repository are not what they should be."""


class Merge(NamedTuple):
    """A three-way merge of one file: the result, or the hunks that conflict."""

    content: bytes | None
    hunks: list[str]


class LineDiff(NamedTuple):
    """A unified diff of one file and its counts of lines."""

    text: str
    added: int
    removed: int


class LineComparison(NamedTuple):
    """Which lines of a file changed; ``text`` has them, removed and added, without signs."""

    hunks: tuple[Hunk, ...]
    added: int
    removed: int
    text: str


#: What makes a directory a bare Git repository, besides its directories.
_HEAD = b"ref: " + HISTORY.encode() + b"\n"
_CONFIG = b"""[core]
\trepositoryformatversion = 0
\tfilemode = true
\tbare = true
\tlogAllRefUpdates = false
\thooksPath = /dev/null
[gc]
\tauto = 0
"""
_DIRECTORIES = (
    "", "objects", "objects/info", "objects/pack", "refs", "refs/heads", PINS, "refs/tags",
)  # fmt: skip


def create_repository(path: str, disk: Disk, *, clear_leftovers: bool = True) -> None:
    """Make an empty shadow repository (0700), durably; or mend what a crash left of one.

    ``clear_leftovers``: what a killed process left goes; nobody may be writing there.

    Written file by file and not by libgit2, which syncs nothing: after a power cut an empty
    ``HEAD`` would be no repository any more.
    """
    for folder in _DIRECTORIES:
        os.makedirs(os.path.join(path, folder), mode=0o700, exist_ok=True)
    if clear_leftovers:
        _clear_leftovers(path)
    _write_if_damaged(os.path.join(path, "HEAD"), _HEAD, lambda content: content == _HEAD, disk)
    _write_if_damaged(
        os.path.join(path, "config"), _CONFIG, lambda c: b"[core]" in c and b"\0" not in c, disk
    )
    for folder in _DIRECTORIES:
        disk.sync_directory(os.path.join(path, folder))


def _write_if_damaged(
    path: str, content: bytes, is_whole: Callable[[bytes], bool], disk: Disk
) -> None:
    if os.path.exists(path):
        with open(path, "rb") as file:
            if is_whole(file.read()):
                return
    replace_file(path, content, disk)


def _clear_leftovers(path: str) -> None:
    """Remove what a killed process left: locks, which would block every later commit, and
    temporary files. The caller holds the daemon's lock.
    """
    clear_half_packs(path)
    for folder in ("", "refs/heads", PINS, "objects", "objects/pack"):
        directory = os.path.join(path, folder)
        for name in os.listdir(directory):
            if name.endswith((".lock", ".tmp")) or name.startswith("tmp_"):
                os.unlink(os.path.join(directory, name))


class _Trees:
    """The trees that were read last, by id; so many that their entries don't fill the memory."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Mapping[str, Entry]] = OrderedDict()
        self._entries = 0

    def find(self, oid: str) -> Mapping[str, Entry] | None:
        """The entries of a tree, if they are remembered."""
        found = self._known.get(oid)
        if found is not None:
            self._known.move_to_end(oid)
        return found

    def keep(self, oid: str, entries: Mapping[str, Entry]) -> None:
        """Remember a tree, and forget what was not asked for the longest."""
        self._known[oid] = entries
        self._entries += len(entries)
        while len(self._known) > 1 and (
            self._entries > _TREE_ENTRIES or len(self._known) > _MOST_TREES
        ):
            _, forgotten = self._known.popitem(last=False)
            self._entries -= len(forgotten)


class _Stored:
    """What a handle reads, and remembers none of.

    It is not the handle itself because the handle's caches call it: an object that a cache of
    its own leads back to is freed only by the garbage collector, which is minutes away, and
    every question to the history has a handle.
    """

    def __init__(self, path: str) -> None:
        self.files = ObjectFiles(path)
        self.shallow = read_shallow(path)

    def read(self, oid: str) -> bytes:
        """An object's content; MissingObject if it is not there."""
        try:
            return self.files.read(oid)[1]
        except (Missing, Damaged) as error:
            raise MissingObject(oid) from error

    def commit(self, oid: str) -> StoredCommit:
        """A commit with its metadata; MissingObject if it is not there."""
        commit = parse_commit(oid, self.read(oid))
        return commit if oid not in self.shallow else msgspec.structs.replace(commit, parent=None)


def _let_go(repository: pygit2.Repository) -> None:
    """Free what libgit2 holds, now: its files and maps, and the object itself.

    The collections that belong to pygit2's object (its references, its remotes) lead back to
    it. Left so, it would keep what it holds, a merge its three files, until the garbage
    collector comes.
    """
    repository.free()
    vars(repository).clear()


class ShadowRepository:
    """One handle on a shadow repository. Raises BrokenRepository where it is none.

    ``commits``: how many it remembers.
    """

    def __init__(self, path: str, commits: int = _COMMITS) -> None:
        self.path = path
        try:
            self._repo = pygit2.Repository(path)
        except pygit2.GitError as error:
            raise BrokenRepository(str(error)) from error
        self._stored = _Stored(path)
        self._trees = _Trees()
        self.trees = StoredTrees(self._stored.read)
        self.commit = lru_cache(maxsize=commits)(self._stored.commit)

    def reopen(self) -> None:
        """Let go of packs that are gone, and see what came in their place."""
        self.close()
        self._repo = pygit2.Repository(self.path)
        self._stored.shallow = read_shallow(self.path)
        self.commit.cache_clear()  # a commit may have become the oldest, or be gone

    def close(self) -> None:
        """Release files and memory maps. What is remembered goes with the handle."""
        self._stored.files.close()
        _let_go(self._repo)

    # -- reading

    def head(self) -> str | None:
        """The commit that ``refs/heads/history`` names; MissingObject if it is damaged."""
        return self._reference(HISTORY, lambda: read_reference(self.path, HISTORY))

    def pinned(self, name: str) -> str | None:
        """The commit that a pin names; None if no pin is called so."""
        return self._reference(f"{PINS}/{name}", lambda: pinned(self.path, name))

    @staticmethod
    def _reference(name: str, read: Callable[[], str | None]) -> str | None:
        try:
            return read()
        except (DamagedReference, OSError) as error:
            raise MissingObject(name) from error

    def blob(self, oid: str) -> bytes:
        """A blob's content; MissingObject if it is not there."""
        return self._stored.read(oid)

    def load_tree(self, oid: str) -> Mapping[str, Entry]:
        """A tree's entries by name; MissingObject if it is not there."""
        known = self._trees.find(oid)
        if known is None:
            content = self._stored.read(oid)
            known = {
                name.decode(): Entry(int(mode, 8), entry.hex())
                for mode, name, entry in _TREE_ENTRY.findall(content)
            }
            self._trees.keep(oid, known)
        return known

    def raw_commit(self, oid: str) -> bytes:
        """A commit object's content; MissingObject if it is not there."""
        return self._stored.read(oid)

    def raw_parent(self, oid: str) -> str | None:
        """The parent that a commit names, whether or not it is there."""
        return parse_commit(oid, self._stored.read(oid)).parent

    def walk(self, start: str | None) -> Iterator[StoredCommit]:
        """The history from ``start`` back to its beginning."""
        while start is not None:
            stored = self.commit(start)
            yield stored
            start = stored.parent

    def is_commit(self, oid: str) -> bool:
        """Whether a full id names a commit."""
        try:
            return self._stored.files.read(oid)[0] == "commit"
        except (Missing, Damaged):
            return False

    def commits_with_prefix(self, prefix: str) -> list[str]:
        """Full ids of the commits whose id begins so (at least 4 digits), in order."""
        return [oid for oid in self._stored.files.with_prefix(prefix) if self.is_commit(oid)]

    def is_empty(self) -> bool:
        """Whether there is nothing in it: no reference of a history, and no object."""
        try:
            return self.head() is None and not next(iter(self._repo.odb), None)
        except MissingObject:
            return False

    # -- writing

    def write(self, objects: Iterable[NewObject]) -> None:
        """Add objects; one that is there already is left alone."""
        for kind, oid, content in objects:
            written = str(self._repo.odb.write(_TYPES[kind], content))
            assert written == oid, "BUG: an object's id was computed wrongly"

    def clear_damaged(self, oids: Iterable[str]) -> None:
        """Remove loose objects that are damaged, so that they can be written again.

        "Write if missing" is fooled by an empty loose object, which is what a power cut
        leaves of one that was not synced.
        """
        for oid in oids:
            loose = self.loose_path(oid)
            if os.path.exists(loose) and not _is_whole(loose, oid):
                with suppress(FileNotFoundError):  # packed meanwhile
                    os.unlink(loose)

    def set_head(self, oid: str | None) -> None:
        """Move ``refs/heads/history``; replaces a damaged reference. None: no commit yet."""
        if oid is None:
            if os.path.exists(self.reference_path):
                os.unlink(self.reference_path)
            return
        try:
            self._repo.references.create(HISTORY, oid, force=True)
        except (pygit2.GitError, ValueError, OSError):
            self._clear_reference()
            self._repo.references.create(HISTORY, oid, force=True)

    def _clear_reference(self) -> None:
        """Remove what an earlier failure has left in the way of the reference.

        Its lock: nobody else writes here, so it is a leftover of our own. The reference
        itself only if it is damaged; on a full disk it is all that git would find.
        """
        if os.path.exists(self.reference_path + ".lock"):
            os.unlink(self.reference_path + ".lock")
        if os.path.exists(self.reference_path):
            with open(self.reference_path, "rb") as file:
                if not _REFERENCE.fullmatch(file.read()):
                    os.unlink(self.reference_path)

    def loose_path(self, oid: str) -> str:
        """Where the object lies if it is loose."""
        return os.path.join(self.path, "objects", oid[:2], oid[2:])

    @property
    def reference_path(self) -> str:
        """The file of ``refs/heads/history``."""
        return os.path.join(self.path, *HISTORY.split("/"))


class _Scratch(pygit2.OdbBackend):
    """Blobs in memory: merging needs a repository, and must leave nothing in ours."""

    def __init__(self) -> None:
        super().__init__()
        self._blobs: dict[pygit2.Oid, bytes] = {}

    def add(self, content: bytes) -> pygit2.Oid:
        oid = pygit2.hash(content)
        self._blobs[oid] = content
        return oid

    def exists_cb(self, oid: pygit2.Oid) -> bool:
        return oid in self._blobs

    def read_cb(self, oid: pygit2.Oid) -> tuple[ObjectType, bytes]:
        return ObjectType.BLOB, self._blobs[oid]

    def read_header_cb(self, oid: pygit2.Oid) -> tuple[ObjectType, int]:
        return ObjectType.BLOB, len(self._blobs[oid])


def merge_file(base: bytes, ours: bytes, theirs: bytes) -> Merge:
    """Three-way merge of one file's content, as ``git merge-file`` does it.

    Bytes go through libgit2 as Latin-1 in UTF-8, because pygit2 decodes the result:
    lines end at ``\\n`` either way, and any byte comes back as it was.
    """
    if b"\0" in base or b"\0" in ours or b"\0" in theirs:
        return Merge(None, ["binary files differ"])
    repository = pygit2.Repository()
    try:
        merged = _merged(repository, base, ours, theirs)
    except RuntimeError:  # pygit2 stumbles over a result without content: no conflict is that
        return Merge(b"", [])
    finally:
        _let_go(repository)
    if merged.automergeable:
        return Merge(merged.contents.encode("latin-1"), [])
    text = merged.contents.encode("latin-1").decode("utf-8", "replace")
    return Merge(None, _CONFLICT.findall(text) or [text])


def _merged(
    repository: pygit2.Repository, base: bytes, ours: bytes, theirs: bytes
) -> MergeFileResult:
    scratch = _Scratch()
    store = pygit2.Odb()
    store.add_backend(scratch, 1)
    repository.set_odb(store)
    base_entry, our_entry, their_entry = [
        pygit2.IndexEntry(
            "file", scratch.add(side.decode("latin-1").encode()), pygit2.enums.FileMode.BLOB
        )
        for side in (base, ours, theirs)
    ]
    return repository.merge_file_from_index(
        base_entry, our_entry, their_entry, use_deprecated=False
    )


def _is_whole(loose: str, oid: str) -> bool:
    try:
        with open(loose, "rb") as file:
            content = zlib.decompress(file.read())
    except (zlib.error, OSError):
        return False
    return hashlib.sha1(content, usedforsecurity=False).hexdigest() == oid


def line_diff(
    path: str,
    before: bytes | None,
    after: bytes | None,
    *,
    old_path: str | None = None,
    modes: tuple[int | None, int | None] = (None, None),
    context: int = 3,
) -> LineDiff:
    """The unified diff between two contents of a file (None: there is none).

    ``modes``: the Git modes before and after; None is that of a plain file.
    """
    old_mode, new_mode = (FILE if mode is None else mode for mode in modes)
    changed_mode = before is not None and after is not None and old_mode != new_mode
    if before == after and not changed_mode and old_path is None:
        return LineDiff("", 0, 0)
    patch = pygit2.Patch.create_from(
        before, after, old_as_path=old_path or path, new_as_path=path, context_lines=context
    )
    text = patch.data.decode("utf-8", "replace") if patch.data else ""
    if changed_mode:
        header, _, body = text.partition("\n")
        header = header or f"diff --git a/{old_path or path} b/{path}"
        body = _INDEX.sub(r"\1", body, count=1)
        text = f"{header}\nold mode {old_mode:o}\nnew mode {new_mode:o}\n{body}"
    else:  # libgit2 takes every content for that of a plain file
        text = _INDEX.sub(rf"\1 {new_mode:o}", text, count=1)
        text = _NEW_FILE.sub(f"new file mode {new_mode:o}", text, count=1)
        text = _DELETED_FILE.sub(f"deleted file mode {old_mode:o}", text, count=1)
    _, added, removed = patch.line_stats
    return LineDiff(text, added, removed)


def unified_hunks(before: bytes, after: bytes) -> bytes:
    """The hunks of the unified diff of two texts, from the first ``@@`` on, byte for byte."""
    patch = pygit2.Patch.create_from(before, after, "a", "a", flag=DiffOption.FORCE_TEXT)
    _, found, hunks = (patch.data or b"").partition(b"\n@@ ")
    return b"@@ " + hunks if found else b""


def count_lines(before: bytes | None, after: bytes | None) -> tuple[int, int]:
    """How many lines were added and removed between two contents (None: there is none)."""
    if before == after:
        return 0, 0
    _, added, removed = pygit2.Patch.create_from(before, after, context_lines=0).line_stats
    return added, removed


def compare_lines(before: bytes | None, after: bytes | None) -> LineComparison:
    """Which lines differ between two contents of a file (None: there is none).

    Counts and text are those of :func:`line_diff`; in the hunks a lone ``\\r`` ends a line as
    well, as it does everywhere else in the daemon. Of a binary file all is one hunk.
    """
    patch = pygit2.Patch.create_from(before, after, context_lines=0)
    if patch.delta.is_binary:
        counts = [_count_lines(side or b"") for side in (before, after)]
        return LineComparison((Hunk(0, counts[0], 0, counts[1]),), 0, 0, "")
    _, added, removed = patch.line_stats
    text = "\n".join(changed_lines(patch.data.decode("utf-8", "replace").split("\n")))
    old, new = (side and _LONE_RETURN.sub(b"\r\x01\n", side) for side in (before, after))
    if (old, new) != (before, after):
        patch = pygit2.Patch.create_from(old, new, context_lines=0)
    return LineComparison(tuple(map(_hunk, patch.hunks)), added, removed, text)


def _hunk(hunk: pygit2.DiffHunk) -> Hunk:
    """Counted from 0; libgit2 names the line before where a side has none."""
    return Hunk(
        hunk.old_start - bool(hunk.old_lines),
        hunk.old_lines,
        hunk.new_start - bool(hunk.new_lines),
        hunk.new_lines,
    )


def _count_lines(data: bytes) -> int:
    ends = data.count(b"\n") + len(_LONE_RETURN.findall(data))
    return ends + (not data.endswith((b"\n", b"\r")) and bool(data))


def changed_lines(diff: Iterable[str]) -> Iterator[str]:
    """The added and removed lines among the lines of one file's diff, without their signs.

    The header ends where the first hunk begins: a removed line may look like ``--- a/x``.
    """
    inside = False
    for line in diff:
        inside = inside or line.startswith("@@ ")
        if inside and line[:1] in ("+", "-"):
            yield line[1:]
