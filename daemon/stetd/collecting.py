"""Garbage collection of one history: when it is due, and a whole pass of it.

A pass that comes by itself packs what lies about and joins small packs; it drops nothing. One
that a person asks for, or that follows when history was dropped, also leaves out what no
reference needs. What the journal may still have to write is in the journal, contents and all,
and is written whether or not the repository had it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from dataclasses import dataclass

from stetd.storage.object_files import pack_names
from stetd.storage.reachable import all_loose_ids
from stetd.storage.repacking import Progress, Repacking
from stetd.workspace import Workspace
from stetd.writer import Writer

#: With fewer loose objects and packs than these a history is left as it is.
_MANY_LOOSE, _MANY_PACKS = 256, 24


@dataclass(frozen=True, slots=True)
class Collected:
    """Bytes of the repository before and after, and how many objects were dropped."""

    bytes_before: int
    bytes_after: int
    dropped: int


def is_due(shadow: str) -> bool:
    """Whether enough lies about in a shadow repository to be packed."""
    return len(all_loose_ids(shadow)) // 20 >= _MANY_LOOSE or len(pack_names(shadow)) >= _MANY_PACKS


def collecting(
    writer: Writer, workspace: Workspace, progress: Progress, *, drop: bool
) -> Generator[None, None, Collected]:
    """Pack the history of a workspace, step by step; not on the writer thread.

    Raises BrokenHistory, Damaged, OSError; nothing is lost then.
    """
    shadow, background = workspace.shadow, writer.background
    before = directory_bytes(shadow)

    def on_background(run: Callable[[], None]) -> None:
        def alone() -> None:
            try:
                run()
            finally:
                # At once: calls have gathered behind this, and what it removed they may need.
                background.reopen(shadow)

        background.run(alone).result()

    on_background(lambda: background.pause_joining(shadow))
    work = Repacking(shadow, writer.state.disk, on_background, progress, drop=drop)
    try:
        yield from work.steps()
    finally:
        work.close()
        on_background(lambda: background.resume_joining(shadow))
        writer.from_thread(lambda: _reopen(writer, workspace))
    return Collected(before, directory_bytes(shadow), work.dropped)


def _reopen(writer: Writer, workspace: Workspace) -> None:
    """Let the writer's handle go of packs that are gone: until then they take space."""
    if writer.state.open.get(workspace.name) is workspace:
        workspace.repository.reopen()


def directory_bytes(path: str) -> int:
    """The size of all files below a directory."""
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            try:
                total += os.lstat(os.path.join(folder, name)).st_size
            except OSError:
                continue
    return total
