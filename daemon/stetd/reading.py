"""Reading files, and what differs between them. Runs beside the writer.

Every call opens its own handle on the shadow repository, so nothing here blocks the
writer or shares state with it. The caller has waited until the commits it may have been
told of are in the repository.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from stet.wire.failures import Kind, Refused, refuse
from stet.wire.results import DiffResult, FileChange, ReadResult
from stetd.editing.text import Document, looks_binary
from stetd.history.commits import rfc3339
from stetd.history.excluding import NOTHING_EXCLUDED, Excludes
from stetd.history.objects import (
    EMPTY_TREE,
    Image,
    Tree,
    files_under,
    object_id,
    stored_tree,
)
from stetd.indexed_past import look_back
from stetd.params import Diff, Read
from stetd.past import Past
from stetd.refusing import after_dropping
from stetd.storage.commit_changes import PathChange, described
from stetd.storage.journal_format import Cut
from stetd.storage.shadow_repo import ShadowRepository, line_diff
from stetd.storage.worktree import Worktree

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a reader reads: a workspace as it was when the request came."""

    worktree: Worktree
    shadow: str
    head: str | None
    directory: str
    max_file_bytes: int
    #: Called when the query index was found to be damaged.
    on_damage: Callable[[], None] = lambda: None
    #: What retention has dropped.
    cut: Cut | None = None
    #: Files that the history does not keep.
    excludes: Excludes = NOTHING_EXCLUDED
    #: The workspaces inside this one, as the beginnings of their paths.
    inner: frozenset[str] = frozenset()


def looking_back(place: Place, run: Callable[[Past], T]) -> T:
    """Ask the history of a place; ``run`` may be called twice."""
    repository = ShadowRepository(place.shadow)
    try:
        return look_back(repository, place.head, run, place.on_damage)
    except Refused as refusal:
        cut = place.cut
        if cut is None:
            raise
        raise after_dropping(refusal, cut.dropped, cut.oldest, rfc3339(cut.time)) from refusal
    finally:
        repository.close()


def read_file(place: Place, params: Read) -> ReadResult:
    """A file of the workspace, or as it was right after a commit."""
    if params.at:
        data, mode = _content_at(place, params)
    else:
        _, data, mode = content_now(place, params.path)
    if looks_binary(data):
        raise refuse(
            Kind.NOT_TEXT,
            f"{params.path}: this file is binary (a NUL byte at offset {data.index(0)}) and can't "
            "be shown as text. To replace all of it, patch it with overwrite.",
            path=params.path,
        )
    document = Document.from_bytes(data)
    starts = [*document.line_starts[: document.line_count], len(document.text)]
    first = params.start or 1
    last = min(params.end or document.line_count, document.line_count)
    if params.end is not None and params.end < first:
        raise refuse(
            Kind.INVALID_PARAMS,
            f"read: end ({params.end}) is before start ({first}); lines count from 1, both ends "
            "are read",
            path=params.path,
        )
    if first > max(document.line_count, 1):
        raise refuse(
            Kind.INVALID_PARAMS,
            f"{params.path} has {document.line_count} lines, but start is {first}; "
            "send a start within the file",
            path=params.path,
        )
    text = document.text[starts[first - 1] : starts[last]] if last >= first else ""
    return ReadResult(
        text=text.encode("utf-8", "surrogateescape").decode("utf-8", "replace"),
        oid=object_id("blob", data),
        mode=mode,
        lines=document.line_count,
        eol=document.eol,
        bom=document.bom,
    )


def content_now(place: Place, path: str) -> tuple[str, bytes, str]:
    """The file at a path: its path from the root, links followed, its bytes and permissions."""
    target = place.worktree.resolver.resolve(path, place.directory)
    try:
        found = place.worktree.read(target, place.max_file_bytes)
    finally:
        target.close()
    if found is None or found.data is None:
        raise refuse(
            Kind.FILE_NOT_FOUND,
            f"{path}: there is no such file. Check the path; it is relative to "
            f"{os.path.join(place.worktree.root, place.directory)}",
            path=path,
        )
    return target.path, found.data, f"{stat.S_IMODE(found.mode):o}"


