"""Looking back with the query index: the same answers as
:class:`stetd.historian.queries.commit_lookup.Past`, sooner.

The commits that the index has not are looked at one by one, newest first, and only as long as
the question is open; then the index answers (:mod:`stetd.historian.queries.numbered_history` joins
the two).
"""

from __future__ import annotations

import heapq
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from stet.wire.results import FileChange
from stetd.historian.index.history_index import HistoryIndex
from stetd.historian.index.writer import is_damage
from stetd.historian.queries.commit_changes import changes_of, counted, has_text
from stetd.historian.queries.commit_lookup import (
    Found,
    Past,
    Touch,
    Touches,
    UnknownCursor,
    unknown_commit,
)
from stetd.historian.queries.numbered_history import NumberedHistory
from stetd.historian.queries.unindexed import DamagedIndex, NoIndex
from stetd.history.commit_rows import FileRow, Wanted, meets
from stetd.history.commits import StoredCommit
from stetd.history.undoing import is_edit
from stetd.repository.stored_objects import MissingObject, StoredObjects

T = TypeVar("T")
_FULL_ID = 40
#: Commits with a prefix that are looked for: enough to tell that it is ambiguous.
_MOST_WITH_PREFIX = 100


def look_back(
    repository: StoredObjects,
    head: str | None,
    run: Callable[[Past], T],
    on_damage: Callable[[], None] = lambda: None,
) -> T:
    """Ask the history with its index, and without where that turns out to be of no use.

    ``run`` may be called twice. ``on_damage`` is called if the index has to be made anew.
    """
    index = None
    try:
        index = HistoryIndex.for_reading(HistoryIndex.path_for(repository.path))
        if index is not None:
            with index.snapshot():
                return run(IndexedPast(repository, head, index))
    except NoIndex:
        pass
    except sqlite3.Error as error:
        if is_damage(error):
            on_damage()
    except (MissingObject, msgspec.MsgspecError, UnicodeDecodeError, DamagedIndex):
        on_damage()
    finally:
        if index is not None:
            index.close()
    return run(Past(repository, head))


