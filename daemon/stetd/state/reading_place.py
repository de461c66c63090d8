"""Where somebody reads who is not the writer: a workspace as it was at one moment."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from stetd.history.excluding import NOTHING_EXCLUDED, Excludes
from stetd.repository.kept_handles import KeptHandles
from stetd.storage.disk import Disk
from stetd.storage.journal_format import Cut
from stetd.storage.progress import Progress
from stetd.storage.worktree import Worktree


class Place(msgspec.Struct, frozen=True):
    """Where a reader reads: a workspace as it was when the request came."""

    worktree: Worktree
    shadow: str
    head: str | None
    directory: str
    max_file_bytes: int
    #: Where handles on the history are had from.
    handles: KeptHandles = msgspec.field(default_factory=KeptHandles)
    #: Called when the index will not be ready soon.
    on_lag: Callable[[], None] = lambda: None
    #: What retention has dropped.
    cut: Cut | None = None
    #: Files that the history does not keep.
    excludes: Excludes = NOTHING_EXCLUDED
    #: The workspaces inside this one, as the beginnings of their paths.
    inner: frozenset[str] = frozenset()
    #: The workspace's, and the record up to which its history is read.
    name: str = ""
    number: int = 0
    #: What writing goes through; how far the work has come.
    disk: Disk = msgspec.field(default_factory=Disk)
    progress: Progress = msgspec.field(default_factory=Progress)
