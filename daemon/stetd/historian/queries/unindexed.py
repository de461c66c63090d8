"""The newest commits, which the query index has not yet: read from Git as far as is asked for.

While calls are carried out the indexing thread keeps back, so these may be thousands, and most
questions are about the first few of them: which edit is the newest that stands, what a page of the
log shows. Whether a commit stands follows from newer ones alone, so nothing older has to be read
for that.

What is said of the index here is only that it ends at a commit. That this commit is of the same
history is known when the walk has come to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from stetd.historian.queries.commit_lookup import Found
from stetd.history.commits import StoredCommit
from stetd.history.undoing import Standing

#: An index that lags further behind is of no use.
_MOST = 5000


class NoIndex(Exception):
    """The index is too far behind."""


class DamagedIndex(Exception):
    """The index says what can't be: it is damaged, or of a history that is no more."""


class Unindexed:
    """The commits of a walk from the newest, up to the one at which the index ends.

    Iterating gives them newest first, each with the standing commit that took it back. Every
    method but :meth:`place` may read commits, and raise NoIndex, DamagedIndex, MissingObject.
    """

    def __init__(self, walk: Iterator[StoredCommit], joint: str | None) -> None:
        self._walk = walk
        self._joint = joint
        self._found: list[Found] = []
        self._places: dict[str, int] = {}
        self._standing = Standing()
        self._ended = False

    def __iter__(self) -> Iterator[Found]:
        place = 0
        while place < len(self._found) or self._read():
            yield self._found[place]
            place += 1

    def all(self) -> list[Found]:
        """All of them, newest first."""
        while self._read():
            pass
        return self._found

    def taken_back(self) -> Mapping[str, str]:
        """What the standing ones among them took back, each with the newest that did."""
        self.all()
        return self._standing.taken_back

    def place(self, oid: str) -> int | None:
        """How many are newer than this one; None if it is none of those that were read so far."""
        return self._places.get(oid)

    def _read(self) -> bool:
        """Read one more; False if there is none."""
        if self._ended:
            return False
        commit = next(self._walk, None)
        if commit is None or commit.oid == self._joint:
            if commit is None and self._joint is not None:
                raise DamagedIndex("this is another history's")
            self._ended = True
            return False
        if len(self._found) == _MOST:
            raise NoIndex
        self._places[commit.oid] = len(self._found)
        self._found.append(Found(commit, self._standing.reverted_by(commit)))
        return True
