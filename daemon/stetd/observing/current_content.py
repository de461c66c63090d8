"""Snapshot of the files that a tool touches. Reading them refuses nothing.

Paths that can't be read (outside the workspace, Git's own files, too large, excluded) are skipped
with a warning. A symbolic link is read as a link. If a tool named it, its target is read as well,
because tools write through links; a scan finds the target by its own path.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from stet.wire.failures import Kind, Refused
from stetd.history.objects import Image
from stetd.planning.world import CallLimits
from stetd.state.workspace import Workspace
from stetd.storage.paths_on_disk import Target
from stetd.storage.scanning import MOST_PASSED
from stetd.storage.worktree import OnDisk

_MAX_WARNINGS = 5
#: A reason why a workspace was not scanned as a whole.
NO_TIME = "there was no time to look at all of it"


class CurrentContent(msgspec.Struct):
    """The files that were read, by their path in the history. Requests name them by absolute paths
    or relative to ``directory``.
    """

    workspace: Workspace
    directory: str
    limits: CallLimits
    files: dict[str, OnDisk | None] = {}
    #: How many directories above a path do not exist. Lacks paths that can be no file now.
    missing: dict[str, int] = {}
    #: Paths of files that exist and could not be read.
    unread: list[str] = []
    warnings: list[str] = []
    bytes: int = 0

    @property
    def images(self) -> dict[str, Image | None]:
        """The images of the files that were read; None: no file is there."""
        return {path: found.image if found else None for path, found in self.files.items()}

    def read(self, paths: Iterable[str], *, through_links: bool) -> None:
        """Read the files at these paths; ``through_links``: also the targets of links."""
        left, limits = 0, self.limits
        for path in paths:
            if len(self.files) >= limits.files or self.bytes > limits.bytes:
                left += 1
                self.unread.append(path)
                continue
            found = self._read_path(path, follow=False)
            if through_links and found is not None and found.is_link:
                self._read_path(path, follow=True)
        if left:
            self.warnings.append(
                f"{left} more files were not scanned: one call takes {limits.files:,} files and "
                f"{limits.bytes:,} bytes (max_call_files, max_call_bytes). What changed in them is "
                "recorded as outside when they are touched the next time."
            )

    def _read_path(self, path: str, *, follow: bool) -> OnDisk | None:
        resolver = self.workspace.worktree.resolver
        try:
            target = resolver.resolve(path, self.directory, follow_last=follow)
        except Refused as refusal:
            if refusal.kind != Kind.NOT_A_FILE or follow:
                self.unread.append(path)
                self.warnings.append(f"not recorded: {refusal.message}")
                return None
            try:  # a directory of the path is a file, so no file is here
                gone = resolver.canonical(path, self.directory, follow_last=False)
            except Refused as other:
                self.warnings.append(f"not recorded: {other.message}")
            else:
                if gone and not self.workspace.excludes(gone):
                    self.files.setdefault(gone, None)
            return None
        with target:
            return self._read_target(target)

    def _read_target(self, target: Target) -> OnDisk | None:
        path = target.path
        if path in self.files:
            return self.files[path]
        if self.workspace.excludes(path):
            self.warnings.append(
                f"not recorded: {path} is excluded from the history (exclude, in the configuration)"
            )
            return None
        try:
            found = self.workspace.worktree.read(target, self.limits.file_bytes)
        except Refused as refusal:
            if refusal.kind == Kind.NOT_A_FILE:  # a directory; the history has only files
                self.files[path] = None
            else:
                self.unread.append(path)
                self.warnings.append(f"not recorded: {refusal.message}")
            return None
        self.missing[path] = len(target.missing)
        self.files[path] = found
        self.bytes += found.size if found is not None else 0
        return found


class ScanResult(msgspec.Struct):
    """What a scan has found: the ``paths`` that may differ, with their sizes.

    ``why``: why other files may differ, too; "": none does, except those that :class:`BeforeNote
    <stetd.observing.before_note.BeforeNote>` excepts.
    ``passed``, ``ignores``, ``changed_ignores``: as in :class:`stetd.storage.scanning.Scan`.
    ``inner``: workspaces inside this one, which are not scanned. ``kept``: the late files of the
    request that no ``.gitignore`` ignores.
    """

    paths: list[tuple[str, int]] = []
    passed: list[str] = []
    modes: dict[str, int] = {}
    tree: str = ""
    excludes: str = ""
    ignores: dict[str, str] = {}
    changed_ignores: dict[str, str] = {}
    inner: list[str] = []
    why: str = ""
    kept: list[str] = []

    def add_skipped(self, paths: list[str]) -> None:
        """Note paths that were not read. With more than MOST_PASSED the scan is incomplete."""
        self.passed += paths[: MOST_PASSED + 1 - len(self.passed)]
        if len(self.passed) > MOST_PASSED and not self.why:
            self.why = f"more than {MOST_PASSED:,} files and directories can't be scanned"


class ScanRequest(msgspec.Struct, frozen=True):
    """The parameters of a scan; ``deadline`` is a value of time.monotonic().

    ``late``: paths, absolute or relative to the session's directory, for ``ScanResult.kept``.
    """

    max_files: int
    deadline: float
    late: list[str] = []


def first_few(warnings: list[str]) -> list[str]:
    """The first _MAX_WARNINGS warnings, and how many more there are."""
    rest = len(warnings) - _MAX_WARNINGS
    if rest <= 0:
        return warnings
    return [*warnings[:_MAX_WARNINGS], f"... and {rest} more like these."]
