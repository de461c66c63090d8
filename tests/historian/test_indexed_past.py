"""The history asked through the index answers as the history that is walked, wherever it ends."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from stet.wire.failures import Refused
from stetd.historian.index.history_index import HistoryIndex
from stetd.historian.index.writer import GrowingIndex
from stetd.historian.index_writer import catch_up
from stetd.historian.queries import commit_changes, unindexed
from stetd.historian.queries.commit_lookup import Past, UnknownCursor
from stetd.historian.queries.indexed_lookup import IndexedPast, look_back
from stetd.history.commit_rows import Wanted
from stetd.repository.shallow import write_shallow
from stetd.repository.stored_objects import MissingObject
from stetd.storage.disk import Disk
from storage.histories import Histories

PATHS = ["a", "d/a", "d/e/b"]
NAMES = [None, "x", "y"]
KINDS = ["edit", "edit", "edit", "restore", "undo", "undo", "redo", "rollback", "outside"]

one_commit = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(KINDS),
        "files": st.dictionaries(st.sampled_from(PATHS), st.sampled_from(["", "1\n", "2\n", None])),
        "reverts": st.sets(st.integers(0, 15), max_size=3),
        "session": st.sampled_from(NAMES),
        "agent": st.sampled_from(NAMES),
        "request": st.sampled_from(NAMES),
        "move": st.sampled_from([None, ("a", "d/a"), ("d/a", "a")]),
    }
)


def build(histories: Histories, told: list[dict[str, Any]]) -> None:
    now: dict[str, str] = {}
    for each in told:
        files: dict[str, str | bytes | None] = dict(each["files"])
        moves: tuple[tuple[str, str], ...] = ()
        if each["move"] and each["move"][0] in now:
            old, new = each["move"]
            files |= {old: None, new: now[old]}
            moves = ((old, new),)
        for path, content in files.items():
            now.pop(path, None)
            if content is not None:
                now[path] = str(content)
        before = histories.oids
        taken = tuple(before[n] for n in sorted(each["reverts"]) if n < len(before))
        histories.commit(
            files,
            kind=each["kind"],
            method="restore" if each["kind"] == "restore" else "patch",
            session=each["session"],
            agent=each["agent"],
            request=each["request"],
            reverts=taken if each["kind"] in ("undo", "redo", "rollback") else (),
            moves=moves,
        )


def answer(past: Past, method: str, *arguments: Any) -> Any:
    try:
        answered = getattr(past, method)(*arguments)
        return list(answered) if isinstance(answered, Iterator) else answered
    except Refused as refusal:
        return str(refusal)
    except (UnknownCursor, MissingObject) as error:
        return type(error)


def questions(oids: list[str]) -> Iterator[tuple[Any, ...]]:
    """What is asked of both: a method and its arguments."""
    yield ("standing",)
    yield "find", oids
    for steps in range(len(oids) + 2):
        yield "resolve", f"HEAD~{steps}"
    for oid in [*oids, "f" * 40]:
        yield "resolve", oid[:12]
        yield "resolve", oid
        yield "find", [oid]
        yield "after", oid
        yield "ancestor", 2, oid
        yield "candidates", Wanted(), oid
        yield "candidates", Wanted(session="x", kind="undo"), oid
        for path in PATHS:
            yield "touches", path, oid
    for session in NAMES:
        for paths in ([], ["d"], ["a", "d/a"], [""]):
            yield "standing_edits", session, None, paths
            yield "standing_edits", session, "x", paths
        yield "of_request", "x", session
        yield "of_request", "z", session


def changes_and_steps(past: Past) -> list[Any]:
    commits = [found.commit for found in past.standing()]
    return [
        *(past.changes(commit) for commit in commits),
        *(past.is_touching(commit, [path]) for commit in commits for path in ["d", "a", ""]),
        *(past.steps_back(commits[at::3]) for at in range(min(3, len(commits)))),
    ]


@settings(max_examples=40, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(st.lists(one_commit, min_size=1, max_size=16), st.data())
def test_every_answer_is_that_of_the_walk(
    tmp_path_factory: pytest.TempPathFactory, told: list[dict[str, Any]], data: st.DataObject
) -> None:
    histories = Histories(tmp_path_factory.mktemp("h"))
    build(histories, told)
    upto = data.draw(st.integers(0, len(told)), "indexed")
    head = data.draw(st.integers(max(upto - 2, 1), len(told)), "head")
    index = GrowingIndex.open(HistoryIndex.path_for(histories.path))
    list(catch_up(index, histories.repository, histories.oids[upto - 1] if upto else None))
    walked = Past(histories.repository, histories.oids[head - 1])
    known = IndexedPast(histories.repository, histories.oids[head - 1], index)
    for question in questions(histories.oids[:head]):
        expected = answer(walked, *question)
        fresh = IndexedPast(histories.repository, histories.oids[head - 1], index)
        assert expected == answer(fresh, *question), question
        assert expected == answer(known, *question), question
    assert changes_and_steps(walked) == changes_and_steps(known)
    index.close()
    histories.repository.close()


@pytest.fixture
def histories(tmp_path: Path) -> Histories:
    made = Histories(tmp_path)
    for number in range(40):
        made.commit({f"d/{number % 3}": f"{number}\n"}, session="s")
    index = GrowingIndex.open(HistoryIndex.path_for(made.path))
    list(catch_up(index, made.repository, made.oids[-1]))
    index.close()
    return made


def grown_since(histories: Histories) -> None:
    """Twenty commits that the index has not; the last undoes the newest edit."""
    for number in range(19):
        histories.commit({"new": f"{number}\n"}, session="s")
    histories.commit({"new": "17\n"}, kind="undo", session="s", reverts=(histories.oids[-1],))


def test_of_the_commits_that_are_not_indexed_only_those_are_read_that_are_needed(
    histories: Histories,
) -> None:
    grown_since(histories)
    oids = histories.oids

    def run(past: Past) -> list[Any]:
        assert isinstance(past, IndexedPast)
        [edit] = islice(past.standing_edits("s", None, ()), 1)
        answers = [
            edit.oid,
            [found.undone_by for found in islice(past.candidates(Wanted(), None), 3)],
            [commit.oid for commit in past.steps_back([edit])],
            [found.undone_by for found in past.find([oids[-2], oids[-3]])],
            past.resolve("HEAD~2"),
            past.resolve(oids[-2]),
            [commit.oid for commit in past.after(oids[-4])],
            past.is_touching(edit, ["new"]),
            [change.path for change in past.changes(edit)],
        ]
        read = [oid for oid in oids if past.numbered.unindexed.place(oid) is not None]
        return [*answers, read]

    expected = [
        oids[-3],
        [None, oids[-1], None],
        [oids[-3]],
        [oids[-1], None],
        oids[-3],
        oids[-2],
        [oids[-1], oids[-2], oids[-3]],
        True,
        ["new"],
        oids[-4:],
    ]
    assert expected == look_back(histories.repository, oids[-1], run)


def test_what_stands_in_the_index_follows_from_what_came_after_it(histories: Histories) -> None:
    """An indexed edit is undone; an indexed undo is, so that its edit stands again; and both."""
    oids = histories.oids
    oids_before = list(oids)
    undo = histories.commit({"u": "1\n"}, kind="undo", session="s", reverts=(oids[3], oids[5]))
    index = GrowingIndex.open(HistoryIndex.path_for(histories.path))
    list(catch_up(index, histories.repository, undo))
    index.close()
    histories.commit({"u": "2\n"}, kind="undo", session="s", reverts=(oids[7],))
    redo = histories.commit({"u": "3\n"}, kind="redo", session="s", reverts=(undo,))
    last = histories.commit({"u": "4\n"}, kind="undo", session="s", reverts=(redo, oids[9]))

    def standing(head: str) -> list[list[str]]:
        def run(past: Past) -> list[list[str]]:
            assert isinstance(past, IndexedPast)
            edits = past.standing_edits("s", None, ())
            touching = past.standing_edits("s", None, ["d"])
            found = (each for each in past.standing() if each.undone_by is None)
            meta = (each.commit for each in found if each.commit.meta.kind == "edit")
            return [[each.oid for each in some] for some in (edits, touching, meta)]

        return look_back(histories.repository, head, run)

    def without(*numbers: int) -> list[str]:
        return [oid for n, oid in enumerate(oids_before) if n not in numbers][::-1]

    assert [without(3, 5, 7, 9)] * 3 == standing(last)
    assert [without(7)] * 3 == standing(redo)
    assert [without(3, 5)] * 3 == standing(undo)
    assert [without()[1:]] * 3 == standing(oids_before[-2])


def test_files_that_were_too_large_to_be_compared_beforehand_are_counted_when_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_changes, "_COMPARED_BYTES", 100)
    histories = Histories(tmp_path)
    histories.commit({"large": "line\n" * 30, "small": "1\n"})
    histories.commit({"large": "line\n" * 29 + "needle\n" * 3, "small": "2\n", "too": "3\n"})
    index = GrowingIndex.open(HistoryIndex.path_for(histories.path))
    list(catch_up(index, histories.repository, histories.oids[-1]))
    assert [None, 1, 1] == [row.added for row in index.files(2)]
    walked = Past(histories.repository, histories.oids[-1])
    indexed = IndexedPast(histories.repository, histories.oids[-1], index)
    for oid in histories.oids:
        commit = histories.repository.commit(oid)
        assert walked.changes(commit) == indexed.changes(commit)
    last = histories.repository.commit(histories.oids[-1])
    assert [(3, 1), (1, 1), (1, 0)] == [
        (change.added, change.removed) for change in indexed.changes(last)
    ]
    assert [True, True] == [past.has_text(last, "needle") for past in (walked, indexed)]
    index.close()


def test_an_index_of_another_history_is_of_no_use_when_it_comes_to_that(
    histories: Histories, tmp_path: Path
) -> None:
    other = Histories(tmp_path / "other")
    for number in range(30):
        other.commit({"a": f"{number}\n"}, session="s")
    index = Path(HistoryIndex.path_for(other.path))
    index.parent.mkdir()
    index.write_bytes(Path(HistoryIndex.path_for(histories.path)).read_bytes())
    classes: list[str] = []

    def newest(past: Past) -> list[str]:
        classes.append(type(past).__name__)
        return [edit.oid for edit in islice(past.standing_edits("s", None, ()), 31)]

    damage: list[str] = []
    found = look_back(other.repository, other.oids[-1], newest, lambda: damage.append("!"))
    assert (other.oids[::-1], ["IndexedPast", "Past"], ["!"]) == (found, classes, damage)


def test_an_index_that_has_what_was_dropped_since_is_walked_around(histories: Histories) -> None:
    """The objects go later, so whoever asked the index would still see the commits."""
    grown_since(histories)
    kept = histories.oids[10:]
    write_shallow(histories.path, kept[0], Disk())
    histories.repository.reopen()

    def run(past: Past) -> list[Any]:
        with suppress(Refused):
            past.find([histories.oids[9]])
            return ["a dropped commit was found"]
        return [[found.commit.oid for found in past.standing()], past.with_prefix(kept[0])]

    damage: list[str] = []
    found = look_back(histories.repository, kept[-1], run, lambda: damage.append("!"))
    assert ([kept[::-1], [kept[0]]], ["!"]) == (found, damage)


def test_an_index_that_is_far_behind_is_walked_around(
    histories: Histories, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unindexed, "_MOST", 19)
    found = expected(histories)
    grown_since(histories)
    assert (["IndexedPast", "Past"], found) == asked(histories)


def asked(histories: Histories) -> tuple[list[str], list[str]]:
    """What was asked (by the class that answered), and what came out."""
    classes = []

    def run(past: Past) -> list[str]:
        classes.append(type(past).__name__)
        found = [each.commit.oid for each in past.candidates(Wanted(path="d/1"), None)]
        return [oid for oid in found if past.changes(past.repository.commit(oid))]

    damage: list[str] = []
    found = look_back(histories.repository, histories.oids[-1], run, lambda: damage.append("!"))
    return [*classes, *damage], [
        oid
        for oid in found
        if Past(histories.repository, oid).is_touching(histories.repository.commit(oid), ["d/1"])
    ]


def expected(histories: Histories) -> list[str]:
    return [oid for n, oid in enumerate(histories.oids) if n % 3 == 1][::-1]


def test_the_index_is_used_where_it_is_sound(histories: Histories) -> None:
    assert (["IndexedPast"], expected(histories)) == asked(histories)


@pytest.mark.parametrize("size", [0, 100, 4096, 9000, 40000])
def test_a_damaged_index_changes_no_answer(histories: Histories, size: int) -> None:
    path = Path(HistoryIndex.path_for(histories.path))
    content = path.read_bytes()
    path.write_bytes(content[:size])
    classes, found = asked(histories)
    assert expected(histories) == found
    assert "Past" == [name for name in classes if name != "!"][-1]


def test_an_index_of_garbage_is_walked_around_and_reported(histories: Histories) -> None:
    path = Path(HistoryIndex.path_for(histories.path))
    path.write_bytes(os.urandom(path.stat().st_size))
    classes, found = asked(histories)
    assert ({"Past", "!"}, expected(histories)) == (set(classes), found)


def test_an_index_that_only_could_not_be_opened_is_walked_around_and_kept(
    histories: Histories,
) -> None:
    """So it is when the daemon has no file handle left; the index is as good as before."""
    os.unlink(HistoryIndex.path_for(histories.path))
    os.mkdir(HistoryIndex.path_for(histories.path))
    assert (["Past"], expected(histories)) == asked(histories)


def test_an_index_that_names_commits_which_are_not_there_is_walked_around(
    histories: Histories,
) -> None:
    index = GrowingIndex.open(HistoryIndex.path_for(histories.path))
    index.db.execute("UPDATE commits SET oid = randomblob(20) WHERE n = 5")
    index.close()
    classes, found = asked(histories)
    assert ({"IndexedPast", "Past", "!"}, expected(histories)) == (set(classes), found)


def test_no_index_is_no_damage(histories: Histories) -> None:
    os.unlink(HistoryIndex.path_for(histories.path))
    assert (["Past"], expected(histories)) == asked(histories)
    assert not os.path.exists(HistoryIndex.path_for(histories.path))
