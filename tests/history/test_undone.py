"""Which commits stand, and what a rollback takes back, against models that are slow and plain."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from historian.walked_history import walk_standing
from stetd.history.commits import CommitMeta, StoredCommit
from stetd.history.undone import (
    REDOABLE,
    TAKES_BACK,
    UndoneTwice,
    choose_for_rollback,
    is_edit,
    undone_twice,
)


def commit(
    oid: str, kind: str = "edit", *reverts: str, session: str = "s", method: str | None = None
) -> StoredCommit:
    meta = CommitMeta(
        kind=kind, time=0, subject="s", reverts=reverts, session=session, method=method
    )
    return StoredCommit(oid, "t", None, meta)


def test_restores_are_edits_unless_recovery_made_them() -> None:
    kinds = ["edit", "observed", "undo", "redo", "rollback", "outside", "snapshot"]
    assert [kind for kind in kinds if is_edit(commit("x", kind).meta)] == ["edit", "observed"]
    assert is_edit(commit("x", "restore", method="restore").meta)
    assert not is_edit(commit("x", "restore", method="recovery").meta)
    walk = [commit("x", "restore", "e"), commit("e")]
    assert [by for _, by in walk_standing(walk)] == [None, None], "a restore takes nothing back"


def everything(_: StoredCommit) -> bool:
    return True


def rolled_back(*newest_first: StoredCommit) -> list[str]:
    return [c.oid for c in choose_for_rollback(newest_first, everything, may_stay=everything)]


def test_a_rollback_takes_edits_back_newest_first() -> None:
    assert rolled_back(commit("b"), commit("a")) == ["b", "a"]


def test_a_rollback_sees_through_any_number_of_undos_by_others() -> None:
    undos = [commit(f"e{n}", "undo", f"e{n - 1}", session="other") for n in range(1, 3000)]
    story = [commit("e0"), *undos]
    chosen = choose_for_rollback(
        reversed(story), lambda each: each.meta.session == "s", may_stay=everything
    )
    assert [] == chosen  # an odd number of them: the edit is undone
    chosen = choose_for_rollback(
        reversed(story[:-1]), lambda each: each.meta.session == "s", may_stay=everything
    )
    assert [story[0]] == chosen


def test_a_rollback_leaves_what_is_undone_already() -> None:
    assert rolled_back(commit("u", "undo", "a"), commit("b"), commit("a")) == ["b"]


def test_a_rollback_takes_back_the_undo_of_what_came_before_it() -> None:
    assert rolled_back(commit("u", "undo", "before"), commit("a")) == ["u", "a"]


def test_a_rollback_takes_back_an_undo_of_both_and_then_the_later_edit() -> None:
    assert rolled_back(commit("u", "undo", "a", "before"), commit("a")) == ["u", "a"]


def test_a_rollback_sees_through_a_redo() -> None:
    story = [commit("r", "redo", "u"), commit("u", "undo", "a"), commit("a")]
    assert rolled_back(*story) == ["a"]
    story = [commit("r", "redo", "u"), commit("u", "undo", "before")]
    assert rolled_back(*story) == []


# -- random histories


class ReadCommit:
    """A commit, and how often its metadata was read."""

    def __init__(self, commit: StoredCommit) -> None:
        self._commit, self.oid = commit, commit.oid
        self.reads = 0

    @property
    def meta(self) -> CommitMeta:
        self.reads += 1
        return self._commit.meta


def test_to_take_many_undos_back_each_commit_is_looked_at_once_or_twice() -> None:
    """Each undo was checked by going through all commits again: 2,000 took 2 s of computing."""
    read: list[ReadCommit] = []
    reachable: list[tuple[Any, str | None]] = []
    for n in reversed(range(200)):
        read += map(ReadCommit, [commit(f"u{n}", "undo", f"e{n}"), commit(f"e{n}")])
        reachable += [(read[-2], None), (read[-1], f"u{n}")]
    assert undone_twice(reachable, [f"u{n}" for n in reversed(range(200))]) is None
    assert max(each.reads for each in read) <= 2


def test_a_rollback_over_an_earlier_one() -> None:
    edits = [f"e{n}" for n in reversed(range(200))]
    rollback = commit("r", "rollback", *edits)
    reachable = [(rollback, None), *((commit(oid), "r") for oid in edits)]
    assert undone_twice(reachable, ["r", *edits]) is None
    assert undone_twice(reachable, edits) == UndoneTwice(edits[0], "r")


@dataclass
class History:
    """Commits, oldest first."""

    commits: list[StoredCommit]

    def undone(self, at: int, without: frozenset[str] = frozenset()) -> set[str]:
        """What is undone after so many commits: the definition, word by word.

        ``without``: as if these had never been made.
        """
        made = [c for c in self.commits[:at] if c.oid not in without]

        @cache
        def is_undone(oid: str) -> bool:
            return any(
                other.meta.kind in TAKES_BACK
                and oid in other.meta.reverts
                and not is_undone(other.oid)
                for other in made
            )

        return {c.oid for c in made if is_undone(c.oid)}

    def edits(self, at: int, without: frozenset[str] = frozenset()) -> set[str]:
        """The edits that are in the files after so many commits."""
        undone = self.undone(at, without)
        made = [c for c in self.commits[:at] if is_edit(c.meta) and c.oid not in without]
        return {c.oid for c in made if c.oid not in undone}

    def twice(self, chosen: list[str]) -> UndoneTwice | None:
        """What undone_twice says of these (newest first), and whether it says the truth."""
        reachable = set(chosen)
        for c in reversed(self.commits):
            if c.oid in reachable:
                reachable.update(c.meta.reverts)
        walked = walk_standing(reversed(self.commits))
        refused = undone_twice([each for each in walked if each[0].oid in reachable], chosen)
        steps = [chosen[: step + 1] for step in range(len(chosen))]
        assert (refused is not None) is any(map(self._twice, steps))
        return refused

    def _twice(self, chosen: list[str]) -> bool:
        later = History([*self.commits, commit("later", "undo", *chosen)])
        undone = later.undone(len(later.commits))
        named = [oid for c in later.commits if c.oid not in undone for oid in c.meta.reverts]
        return len(named) != len(set(named))


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Histories as the daemon makes them: only what stands is taken back, and not twice."""
    history = History([])
    for number in range(draw(st.integers(1, 12))):
        undone = history.undone(number)
        stands = [c for c in history.commits if c.oid not in undone]
        kind = draw(st.sampled_from(["edit", "edit", "undo", "redo", "rollback"]))
        session = draw(st.sampled_from("st"))
        some = [c.oid for c in stands if kind != "redo" or c.meta.kind in REDOABLE]
        reverts: list[str] = []
        if kind == "rollback":
            later = history.commits[draw(st.integers(0, number)) :]
            reverts = [c.oid for c in choose(history, later, everything)]
        elif kind != "edit" and some:
            reverts = draw(st.lists(st.sampled_from(some), min_size=1, max_size=3, unique=True))
            reverts = [c.oid for c in reversed(history.commits) if c.oid in reverts]
        if not reverts or history.twice(reverts):
            kind, reverts = "edit", []
        history.commits.append(commit(f"{kind}{number}", kind, *reverts, session=session))
    return history


