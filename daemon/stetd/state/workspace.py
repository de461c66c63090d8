"""One open workspace: an allowed directory, its history's head, its files."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import msgspec

from stet.wire.failures import Kind, refuse
from stetd.history.excluding import NOTHING_EXCLUDED, Excludes
from stetd.history.objects import EMPTY_TREE, Tree, stored_tree
from stetd.repository.stored_objects import StoredObjects
from stetd.storage.disk import Disk
from stetd.storage.journal_format import CommitRecord
from stetd.storage.worktree import OnDisk, Worktree
from stetd.transaction.heads import Head, HistoryBuilder
from stetd.transaction.transaction import Prepared

#: Records that are remembered to check proposals.
_REMEMBERED = 1000


class PlanOutdated(Exception):
    """The file at ``path``, or the history, is not what a plan was made from."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


class Workspace:
    """An allowed directory, its history's head and its files."""

    def __init__(self, name: str, root: str, repository: StoredObjects, disk: Disk) -> None:
        self.name = name
        self.root = root
        self.repository = repository
        #: Files that are kept out of the history.
        self.excludes: Excludes = NOTHING_EXCLUDED
        self.head = Head(None, Tree({}, EMPTY_TREE), 0)
        #: Number of the last journal record that made a commit here.
        self.number = 0
        #: Paths that calls have touched since the running snapshot began; None: none is running.
        self.touched: set[str] | None = None
        #: The newest records with commits: number, and the paths that they changed with the ids of
        #: the commits that they undid (None: not known).
        self._recent: deque[tuple[int, set[str] | None]] = deque(maxlen=_REMEMBERED)
        self._disk = disk
        self.worktree = Worktree(root, disk)

    def check_present(self) -> None:
        """Open the root again if another directory is at its path now.

        Raises Refused (workspace_not_allowed) if there is none.
        """
        if not self.worktree.gone():
            return
        try:
            self.worktree = Worktree(self.root, self._disk)
        except OSError as error:
            raise refuse(
                Kind.WORKSPACE_NOT_ALLOWED,
                f"{self.root}: the workspace's directory is not there ({error.strerror}). "
                "Its history is kept; it goes on when the directory is back.",
            ) from error

    def history(self, now: int, head: Head | None = None) -> HistoryBuilder:
        """A history on a head, by default the workspace's, for new commits at this time."""
        return HistoryBuilder(head or self.head, self.repository.load_tree, now, self.excludes)

    def note_commits(self, number: int, commits: Sequence[CommitRecord] | None) -> None:
        """Remember the commits that record ``number`` added; None: not known."""
        touched = None
        if commits is not None:
            moved = (path for c in commits for pair in c.meta.moves for path in pair)
            touched = {path for c in commits for path in c.changes}.union(moved)
            touched.update(oid for c in commits for oid in c.meta.reverts)
        self._recent.append((number, touched))

    def check_unchanged(self, number: int, paths: Sequence[str], judged: Sequence[str]) -> None:
        """Raise PlanOutdated if a record after ``number`` touched these paths, or undid one of the
        commits that were judged.
        """
        forgotten = len(self._recent) == _REMEMBERED and self._recent[0][0] > number
        later = (touched for each, touched in self._recent if each > number)
        own = {*paths, *judged}
        if forgotten or any(each is None or not each.isdisjoint(own) for each in later):
            raise PlanOutdated(paths[0] if paths else "")

    @property
    def shadow(self) -> str:
        """The path of the shadow repository."""
        return self.repository.path

    def close(self) -> None:
        """Close the root's descriptor and the repository."""
        self.worktree.close()
        self.repository.close()


def head_at(repository: StoredObjects, commit: str | None, commits: int) -> Head:
    """The head at a commit of the repository. Raises MissingObject."""
    if commit is None:
        return Head(None, Tree({}, EMPTY_TREE), 0)
    stored = repository.commit(commit)
    return Head(commit, stored_tree(stored.tree, repository.load_tree), commits)


class Base(msgspec.Struct):
    """The head and files on which a call is planned, as the calls before it will leave them."""

    head: Head
    files: dict[str, OnDisk | None] = {}

    def after(self, prepared: Prepared) -> Base:
        """The base for the next call of the batch."""
        files = dict(self.files)
        for work in prepared.files:
            if work.after is None or work.content is None:
                files[work.target.path] = None
                continue
            files[work.target.path] = OnDisk(
                data=work.content,
                mode=work.after.mode,
                links=1,
                size=len(work.content),
                inode=(0, 0),
                mtime_ns=0,
                read_at_ns=0,
                oid=work.after.oid,
            )
        return Base(prepared.head, files)
