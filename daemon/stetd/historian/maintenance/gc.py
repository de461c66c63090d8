"""Garbage collection of one history: when it is due, and a whole pass of it.

A pass that comes by itself packs what lies about and joins small packs; it drops nothing. One
that a person asks for, or that follows when history was dropped, also leaves out what no
reference needs. What the journal may still have to write is in the journal, contents and all,
and is written whether or not the repository had it.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from stetd.processes.works import Collected
from stetd.repository.git_writer import Background
from stetd.repository.object_files import Damaged, pack_names
from stetd.repository.repacking import Repacking
from stetd.repository.stored_ids import all_loose_ids
from stetd.storage.disk import Disk
from stetd.storage.progress import Progress

#: With fewer loose objects and packs than these a history is left as it is.
_MANY_LOOSE, _MANY_PACKS = 256, 24


def is_due(shadow: str) -> bool:
    """Whether enough lies about in a shadow repository to be packed."""
    return len(all_loose_ids(shadow)) // 20 >= _MANY_LOOSE or len(pack_names(shadow)) >= _MANY_PACKS


def tidied(shadow: str, background: Background, disk: Disk, progress: Progress) -> Collected:
    """Pack a history. Raises BrokenHistory, Damaged, OSError; nothing is lost then."""
    try:
        return collected(shadow, background, disk, progress, drop=False)
    except Damaged:
        # It may be one of those that a crash left, and that nothing needs.
        return collected(shadow, background, disk, progress, drop=True)


def collected(
    shadow: str, background: Background, disk: Disk, progress: Progress, *, drop: bool
) -> Collected:
    """Pack a history, and with ``drop`` leave out what nothing needs. Raises as :func:`tidied`."""

    def alone(change: Callable[[], None]) -> None:
        """Change files while nothing is written to the repository."""

        def carry_out() -> None:
            change()
            # At once: what was removed may be needed by what is written next.
            background.forget_written(shadow)

        background.run(carry_out).result()

    before = directory_bytes(shadow)
    background.run(lambda: background.pause_joining(shadow)).result()
    work = Repacking(shadow, disk, alone, progress, drop=drop)
    try:
        work.run()
    finally:
        work.close()
        background.run(lambda: background.resume_joining(shadow)).result()
    return Collected(before, directory_bytes(shadow), work.dropped)


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
