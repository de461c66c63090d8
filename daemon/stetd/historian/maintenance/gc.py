"""Garbage collection of one history, and the choice of commits that retention drops.

A scheduled pass packs loose objects and joins small packs; it drops nothing. A pass that a person
asks for, or that follows retention, also drops unreachable objects. It can't drop objects of calls
that Git does not have yet: the journal has their contents, and they are written in any case.
"""

from __future__ import annotations

import os
import time
from contextlib import ExitStack, closing, suppress
from functools import partial

from stetd.config.settings import Settings
from stetd.failpoints import failpoint
from stetd.history.commits import parse_commit
from stetd.processes.long_work import Collected, RetentionChoice
from stetd.repository.git_writer import GitWriter
from stetd.repository.object_files import (
    INDEX_HEAD,
    Damaged,
    ObjectFiles,
    all_loose_ids,
    loose_name,
    pack_names,
)
from stetd.repository.packing import Chosen, PackEntries, clear_unfinished
from stetd.repository.reachable import Marks
from stetd.repository.references import named_commits, read_shallow
from stetd.repository.repacking import Repacking
from stetd.repository.stored_ids import each_id
from stetd.repository.stored_objects import StoredObjects
from stetd.state.read_view import ReadView
from stetd.storage.disk import Disk
from stetd.storage.progress import Progress

#: A history with fewer loose objects and fewer packs is not packed.
_MANY_LOOSE, _MANY_PACKS = 256, 24
_DAY = 86_400
#: Seconds that a commit may be too old before it is dropped, so that a history is cut once a day
#: and not after each call.
_SELDOM_S = _DAY
#: A history over its size limit is cut to this part of the limit, so that it is not cut again soon.
_SPARE = 0.9


def is_due(shadow: str) -> bool:
    """Whether a shadow repository has enough loose objects or packs to be packed."""
    loose = len(all_loose_ids(shadow)) // 20  # bytes of an id
    return loose >= _MANY_LOOSE or len(pack_names(shadow)) >= _MANY_PACKS


def collected(
    shadow: str, git_writer: GitWriter, disk: Disk, progress: Progress, *, drop: bool
) -> Collected:
    """Pack a history; with ``drop``, without unreachable objects.

    Raises BrokenHistory, Damaged, OSError; nothing is lost then.
    """
    before = directory_bytes(shadow)
    work = Repacking(shadow, disk, partial(git_writer.remove, shadow), progress, drop)
    try:
        with git_writer.not_joining(shadow):
            work.run()
            if drop:
                git_writer.run(shadow, partial(clear_unfinished, shadow)).result()
    except Damaged:
        if drop:
            raise
        # The damaged object may be an unreachable one that a crash has left.
        return collected(shadow, git_writer, disk, progress, drop=True)
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
    """Whether a history was cut and still has objects of the dropped commits."""
    with closing(StoredObjects(shadow)) as repository:
        # As stored: repository.commit leaves out the parent of a commit that was cut off.
        cut = [parse_commit(oid, repository.blob(oid)) for oid in read_shallow(shadow)]
        return any(each.parent is not None and repository.is_commit(each.parent) for each in cut)


def choose(view: ReadView, settings: Settings, git_writer: GitWriter) -> RetentionChoice | None:
    """Choose what retention drops; None: nothing. Raises BrokenHistory, Damaged, MissingObject,
    OSError.
    """
    shadow, progress = view.shadow, view.progress
    with closing(StoredObjects(shadow)) as repository:
        chain, by_age, worth = _follow(repository, settings.retention_days, progress)
        if worth is None:
            return None
        at, why = by_age, f"older than {settings.retention_days} days"
        most = settings.retention_mb << 20
        if most and directory_bytes(shadow) > most:
            collected(shadow, git_writer, view.disk, progress, drop=True)
            if directory_bytes(shadow) > most:
                by_size = _fitting(repository, most, progress, chain)
                if by_size < at:
                    at, why = by_size, f"the history had more than {most:,} bytes"
        named = named_commits(shadow)
        at = max(at, _oldest_named(named, chain))
        failpoint("retention.chosen")
        if at >= worth:
            return None
        oldest, parent = (chain[start : start + 20].hex() for start in (20 * at, 20 * at + 20))
        return RetentionChoice(oldest, parent, len(chain) // 20 - 1 - at, why, named)


def _follow(
    repository: StoredObjects, days: int, progress: Progress
) -> tuple[bytes, int, int | None]:
    """The ids of the commits, newest first, and two indexes in them.

    The first is of the oldest commit that is young enough, the second of the oldest commit not of
    kind ``retention`` (None: there is none): a cut that drops no such commit is not worth it.
    """
    progress.begin("following the history")
    now = time.time()
    chain = bytearray()
    since = now - days * _DAY if days else float("-inf")
    at, last, oldest = 0, 0, now
    worth: int | None = None
    for number, commit in enumerate(repository.walk(repository.head())):
        chain += bytes.fromhex(commit.oid)
        last, oldest = number, min(oldest, commit.meta.time)
        if commit.meta.time >= since:
            at = number
        if commit.meta.kind != "retention":
            worth = number
        progress.step()
    return bytes(chain), at if oldest < since - _SELDOM_S else last, worth


def _fitting(repository: StoredObjects, most: int, progress: Progress, chain: bytes) -> int:
    """The index of the oldest commit that fits into the limit with all newer ones."""
    progress.begin("measuring", len(chain) // 20)
    path, total, room = repository.path, 0, int(most * _SPARE)
    with ExitStack() as opened:
        files = opened.enter_context(closing(ObjectFiles(path)))
        packs = [opened.enter_context(closing(PackEntries(path, n))) for n in pack_names(path)]
        stored = Chosen(packs, all_loose_ids(path))

        def count(number: int) -> None:
            """Count an object when it is marked first: with the newest commit that has it."""
            nonlocal total
            source = stored.source(number)
            if source is not None:
                pack, place = source
                in_index = (pack.index_size - INDEX_HEAD) // pack.count
                total += pack.entry_size(place) + in_index
                return
            with suppress(FileNotFoundError):  # packed meanwhile
                loose = loose_name(stored.at(number).hex())
                total += os.path.getsize(os.path.join(path, loose))

        marks = Marks(files, stored.ids)
        marks.on_mark = count
        for number, oid in enumerate(each_id(chain)):
            marks.mark_from([oid.hex()], parents=False)
            progress.step()
            if total > room:
                return max(number - 1, 0)
        return len(chain) // 20 - 1


def _oldest_named(named: list[str], chain: bytes) -> int:
    """The index in the chain of the oldest of these commits."""
    sought = {bytes.fromhex(oid) for oid in named}
    found = [number for number, oid in enumerate(each_id(chain)) if oid in sought]
    # If one is not in this chain, it is unknown which commits it needs: keep all.
    return max(found, default=0) if len(found) == len(sought) else len(chain) // 20 - 1
