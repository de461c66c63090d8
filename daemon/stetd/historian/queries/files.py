"""Read and diff: files of the workspace and of commits.

The caller has waited until Git has all commits that the client may know of.
"""

from __future__ import annotations

import stat
from collections import Counter
from collections.abc import Iterator, Sequence

from stet.wire.failures import Kind, Refused, refuse
from stet.wire.results import DiffResult, ReadResult
from stetd.historian.queries.commit_changes import Blobs, PathChange, described_all
from stetd.historian.queries.commit_lookup import CommitLookup, with_lookup
from stetd.history.git_patch import line_counts, similarity
from stetd.history.objects import EMPTY_TREE, LINK
from stetd.history.reverting_commits import Version
from stetd.parameters import Diff, Read
from stetd.planning.file_reading import read_lines, read_workspace_file
from stetd.repository.stored_objects import StoredObjects
from stetd.state.read_view import ReadView
from stetd.storage.worktree import OnDisk, Worktree

#: Share of equal content from which two files are a rename, as in Git.
_MIN_LIKENESS = 0.5
#: Pairs of files that are compared at most, and the largest size of such a file in bytes.
_MAX_PAIRS, _MAX_BYTES = 2_500, 1 << 20
#: Path to mode and blob id.
_Files = dict[str, tuple[int, str]]


def read_file(view: ReadView, params: Read) -> ReadResult:
    """Read a file of the workspace, or as it was right after a commit."""
    if params.at is None:
        return read_workspace_file(view, params)
    at = params.at

    def content(lookup: CommitLookup) -> tuple[bytes, str]:
        oid = lookup.resolve(at)
        _, version = known_at(lookup, view, oid, params.path)
        return version.data, f"{stat.S_IMODE(version.git_mode):o}"

    return read_lines(params, *with_lookup(view, content))


def known_at(lookup: CommitLookup, view: ReadView, oid: str, path: str) -> tuple[str, Version]:
    """The file that a request means at a commit: its path then, and its content. Raises Refused.

    A link of today, in the path or at its end, may have been a directory or a file then. A link of
    that time is read itself if the history does not have its target.
    """
    found: tuple[str, Version] | None = None
    # One by one: links of today may lead nowhere.
    for each in view.worktree.resolver.possible_paths(path, view.directory):
        version = lookup.file_at(oid, each)
        if version is None:
            continue
        found = each, version
        if version.git_mode != LINK:
            break
    if found is None:
        raise refuse(
            Kind.FILE_NOT_FOUND,
            f"{path}: the history has no such file at {oid[:8]}; "
            "it holds only files that edits have touched. Read it without `at`, or at a commit "
            "that `log` gives for this path",
            path=path,
        )
    return found


def diff(view: ReadView, params: Diff) -> DiffResult:
    """The differences between two commits, or between a commit and the workspace.

    For the workspace, the files of the commit and of the newest commit are compared, because the
    history has no others. A move is shown as one only if both paths are asked for.
    """
    return with_lookup(view, lambda lookup: _diff(lookup, view, params))


def _diff(lookup: CommitLookup, view: ReadView, params: Diff) -> DiffResult:
    repository = lookup.repository
    before = _tree_of(lookup, "HEAD" if params.from_ is None else params.from_)
    after = _tree_of(lookup, "HEAD" if params.to is None else params.to)
    paths = view.possible_paths(params.paths or ())
    unrecorded: dict[str, bytes] = {}

    def blob(oid: str) -> bytes:
        return unrecorded[oid] if oid in unrecorded else repository.blob(oid)

    if params.to is not None:
        changed = [PathChange(*each) for each in repository.changed(before, after)]
    else:
        changed, unrecorded = _against_workspace(repository, view, before, after, paths)
    chosen = (
        change
        for change in _with_renames(blob, changed)
        if concerns(paths, change.path)
        or (change.old_path is not None and concerns(paths, change.old_path))
    )
    files, text = described_all(blob, chosen, "the diff")
    return DiffResult(text, files)


