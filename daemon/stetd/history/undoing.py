"""Which commits stand, and which ones a call takes back. Pure; no file is read here.

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
| ``retention``, ``forget`` | the person | nothing | never: no file was changed |
| ``restore`` | recovery | nothing | as an edit, but only by its id |

Undoing an undo is redo, under another name. A restore sets one file; it says nothing of whole
commits, so it takes none back and is an edit like another. What the daemon saw for the first
time can't be taken back: there is nothing earlier to go back to.

No commit may be undone by two that stand: taking one of them back would bring its change back
to the files though the other still says that it is undone. That would happen when an undo is
made to stand again whose edit was undone another time meanwhile; such a call is refused, naming
the commit that has to be taken back first (:func:`undone_twice`).

A rollback takes back what came after a commit and passes its filters, newest first: edits that
stand, and undos, redos and rollbacks too, because what they took back was there at that commit. One
that concerns nothing but edits that the rollback is about can stay as it is: they are undone in
the end, whatever it says of them. But not if it left one of their files alone, which was as before
them at the time: an edit between them that is taken back, too, would bring their change back.
If some step then does not find its files as the commit left them, but all do where none stays, none
stays: that gives what was there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

from stetd.history.commits import CommitMeta, StoredCommit

#: Kinds that take others back: their ``reverts`` are undone while they stand.
TAKES_BACK = frozenset({"undo", "redo", "rollback"})
#: Kinds that ``redo`` takes back.
REDOABLE = frozenset({"undo", "rollback"})
#: Kinds that record what nobody asked the daemon for.
FOUND = frozenset({"outside", "snapshot"})
#: Kinds that change no file: they record what was done to the history.
ABOUT_HISTORY = frozenset({"retention", "forget"})


def is_edit(meta: CommitMeta) -> bool:
    """Whether ``undo last: n`` counts the commit: somebody asked for a change of files."""
    if meta.forgotten:
        return False  # it can't be taken back whole any more
    if meta.kind == "restore":
        return meta.method == "restore"  # and not recovery's
    return meta.kind in ("edit", "observed")


class UndoneTwice(NamedTuple):
    """A commit that would be undone a second time, and the other one that undoes it."""

    commit: str
    by: str


def undone_twice(
    reachable: Iterable[tuple[StoredCommit, str | None]], chosen: Sequence[str]
) -> UndoneTwice | None:
    """Whether two commits come to take back the same one while ``chosen`` are taken back.

    ``reachable``: the chosen commits, what they took back, what that took back and so on,
    newest first, each with the standing commit that took it back so far. ``chosen``: newest
    first; each step counts, because the files go through each.
    """
    known = list(reachable)
    for step in range(len(chosen)):
        found = _undone_twice(known, set(chosen[: step + 1]))
        if found is not None:
            return found
    return None


def _undone_twice(
    known: Sequence[tuple[StoredCommit, str | None]], chosen: Collection[str]
) -> UndoneTwice | None:
    oids = {commit.oid for commit, _ in known}
    takers: dict[str, list[str]] = {}
    for commit, undone_by in known:
        own = takers.get(commit.oid, [])
        if undone_by is not None and undone_by not in oids:
            own.append(undone_by)
        if len(own) + (commit.oid in chosen) > 1:
            return UndoneTwice(commit.oid, undone_by if undone_by in own else own[0])
        if not own and commit.oid not in chosen and commit.meta.kind in TAKES_BACK:
            for oid in commit.meta.reverts:
                takers.setdefault(oid, []).append(commit.oid)
    return None


def choose_for_rollback(
    later: Iterable[StoredCommit],
    passes: Callable[[StoredCommit], bool],
    *,
    may_stay: Callable[[StoredCommit], bool],
) -> list[StoredCommit]:
    """What a rollback takes back of the commits after its ``to``, both newest first.

    ``passes``: whether a commit is one that the rollback is about (its filters and kinds).
    ``may_stay``: whether one that concerns only such commits may stay; where none may, all that
    stands is taken back step by step, which for a rollback without filters undoes nothing twice.
    """
    commits = list(later)
    concerned = {commit.oid for commit in commits if passes(commit)}
    others = _about_others(commits, concerned)
    undone: set[str] = set()
    chosen = []
    for commit in commits:
        if commit.oid in undone:
            continue
        takes_back = commit.meta.kind in TAKES_BACK
        stays = takes_back and not any(others.get(oid, True) for oid in commit.meta.reverts)
        if commit.oid in concerned and not (stays and may_stay(commit)):
            chosen.append(commit)
        elif takes_back:
            undone.update(commit.meta.reverts)
    return chosen


def _about_others(commits: Sequence[StoredCommit], concerned: Collection[str]) -> dict[str, bool]:
    """Which of these (newest first) are to stay, or take back what is, over however many others.

    What a commit takes back is older, so one pass from the oldest will do; there may be any number
    of steps in between. What is not among them came before, and is to stay.
    """
    others: dict[str, bool] = {}
    for commit in reversed(commits):
        stays = commit.oid not in concerned
        if stays and commit.meta.kind in TAKES_BACK:
            stays = any(others.get(oid, True) for oid in commit.meta.reverts)
        others[commit.oid] = stays
    return others
