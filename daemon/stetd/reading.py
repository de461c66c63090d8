"""Everything that only reads: files, log, show, diff. Runs beside the writer.

Every call opens its own handle on the shadow repository, so nothing here blocks the
writer or shares state with it. The caller has waited until the commits it may have been
told of are in the repository.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from stet.wire.failures import Kind, Refused, refuse
from stet.wire.results import (
    CommitInfo,
    DiffResult,
    FileChange,
    LogResult,
    ReadResult,
    ShowResult,
)
from stetd.editing.text import Document, looks_binary
from stetd.history.commits import StoredCommit, rfc3339
from stetd.history.objects import (
    EMPTY_TREE,
    Image,
    Tree,
    changed_paths,
    files_under,
    find_entry,
    object_id,
    stored_tree,
)
from stetd.history.undoing import walk_standing
from stetd.params import Diff, Log, Read
from stetd.past import resolve_commit
from stetd.storage.shadow_repo import ShadowRepository, line_diff
from stetd.storage.worktree import Worktree

_DEFAULT_LIMIT = 50


@dataclass(frozen=True, slots=True)
class Place:
    """Where a reader reads: a workspace as it was when the request came."""

    worktree: Worktree
    shadow: str
    head: str | None
    directory: str
    max_file_bytes: int


@contextmanager
def _opened(place: Place) -> Iterator[ShadowRepository]:
    repository = ShadowRepository(place.shadow)
    try:
        yield repository
    finally:
        repository.close()


def read_file(place: Place, params: Read) -> ReadResult:
    """A file of the workspace, or as it was right after a commit."""
    data, mode = _content_at(place, params) if params.at else _content_now(place, params.path)
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


def _content_now(place: Place, path: str) -> tuple[bytes, str]:
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
    return found.data, f"{stat.S_IMODE(found.mode):o}"


def _content_at(place: Place, params: Read) -> tuple[bytes, str]:
    path = canonical(place, params.path)
    with _opened(place) as repository:
        assert params.at is not None, "BUG: no commit to read at"
        commit = repository.commit(resolve_commit(repository, place.head, params.at))
        tree = stored_tree(commit.tree, repository.load_tree)
        entry = find_entry(tree, path, repository.load_tree)
        if entry is None:
            raise refuse(
                Kind.FILE_NOT_FOUND,
                f"{params.path}: the history has no such file at {commit.oid[:8]}; "
                "it holds only files that edits have touched. Read it without `at`, or at a commit "
                "that `log` gives for this path",
                path=params.path,
            )
        return repository.blob(entry[1]), f"{stat.S_IMODE(entry[0]):o}"


def canonical(place: Place, path: str) -> str:
    """A request's path as the history spells it. It need not exist any more."""
    return place.worktree.resolver.canonical(path, place.directory)


# -- commits


def _changes_of(
    repository: ShadowRepository, commit: StoredCommit
) -> Iterator[tuple[str, tuple[int, str] | None, tuple[int, str] | None]]:
    before = Tree({}, EMPTY_TREE)
    if commit.parent is not None:
        before = stored_tree(repository.commit(commit.parent).tree, repository.load_tree)
    after = stored_tree(commit.tree, repository.load_tree)
    return changed_paths(before, after, repository.load_tree)


def _describe(
    repository: ShadowRepository,
    path: str,
    before: tuple[int, str] | None,
    after: tuple[int, str] | None,
) -> tuple[FileChange, str]:
    old = repository.blob(before[1]) if before else None
    new = repository.blob(after[1]) if after else None
    modes = (before[0] if before else None, after[0] if after else None)
    diff = line_diff(path, old, new, modes=modes)
    change = FileChange(
        path=path,
        status="A" if before is None else "D" if after is None else "M",
        before=before[1] if before else None,
        after=after[1] if after else None,
        added=diff.added,
        removed=diff.removed,
    )
    return change, diff.text


def _commit_info(
    repository: ShadowRepository, commit: StoredCommit, reverted_by: str | None
) -> tuple[CommitInfo, str]:
    described = [_describe(repository, *change) for change in _changes_of(repository, commit)]
    meta = commit.meta
    info = CommitInfo(
        commit=commit.oid,
        parent=commit.parent,
        time=rfc3339(meta.time),
        kind=meta.kind,
        method=meta.method,
        agent=meta.agent,
        session=meta.session,
        request=meta.request,
        peer=meta.peer,
        message=meta.message,
        files=[change for change, _ in described],
        reverts=list(meta.reverts),
        reverted_by=reverted_by,
    )
    return info, "".join(text for _, text in described)


