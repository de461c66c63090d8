"""Heads of the history, and putting commits on top of one.

Pure but for loading trees: the ids are computed here, the objects reach Git later.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

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
    stored_tree,
)
from stetd.storage.journal_format import Abort, Change, CommitRecord, PathChange

_PLAIN_PERMISSIONS = (0o644, 0o755)


class Head(msgspec.Struct, frozen=True):
    """The head of a workspace's history: newest commit, its tree, number of commits."""

    commit: str | None
    tree: Tree
    commits: int


@dataclass(slots=True)
class History:
    """Commits added on top of a head, with their new objects.

    ``excludes``: files that no commit is to have. (What is made again from records has been
    without them since it was first made.)
    """

    head: Head
    load: LoadTree
    time: int
    excludes: Excludes = NOTHING_EXCLUDED
    commits: list[CommitRecord] = field(default_factory=list)
    objects: list[NewObject] = field(default_factory=list)

    def continued(self) -> History:
        """Another one on its head, to which nothing is added yet."""
        return History(self.head, self.load, self.time, self.excludes)

    def add(self, meta: CommitMeta, changes: dict[str, Image | None], tree: str = "") -> str:
        """Put a commit on top. ``tree``: what is changed, if not what the head has."""
        changes = self.kept(changes)
        git = [
            (path, (image.git_mode, image.oid) if image else None)
            for path, image in changes.items()
        ]
        start = stored_tree(tree, self.load) if tree else self.head.tree
        result, objects = change_tree(start, git, self.load) if git or not tree else (start, [])
        commit = commit_object(meta, result.oid, self.head.commit)
        self.commits.append(CommitRecord(commit.oid, self.head.commit, meta, changes, tree))
        self.objects += [*objects, commit]
        self.head = Head(commit.oid, result, self.head.commits + 1)
        return commit.oid

    def kept(self, changes: Mapping[str, Image | None]) -> dict[str, Image | None]:
        """Changes without excluded files, except that one which the tree still has goes."""
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
        """Commit content that was found, as outside."""
        meta = CommitMeta(
            kind="outside",
            time=self.time,
            subject=f"{subject}: {few_names(changes)}",
            permissions=permissions_of(changes.items()),
            version=__version__,
        )
        return self.add(meta, changes)


class RecordContradicts(Exception):
    """A record of the journal contradicts the history in Git; the message says how."""


def remake(history: History, number: int, commit: CommitRecord) -> None:
    """Make a commit of record ``number`` again, and check its id. Raises RecordContradicts."""
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
    """The first of these paths, and how many more there are: for a line of text."""
    names = sorted(paths)
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def unusual_permissions(mode: int) -> int | None:
    """The permission bits of a regular file that Git's file modes can't say; None if they can."""
    bits = stat.S_IMODE(mode)
    return bits if stat.S_ISREG(mode) and bits not in _PLAIN_PERMISSIONS else None


def permissions_of(pairs: Iterable[tuple[str, Image | None]]) -> tuple[tuple[str, int], ...]:
    """The permission bits that Git's file modes can't say, by path."""
    return tuple(
        (path, bits)
        for path, image in pairs
        if image is not None and (bits := unusual_permissions(image.mode)) is not None
    )


def permissions_left(
    triples: Iterable[tuple[str, Image | None, Image | None]],
) -> tuple[tuple[str, int], ...]:
    """The same of a commit's changes (path, before, after): of what it leaves, or else takes.

    A link has none: where it takes the place of a file, those of the file would be lost.
    """
    return permissions_of(
        (path, after if after is not None and stat.S_ISREG(after.mode) else before)
        for path, before, after in triples
    )


def regraded(
    triples: Sequence[tuple[str, Image | None, Image | None]],
    moves: Iterable[tuple[str, str]] = (),
) -> tuple[tuple[str, int, int], ...]:
    """The files (path, before, after) whose permission bits changed in a way Git can't say.

    Those that were moved, too, under their new names.
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
    head: Head,
    found: Mapping[str, Image | None],
    load: LoadTree,
    excludes: Excludes = NOTHING_EXCLUDED,
) -> tuple[dict[str, Image | None], bool]:
    """What differs between the history and the disk at these paths, but for excluded files.

    Gives the changes, and whether all of them are files seen for the first time.
    """
    changes: dict[str, Image | None] = {}
    first_seen = True
    for path, image in found.items():
        # Also where no file was found: it may be made now, which says that these are gone.
        for other in paths_in_the_way(head.tree, path, load):
            if other not in found:
                changes[other] = None
                first_seen = False
        if excludes(path):
            continue
        known = find_entry(head.tree, path, load)
        there = (image.git_mode, image.oid) if image else None
        if known != there:
            changes[path] = image
            first_seen = first_seen and known is None
    return changes, first_seen


def parted(
    blobs: Mapping[str, bytes],
    changes: Iterable[Mapping[str, Image | None]],
    excludes: Excludes,
) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """Contents for the history, and those that only excluded files have."""
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


R = TypeVar("R", Change, Abort)


@dataclass(slots=True)
class Found(Generic[R]):
    """Edits made outside, in a record, and their commits."""

    record: R
    history: History

    @property
    def objects(self) -> list[NewObject]:
        """The new objects."""
        blobs = [NewObject("blob", oid, data) for oid, data in self.record.blobs.items()]
        return blobs + self.history.objects


def seal_found(
    steps: Sequence[tuple[str, Mapping[str, Image | None]]],
    blobs: Mapping[str, bytes],
    history: History,
    *,
    number: int,
    workspace: str,
) -> Found[Change]:
    """Record what was found: a commit for each (subject, changes), in order, on a new history.

    Of an excluded file there is no commit, and its content is the journal's alone.
    """
    paths: list[PathChange] = []
    for subject, changes in steps:
        for path, image in changes.items():
            known = find_entry(history.head.tree, path, history.load)
            before = Image(known[1], known[0]) if known else None
            paths.append(PathChange(path, before, image))
        kept = history.kept(changes)
        if kept:
            history.add_outside(kept, subject)
    public, private = parted(blobs, [changes for _, changes in steps], history.excludes)
    record = Change(
        number=number,
        workspace=workspace,
        paths=paths,
        commits=history.commits,
        blobs=public,
        time=history.time,
        performed=True,
        private=private,
    )
    return Found(record, history)
