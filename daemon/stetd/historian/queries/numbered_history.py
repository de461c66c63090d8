"""A history as one list of numbered commits: those in the query index, and on top the others.

Commits are known by their number here, counted from 1 at the root. The index ends at some commit,
the *joint*; what is newer is read from Git (:mod:`stetd.historian.queries.unindexed`), so nobody
waits for the indexing thread. The index is asked only when the joint was found to be of this
history.

What stands: the index knows it as of its last commit. Commits after the joint may have taken back
some that stand in the index, or taken back what had undone them; those are the *affected* ones, and
are looked at again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cached_property
from itertools import islice

from stetd.historian.index.history_index import HistoryIndex
from stetd.historian.queries.commit_changes import changes_of, uncompared
from stetd.historian.queries.commit_lookup import Found
from stetd.historian.queries.unindexed import DamagedIndex, Unindexed
from stetd.history.commit_rows import FileRow
from stetd.history.commits import StoredCommit
from stetd.repository.stored_objects import StoredObjects

_FULL_ID = 40


class NumberedHistory:
    """The history up to a head.

    Whatever is asked may raise NoIndex, DamagedIndex, MissingObject, sqlite3.Error: then the
    index is of no use for the question.
    """

    def __init__(
        self,
        repository: StoredObjects,
        head: str | None,
        index: HistoryIndex,
        cut_off: Collection[str],
    ) -> None:
        if not index.begins_at(cut_off):
            raise DamagedIndex("the oldest commits were dropped")
        self._repository = repository
        self._opened = index
        self.joint, joint_oid = _joint(index, head)
        self.unindexed = Unindexed(repository.walk(head), joint_oid)
        self._rows: dict[int, list[FileRow]] = {}
        self._known_undone: dict[int, str | None] = {}

    @property
    def index(self) -> HistoryIndex:
        """The index, up to the joint; all newer commits are read first."""
        self.unindexed.all()
        return self._opened

    # -- numbers

    @property
    def count(self) -> int:
        """How many commits there are."""
        return self.joint + len(self.unindexed.all())

    def number(self, oid: str) -> int | None:
        """A commit's number; None if it is not part of the history."""
        if len(oid) != _FULL_ID:
            return None
        count = self.count
        place = self.unindexed.place(oid)
        return self._indexed_number(oid) if place is None else count - place

    def indexed_number(self, oid: str) -> int | None:
        """A commit's number if the index has it; None for newer ones and what is no commit."""
        if len(oid) != _FULL_ID or self.unindexed.place(oid) is not None:
            return None
        return self._indexed_number(oid)

    def _indexed_number(self, oid: str) -> int | None:
        try:
            position = self.index.position(oid)
        except ValueError:  # no hexadecimal digits
            return None
        return position if position is not None and position <= self.joint else None

    def oid(self, n: int) -> str:
        """The id of the n-th commit."""
        if n > self.joint:
            return self._newer(n).commit.oid
        oid = self.index.oid(n)
        if oid is None:
            raise DamagedIndex(f"no commit {n}")
        return oid

    def commit(self, n: int) -> StoredCommit:
        """The n-th commit."""
        return self._newer(n).commit if n > self.joint else self._repository.commit(self.oid(n))

    def _newer(self, n: int) -> Found:
        return self.unindexed.all()[self.count - n]

    def down_from(self, n: int) -> Iterator[StoredCommit]:
        """The n-th commit and all older ones, newest first."""
        if n > self.joint:
            for found in islice(self.unindexed, self.count - n, None):
                yield found.commit
        if self.joint and n > 0:
            yield from self._repository.walk(self.oid(min(n, self.joint)))

    # -- what stands

    def found(self, n: int, commit: StoredCommit | None = None) -> Found:
        """The n-th commit, and the newest standing one that took it back."""
        if n > self.joint:
            return self._newer(n)
        return Found(commit or self.commit(n), self.undone_by(n))

    def undone_by(self, n: int) -> str | None:
        """The newest standing commit that took the n-th back.

        A commit that takes back may be taken back itself, so that is settled first; on a
        list and not by recursion, because such chains have any length.
        """
        if n > self.joint:
            return self._newer(n).undone_by
        known = self._known_undone
        waiting = [n]
        while waiting:
            top = waiting[-1]
            by = self._taken_back.get(top)
            takers = [] if by is not None else self.index.taken_back_by(top, self.joint)
            unknown = [taker for taker in takers if taker not in known]
            if unknown:
                waiting += unknown
                continue
            standing = (self.oid(taker) for taker in takers if known[taker] is None)
            known[top] = by or next(standing, None)
            waiting.pop()
        return known[n] or known.pop(n)  # most stand: they are not kept

    @cached_property
    def _taken_back(self) -> dict[int, str]:
        """What standing commits after the joint took back up to it, by number."""
        taken = self.unindexed.taken_back()
        numbers = {oid: self.indexed_number(oid) for oid in taken}
        return {n: taken[oid] for oid, n in numbers.items() if n is not None}

    def affected(self) -> set[int]:
        """The commits up to the joint that stand otherwise, perhaps, than the index has it.

        Standing commits after the joint took them back, or those that had taken them back; or it
        is the index that knows of later ones (it may be ahead of the head that is asked for).
        """
        affected: set[int] = set()
        waiting = [*self._taken_back, *self.index.taken_back_after(self.joint)]
        while waiting:
            n = waiting.pop()
            if n not in affected and n <= self.joint:
                affected.add(n)
                waiting += self.index.took_back(n)
        return affected

    # -- versions of files

    def last_change(self, path: str, upto: int) -> tuple[int, FileRow] | None:
        """The newest commit among the first ``upto`` that has this file, and what it did to it.

        A file that was moved away is not a change of the old path. Hunks may be missing.
        """
        for n in self._newer_numbers(upto):
            for row in self.rows(n):
                if row.path == path:
                    return n, row
        return self.index.last_change(path, min(upto, self.joint))

    def last_move(self, path: str, after: int, upto: int) -> tuple[int, str] | None:
        """The newest commit after one, among the first ``upto``, that moved a file to a path;
        and where from.
        """
        for n in self._newer_numbers(upto, after):
            for old, new in self.commit(n).meta.moves:
                if new == path:
                    return n, old
        return self.index.last_move(path, after, min(upto, self.joint))

    def last_with(self, path: str, blob: str, upto: int) -> int | None:
        """The newest commit among the first ``upto`` that left this content at a path."""
        for n in self._newer_numbers(upto):
            if any((row.path, row.after) == (path, blob) for row in self.rows(n)):
                return n
        return self.index.last_with(path, blob, min(upto, self.joint))

    def _newer_numbers(self, upto: int, after: int = 0) -> range:
        """The numbers of the commits that the index has not, newest first."""
        return range(min(upto, self.count), max(after, self.joint), -1)

    def rows(self, n: int) -> list[FileRow]:
        """What the n-th commit did to its files. Hunks may be missing."""
        if n <= self.joint:
            return self.index.files(n)
        if n not in self._rows:
            changes = changes_of(self._repository, self.commit(n))
            self._rows[n] = [uncompared(change) for change in changes]
        return self._rows[n]

    def kind(self, n: int) -> str | None:
        """The kind of the n-th commit."""
        return self.commit(n).meta.kind if n > self.joint else self.index.kind(n)


def _joint(index: HistoryIndex, head: str | None) -> tuple[int, str | None]:
    """Number and id of the newest commit of the index that can be of the history."""
    position = index.position(head) if head is not None else None
    if position is not None:  # it may be ahead
        return position, head
    return index.last() or (0, None)