def show(place: Place, name: str) -> ShowResult:
    """One commit with its diff."""
    with _opened(place) as repository:
        oid = resolve_commit(repository, place.head, name)
        for commit, reverted_by in walk_standing(repository.walk(place.head)):
            if commit.oid == oid:
                info, diff = _commit_info(repository, commit, reverted_by)
                fields = {name: getattr(info, name) for name in CommitInfo.__struct_fields__}
                return ShowResult(**fields, diff=diff)
    raise refuse(Kind.UNKNOWN_COMMIT, f"{name}: this commit is not part of the history")


def _seconds(value: str | float | None, name: str) -> float | None:
    if value is None or isinstance(value, int | float):
        return value
    try:
        return datetime.fromisoformat(value).timestamp()
    except ValueError as error:
        raise refuse(
            Kind.INVALID_PARAMS,
            f"{name}: {value!r} is no time; send RFC 3339 (2026-11-21T12:00:00Z) or seconds",
        ) from error


def _filter(
    repository: ShadowRepository, place: Place, params: Log
) -> Callable[[StoredCommit], bool]:
    since, until = _seconds(params.since, "since"), _seconds(params.until, "until")
    path = canonical(place, params.path) if params.path else None

    def by_metadata(commit: StoredCommit) -> bool:
        meta = commit.meta
        return (
            (params.session is None or meta.session == params.session)
            and (params.agent is None or meta.agent == params.agent)
            and (params.method is None or meta.method == params.method)
            and (since is None or meta.time >= since)
            and (until is None or meta.time <= until)
        )

    def by_path(commit: StoredCommit) -> bool:
        if not path:
            return True
        return any(
            changed == path or changed.startswith(path + "/")
            for changed, _, _ in _changes_of(repository, commit)
        )

    def by_text(commit: StoredCommit) -> bool:
        if params.text is None or params.text in commit.meta.message:
            return True
        _, diff = _commit_info(repository, commit, None)
        return any(
            params.text in line[1:]
            for line in diff.split("\n")
            if line[:1] in ("+", "-") and not line.startswith(("+++ ", "--- "))
        )

    return lambda commit: by_metadata(commit) and by_path(commit) and by_text(commit)


def log(place: Place, params: Log) -> LogResult:
    """A page of the history, newest first.

    The cursor is the id of the last commit of the page: it stays valid while history
    grows, because nothing before it ever changes.
    """
    limit = params.limit or _DEFAULT_LIMIT
    with _opened(place) as repository:
        wanted = _filter(repository, place, params)
        started = params.cursor is None
        page: list[CommitInfo] = []
        for commit, reverted_by in walk_standing(repository.walk(place.head)):
            if not started:
                started = commit.oid == params.cursor
                continue
            if not wanted(commit):
                continue
            if len(page) == limit:
                return LogResult(page, page[-1].commit)
            page.append(_commit_info(repository, commit, reverted_by)[0])
    if not started:
        raise refuse(
            Kind.INVALID_PARAMS,
            f"cursor {params.cursor!r} is not from this workspace's log; "
            "start again without a cursor",
        )
    return LogResult(page, None)


# -- diff


def diff(place: Place, params: Diff) -> DiffResult:
    """What differs between two commits, or between a commit and the workspace.

    Against the workspace only the files of the commit are compared: the history knows no
    others.
    """
    with _opened(place) as repository:
        before = _tree_of(repository, place, params.from_ or "HEAD")
        if params.to is not None:
            after = _tree_of(repository, place, params.to)
            changes = list(changed_paths(before, after, repository.load_tree))
        else:
            changes = list(_against_workspace(repository, place, before))
        paths = [canonical(place, path) for path in params.paths or []]
        described = []
        for path, old, new in changes:
            if paths and not any(path == p or path.startswith(p + "/") or not p for p in paths):
                continue
            if params.to is None:
                described.append(_describe_workspace(repository, place, path, old))
            else:
                described.append(_describe(repository, path, old, new))
    return DiffResult("".join(text for _, text in described), [change for change, _ in described])


def _tree_of(repository: ShadowRepository, place: Place, name: str) -> Tree:
    if name == "HEAD" and place.head is None:
        return Tree({}, EMPTY_TREE)
    commit = repository.commit(resolve_commit(repository, place.head, name))
    return stored_tree(commit.tree, repository.load_tree)


def _present(place: Place, path: str) -> tuple[Image | None, bytes | None]:
    try:
        target = place.worktree.resolver.resolve(path, follow_last=False)
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
