"""Garbage collection of one history, and which commits retention drops: too old, or too many.

A pass that comes by itself packs what lies about and joins small packs; it drops nothing. One
that a person asks for, or that follows when history was dropped, also leaves out what no
reference needs. What the journal may still have to write is in the journal, contents and all,
and is written whether or not the repository had it.
"""

from __future__ import annotations

import os
from contextlib import closing, suppress
from functools import partial

from stetd.failpoints import failpoint
from stetd.processes.works import Choice, Choosing, Collected, named_commits
from stetd.repository.git_writer import Background
from stetd.repository.object_files import Damaged, ObjectFiles, pack_names
from stetd.repository.pack_entries import stored_sizes
from stetd.repository.reachable import Marking, Marks
from stetd.repository.repacking import Repacking
from stetd.repository.shallow import read_shallow
from stetd.repository.stored_ids import all_loose_ids, each_id
from stetd.repository.stored_objects import StoredObjects
from stetd.state.reading_place import Place
from stetd.storage.disk import Disk
from stetd.storage.progress import Progress

#: With fewer loose objects and packs than these a history is left as it is.
_MANY_LOOSE, _MANY_PACKS = 256, 24
_DAY = 86_400
#: What is too old may wait so long, so that a history is cut once a day and not after each call.
_SELDOM_S = _DAY
#: A history that has become too large is cut down to this part of the limit, so that it is not
#: cut again at once.
_SPARE = 0.9


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
    before = directory_bytes(shadow)
    remove = partial(background.remove, shadow)
    with (
        background.not_joining(shadow),
        closing(Repacking(shadow, disk, remove, progress, drop=drop)) as work,
    ):
        work.run()
    return Collected(before, directory_bytes(shadow), work.dropped)


def directory_bytes(path: str) -> int:
    """The size of all files below a directory."""
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            with suppress(OSError):
                total += os.lstat(os.path.join(folder, name)).st_size
    return total


# -- retention


def has_remains(shadow: str) -> bool:
    """Whether a history was cut, and what was dropped has not been collected."""
    with closing(StoredObjects(shadow)) as repository:
        parents = (repository.raw_parent(oid) for oid in read_shallow(shadow))
        return any(parent is not None and repository.is_commit(parent) for parent in parents)


def choose(place: Place, asked: Choosing, background: Background) -> Choice | None:
    """What retention drops, if anything. Raises BrokenHistory, Damaged, MissingObject, OSError."""
    shadow, progress = place.shadow, place.progress
    with closing(StoredObjects(shadow)) as repository:
        chain = bytearray()
        by_age, worth = _follow(repository, asked, progress, chain)
        if worth is None:
            return None
        at, why = by_age, f"older than {asked.days} days"
        if asked.bytes and directory_bytes(shadow) > asked.bytes:
            collected(shadow, background, place.disk, progress, drop=True)
            if directory_bytes(shadow) > asked.bytes:
                by_size = _fitting(repository, asked, progress, chain)
                if by_size < at:
                    at, why = by_size, f"the history had more than {asked.bytes:,} bytes"
        named = named_commits(shadow)
        at = max(at, _oldest_named(named, chain))
        failpoint("retention.chosen")
        if at >= worth:
            return None
        oldest, parent = (chain[start : start + 20].hex() for start in (20 * at, 20 * at + 20))
        return Choice(oldest, parent, len(chain) // 20 - 1 - at, why, named)


def _follow(
    repository: StoredObjects, asked: Choosing, progress: Progress, chain: bytearray
) -> tuple[int, int | None]:
    """Fill in the ids of the chain, newest first.

    Gives the place of the oldest commit that is young enough, and that of the oldest that is
    worth being dropped: one that says itself what was dropped is not (None: no other).
    """
    progress.begin("following the history")
    since = asked.now - asked.days * _DAY if asked.days else float("-inf")
    at, last, oldest = 0, 0, asked.now
    worth: int | None = None
    for number, commit in enumerate(repository.walk(repository.head())):
        chain += bytes.fromhex(commit.oid)
        last, oldest = number, min(oldest, commit.meta.time)
        if commit.meta.time >= since:
            at = number
        if commit.meta.kind != "retention":
            worth = number
        progress.step()
    return (at if oldest < since - _SELDOM_S else last), worth


def _fitting(
    repository: StoredObjects, asked: Choosing, progress: Progress, chain: bytearray
) -> int:
    """The oldest commit with which all from the newest on fit into the limit."""
    progress.begin("measuring", len(chain) // 20)
    ids, sizes = stored_sizes(repository.path)
    marks = Marks(ids)
    total, room = 0, int(asked.bytes * _SPARE)

    def count(number: int) -> None:
        """Count an object where it is first met: with the newest commit that has it."""
        nonlocal total
        total += sizes[number]

    marks.on_mark = count
    with closing(ObjectFiles(repository.path)) as files:
        marking = Marking(files, marks, read_shallow(repository.path))
        for number, oid in enumerate(each_id(bytes(chain))):
            marking.mark_one_commit(oid)
            progress.step()
            if total > room:
                return max(number - 1, 0)
        return len(chain) // 20 - 1


def _oldest_named(named: list[str], chain: bytearray) -> int:
    """Where in the chain the oldest of these commits is."""
    sought = {bytes.fromhex(oid) for oid in named}
    oldest = 0
    for number, oid in enumerate(each_id(bytes(chain))):
        if oid in sought:
            sought.discard(oid)
            oldest = number
    # Of one that is not in this chain nothing is known: not what it needs, either.
    return len(chain) // 20 - 1 if sought else oldest
