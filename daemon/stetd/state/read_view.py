"""A workspace at one moment, as a reader beside the writer needs it."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from stetd.history.excluding import NOTHING_EXCLUDED, Excludes
from stetd.repository.stored_objects import KeptHandles
from stetd.storage.disk import Disk
from stetd.storage.journal_format import Cut
from stetd.storage.progress import Progress
from stetd.storage.worktree import Worktree


class ReadView(msgspec.Struct, frozen=True):
    """A workspace as it was when the request arrived."""

    worktree: Worktree
    shadow: str
    head: str | None
    directory: str
    max_file_bytes: int
    #: Open repositories.
    handles: KeptHandles = msgspec.field(default_factory=KeptHandles)
    #: The part of the history that retention has dropped.
    cut: Cut | None = None
    #: Files that are kept out of the history.
    excludes: Excludes = NOTHING_EXCLUDED
    #: Prefixes of the paths in workspaces inside this one.
    inner: frozenset[str] = frozenset()
    #: What writing goes through; how far the work has come.
    disk: Disk = msgspec.field(default_factory=Disk)
    progress: Progress = msgspec.field(default_factory=Progress)

    def possible_paths(self, paths: Iterable[str]) -> list[str]:
        """The paths of the history that a request's paths may mean. Raises Refused."""
        found = self.worktree.resolver.possible_paths
        return [each for path in paths for each in found(path, self.directory)]
