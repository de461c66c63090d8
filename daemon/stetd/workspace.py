"""One open workspace, and how calls on it are planned.

Planning reads the workspace and the history and gives a :class:`Draft`; it changes
nothing. The calls of a batch are planned one after the other, each over what the calls
before it will leave behind (:class:`Base`), so that they can share one journal sync.

Only the writer thread uses this module.
"""

from __future__ import annotations

import stat
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from stet.wire.failures import Failure, Kind, Refused, refuse
from stet.wire.results import Peer
from stetd.editing.dialects import DIALECTS
from stetd.editing.edits import Plan, SourceFile
from stetd.history.commits import StoredCommit
from stetd.history.objects import EMPTY_TREE, LINK, Tree, changed_paths, stored_tree
from stetd.history.undoing import (
    EDITS,
    FileConflict,
    Version,
    take_back_file,
    walk_standing,
)
from stetd.session.sessions import Session
from stetd.storage.disk import Disk
from stetd.storage.paths_on_disk import Target
from stetd.storage.shadow_repo import ShadowRepository, merge_file
from stetd.storage.worktree import OnDisk, Worktree
from stetd.transaction import Draft, DraftFile, Head, Prepared

_GIT_EXECUTABLE = 0o100755


class Workspace:
    """An allowed directory, its history's head and its files. Owned by the writer thread."""

    def __init__(
        self, name: str, root: str, repository: ShadowRepository, mode: str, disk: Disk
    ) -> None:
        self.name = name
        self.root = root
        self.repository = repository
        self.mode = mode
        self.head = Head(None, Tree({}, EMPTY_TREE), 0)
        #: Number of the last journal record that made a commit here.
        self.number = 0
        self._disk = disk
        self.worktree = Worktree(root, disk)

    def check_present(self) -> None:
        """See to it that the root's handle is the directory at the root's path.

        A root that was moved away and another put in its place is opened anew. Raises
        Refused (workspace_not_allowed) while there is none.
        """
        if not self.worktree.gone():
            return
        try:
            self.worktree = Worktree(self.root, self._disk)
        except OSError as error:
            raise refuse(
                Kind.WORKSPACE_NOT_ALLOWED,
                f"{self.root}: the workspace's directory is not there ({error.strerror}). "
                "Its history is kept; it goes on when the directory is back.",
            ) from error

    @property
    def shadow(self) -> str:
        """Where the shadow repository lies."""
        return self.repository.path

    def close(self) -> None:
        """Release the directory handle and the repository."""
        self.worktree.close()
        self.repository.close()


def head_at(repository: ShadowRepository, commit: str | None, commits: int) -> Head:
    """Take up the history at a commit that the repository holds. Raises MissingObject."""
    if commit is None:
        return Head(None, Tree({}, EMPTY_TREE), 0)
    stored = repository.commit(commit)
    return Head(commit, stored_tree(stored.tree, repository.load_tree), commits)


@dataclass(frozen=True, slots=True, kw_only=True)
class EditCall:
    """A call that may write files, as the handlers hand it to the writer.

    ``params`` are the method's own; what all methods share has been taken out of them.
    """

    workspace: str
    method: str
    params: dict[str, Any]
    session: str | None
    directory: str
    agent: str | None
    peer: Peer | None
    control: bool
    request: str
    #: The client made the request id, so a retry may come with it.
    retryable: bool
    digest: bytes
    why: str = ""
    if_match: str | dict[str, str | None] | None = None
    preview: bool = False

    @property
    def needs_history(self) -> bool:
        """Whether planning reads commits, which must then all have reached Git."""
        return self.method not in DIALECTS


@dataclass(slots=True)
class Base:
    """What a call is planned on: the state that the calls before it will leave."""

    head: Head
    files: dict[str, OnDisk | None] = field(default_factory=dict)

    def after(self, prepared: Prepared) -> Base:
        """The base of the next call of the batch."""
        files = dict(self.files)
        for work in prepared.files:
            if work.after is None or work.content is None:
                files[work.target.path] = None
                continue
            files[work.target.path] = OnDisk(
                data=work.content,
                mode=work.after.mode,
                links=1,
                size=len(work.content),
                inode=(0, 0),
                mtime_ns=0,
                read_at_ns=0,
                oid=work.after.oid,
            )
        return Base(prepared.head, files)


