"""Looking back with the query index: the same answers as :class:`stetd.past.Past`, sooner.

The index ends at some commit of the history, the *joint*; the commits after it are walked once
and put on top, so nobody waits for the indexing thread. Commits are known by their number here,
counted from 1 at the root.

What stands: the index knows it as of its last commit. Commits after the joint may have taken
back some that stand in the index, or taken back what had undone them; those are the *affected*
ones, and are looked at again.
"""

from __future__ import annotations

import heapq
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import TypeVar

import msgspec

from stet.wire.results import FileChange
from stetd.history.commit_rows import FileRow, Wanted, meets
from stetd.history.commits import StoredCommit
from stetd.history.undoing import TAKES_BACK, is_edit
from stetd.past import Found, Past, Touch, Touches, UnknownCursor, unknown_commit
from stetd.storage.commit_changes import changes_of, counted, has_text, uncompared
from stetd.storage.history_index import HistoryIndex
from stetd.storage.shadow_repo import MissingObject, ShadowRepository
from stetd.storage.shallow import read_shallow

T = TypeVar("T")
#: An index that lags further behind is of no use.
_LONGEST_WALK = 5000
_FULL_ID = 40


class NoIndex(Exception):
    """The index is too far behind."""


class DamagedIndex(Exception):
    """The index says what can't be: it is damaged, or of a history that is no more."""