def concerns(paths: Sequence[str], path: str) -> bool:
    """Whether a path is one of these or below one; no paths: any path."""
    return not paths or any(not p or path == p or path.startswith(p + "/") for p in paths)


def _tree_of(lookup: CommitLookup, name: str) -> str:
    if name == "HEAD" and lookup.head is None:
        return EMPTY_TREE
    return lookup.repository.commit(lookup.resolve(name)).tree


def _against_workspace(
    repository: StoredObjects, view: ReadView, before: str, head: str, paths: Sequence[str]
) -> tuple[list[PathChange], dict[str, bytes]]:
    """The changes from a tree to the workspace, and new contents that the newest tree lacks."""
    changed, unrecorded = list[PathChange](), dict[str, bytes]()
    known: dict[str, tuple[int, str] | None] = dict(repository.files(before))
    later = {path: (was, now) for path, was, now in repository.changed(before, head)}
    known.update({path: None for path, (was, _) in later.items() if was is None})
    for path, was in known.items():
        if view.excludes(path) or not concerns(paths, path):
            continue
        found = present(view.worktree, path, view.max_file_bytes)
        image = found.image if found is not None else None
        now = (image.git_mode, image.oid) if image is not None else None
        if was == now:
            continue
        changed.append(PathChange(path, was, now))
        newest = later[path][1] if path in later else was
        if found is not None and found.data is not None and now != newest:
            unrecorded[found.oid] = found.data
    return changed, unrecorded


def present(worktree: Worktree, path: str, limit: int) -> OnDisk | None:
    """The regular file or link at a path of the history; None if there is none.

    Raises Refused: file_too_large (over ``limit`` bytes), io_error.
    """
    try:
        target = worktree.resolve_exactly(path)
    except Refused:
        return None
    with target:
        try:
            return worktree.read(target, limit)
        except Refused as refusal:
            if refusal.kind != Kind.NOT_A_FILE:
                raise
            return None


# -- renames


def _with_renames(blob: Blobs, changes: Sequence[PathChange]) -> list[PathChange]:
    """The changes ordered by path; a deletion and an addition that form a rename become one.

    As in Git, half of the content must be equal, and equal files are paired first. A commit records
    its moves (``Stet-Moved``), but between two trees with several commits nothing does.
    """
    found = {change.path: change for change in changes}
    gone = {c.path: c.before for c in changes if c.after is None and c.before is not None}
    new = {c.path: c.after for c in changes if c.before is None and c.after is not None}
    for pairs in (_same, _alike):
        for old_path, path in list(pairs(blob, gone, new)):
            if old_path in gone and path in new:
                found[path] = PathChange(path, gone.pop(old_path), new.pop(path), old_path)
                del found[old_path]
    return [found[path] for path in sorted(found)]


def _same(_: Blobs, gone: _Files, new: _Files) -> Iterator[tuple[str, str]]:
    """Pairs of paths of files with equal content."""
    by_content: dict[tuple[int, str], list[str]] = {}
    for path, version in gone.items():
        by_content.setdefault(version, []).append(path)
    for path, version in new.items():
        if by_content.get(version):
            yield by_content[version].pop(0), path


def _alike(blob: Blobs, gone: _Files, new: _Files) -> Iterator[tuple[str, str]]:
    """Pairs of paths of the other files with similar content, most similar first."""
    if not 0 < len(gone) * len(new) <= _MAX_PAIRS:
        return
    before = {path: _lines(blob, version) for path, version in gone.items()}
    after = {path: _lines(blob, version) for path, version in new.items()}
    pairs = [
        (alike, old, path)
        for old in before
        for path in after
        if (alike := similarity(before[old], after[path])) >= _MIN_LIKENESS
    ]
    for _, old, path in sorted(pairs, reverse=True):
        yield old, path


def _lines(blob: Blobs, version: tuple[int, str]) -> Counter[bytes]:
    """The lines of a file; none of a link or of a file over _MAX_BYTES."""
    content = blob(version[1]) if version[0] != LINK else b""
    return line_counts(content) if len(content) <= _MAX_BYTES else Counter()
