"""A call that may write files, and what it sees while it is planned.

Only the writer thread uses this module.
"""

from __future__ import annotations

import stat
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from stet.wire.failures import Failure, Kind, Refused, refuse
from stet.wire.results import Peer
from stetd.drafts import DraftFile
from stetd.editing.edits import Plan, SourceFile
from stetd.history.objects import object_id
from stetd.session.sessions import Session
from stetd.storage.paths_on_disk import Target
from stetd.storage.worktree import OnDisk
from stetd.workspace import Base, Workspace

#: Methods whose planning reads commits, which must then all have reached Git.
READS_HISTORY = frozenset({"undo"})


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
        """Whether planning reads commits."""
        return self.method in READS_HISTORY


class CallWorld:
    """What one call sees (the editing layer's World), remembering what it looked at."""

    def __init__(
        self, workspace: Workspace, base: Base, call: EditCall, session: Session | None, limit: int
    ) -> None:
        self._workspace = workspace
        self._base = base
        self._directory = call.directory
        self._limit = limit
        self._clipboards: Mapping[str, str] = session.clipboards if session else {}
        self._spelled: dict[str, str] = {}
        self.seen: dict[str, tuple[Target, OnDisk | None]] = {}
        #: What earlier calls of the same transaction make of a file; None: deleted.
        self._planned: dict[str, bytes | None] = {}

    @property
    def clipboards(self) -> Mapping[str, str]:
        """The session's clipboards, as the calls planned so far leave them."""
        return self._clipboards

    def apply(self, plan: Plan) -> None:
        """Let the next call of a transaction see what this one will do."""
        for planned in plan.files:
            self._planned[planned.path] = planned.after
        self._clipboards = {**self._clipboards, **plan.clipboards}

    def oid(self, path: str) -> str | None:
        """The blob id of the file at a path, None if there is none."""
        data = self.read(path).data
        return object_id("blob", data) if data is not None else None

    def read(self, path: str) -> SourceFile:
        """The file at a path as the request spells it, links followed."""
        if path not in self._spelled:
            target = self._workspace.worktree.resolver.resolve(path, self._directory)
            self._spelled[path] = self._look(target)
        canonical = self._spelled[path]
        if canonical in self._planned:
            return SourceFile(canonical, self._planned[canonical])
        _, found = self.seen[canonical]
        if found is not None and not stat.S_ISREG(found.mode):
            raise refuse(Kind.NOT_A_FILE, f"{path}: this is not a regular file", path=path)
        return SourceFile(canonical, found.data if found else None)

    def look_at(self, canonical: str) -> OnDisk | None:
        """What stands at a path of the history, a link itself and not its target."""
        if canonical not in self.seen:
            target = self._workspace.worktree.resolver.resolve(canonical, follow_last=False)
            if target.path != canonical:
                target.close()
                raise _leads_elsewhere(canonical, target.path)
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

    def mode(self, canonical: str) -> int | None:
        """The full mode of a file that was looked at; None if there is none on disk."""
        _, found = self.seen.get(canonical, (None, None))
        return found.mode if found is not None else None

    def draft_file(self, path: str, after: bytes | None) -> DraftFile:
        """A file of the draft; its directory handle now belongs to the draft."""
        target, found = self.seen[path]
        self.seen[path] = (replace(target, dir_fd=-1), found)
        return DraftFile(target, found, after)

    def close(self) -> None:
        """Give back the handles of what was only looked at."""
        for target, _ in self.seen.values():
            target.close()


def _leads_elsewhere(path: str, other: str) -> Refused:
    reason = f"a directory above it is a symbolic link now, and leads to {other}"
    message = f"{path}: later changes are in the way, so nothing was undone: {reason}"
    return Refused(
        Failure(Kind.CONFLICT.value, message, path=path),
        extra={"conflicts": [{"path": path, "hunks": [reason]}]},
    )
