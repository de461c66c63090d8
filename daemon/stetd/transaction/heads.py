"""Heads of a history, adding commits to one, and the records of edits made outside.

No I/O but for loading trees: ids are computed here, the historian writes the objects later.
"""

from __future__ import annotations

import stat
from collections.abc import Container, Iterable, Mapping, Sequence

import msgspec

from stetd import __version__
from stetd.history.commits import CommitMeta, commit_object
from stetd.history.excluding import NOTHING_EXCLUDED, Excludes
from stetd.history.objects import (
    Image,
    LoadTree,
    NewObject,
    Tree,
    change_tree,
    find_entry,
    paths_in_the_way,
    same_image,
    stored_tree,
)
from stetd.storage.journal_format import Change, CommitRecord, PathChange

_PLAIN_PERMISSIONS = (0o644, 0o755)


class Head(msgspec.Struct, frozen=True):
    """The head of a workspace's history: the newest commit, its tree, the number of commits."""

    commit: str | None
    tree: Tree
    commits: int

    def image(self, path: str, load: LoadTree) -> Image | None:
        """The image of a path, with the mode as Git keeps it."""
        found = find_entry(self.tree, path, load)
        return Image(found[1], found[0]) if found is not None else None


class HistoryBuilder(msgspec.Struct):
    """A head, and the commits and objects that were added to reach it.

    ``excludes``: files that commits leave out. Not needed to make commits again: recorded changes
    have no such files.
    """

    head: Head
    load: LoadTree
    time: int
    excludes: Excludes = NOTHING_EXCLUDED
    commits: list[CommitRecord] = []
    objects: list[NewObject] = []

    def add(self, meta: CommitMeta, changes: dict[str, Image | None], tree: str = "") -> str:
        """Add a commit; returns its id. ``tree``: the one to change, if not the head's."""
        changes = self.without_excluded(changes)
        git = [
            (path, (image.git_mode, image.oid) if image else None)
            for path, image in changes.items()
        ]
        start = stored_tree(tree, self.load) if tree else self.head.tree
        # The tree of a snapshot is stored: without changes it is not written again.
        result, objects = change_tree(start, git, self.load) if git or not tree else (start, [])
        commit = commit_object(meta, result.oid, self.head.commit)
        self.commits.append(CommitRecord(commit.oid, self.head.commit, meta, changes, tree))
        self.objects += [*objects, commit]
        self.head = Head(commit.oid, result, self.head.commits + 1)
        return commit.oid

    def without_excluded(self, changes: Mapping[str, Image | None]) -> dict[str, Image | None]:
        """The changes without excluded files. Those that the tree still has are deleted from it."""
        if not self.excludes:
            return dict(changes)
        kept: dict[str, Image | None] = {}
        for path, image in changes.items():
            if not self.excludes(path):
                kept[path] = image
            elif find_entry(self.head.tree, path, self.load):
                kept[path] = None
        return kept

    def add_outside(self, changes: dict[str, Image | None], subject: str) -> str:
        """Add a commit of edits that were made outside."""
        meta = CommitMeta(
            kind="outside",
            time=self.time,
            subject=f"{subject}: {few_names(changes)}",
            permissions=permissions_of(changes.items()),
            version=__version__,
        )
        return self.add(meta, changes)

    def new_objects(self, blobs: Mapping[str, bytes]) -> list[NewObject]:
        """The contents of a record (by blob id), and the objects that were added."""
        return [*(NewObject("blob", oid, data) for oid, data in blobs.items()), *self.objects]


class RecordContradicts(Exception):
    """A journal record contradicts the history in Git; the message says how."""


def remake(history: HistoryBuilder, number: int, commit: CommitRecord) -> None:
    """Make a commit of record ``number`` again and check its id. Raises RecordContradicts."""
    if commit.parent != history.head.commit:
        raise RecordContradicts(
            f"record {number} of the journal continues commit {commit.parent}, "
            f"but the history stands at {history.head.commit}"
        )
    oid = history.add(commit.meta, commit.changes, commit.tree)
    if oid != commit.oid:
        raise RecordContradicts(
            f"record {number} of the journal makes {oid}, not {commit.oid} as it says"
        )


