"""Which commits stand, and which ones a call takes back. Pure; no file is looked at here.

A commit that takes others back names them in ``Stet-Reverts``. From that alone follows what
stands:

    A commit is *undone* while some later commit that takes it back is not undone itself;
    otherwise it *stands*. ``reverted_by`` of a commit is the newest such later commit.

| kind | made by | names in Stet-Reverts | when undo takes it back |
|---|---|---|---|
| ``edit``, ``observed`` | an agent | nothing | the edit is undone |
| ``restore`` | method ``restore`` | nothing (see below) | the edit is undone |
| ``undo`` | ``undo`` | what it takes back | that stands again |
| ``redo`` | ``redo`` | undos, rollbacks | they stand again: what they took back is undone |
| ``rollback`` | ``rollback`` | what it takes back | that stands again |
| ``outside``, ``snapshot`` | nobody: found | nothing | as an edit; what was seen first stays |
| ``restore`` | recovery | nothing | as an edit, but only by its id |

Undoing an undo is redo, under another name. A restore sets one file; it says nothing of whole
commits, so it takes none back and is an edit like another. What the daemon saw for the first
time can't be taken back: there is nothing earlier to go back to.

A rollback takes back what came after a commit and passes its filters, newest first: edits that
stand, and undos, redos and rollbacks too, because what they took back stood at that commit. One
that took back nothing but commits that the rollback takes back as well can stay: they are undone
already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from stetd.history.commits import CommitMeta, StoredCommit

#: Kinds that take others back: their ``reverts`` are undone while they stand.
TAKES_BACK = frozenset({"undo", "redo", "rollback"})
#: Kinds that ``redo`` takes back.
REDOABLE = frozenset({"undo", "rollback"})
#: Kinds that record what nobody asked the daemon for.
FOUND = frozenset({"outside", "snapshot"})


def is_edit(meta: CommitMeta) -> bool:
    """Whether ``undo last: n`` counts the commit: somebody asked for a change of files."""
    if meta.kind == "restore":
        return meta.method == "restore"  # and not recovery's
    return meta.kind in ("edit", "observed")


class Standing:
    """Which commits are undone, learnt while walking the history from its newest commit."""

    def __init__(self) -> None:
        self._taken_back: dict[str, str] = {}

    def take_back(self, commit: StoredCommit, by: str) -> None:
        """Let a commit count as undone. Call before its ``reverted_by``."""
        self._taken_back.setdefault(commit.oid, by)

    def is_undone(self, commit: StoredCommit) -> bool:
        """Whether one of the commits seen so far took this one back, and stands."""
        return commit.oid in self._taken_back

    def reverted_by(self, commit: StoredCommit) -> str | None:
        """Which standing commit took this one back. Call once for each, newest first."""
        by = self._taken_back.get(commit.oid)
        if by is None and commit.meta.kind in TAKES_BACK:
            for oid in commit.meta.reverts:
                self._taken_back.setdefault(oid, commit.oid)
        return by


def walk_standing(walk: Iterable[StoredCommit]) -> Iterator[tuple[StoredCommit, str | None]]:
    """Each commit of a walk from the newest, with the one that took it back."""
    standing = Standing()
    for commit in walk:
        yield commit, standing.reverted_by(commit)


def choose_for_rollback(
    later: Iterable[StoredCommit], passes: Callable[[StoredCommit], bool]
) -> list[StoredCommit]:
    """What a rollback takes back of the commits after its ``to``, both newest first.

    ``passes``: whether a commit is one that the rollback is about (its filters and kinds).
    """
    commits = list(later)
    concerned = {commit.oid for commit in commits if passes(commit)}
    standing = Standing()
    chosen = []
    for commit in commits:
        if commit.oid in concerned and not standing.is_undone(commit):
            takes_back = commit.meta.kind in TAKES_BACK
            if not (takes_back and concerned.issuperset(commit.meta.reverts)):
                standing.take_back(commit, "the rollback")
                chosen.append(commit)
        standing.reverted_by(commit)
    return chosen