class CallWorld:
    """What one call sees (the editing layer's World), remembering what it looked at."""

    def __init__(
        self, workspace: Workspace, base: Base, call: EditCall, session: Session | None, limit: int
    ) -> None:
        self._workspace = workspace
        self._base = base
        self._directory = call.directory
        self._limit = limit
        self._clipboards = session.clipboards if session else {}
        self._spelled: dict[str, str] = {}
        self.seen: dict[str, tuple[Target, OnDisk | None]] = {}

    @property
    def clipboards(self) -> Mapping[str, str]:
        """The session's clipboards."""
        return self._clipboards

    def read(self, path: str) -> SourceFile:
        """The file at a path as the request spells it, links followed."""
        if path not in self._spelled:
            target = self._workspace.worktree.resolver.resolve(path, self._directory)
            self._spelled[path] = self._look(target)
        canonical = self._spelled[path]
        _, found = self.seen[canonical]
        if found is not None and not stat.S_ISREG(found.mode):
            raise refuse(Kind.NOT_A_FILE, f"{path}: this is not a regular file", path=path)
        return SourceFile(canonical, found.data if found else None)

    def look_at(self, canonical: str) -> OnDisk | None:
        """What stands at a path of the history, a link itself and not its target."""
        if canonical not in self.seen:
            target = self._workspace.worktree.resolver.resolve(canonical, follow_last=False)
            self._look(target)
        return self.seen[canonical][1]

    def _look(self, target: Target) -> str:
        if target.path in self.seen:
            target.close()
            return target.path
        try:
            if target.path in self._base.files:
                found = self._base.files[target.path]
            else:
                found = self._workspace.worktree.read(target, self._limit)
        except BaseException:
            target.close()
            raise
        self.seen[target.path] = (target, found)
        return target.path

    def draft_file(self, path: str, after: bytes | None) -> DraftFile:
        """A file of the draft; its directory handle now belongs to the draft."""
        target, found = self.seen[path]
        self.seen[path] = (replace(target, dir_fd=-1), found)
        return DraftFile(target, found, after)

    def close(self) -> None:
        """Give back the handles of what was only looked at."""
        for target, _ in self.seen.values():
            target.close()


def _stale(path: str, expected: str | None, found: str | None) -> Failure:
    def describe(oid: str | None) -> str:
        return f"blob {oid}" if oid else "no file"

    return Failure(
        Kind.STALE.value,
        f"{path}: if_match expects {describe(expected)}, but there is {describe(found)}. "
        "Read the file again and base the edit on what it says now.",
        path=path,
    )


def _check_if_match(call: EditCall, world: CallWorld) -> None:
    expected = call.if_match
    if expected is None:
        return
    if isinstance(expected, str):
        path = call.params.get("path")
        if not isinstance(path, str):
            raise refuse(
                Kind.INVALID_PARAMS,
                "if_match: this method can touch several files; "
                'send a map from path to blob id: {"src/a.py": "<oid>"}.',
            )
        expected = {path: expected}
    failures = []
    for path, oid in expected.items():
        world.read(path)
        source = world.read(path)
        found = world.seen[source.path][1]
        if (found.oid if found else None) != oid:
            failures.append(_stale(path, oid, found.oid if found else None))
    if failures:
        raise Refused(*failures)


def plan_call(
    workspace: Workspace, base: Base, call: EditCall, session: Session | None, limit: int
) -> Draft:
    """What a call wants to do, planned on ``base``. Raises Refused."""
    world = CallWorld(workspace, base, call, session, limit)
    try:
        _check_if_match(call, world)
        if call.method in DIALECTS:
            return _from_plan(DIALECTS[call.method](call.params, world), world)
        return _plan_undo(workspace, base, call, world)
    finally:
        world.close()


def _from_plan(plan: Plan, world: CallWorld) -> Draft:
    files = []
    for planned in plan.files:
        item = world.draft_file(planned.path, planned.after)
        item.old_path = planned.old_path
        files.append(item)
    return Draft(
        kind="edit",
        subject=plan.subject,
        files=files,
        edits=plan.edits,
        message=plan.message,
        warnings=plan.warnings,
        clipboards=plan.clipboards,
        clipboard_notes=plan.clipboard_notes,
    )


# -- undo


def _plan_undo(workspace: Workspace, base: Base, call: EditCall, world: CallWorld) -> Draft:
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
    request = params.get("request")
    if commits is not None:
        return _named_commits(workspace, base, call, commits)
    last = 1 if params.get("last") is None else params["last"]
    session = params.get("session") if call.control else call.session
    chosen: list[StoredCommit] = []
    for commit, undone_by in walk_standing(workspace.repository.walk(base.head.commit)):
        meta = commit.meta
        if request is not None:
            if meta.request != request or meta.kind == "outside":
                continue
            _check_may_undo(call, commit, undone_by)
            return [commit]
        if meta.kind not in EDITS or undone_by is not None:
            continue
        if session is not None and meta.session != session:
            continue
        if params.get("agent") is not None and meta.agent != params["agent"]:
            continue
        if params.get("paths") and not _touches(workspace, commit, params["paths"]):
            continue
        chosen.append(commit)
        if len(chosen) == last:
            break
    if request is not None:
        raise refuse(Kind.UNKNOWN_REQUEST, f"no commit was made by request {request!r}")
    if not chosen:
        raise refuse(
            Kind.NOTHING_TO_UNDO,
            "there is no edit left to undo"
            + (f" in session {session!r}" if session is not None else "")
            + ". Undos and edits made outside are not counted.",
        )
    return chosen


def _touches(workspace: Workspace, commit: StoredCommit, paths: list[str]) -> bool:
    wanted = [path.strip("/") for path in paths]
    return any(
        changed == path or changed.startswith(path + "/")
        for changed, _, _ in _file_changes(workspace, commit)
        for path in wanted
    )


def _named_commits(
    workspace: Workspace, base: Base, call: EditCall, names: list[str]
) -> list[StoredCommit]:
    wanted = {resolve_commit(workspace.repository, base.head.commit, name) for name in names}
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
    if name == "HEAD" or name.startswith("HEAD~"):
        steps = name[5:] or ("1" if name == "HEAD~" else "0")
        if head is None or not steps.isdigit():
            raise _unknown_commit(name)
        for step, commit in enumerate(repository.walk(head)):
            if step == int(steps):
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
