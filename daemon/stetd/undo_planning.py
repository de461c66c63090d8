"""Planning an undo: which commits it takes back, and what their files become.

The rules for one file are in :mod:`stetd.history.undoing`. Reads commits, so everything
that was committed before must have reached the repository. Writer thread only.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Mapping

from stet.wire.failures import Failure, Kind, Refused, refuse
from stetd.call_world import CallWorld, EditCall
from stetd.drafts import Draft, DraftFile
from stetd.history.commits import StoredCommit
from stetd.history.objects import EMPTY_TREE, LINK, Tree, changed_paths, stored_tree
from stetd.history.undoing import (
    EDITS,
    FileConflict,
    Version,
    take_back_file,
    walk_standing,
)
from stetd.storage.shadow_repo import ShadowRepository, merge_file
from stetd.storage.worktree import OnDisk
from stetd.workspace import Base, Workspace

_GIT_EXECUTABLE = 0o100755
_FROM_HEAD = re.compile(r"HEAD(?:~([0-9]{0,9}))?")


def plan_undo(workspace: Workspace, base: Base, call: EditCall, world: CallWorld) -> Draft:
    """Plan an ``undo``. Raises Refused: conflict, nothing_to_undo, unknown_commit, ..."""
    chosen = _choose_commits(workspace, base, call)
    versions: dict[str, Version | None] = {}
    permissions: dict[str, int] = {}
    conflicts: list[FileConflict] = []
    for commit in chosen:
        permissions.update(commit.meta.permissions)
        for path, before, after in _file_changes(workspace, commit):
            if path not in versions:
                versions[path] = _as_version(world.look_at(path))
            merged = take_back_file(path, before, after, versions[path], merge_file)
            if isinstance(merged, FileConflict):
                conflicts.append(merged)
            else:
                versions[path] = merged
    if conflicts:
        raise _conflict(conflicts)
    files = [_restored(world, path, version, permissions) for path, version in versions.items()]
    names = [f"{commit.oid[:8]} {commit.meta.subject}" for commit in chosen]
    subject = f"undo {names[0]}" if len(names) == 1 else f"undo {len(names)} commits"
    count = "1 commit" if len(names) == 1 else f"{len(names)} commits"
    return Draft(
        kind="undo",
        subject=subject,
        files=files,
        message=f"Undone {count}:\n" + "\n".join(f"  {name}" for name in names),
        reverts=tuple(commit.oid for commit in chosen),
        leftover_directories=[d for commit in chosen for d in commit.meta.directories],
        record_always=True,
    )


def _as_version(found: OnDisk | None) -> Version | None:
    if found is None or found.image is None or found.data is None:
        return None
    return Version(found.data, found.image.git_mode)


def _restored(
    world: CallWorld, path: str, version: Version | None, permissions: Mapping[str, int]
) -> DraftFile:
    item = world.draft_file(path, version.data if version else None)
    if version is None:
        return item
    if version.git_mode == LINK:
        item.mode = stat.S_IFLNK | 0o777
    elif item.found is not None and stat.S_ISREG(item.found.mode):
        bits = stat.S_IMODE(item.found.mode)
        readable = (bits & 0o444) >> 2
        executable = version.git_mode == _GIT_EXECUTABLE
        item.mode = stat.S_IFREG | (bits | readable if executable else bits & ~0o111)
        if executable == bool(bits & stat.S_IXUSR):
            item.mode = item.found.mode
    elif path in permissions:
        item.mode = stat.S_IFREG | permissions[path]
    else:
        item.mode = stat.S_IFREG | (0o755 if version.git_mode == _GIT_EXECUTABLE else 0o644)
    return item


def _conflict(conflicts: list[FileConflict]) -> Refused:
    failures = [
        Failure(
            Kind.CONFLICT.value,
            f"{c.path}: later changes are in the way, so nothing was undone: "
            + ("the same or adjacent lines were changed since." if _is_text(c) else c.hunks[0]),
            path=c.path,
        )
        for c in conflicts
    ]
    extra = {"conflicts": [{"path": c.path, "hunks": c.hunks} for c in conflicts]}
    return Refused(*failures, extra=extra)


def _is_text(conflict: FileConflict) -> bool:
    return bool(conflict.hunks) and conflict.hunks[0].startswith("<<<<<<<")


def _file_changes(
    workspace: Workspace, commit: StoredCommit
) -> list[tuple[str, Version | None, Version | None]]:
    repository = workspace.repository
    after = stored_tree(commit.tree, repository.load_tree)
    before = Tree({}, EMPTY_TREE)
    if commit.parent is not None:
        before = stored_tree(repository.commit(commit.parent).tree, repository.load_tree)

    def version(change: tuple[int, str] | None) -> Version | None:
        return Version(repository.blob(change[1]), change[0]) if change else None

    return [
        (path, version(old), version(new))
        for path, old, new in changed_paths(before, after, repository.load_tree)
    ]


def _choose_commits(workspace: Workspace, base: Base, call: EditCall) -> list[StoredCommit]:
    """The commits to take back, newest first."""
    params = call.params
    commits = params.get("commits")
    session = params.get("session") if call.control else call.session
    if commits is not None:
        return _named_commits(workspace, base, call, commits)
    if params.get("request") is not None:
        return [_commit_of_request(workspace, base, call, params["request"], session)]
    last = 1 if params.get("last") is None else params["last"]
    paths = [workspace.worktree.resolver.canonical(path) for path in params.get("paths") or []]
    chosen: list[StoredCommit] = []
    for commit, undone_by in walk_standing(workspace.repository.walk(base.head.commit)):
        meta = commit.meta
        if meta.kind not in EDITS or undone_by is not None:
            continue
        if session is not None and meta.session != session:
            continue
        if params.get("agent") is not None and meta.agent != params["agent"]:
            continue
        if paths and not _touches(workspace, commit, paths):
            continue
        chosen.append(commit)
        if len(chosen) == last:
            break
    if not chosen:
        raise refuse(
            Kind.NOTHING_TO_UNDO,
            "there is no edit left to undo"
            + (f" in session {session!r}" if session is not None else "")
            + ". Undos and edits made outside are not counted.",
        )
    return chosen


def _commit_of_request(
    workspace: Workspace, base: Base, call: EditCall, request: str, session: str | None
) -> StoredCommit:
    """The commit that a request made. Its id is scoped to a session, so others may have it too."""
    found: tuple[StoredCommit, str | None] | None = None
    for commit, undone_by in walk_standing(workspace.repository.walk(base.head.commit)):
        if commit.meta.request != request or commit.meta.kind == "outside":
            continue
        own = session is None or commit.meta.session == session
        if own or found is None:
            found = commit, undone_by
        if own:
            break
    if found is None or (call.control and session not in (None, found[0].meta.session)):
        raise refuse(
            Kind.UNKNOWN_REQUEST,
            f"no commit was made by request {request!r}"
            + (f" of session {session!r}" if session is not None else "")
            + ". `log` lists the commits with their requests.",
        )
    _check_may_undo(call, *found)
    return found[0]


def _touches(workspace: Workspace, commit: StoredCommit, paths: list[str]) -> bool:
    """Whether a commit changed one of these files, or one below; "" is the root."""
    return any(
        not path or changed == path or changed.startswith(path + "/")
        for changed, _, _ in _file_changes(workspace, commit)
        for path in paths
    )


def _named_commits(
    workspace: Workspace, base: Base, call: EditCall, names: list[str]
) -> list[StoredCommit]:
    wanted = {resolve_commit(workspace.repository, base.head.commit, name) for name in set(names)}
    chosen = []
    for commit, undone_by in walk_standing(workspace.repository.walk(base.head.commit)):
        if commit.oid in wanted:
            _check_may_undo(call, commit, undone_by)
            chosen.append(commit)
            wanted.discard(commit.oid)
            if not wanted:
                return chosen
    raise _unknown_commit(min(wanted))


def _check_may_undo(call: EditCall, commit: StoredCommit, undone_by: str | None) -> None:
    if not call.control and commit.meta.session != call.session:
        raise refuse(
            Kind.NOT_PERMITTED,
            f"{commit.oid[:8]} is not an edit of this session; an agent may take back its own "
            "edits only. A person can undo it with: stet undo " + commit.oid[:8],
        )
    if undone_by is not None:
        raise refuse(
            Kind.NOTHING_TO_UNDO, f"{commit.oid[:8]} is undone already, by {undone_by[:8]}."
        )
    if commit.meta.kind == "outside" and commit.meta.subject.startswith("first seen"):
        raise refuse(
            Kind.NOTHING_TO_UNDO,
            f"{commit.oid[:8]} records what stood there before the first edit; "
            "there is nothing earlier to go back to.",
        )


def _unknown_commit(name: str) -> Refused:
    return refuse(
        Kind.UNKNOWN_COMMIT,
        f"{name}: there is no such commit in this workspace's history. Send a full id, a unique "
        "prefix of at least 4 digits, HEAD or HEAD~n; `log` lists the ids.",
    )


def resolve_commit(repository: ShadowRepository, head: str | None, name: str) -> str:
    """The full id of a commit parameter. Raises Refused (unknown_commit)."""
    from_head = _FROM_HEAD.fullmatch(name)
    if from_head:
        steps = 0 if from_head[1] is None else int(from_head[1] or 1)
        for step, commit in enumerate(repository.walk(head)):
            if step == steps:
                return commit.oid
        raise _unknown_commit(name)
    if not 4 <= len(name) <= 40 or not set(name.lower()) <= set("0123456789abcdef"):
        raise _unknown_commit(name)
    found = repository.commits_with_prefix(name.lower())
    if len(found) > 1:
        shown = ", ".join(oid[:12] for oid in found[:5])
        raise refuse(
            Kind.UNKNOWN_COMMIT,
            f"{name}: {len(found)} commits begin so ({shown}); send more digits",
        )
    if not found:
        raise _unknown_commit(name)
    return found[0]
