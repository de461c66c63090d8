"""The current content of the paths that a tool touches; nothing is refused.

What can't be read (outside the workspace, Git's own files, too large, excluded) is left out, with
a warning. A link is read as a link. Where a tool has named it, the file that it leads to is read as
well, because tools write through links; a scan has that file's own path.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from stet.wire.failures import Kind, Refused
from stetd.history.objects import Image
from stetd.planning.world import CallLimits
from stetd.state.workspace import Workspace
from stetd.storage.paths_on_disk import Target
from stetd.storage.scanning import MOST_PASSED
from stetd.storage.worktree import OnDisk

_MOST_WARNINGS = 5
#: Why a workspace was not scanned as a whole, if that is it.
NO_TIME = "there was no time to look at all of it"


@dataclass(slots=True)
class Seen:
    """The files at paths, which are a request's: absolute, or from ``directory``; by the name that
    the history has for each.
    """

    workspace: Workspace
    directory: str
    limits: CallLimits
    files: dict[str, OnDisk | None] = field(default_factory=dict)
    #: How many directories above a path there are not.
    missing: dict[str, int] = field(default_factory=dict)
    #: Paths of files that exist and were not read.
    passed: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    bytes: int = 0

    @property
    def images(self) -> dict[str, Image | None]:
        """The current content as images."""
        return {path: found.image if found else None for path, found in self.files.items()}

    def look(self, paths: Iterable[str], *, through_links: bool) -> None:
        """Read the files at these paths; ``through_links``: and those that links lead to."""
        left, limits = 0, self.limits
        for path in paths:
            if len(self.files) >= limits.files or self.bytes > limits.bytes:
                left += 1
                self.passed.append(path)
                continue
            found = self._look_at(path, follow=False)
            if through_links and found is not None and found.is_link:
                self._look_at(path, follow=True)
        if left:
            self.warnings.append(
                f"{left} more files were not scanned: one call takes {limits.files:,} files and "
                f"{limits.bytes:,} bytes (max_call_files, max_call_bytes). What changed in them is "
                "recorded as outside when they are touched the next time."
            )

    def _look_at(self, path: str, *, follow: bool) -> OnDisk | None:
        resolver = self.workspace.worktree.resolver
        try:
            target = resolver.resolve(path, self.directory, follow_last=follow)
        except Refused as refusal:
            if refusal.kind != Kind.NOT_A_FILE or follow:
                self.passed.append(path)
                self.warnings.append(f"not recorded: {refusal.message}")
                return None
            try:  # a file is above it, so there is none here
                gone = resolver.canonical(path, self.directory, follow_last=False)
            except Refused as other:
                self.warnings.append(f"not recorded: {other.message}")
            else:
                if gone and not self.workspace.excludes(gone):
                    self.files.setdefault(gone, None)
            return None
        with target:
            return self._read(target)

    def _read(self, target: Target) -> OnDisk | None:
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
            if refusal.kind == Kind.NOT_A_FILE:  # a directory: no file, to the history
                self.files[path] = None
            else:
                self.passed.append(path)
                self.warnings.append(f"not recorded: {refusal.message}")
            return None
        self.missing[path] = len(target.missing)
        self.files[path] = found
        self.bytes += found.size if found is not None else 0
        return found


@dataclass(slots=True)
class Differing:
    """What a scan has found.

    ``paths`` with their sizes; ``complete``: nothing else can differ, except what was left out (as
    in :class:`stetd.observing.before_note.BeforeNote`). ``inner``: the workspaces inside this one
    that were left out. ``kept``: the late files that no ``.gitignore`` leaves out.
    """

    paths: list[tuple[str, int]] = field(default_factory=list)
    complete: bool = False
    passed: list[str] = field(default_factory=list)
    modes: dict[str, int] = field(default_factory=dict)
    tree: str = ""
    excludes: str = ""
    ignores: dict[str, str] = field(default_factory=dict)
    untold: dict[str, str] = field(default_factory=dict)
    inner: list[str] = field(default_factory=list)
    why: str = ""
    kept: list[str] = field(default_factory=list)

    def pass_over(self, paths: list[str]) -> None:
        """Note what was not read; the scan stays complete only if it is little."""
        self.passed += paths[: MOST_PASSED + 1 - len(self.passed)]
        if len(self.passed) > MOST_PASSED and self.complete:
            self.complete = False
            self.why = f"more than {MOST_PASSED:,} files and directories can't be scanned"


class Looking(msgspec.Struct, frozen=True):
    """A workspace is to be scanned until ``deadline`` (of time.monotonic()).

    ``late``: files, absolute or from the session's directory, for ``Differing.kept``.
    """

    max_files: int
    deadline: float
    late: list[str] = []


def few(warnings: list[str]) -> list[str]:
    """The first of many warnings."""
    rest = len(warnings) - _MOST_WARNINGS
    if rest <= 0:
        return warnings
    return [*warnings[:_MOST_WARNINGS], f"... and {rest} more like these."]