def choose(
    history: History, later: list[StoredCommit], passes: Callable[[StoredCommit], bool]
) -> list[StoredCommit]:
    """As planning does: undos stay if they can."""
    chosen = choose_for_rollback(reversed(later), passes, may_stay=everything)
    if history.twice([c.oid for c in chosen]):
        return choose_for_rollback(reversed(later), passes, may_stay=lambda _: False)
    return chosen


@settings(deadline=None)
@given(histories())
def test_what_stands_is_what_the_definition_says(history: History) -> None:
    found = list(walk_standing(reversed(history.commits)))
    undone = history.undone(len(history.commits))
    assert {c.oid for c, by in found if by is not None} == undone
    for c, by in found:
        takers = [o.oid for o in history.commits if c.oid in o.meta.reverts]
        assert by == next((oid for oid in reversed(takers) if oid not in undone), None)


@settings(deadline=None, max_examples=200)
@given(history=histories(), at=st.integers(0, 12), sessions=st.sampled_from(["s", "st"]))
def test_a_rollback_leaves_the_files_as_if_what_it_is_about_had_not_been(
    history: History, at: int, sessions: str
) -> None:
    """The changes of what it chooses, taken back in this order, fit and give that state."""
    end, at = len(history.commits), min(at, len(history.commits))
    later = history.commits[at:]
    chosen = choose(history, later, lambda c: (c.meta.session or "") in sessions)
    if history.twice([c.oid for c in chosen]):
        assert sessions != "st", "a rollback of everything is never refused for that"
        return
    files = history.edits(end)
    for each in chosen:
        number = history.commits.index(each)
        before, after = history.edits(number), history.edits(number + 1)
        assert after - before <= files, "taken back twice"
        assert not files & (before - after), "brought back twice"
        files = files - (after - before) | (before - after)
    concerned = frozenset(c.oid for c in later if (c.meta.session or "") in sessions)
    assert files == history.edits(end, without=concerned)
    if sessions == "st":
        assert files == history.edits(at)
    history.commits.append(commit("rollback", "rollback", *(c.oid for c in chosen)))
    assert history.edits(end + 1) == files