def _content_at(place: Place, params: Read) -> tuple[bytes, str]:
    path = canonical(place, params.path)

    def look(past: Past) -> tuple[bytes, str]:
        assert params.at is not None, "BUG: no commit to read at"
        oid = past.resolve(params.at)
        version = past.file_at(oid, path)
        if version is None:
            raise no_such_file_at(params.path, oid)
        return version.data, f"{stat.S_IMODE(version.git_mode):o}"

    return looking_back(place, look)


def no_such_file_at(path: str, oid: str) -> Refused:
    """The refusal of a path that the history does not have at a commit."""
    return refuse(
        Kind.FILE_NOT_FOUND,
        f"{path}: the history has no such file at {oid[:8]}; "
        "it holds only files that edits have touched. Read it without `at`, or at a commit "
        "that `log` gives for this path",
        path=path,
    )


def canonical(place: Place, path: str) -> str:
    """A request's path as the history spells it. It need not exist any more."""
    return place.worktree.resolver.canonical(path, place.directory)


def diff(place: Place, params: Diff) -> DiffResult:
    """What differs between two commits, or between a commit and the workspace.

    Against the workspace only the files of the commit are compared: the history knows no
    others.
    """
    return looking_back(place, lambda past: _diff(past, place, params))


def _diff(past: Past, place: Place, params: Diff) -> DiffResult:
    repository = past.repository
    before = _tree_of(past, params.from_ or "HEAD")
    paths = [canonical(place, path) for path in params.paths or []]
    if params.to is not None:
        after = _tree_of(past, params.to)
        changes = repository.trees.changed(before, after)
    else:
        tree = stored_tree(before, repository.load_tree)
        changes = _against_workspace(repository, place, tree)
    found = []
    for path, old, new in changes:
        if paths and not any(path == p or path.startswith(p + "/") or not p for p in paths):
            continue
        if params.to is None:
            found.append(_describe_workspace(repository, place, path, old))
        else:
            found.append(described(repository, PathChange(path, old, new)))
    return DiffResult("".join(text for _, text in found), [told for told, _ in found])


def _tree_of(past: Past, name: str) -> str:
    if name == "HEAD" and past.head is None:
        return EMPTY_TREE
    return past.repository.commit(past.resolve(name)).tree


def _present(place: Place, path: str) -> tuple[Image | None, bytes | None]:
    try:
        target = place.worktree.resolver.locate(path)
    except Refused:
        return None, None
    try:
        if target.path != path:
            return None, None
        found = place.worktree.read(target, place.max_file_bytes)
    except Refused as refusal:
        if refusal.kind != Kind.NOT_A_FILE:
            raise
        return None, None
    finally:
        target.close()
    return (found.image, found.data) if found else (None, None)


def _against_workspace(
    repository: ShadowRepository, place: Place, tree: Tree
) -> Iterator[tuple[str, tuple[int, str] | None, tuple[int, str] | None]]:
    for path, mode, oid in files_under(tree, repository.load_tree):
        if place.excludes(path):
            continue
        image, _ = _present(place, path)
        now = (image.git_mode, image.oid) if image else None
        if now != (mode, oid):
            yield path, (mode, oid), now


def _describe_workspace(
    repository: ShadowRepository, place: Place, path: str, before: tuple[int, str] | None
) -> tuple[FileChange, str]:
    image, data = _present(place, path)
    old = repository.blob(before[1]) if before else None
    modes = (before[0] if before else None, image.git_mode if image else None)
    text = line_diff(path, old, data, modes=modes)
    change = FileChange(
        path=path,
        status="D" if image is None else "M",
        before=before[1] if before else None,
        after=image.oid if image else None,
        added=text.added,
        removed=text.removed,
    )
    return change, text.text