class IndexedPast(Past):
    """The history of one workspace up to a head.

    Any question may raise what :class:`stetd.historian.queries.numbered_history.NumberedHistory`
    does.
    """

    def __init__(self, repository: StoredObjects, head: str | None, index: HistoryIndex) -> None:
        super().__init__(repository, head)
        self.numbered = NumberedHistory(repository, head, index, self.cut_off)
        self._unindexed = self.numbered.unindexed

    # -- finding commits

    def ancestor(self, steps: int, oid: str | None = None) -> str | None:
        """The commit that many steps before this one (None: the newest), if there is one."""
        place = 0 if oid is None else self._unindexed.place(oid)
        if place is not None:
            found = next(islice(self._unindexed, place + steps, None), None)
            if found is not None:
                return found.commit.oid
        number = self.numbered.count if oid is None else self.numbered.number(oid)
        if number is None:
            return super().ancestor(steps, oid)
        return self.numbered.oid(number - steps) if steps < number else None

    def with_prefix(self, prefix: str) -> list[str]:
        """The commits whose id begins so (at least 4 digits), in order of their ids."""
        named = []
        for found in self._unindexed:
            if found.commit.oid.startswith(prefix):
                named.append(found.commit.oid)
                if len(prefix) == _FULL_ID:
                    return named
        numbered = self.numbered
        named += numbered.index.with_prefix(prefix, numbered.joint, _MOST_WITH_PREFIX)
        return sorted(named)

    def standing(self) -> Iterator[Found]:
        """Every commit, newest first."""
        yield from self._unindexed
        joint = self.numbered.joint
        for n, commit in zip(range(joint, 0, -1), self.numbered.down_from(joint), strict=True):
            yield self.numbered.found(n, commit)

    def standing_edits(
        self, session: str | None, agent: str | None, paths: Sequence[str]
    ) -> Iterator[StoredCommit]:
        """The edits that are not undone, newest first; None, no paths, or "" among them: of all."""
        wanted = Wanted(session=session, agent=agent)
        paths = () if "" in paths else paths
        for commit, undone_by in self._unindexed:
            if undone_by is not None or not is_edit(commit.meta) or not meets(commit.meta, wanted):
                continue
            if not paths or self.is_touching(commit, paths):
                yield commit
        numbered = self.numbered
        affected = numbered.affected()
        if paths:
            numbers = self._touching(wanted, paths)
        else:
            known = numbered.index.standing_edits(session=session, agent=agent, upto=numbered.joint)
            indexed = (n for n, _ in known if n not in affected)
            numbers = heapq.merge(indexed, sorted(affected, reverse=True), reverse=True)
        for n in numbers:
            if (paths or n in affected) and numbered.undone_by(n) is not None:
                continue
            commit = numbered.commit(n)
            if is_edit(commit.meta) and meets(commit.meta, wanted):
                yield commit

    def _touching(self, wanted: Wanted, paths: Iterable[str]) -> Iterator[int]:
        """The indexed commits that touched one of these paths, newest first, each once."""
        index, joint = self.numbered.index, self.numbered.joint
        each = [index.select(replace(wanted, path=path), joint) for path in set(paths)]
        last = None
        for n, _ in heapq.merge(*each, reverse=True):
            if n != last:
                yield n
            last = n

    def candidates(self, wanted: Wanted, after: str | None) -> Iterator[Found]:
        """The commits that may be wanted, newest first; each must be looked at again.

        ``after``: only those older than this one. Raises UnknownCursor.
        """
        started = after is None
        for found in self._unindexed:
            if started and meets(found.commit.meta, wanted):
                yield found
            started = started or found.commit.oid == after
        upto = self.numbered.joint
        if not started:
            position = self.numbered.number(after or "")
            if position is None:
                raise UnknownCursor
            upto = position - 1
        for n, oid in self.numbered.index.select(wanted, upto):
            yield self.numbered.found(n, self.repository.commit(oid))

    def find(self, oids: Collection[str]) -> list[Found]:
        """These commits (full ids), newest first. Raises Refused (unknown_commit)."""
        wanted = set(oids)
        found = []
        for each in self._unindexed:
            if each.commit.oid in wanted:
                found.append(each)
                wanted.discard(each.commit.oid)
                if not wanted:
                    return found
        numbers = {oid: self.numbered.number(oid) for oid in wanted}
        missing = [oid for oid, number in numbers.items() if number is None]
        if missing:
            raise unknown_commit(min(missing))
        ordered = sorted((n for n in numbers.values() if n is not None), reverse=True)
        return [*found, *map(self.numbered.found, ordered)]

    def _with_request(self, request: str) -> Iterator[Found]:
        yield from self._unindexed
        for n, oid in self.numbered.index.of_request(request, self.numbered.joint):
            yield self.numbered.found(n, self.repository.commit(oid))

    def after(self, oid: str) -> Iterator[StoredCommit]:
        """The commits after this one, newest first. Raises Refused (unknown_commit)."""
        for found in self._unindexed:
            if found.commit.oid == oid:
                return
            yield found.commit
        number = self.numbered.number(oid)
        if number is None:
            raise unknown_commit(oid)
        joint = self.numbered.joint
        yield from islice(self.numbered.down_from(joint), joint - number)

    def steps_back(self, chosen: Sequence[StoredCommit]) -> list[StoredCommit]:
        """The chosen commits (newest first) among those that moved files since, newest first."""
        if self._unindexed.place(chosen[-1].oid) is not None:
            return super().steps_back(chosen)
        numbered = self.numbered
        wanted = {n: commit for commit in chosen if (n := numbered.number(commit.oid)) is not None}
        oldest = min(wanted)
        newest = enumerate(self._unindexed)
        moved = [numbered.count - at for at, found in newest if found.commit.meta.moves]
        moved += numbered.index.moving(oldest, numbered.joint)
        numbers = sorted({*wanted, *moved}, reverse=True)
        return [wanted.get(n) or numbered.commit(n) for n in numbers]

    def touches(self, path: str, since: str) -> Touches:
        """What happened to a path. Raises Refused (unknown_commit) if ``since`` is none."""
        reached = self.numbered.number(since)
        if reached is None:
            raise unknown_commit(since)
        later: list[Touch] = []
        for n in self._that_may_touch(path):
            commit = self.numbered.commit(n)
            before, after = self.entry(commit.parent, path), self.entry(commit.oid, path)
            if before != after:
                touch = Touch(commit, self._version(before), self._version(after))
                if n <= reached:
                    return Touches(later, touch)
                later.append(touch)
        return Touches(later, None)

    def _that_may_touch(self, path: str) -> Iterator[int]:
        joint = self.numbered.joint
        yield from range(self.numbered.count, joint, -1)
        for n, _ in self.numbered.index.select(Wanted(path=path), joint):
            yield n

    # -- what commits did

    def is_touching(self, commit: StoredCommit, paths: Sequence[str]) -> bool:
        """Whether a commit changed one of these files, or one below; "" is the root."""
        number = self.numbered.indexed_number(commit.oid)
        if number is None:
            return super().is_touching(commit, paths)
        return self.numbered.index.touches(number, paths)

    def changes(self, commit: StoredCommit) -> list[FileChange]:
        """What a commit did to its files, as results tell it, in the order of their paths."""
        number = self.numbered.indexed_number(commit.oid)
        if number is None:
            return super().changes(commit)
        rows = self.numbered.index.files(number)
        if any(row.added is None for row in rows):
            return self._counted(commit, rows)
        return [_told(row) for row in rows]

    def has_text(self, commit: StoredCommit, text: str) -> bool:
        """Whether a commit's message, or a line that it added or removed, has this text."""
        number = self.numbered.indexed_number(commit.oid)
        files = None if number is None else self.numbered.index.files_with(number, text)
        return has_text(self.repository, commit, text, files)

    def _counted(self, commit: StoredCommit, rows: Sequence[FileRow]) -> list[FileChange]:
        """The same where some files were too large to be compared beforehand."""
        known = {row.path: row for row in rows if row.added is not None}
        return [
            _told(known[change.path]) if change.path in known else counted(self.repository, change)
            for change in changes_of(self.repository, commit)
        ]


def _told(row: FileRow) -> FileChange:
    assert row.added is not None, "BUG: a row without counts"
    assert row.removed is not None, "BUG: a row without counts"
    return FileChange(
        path=row.path,
        status=row.status,
        before=row.before,
        after=row.after,
        added=row.added,
        removed=row.removed,
        old_path=row.old_path,
        excluded=row.before is None and row.after is None,
    )
