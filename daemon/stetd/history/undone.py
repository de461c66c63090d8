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

A rollback takes back, newest first, what came after a commit and passes its filters: edits that
stand, and undos, redos and rollbacks too, because what they took back was there at that commit. An
undo of nothing but edits that the rollback is about can *stay*: they are undone already, so they
and the undo are left out. But not if it left one of their files alone, because that was as before
them at the time: taking back what had made it so would bring their change back.
A rollback is also about what is undone already and only its paths or kinds would leave out: where
an undo is taken back, that is taken back again.
If no undo stayed, and every step then found its files as the commit left them, the files become
what these steps give: that is exactly what was there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush
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
    reachable: Sequence[tuple[StoredCommit, str | None]], chosen: Sequence[str]
) -> UndoneTwice | None:
    """Whether two commits come to take back the same one while ``chosen`` are taken back.

    ``reachable``: the chosen commits, what they took back, what that took back and so on,
    newest first, each with the standing commit that took it back so far. ``chosen``: newest
    first; each step that takes others back counts, because the files go through each.
    """
    so_far = {commit.oid: undone_by for commit, undone_by in reachable}
    known = {commit.oid: commit.meta.reverts for commit, _ in reachable}
    takers: dict[str, set[str]] = {oid: set() for oid in known}
    for oid, reverts in known.items():
        undone_by = so_far[oid]
        if undone_by is not None and undone_by not in known:
            takers[oid].add(undone_by)
        if not takers[oid]:
            for older in filter(known.__contains__, reverts):
                takers[older].add(oid)
    standing = {oid for oid in known if not takers[oid]}
    places = {oid: place for place, oid in enumerate(known)}
    taken: set[str] = set()
    twice = set(known)
    for each in chosen:
        taken.add(each)
        twice.add(each)
        waiting = [(places[each], each)]
        while waiting:  # newest first, so that each commit ceases to stand or stands again once
            _, oid = heappop(waiting)
            if (oid in standing) == (not takers[oid] and oid not in taken):
                continue
            standing ^= {oid}
            for older in filter(known.__contains__, known[oid]):
                takers[older] ^= {oid}
                twice.add(older)
                heappush(waiting, (places[older], older))
        twice = {oid for oid in twice if len(takers[oid]) + (oid in taken) > 1}
        if twice:
            oid = min(twice, key=places.__getitem__)
            return UndoneTwice(oid, next(by for by in (so_far[oid], *known) if by in takers[oid]))
    return None


def choose_for_rollback(
    later: Iterable[StoredCommit],
    passes: Callable[[StoredCommit], bool],
    *,
    may_stay: Callable[[StoredCommit], bool],
) -> list[StoredCommit]:
    """What a rollback takes back of the commits after its ``to``, both newest first.

    ``passes``: whether the rollback is about a commit (its filters and kinds). ``may_stay``:
    whether one that takes back only such commits may stay; where none may, all that stands is taken
    back step by step, which for a rollback without filters undoes nothing twice.
    """
    commits = list(later)
    concerned = {commit.oid for commit in commits if passes(commit)}
    undone: set[str] = set()
    chosen = []
    for commit in commits:
        if commit.oid in undone:
            continue
        takes_back = commit.meta.kind in TAKES_BACK
        stays = takes_back and concerned.issuperset(commit.meta.reverts)
        if commit.oid in concerned and not (stays and may_stay(commit)):
            chosen.append(commit)
        elif takes_back:
            undone.update(commit.meta.reverts)
    return chosen