def few_names(paths: Iterable[str]) -> str:
    """The first three paths and the number of the others, for a line of text."""
    names = sorted(paths)
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def unusual_permissions(mode: int) -> int | None:
    """A regular file's permission bits if Git's file modes can't express them, else None."""
    bits = stat.S_IMODE(mode)
    return bits if stat.S_ISREG(mode) and bits not in _PLAIN_PERMISSIONS else None


def permissions_of(pairs: Iterable[tuple[str, Image | None]]) -> tuple[tuple[str, int], ...]:
    """The permission bits that Git's file modes can't express, by path."""
    return tuple(
        (path, bits)
        for path, image in pairs
        if image is not None and (bits := unusual_permissions(image.mode)) is not None
    )


def permissions_after(
    triples: Iterable[tuple[str, Image | None, Image | None]],
) -> tuple[tuple[str, int], ...]:
    """As :func:`permissions_of`, for changes (path, before, after): the bits afterwards.

    If the file was deleted, or replaced by a link, those before: else they would be lost.
    """
    return permissions_of(
        (path, after if after is not None and stat.S_ISREG(after.mode) else before)
        for path, before, after in triples
    )


def regraded(
    triples: Sequence[tuple[str, Image | None, Image | None]],
    moves: Iterable[tuple[str, str]] = (),
) -> tuple[tuple[str, int, int], ...]:
    """(path, old bits, new bits) of the files whose permission bits changed, unless both are plain.

    ``triples``: (path, before, after). A moved file has its new path.
    """
    old_names = {new: old for old, new in moves}
    befores = {path: before for path, before, _ in triples}
    found = []
    for path, before, after in triples:
        if path in old_names:
            before = befores.get(old_names[path])
        if not (before and after and stat.S_ISREG(before.mode) and stat.S_ISREG(after.mode)):
            continue
        old, new = stat.S_IMODE(before.mode), stat.S_IMODE(after.mode)
        if old != new and not {old, new} <= set(_PLAIN_PERMISSIONS):
            found.append((path, old, new))
    return tuple(found)


def outside_changes(
    history: HistoryBuilder, found: Mapping[str, Image | None], blocked: Container[str] = ()
) -> tuple[dict[str, Image | None], str]:
    """The changes that bring the history to what was found on disk, without excluded files.

    ``blocked``: directories, and paths below files: what is in their way in the history may be on
    disk. Also returns the subject of a commit of these changes.
    """
    tree, load = history.head.tree, history.load
    changes: dict[str, Image | None] = {}
    first_seen = True
    for path, image in found.items():
        # Also if no file was found: the call may make one, and then none can be above or below it.
        for other in () if path in blocked else paths_in_the_way(tree, path, load):
            if other not in found:
                changes[other] = None
                first_seen = False
        if history.excludes(path):
            continue
        known = history.head.image(path, load)
        if not same_image(known, image):
            changes[path] = image
            first_seen = first_seen and known is None
    return changes, "first seen" if first_seen else "changed outside"


def split_blobs(
    blobs: Mapping[str, bytes],
    changes: Iterable[Mapping[str, Image | None]],
    excludes: Excludes,
) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """Contents (by blob id) for the history, and contents that only excluded files have."""
    if not excludes:
        return dict(blobs), {}
    kept = {
        image.oid
        for each in changes
        for path, image in each.items()
        if image is not None and not excludes(path)
    }
    public = {oid: data for oid, data in blobs.items() if oid in kept}
    return public, {oid: data for oid, data in blobs.items() if oid not in kept}


def seal_outside(
    steps: Sequence[tuple[str, Mapping[str, Image | None]]],
    blobs: Mapping[str, bytes],
    history: HistoryBuilder,
    *,
    number: int,
    workspace: str,
) -> Change:
    """The record of edits made outside: a commit for each (subject, changes), in order.

    ``history`` must have no commits yet: all that it has go into the record. An excluded file gets
    no commit, and only the journal keeps its content.
    """
    paths: list[PathChange] = []
    for subject, changes in steps:
        for path, image in changes.items():
            paths.append(PathChange(path, history.head.image(path, history.load), image))
        kept = history.without_excluded(changes)
        if kept:
            history.add_outside(kept, subject)
    public, private = split_blobs(blobs, [changes for _, changes in steps], history.excludes)
    return Change(
        number=number,
        workspace=workspace,
        paths=paths,
        commits=history.commits,
        blobs=public,
        time=history.time,
        performed=True,
        private=private,
    )
