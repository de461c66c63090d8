"""Watching displaced files for a grace period after they were replaced.

Another program may have the old file open and write to it after the exchange, when it has no name
any more. The daemon keeps a descriptor of it and reads it again at the end of the grace period.
Late bytes are recorded as outside (lost if the daemon is killed before: docs/limits.md).
"""

from __future__ import annotations

import logging
import os
import time
from collections import deque
from collections.abc import Iterator

import msgspec

from stet.wire.failures import Refused
from stetd.history.objects import Image, object_id, paths_in_the_way, same_image
from stetd.state.state import State
from stetd.state.workspace import Workspace
from stetd.storage.journal_format import Change
from stetd.storage.worktree import read_descriptor
from stetd.transaction.heads import HistoryBuilder, seal_outside
from stetd.transaction.transaction import PreparedFile

_log = logging.getLogger(__name__)
_MAX_WATCHED = 256
#: Bytes. Larger files are compared by size and time, not by content.
_MAX_COMPARED = 1 << 20


class LateWrite(msgspec.Struct, frozen=True):
    """The content of a displaced file that was written to after it was replaced."""

    workspace: Workspace
    path: str
    data: bytes
    image: Image


class _Watched(msgspec.Struct):
    due: float
    fd: int
    workspace: Workspace
    path: str
    oid: str
    signature: tuple[int, int]


class GraceWatch(msgspec.Struct):
    """The displaced files still being watched, oldest first."""

    _state: State
    _watched: deque[_Watched] = msgspec.field(default_factory=deque)

    def watch(self, workspace: Workspace, work: PreparedFile) -> None:
        """Take over the descriptor of a displaced file."""
        fd, work.displaced_fd = work.displaced_fd, -1
        if fd < 0:
            return
        displaced = work.displaced
        assert displaced is not None, "BUG: a descriptor of no file"
        period = self._state.settings.grace_s
        # Files that are excluded from the history are not watched.
        if period <= 0 or displaced.data is None or workspace.excludes(work.target.path):
            os.close(fd)
            return
        self._watched.append(
            _Watched(
                time.monotonic() + period,
                fd,
                workspace,
                work.target.path,
                displaced.oid,
                # As it was read: it may have been written to since.
                (displaced.size, displaced.mtime_ns),
            )
        )

    def next_due(self) -> float | None:
        """Seconds until the oldest watch ends; None if nothing is watched."""
        if len(self._watched) > _MAX_WATCHED:
            return 0.0
        return self._watched[0].due - time.monotonic() if self._watched else None

    def expired(self, *, all_of_them: bool = False) -> Iterator[LateWrite]:
        """End the watches that are due, or too many; yields the late writes."""
        while (due := self.next_due()) is not None and (all_of_them or due <= 0):
            watched = self._watched.popleft()
            late = None
            try:
                late = _read_again(watched)
            except OSError as error:
                _log.warning("late writes to %s can't be looked for: %s", watched.path, error)
            finally:
                os.close(watched.fd)
            if late is not None:
                yield late


def _read_again(watched: _Watched) -> LateWrite | None:
    """The content of the displaced file now, if it has changed.

    Small files are compared by content: a write within one tick of the clock leaves size
    and time as they were.
    """
    info = os.fstat(watched.fd)
    same = (info.st_size, info.st_mtime_ns) == watched.signature
    if same and info.st_size > _MAX_COMPARED:
        return None
    data = read_descriptor(watched.fd, info.st_size)
    oid = object_id("blob", data)
    if oid == watched.oid:
        return None
    return LateWrite(watched.workspace, watched.path, data, Image(oid, info.st_mode))


def seal_late_write(late: LateWrite, history: HistoryBuilder, number: int) -> Change | None:
    """Two outside commits on the head: the late bytes, then the current content again.

    None if the late bytes are the current content.
    """
    workspace = late.workspace
    tree, load = workspace.head.tree, workspace.repository.load_tree
    # By now the path may be a directory, or a directory above it a file.
    replaced = paths_in_the_way(tree, late.path, load)
    current = {path: _current_image(workspace, path) for path in [late.path, *replaced]}
    if same_image(late.image, current[late.path]):
        return None
    return seal_outside(
        [
            ("written late to the replaced file", {late.path: late.image}),
            ("the file as it stands", current),
        ],
        {late.image.oid: late.data},
        history,
        number=number,
        workspace=workspace.name,
    )


def _current_image(workspace: Workspace, path: str) -> Image | None:
    """The head's image of a path; with the bits of the file on disk, if that is the same to Git."""
    image, worktree = workspace.head.image(path, workspace.repository.load_tree), workspace.worktree
    if image is None:
        return None
    try:
        with worktree.resolver.locate(path) as target:
            found = None if target.missing else worktree.read_name(target)
    except (OSError, Refused):
        return image
    return found.image if found and same_image(image, found.image) else image