def look_back(
    repository: ShadowRepository,
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
    except (sqlite3.Error, MissingObject, msgspec.MsgspecError, UnicodeDecodeError, DamagedIndex):
        on_damage()
    finally:
        if index is not None:
            index.close()
    return run(Past(repository, head))


class IndexedPast(Past):
    """The history of one workspace up to a head. Raises NoIndex, DamagedIndex when it is made."""

    def __init__(self, repository: ShadowRepository, head: str | None, index: HistoryIndex) -> None:
        super().__init__(repository, head)
        self._index = index
        #: The commits after the joint, newest first.
        self._walked: list[StoredCommit] = []
        self._joint = 0
        self._find_joint()
        self._numbers = {c.oid: self.count - i for i, c in enumerate(self._walked)}
        #: By number: which commits after the joint took it back, newest first.
        self._taken_back: dict[int, list[int]] = {}
        for commit in self._walked:
            if commit.meta.kind in TAKES_BACK:
                for oid in commit.meta.reverts:
                    target = self.number(oid)
                    if target is not None:
                        by = self._numbers[commit.oid]
                        self._taken_back.setdefault(target, []).append(by)
        self._rows: dict[int, list[FileRow]] = {}
        self._known_undone: dict[int, int | None] = {}

    def _find_joint(self) -> None:
        if not self._index.begins_at(read_shallow(self.repository.path)):
            raise DamagedIndex("the oldest commits were dropped")
        for commit in self.repository.walk(self.head):
            position = self._index.position(commit.oid)
            if position is not None:
                self._joint = position
                return
            self._walked.append(commit)
            if len(self._walked) > _LONGEST_WALK:
                raise NoIndex
        if self._index.last() is not None:
            raise DamagedIndex("this is another history's")

    # -- numbers

    @property
    def count(self) -> int:
        """How many commits there are."""
        return self._joint + len(self._walked)

    def number(self, oid: str) -> int | None:
        """A commit's number; None if it is not part of the history."""
        if len(oid) != _FULL_ID:
            return None
        if oid in self._numbers:
            return self._numbers[oid]
        try:
            position = self._index.position(oid)
        except ValueError:  # no hexadecimal digits
            return None
        return position if position is not None and position <= self._joint else None

    def oid(self, n: int) -> str:
        """The id of the n-th commit."""
        if n > self._joint:
            return self._walked[self.count - n].oid
        oid = self._index.oid(n)
        if oid is None:
            raise DamagedIndex(f"no commit {n}")
        return oid

    def commit(self, n: int) -> StoredCommit:
        """The n-th commit."""
        if n > self._joint:
            return self._walked[self.count - n]
        return self.repository.commit(self.oid(n))

    def _down_from(self, n: int) -> Iterator[StoredCommit]:
        """The n-th commit and all older ones, newest first."""
        if n > self._joint:
            yield from islice(self._walked, self.count - n, None)
        if self._joint and n > 0:
            yield from self.repository.walk(self.oid(min(n, self._joint)))

    # -- what stands

    def _undone_by(self, n: int) -> int | None:
        """The newest standing commit that took this one back.

        A commit that takes back may be taken back itself, so that is settled first; on a
        list and not by recursion, because such chains have any length.
        """
        known = self._known_undone
        waiting = [n]
        while waiting:
            top = waiting[-1]
            takers = self._takers(top)
            unknown = [taker for taker in takers if taker not in known]
            if unknown:
                waiting += unknown
                continue
            known[top] = next((taker for taker in takers if known[taker] is None), None)
            waiting.pop()
        return known[n] if self._takers(n) else known.pop(n)

    def _takers(self, n: int) -> list[int]:
        found = self._taken_back.get(n, [])
        if n <= self._joint:
            found = found + self._index.taken_back_by(n, self._joint)
        return found

    def _found(self, n: int, commit: StoredCommit | None = None) -> Found:
        by = self._undone_by(n)
        return Found(commit or self.commit(n), None if by is None else self.oid(by))

    def _affected(self) -> set[int]:
        """The commits up to the joint that stand otherwise, perhaps, than the index has it.

        The commits after the joint took them back, or those that had taken them back; or it
        is the index that knows of later ones (it may be ahead of the head that is asked for).
        """
        affected: set[int] = set()
        waiting = [n for n in self._taken_back if n <= self._joint]
        waiting += self._index.taken_back_after(self._joint)
        for n in self._taken_back:
            if n > self._joint:
                reverts = self.commit(n).meta.reverts
                waiting += [m for oid in reverts if (m := self.number(oid)) is not None]
        while waiting:
            n = waiting.pop()
            if n not in affected and n <= self._joint:
                affected.add(n)
                waiting += self._index.took_back(n)
        return affected

    # -- versions of files

    def last_change(self, path: str, upto: int) -> tuple[int, FileRow] | None:
        """The newest commit among the first ``upto`` that has this file, and what it did to it.

        A file that was moved away is not a change of the old path. Hunks may be missing.
        """
        for n in range(min(upto, self.count), self._joint, -1):
            for row in self.rows(n):
                if row.path == path:
                    return n, row
        return self._index.last_change(path, min(upto, self._joint))

    def last_move(self, path: str, after: int, upto: int) -> tuple[int, str] | None:
        """The newest commit after one, among the first ``upto``, that moved a file to a path;
        and where from.
        """
        for n in range(min(upto, self.count), max(after, self._joint), -1):
            for old, new in self.commit(n).meta.moves:
                if new == path:
                    return n, old
        return self._index.last_move(path, after, min(upto, self._joint))

    def last_with(self, path: str, blob: str, upto: int) -> int | None:
        """The newest commit among the first ``upto`` that left this content at a path."""
        for n in range(min(upto, self.count), self._joint, -1):
            if any((row.path, row.after) == (path, blob) for row in self.rows(n)):
                return n
        return self._index.last_with(path, blob, min(upto, self._joint))

    def rows(self, n: int) -> list[FileRow]:
        """What the n-th commit did to its files. Hunks may be missing."""
        if n <= self._joint:
            return self._index.files(n)
        if n not in self._rows:
            changes = changes_of(self.repository, self.commit(n))
            self._rows[n] = [uncompared(change) for change in changes]
        return self._rows[n]

    def kind(self, n: int) -> str | None:
        """The kind of the n-th commit."""
        return self.commit(n).meta.kind if n > self._joint else self._index.kind(n)

    # -- finding commits

    def ancestor(self, steps: int, oid: str | None = None) -> str | None:
        """The commit that many steps before this one (None: the newest), if there is one."""
        number = self.count if oid is None else self.number(oid)
        if number is None:
            return super().ancestor(steps, oid)
        return self.oid(number - steps) if steps < number else None

    def with_prefix(self, prefix: str) -> list[str]:
        """The commits whose id begins so (at least 4 digits), in order of their ids."""
        walked = [oid for oid in self._numbers if oid.startswith(prefix)]
        return sorted([*walked, *self._index.with_prefix(prefix, self._joint, 100)])

    def standing(self) -> Iterator[Found]:
        """Every commit, newest first."""
        for n, commit in zip(range(self.count, 0, -1), self._down_from(self.count), strict=True):
            yield self._found(n, commit)

    def standing_edits(
        self, session: str | None, agent: str | None, paths: Sequence[str]
    ) -> Iterator[StoredCommit]:
        """The edits that are not undone, newest first; None, no paths, or "" among them: of all."""
        wanted = Wanted(session=session, agent=agent)
        paths = () if "" in paths else paths
        for n in range(self.count, self._joint, -1):
            commit = self.commit(n)
            if not is_edit(commit.meta) or not meets(commit.meta, wanted):
                continue
            if self._undone_by(n) is None and (not paths or self.is_touching(commit, paths)):
                yield commit
        affected = self._affected()
        if paths:
            numbers = self._touching(wanted, paths)
        else:
            known = self._index.standing_edits(session=session, agent=agent, upto=self._joint)
            indexed = (n for n, _ in known if n not in affected)
            numbers = heapq.merge(indexed, sorted(affected, reverse=True), reverse=True)
        for n in numbers:
            if (paths or n in affected) and self._undone_by(n) is not None:
                continue
            commit = self.commit(n)
            if is_edit(commit.meta) and meets(commit.meta, wanted):
                yield commit

    def _touching(self, wanted: Wanted, paths: Iterable[str]) -> Iterator[int]:
        """The indexed commits that touched one of these paths, newest first, each once."""
        each = [self._index.select(replace(wanted, path=path), self._joint) for path in set(paths)]
        last = None
        for n, _ in heapq.merge(*each, reverse=True):
            if n != last:
                yield n
            last = n

    def candidates(self, wanted: Wanted, after: str | None) -> Iterator[Found]:
        """The commits that may be wanted, newest first; each must be looked at again.

        ``after``: only those older than this one. Raises UnknownCursor.
        """
        first = self.count
        if after is not None:
            position = self.number(after)
            if position is None:
                raise UnknownCursor
            first = position - 1
        for n in range(first, self._joint, -1):
            if meets(self.commit(n).meta, wanted):
                yield self._found(n)
        for n, oid in self._index.select(wanted, min(first, self._joint)):
            yield self._found(n, self.repository.commit(oid))

    def find(self, oids: Collection[str]) -> list[Found]:
        """These commits (full ids), newest first. Raises Refused (unknown_commit)."""
        numbers = {oid: self.number(oid) for oid in oids}
        missing = [oid for oid, number in numbers.items() if number is None]
        if missing:
            raise unknown_commit(min(missing))
        ordered = sorted((n for n in numbers.values() if n is not None), reverse=True)
        return [self._found(n) for n in ordered]

    def of_request(self, request: str, session: str | None) -> Found | None:
        """The commit that a request made, of ``session`` if it made one."""
        other = None
        for n, commit in self._with_request(request):
            meta = commit.meta
            if meta.request != request or meta.kind == "outside":
                continue
            if session is None or meta.session == session:
                return self._found(n, commit)
            other = other or (n, commit)
        return self._found(*other) if other else None

    def _with_request(self, request: str) -> Iterator[tuple[int, StoredCommit]]:
        for commit in self._walked:
            yield self._numbers[commit.oid], commit
        for n, oid in self._index.of_request(request, self._joint):
            yield n, self.repository.commit(oid)

    def after(self, oid: str) -> Iterator[StoredCommit]:
        """The commits after this one, newest first. Raises Refused (unknown_commit)."""
        number = self.number(oid)
        if number is None:
            raise unknown_commit(oid)
        return islice(self._down_from(self.count), self.count - number)

    def steps_back(self, chosen: Sequence[StoredCommit]) -> list[StoredCommit]:
        """The chosen commits (newest first) among those that moved files since, newest first."""
        wanted = {n: commit for commit in chosen if (n := self.number(commit.oid)) is not None}
        oldest = min(wanted)
        moved = [self._numbers[c.oid] for c in self._walked if c.meta.moves]
        moved += self._index.moving(oldest, self._joint)
        numbers = sorted({*wanted, *(n for n in moved if n > oldest)}, reverse=True)
        return [wanted.get(n) or self.commit(n) for n in numbers]

    def touches(self, path: str, since: str) -> Touches:
        """What happened to a path. Raises Refused (unknown_commit) if ``since`` is none."""
        reached = self.number(since)
        if reached is None:
            raise unknown_commit(since)
        later: list[Touch] = []
        for n in self._that_may_touch(path):
            commit = self.commit(n)
            before, after = self.entry(commit.parent, path), self.entry(commit.oid, path)
            if before != after:
                touch = Touch(commit, self._version(before), self._version(after))
                if n <= reached:
                    return Touches(later, touch)
                later.append(touch)
        return Touches(later, None)

    def _that_may_touch(self, path: str) -> Iterator[int]:
        yield from range(self.count, self._joint, -1)
        for n, _ in self._index.select(Wanted(path=path), self._joint):
            yield n

    # -- what commits did

    def is_touching(self, commit: StoredCommit, paths: Sequence[str]) -> bool:
        """Whether a commit changed one of these files, or one below; "" is the root."""
        number = self.number(commit.oid)
        if number is None or number > self._joint:
            return super().is_touching(commit, paths)
        return self._index.touches(number, paths)

    def changes(self, commit: StoredCommit) -> list[FileChange]:
        """What a commit did to its files, as results tell it, in the order of their paths."""
        number = self.number(commit.oid)
        if number is None or number > self._joint:
            return super().changes(commit)
        rows = self._index.files(number)
        if any(row.added is None for row in rows):
            return self._counted(commit, rows)
        return [_told(row) for row in rows]

    def has_text(self, commit: StoredCommit, text: str) -> bool:
        """Whether a commit's message, or a line that it added or removed, has this text."""
        number = self.number(commit.oid)
        files = None
        if number is not None and number <= self._joint:
            files = self._index.files_with(number, text)
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
    )
