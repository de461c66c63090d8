"""Reading files, and what differs between them. Runs beside the writer.

Every call opens its own handle on the shadow repository, so nothing here blocks the
writer or shares state with it. The caller has waited until the commits it may have been
told of are in the repository.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator
from typing import TypeVar

from stet.wire.failures import Kind, Refused, refuse
from stet.wire.results import DiffResult, FileChange, ReadResult
from stetd.historian.queries.commit_changes import PathChange, described
from stetd.historian.queries.commit_lookup import CommitLookup, look_back
from stetd.historian.queries.renames import with_renames
from stetd.history.commits import rfc3339
from stetd.history.line_diffs import line_diff
from stetd.history.objects import EMPTY_TREE, Image, Tree, files_under, stored_tree
from stetd.planning.file_reading import canonical, read_now, told
from stetd.repository.stored_objects import StoredObjects
from stetd.state.reading_place import Place
from stetd.transaction.parameters import Diff, Read
from stetd.transaction.refusals import after_dropping

T = TypeVar("T")


def looking_back(place: Place, run: Callable[[CommitLookup], T]) -> T:
    """Ask the history of a place; ``run`` may be called twice."""
    try:
        with place.handles.opened(place.shadow) as repository:
            return look_back(repository, place.head, run, place.on_lag)
    except Refused as refusal:
        cut = place.cut
        if cut is None:
            raise
        raise after_dropping(refusal, cut.dropped, cut.oldest, rfc3339(cut.time)) from refusal


def read_file(place: Place, params: Read) -> ReadResult:
    """A file of the workspace, or as it was right after a commit."""
    if params.at:
        return told(params, *_content_at(place, params))
    return read_now(place, params)


def _content_at(place: Place, params: Read) -> tuple[bytes, str]:
    path = canonical(place, params.path)

    def look(lookup: CommitLookup) -> tuple[bytes, str]:
        assert params.at is not None, "BUG: no commit to read at"
        oid = lookup.resolve(params.at)
        version = lookup.file_at(oid, path)
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


def diff(place: Place, params: Diff) -> DiffResult:
    """What differs between two commits, or between a commit and the workspace.

    Against the workspace only the files of the commit are compared: the history knows no
    others.
    """
    return looking_back(place, lambda lookup: _diff(lookup, place, params))


def _diff(lookup: CommitLookup, place: Place, params: Diff) -> DiffResult:
    repository = lookup.repository
    before = _tree_of(lookup, params.from_ or "HEAD")
    paths = [canonical(place, path) for path in params.paths or []]

    def wanted(path: str | None) -> bool:
        return path is not None and (
            not paths or any(path == p or path.startswith(p + "/") or not p for p in paths)
        )

    if params.to is not None:
        changed = repository.trees.changed(before, _tree_of(lookup, params.to))
        changes = with_renames(repository, [PathChange(*change) for change in changed])
        found = [
            described(repository, change)
            for change in changes
            if wanted(change.path) or wanted(change.old_path)
        ]
    else:
        tree = stored_tree(before, repository.load_tree)
        found = [
            _describe_workspace(repository, place, path, old)
            for path, old, _ in _against_workspace(repository, place, tree)
            if wanted(path)
        ]
    return DiffResult("".join(text for _, text in found), [told for told, _ in found])


def _tree_of(lookup: CommitLookup, name: str) -> str:
    if name == "HEAD" and lookup.head is None:
        return EMPTY_TREE
    return lookup.repository.commit(lookup.resolve(name)).tree


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
    repository: StoredObjects, place: Place, tree: Tree
) -> Iterator[tuple[str, tuple[int, str] | None, tuple[int, str] | None]]:
    for path, mode, oid in files_under(tree, repository.load_tree):
        if place.excludes(path):
            continue
        image, _ = _present(place, path)
        now = (image.git_mode, image.oid) if image else None
        if now != (mode, oid):
            yield path, (mode, oid), now


def _describe_workspace(
    repository: StoredObjects, place: Place, path: str, before: tuple[int, str] | None
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
