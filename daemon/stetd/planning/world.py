"""A call that may write files, and the files and clipboards that it sees while it is planned."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from stet.wire.failures import Kind, Refused, refuse
from stetd.config.settings import Settings
from stetd.editing import time_limit
from stetd.editing.edits import Plan, SourceFile, followed
from stetd.editing.paths import directories_above
from stetd.history.objects import object_id
from stetd.history.reverting_commits import InTheWay
from stetd.session.sessions import Entrant
from stetd.storage.paths_on_disk import Target
from stetd.storage.worktree import OnDisk, Worktree
from stetd.transaction.drafts import DraftFile, Requester

#: The method that records what an agent's own tools have done; it writes no file.
OBSERVE = "observe"
#: If a call reads more bytes than this, a planner plans it.
_QUICK_BYTES = 512 * 1024


class EditCall(Requester, frozen=True, kw_only=True):
    """A call that may write files, as a method hands it to the writer."""

    request: str
    workspace: str
    params: dict[str, Any]  # without the common ones
    directory: str
    control: bool
    #: A repeated request must not be carried out again.
    once: bool
    digest: bytes
    if_match: str | dict[str, str | None] | None = None
    preview: bool = False
    #: Bytes of the parameters, roughly.
    size: int = 0
    #: The secret to open the session with, if it is not there any more.
    secret: str | None = None

    def __repr__(self) -> str:
        return f"<EditCall {self.method} {self.request}>"  # without the secret

    @property
    def entrant(self) -> Entrant | None:
        """Who opens the session of the call; None if it has no session."""
        if self.session is None:
            return None
        return Entrant(self.workspace, self.session, self.agent, self.secret, self.control)

    @property
    def key(self) -> tuple[str, str, str]:
        """Request ids are scoped to workspace and session."""
        return self.workspace, self.session or "", self.request

    @property
    def needs_history(self) -> bool:
        """Whether planning reads commits: all commits must have reached Git before."""
        return self.method in ("undo", "redo", "rollback", "restore")

    @property
    def is_persons_undo(self) -> bool:
        """Whether the person takes something back, which every mode allows."""
        return self.control and self.needs_history

    @property
    def alone(self) -> bool:
        """Whether it needs a batch of its own: it reads commits or files that must be on disk."""
        return self.needs_history or self.method == OBSERVE


class CallLimits(msgspec.Struct, frozen=True):
    """Limits of what one call may read and write: of one file, and of all files together."""

    file_bytes: int
    files: int  # each file that is read holds a descriptor
    bytes: int

    @classmethod
    def of(cls, settings: Settings) -> CallLimits:
        """The limits that the configuration sets."""
        return cls(settings.max_file_bytes, settings.max_call_files, settings.max_call_bytes)

    def check(self, files: int, size: int) -> None:
        """Refuse (input_too_large) more files or bytes."""
        if files > self.files:
            most = f"looks at {self.files:,} files at most (max_call_files"
        elif size > self.bytes:
            most = f"reads and writes {self.bytes:,} bytes at most (max_call_bytes"
        else:
            return
        raise refuse(
            Kind.INPUT_TOO_LARGE,
            f"one call {most} in the configuration). Nothing was changed. Send several calls with "
            "fewer files (or commits to take back) each.",
        )

    def check_made(self, path: str, size: int) -> None:
        """Refuse (file_too_large) to make a file that could not be edited, or undone, any more."""
        if size > self.file_bytes:
            raise refuse(
                Kind.FILE_TOO_LARGE,
                f"{path}: this file would have {size:,} bytes, {self.file_bytes:,} is the "
                "most (max_file_bytes in the configuration). Nothing was changed.",
                path=path,
            )


class NotYetPublished(Exception):
    """A path leads through links or files that earlier calls of the batch change, or is a directory
    that they make. They must be published first, because paths are resolved on disk.
    """


class CallWorld:
    """The files and clipboards that one call sees (the editing layer's World). Reads each once.

    ``unpublished``: files as earlier calls of the batch will leave them.
    """

    def __init__(
        self,
        worktree: Worktree,
        call: EditCall,
        limits: CallLimits,
        clipboards: Mapping[str, str] = MappingProxyType({}),
        unpublished: Mapping[str, OnDisk | None] = MappingProxyType({}),
    ) -> None:
        self._worktree = worktree
        self.root = worktree.root
        self._unpublished = unpublished
        self._directory = call.directory
        self.limits = limits
        self._bytes = 0
        #: The session's clipboards, as the calls planned so far leave them.
        self.clipboards = clipboards
        #: (path as spelled, follow_last) to its canonical path and the links that lead there.
        self._spelled: dict[tuple[str, bool], tuple[str, tuple[str, ...]]] = {}
        #: The links that paths of the present call lead through.
        self._followed: set[str] = set()
        #: Canonical path to the file that was read.
        self.seen: dict[str, tuple[Target, OnDisk | None]] = {}
        #: Canonical path to the file as the calls planned so far leave it.
        self.changed: dict[str, DraftFile] = {}
        #: Where another file is than before the call: the path that it had then, if it was there.
        self.origins: dict[str, str | None] = {}

    def apply(self, plan: Plan) -> None:
        """Make the changes of a plan, so that the next call of a transaction sees them."""
        moves = {each.path: each.old_path for each in plan.files if each.old_path}
        came = {new: self.origins.get(old, old) for new, old in moves.items()}
        # If an equal file comes to where one has left, that is no change, but it is another file.
        self.origins |= dict.fromkeys(moves.values())
        for planned in plan.files:
            before = self._source(planned.path)
            item = self.changed.setdefault(planned.path, self.draft_file(planned.path, None))
            item.after = planned.after
            # What was there is gone, and its mode with it: also a link that becomes a file.
            replaced = planned.new or (before.is_link and planned.mode is None)
            gone = planned.after is None or replaced
            item.new = item.new or gone
            if gone or planned.mode is not None:
                item.mode = planned.mode
            if gone or before.data is None:
                self.origins[planned.path] = None
        self.origins |= came
        self.clipboards = {**self.clipboards, **plan.clipboards}
        self._followed = set()

    def check_links(self, plan: Plan) -> None:
        """Refuse a plan that changes a link through which one of its paths leads."""
        for planned in plan.files:
            if planned.path in self._followed:
                raise refuse(
                    Kind.INVALID_PARAMS,
                    f"{planned.path}: this link is removed, and another path leads through it, so "
                    "it is not certain which file is meant there. Send it in two calls, one after "
                    "the other.",
                    path=planned.path,
                )

    def oid(self, path: str) -> str | None:
        """The blob id of the file at a path; None if there is no file."""
        data = self.read(path).data
        return object_id("blob", data) if data is not None else None

    def read(self, path: str) -> SourceFile:
        """The file at a path as the request spells it, links followed."""
        return followed(path, self.root, self._read_through)

    def look(self, path: str) -> SourceFile:
        """The file at a path as the request spells it; a link is not followed but returned."""
        return self._source(self._canonical(path, follow_last=False))

    def _read_through(self, path: str) -> SourceFile:
        """The file at a path, through links that are on disk.

        Links that earlier calls make or remove are not on disk yet, and can't be followed: then the
        entry itself is returned, as the earlier calls leave it.
        """
        if self.changed or self._unpublished:
            own = self.look(path)
            if own.path in self.changed or own.path in self._unpublished:
                return own
        return self._source(self._canonical(path, follow_last=True))

    def _canonical(self, path: str, *, follow_last: bool) -> str:
        key = path, follow_last
        if key not in self._spelled:
            target = self._resolved(path, follow_last=follow_last)
            self._spelled[key] = self._read_target(target), target.links
        canonical, links = self._spelled[key]
        for link in links:
            if link in self.changed:
                raise refuse(
                    Kind.INVALID_PARAMS,
                    f"{path}: this path leads through the link {link}, which a call before it in "
                    "the same transaction removes. Send it in a call of its own, afterwards.",
                    path=path,
                )
        if path.endswith(("/", "/.")) and self._source(canonical).data is None:
            raise refuse(
                Kind.NOT_A_FILE,
                f"{path}: this is the name of a directory; name the file in it",
                path=path,
            )
        self._followed.update(links)
        return canonical

    def _resolved(self, path: str, *, follow_last: bool) -> Target:
        resolver = self._worktree.resolver
        try:
            target = resolver.resolve(path, self._directory, follow_last=follow_last)
        except Refused as refusal:
            # Perhaps an earlier call removes what is in the way, or makes what is missing.
            if self._unpublished:
                raise NotYetPublished from refusal
            removed = any(each.after is None for each in self.changed.values())
            if refusal.kind == Kind.NOT_A_FILE and removed:
                raise refuse(
                    Kind.NOT_A_FILE,
                    f"{refusal}. If a call before it in the same transaction removes what is in "
                    "the way, send this one in a call of its own, afterwards.",
                    path=path,
                ) from refusal
            raise
        if self._unpublished and self._depends_on_batch(target):
            target.close()
            raise NotYetPublished
        return target

    def _depends_on_batch(self, target: Target) -> bool:
        """Whether earlier calls of the batch change a link on the way to this path, or make a file
        above or below it.
        """
        files, below = self._unpublished, f"{target.path}/"
        return (
            not files.keys().isdisjoint(target.links)
            or any(files.get(above) for above in directories_above(target.path))
            or any(found and path.startswith(below) for path, found in files.items())
        )

    def _source(self, canonical: str) -> SourceFile:
        """The file at a path that was read, as earlier calls leave it."""
        _, found = self.seen[canonical]
        data, mode = (found.data, found.mode) if found is not None else (None, None)
        item = self.changed.get(canonical)
        if item is not None:
            data, mode = item.after, item.mode if item.new else item.mode or mode
        return SourceFile(canonical, data, mode)

    def read_entry(self, canonical: str) -> OnDisk | None:
        """The file at a path of the history; a link is not followed. Raises InTheWay, Refused."""
        if canonical in self.seen:
            return self.seen[canonical][1]
        try:
            target = self._worktree.resolver.resolve(canonical, follow_last=False)
            if target.path == canonical:
                self._read_target(target)
                return self.seen[canonical][1]
        except Refused as refusal:
            if refusal.kind != Kind.NOT_A_FILE:
                raise
            raise InTheWay(canonical, refusal.message.removeprefix(f"{canonical}: ")) from refusal
        target.close()
        reason = f"a directory above it is a symbolic link now, and leads to {target.path}"
        raise InTheWay(canonical, reason)

    def _read_target(self, target: Target) -> str:
        if target.path in self.seen:
            target.close()
            return target.path
        try:
            if target.path in self._unpublished:
                found = self._unpublished[target.path]
            else:
                found = self._worktree.read(target, self.limits.file_bytes)
            self._bytes += found.size if found is not None else 0
            self.limits.check(len(self.seen) + 1, self._bytes)
            if time_limit.is_limited() and self._bytes > _QUICK_BYTES:
                raise time_limit.TakesLong
        except BaseException:
            target.close()
            raise
        self.seen[target.path] = (target, found)
        return target.path

    def draft_file(self, path: str, after: bytes | None) -> DraftFile:
        """Make a file of a draft."""
        return DraftFile(*self.seen[path], after)

    def close(self) -> None:
        """Close the descriptors of the files in ``seen``."""
        for target, _ in self.seen.values():
            target.close()
