"""Answers from the index are those of a walk, whatever state the index is in before."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from historian.walked_history import WalkedHistory
from stet.wire.failures import Refused
from stetd.config.settings import Settings
from stetd.historian.index import keeping
from stetd.historian.index.history_index import CommitFilter, GrowingIndex, HistoryIndex
from stetd.historian.index.keeping import catch_up, release
from stetd.historian.queries import commit_changes, commit_lookup
from stetd.historian.queries.commit_lookup import CommitLookup, look_back
from stetd.historian.questions import Library
from stetd.historian.questions import answer as answer_question
from stetd.processes import historian_messages as messages
from stetd.repository.references import write_shallow
from stetd.repository.stored_objects import MissingObject
from stetd.storage.disk import Disk
from stetd.storage.progress import Progress
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


def answer(lookup: CommitLookup, method: str, *arguments: Any) -> Any:
    try:
        answered = getattr(lookup, method)(*arguments)
        return list(answered) if isinstance(answered, Iterator) else answered
    except Refused as refusal:
        return str(refusal)
    except MissingObject as error:
        return type(error)


def questions(oids: list[str]) -> Iterator[tuple[Any, ...]]:
    """What is asked of both: a method and its arguments."""
    yield "find", oids
    for steps in range(len(oids) + 2):
        yield "resolve", f"HEAD~{steps}"
    for oid in [*oids, "f" * 40]:
        yield "resolve", oid[:12]
        yield "resolve", oid
        yield "resolve", f"{oid[:12]}~2"
        yield "find", [oid]
        yield "after", oid
        yield "ancestor", 2, oid
        yield "candidates", CommitFilter(), oid
        yield "candidates", CommitFilter(session="x", kind="undo"), oid
        for path in PATHS:
            yield "touches", path, oid
    for session in NAMES:
        for paths in ([], ["d"], ["a", "d/a"], [""]):
            yield "standing_edits", session, None, paths
            yield "standing_edits", session, "x", paths
        yield "of_request", "x", session
        yield "of_request", "z", session


def changes_and_steps(lookup: CommitLookup) -> list[Any]:
    commits = list(lookup.repository.walk(lookup.head))
    return [
        *(lookup.changes(commit) for commit in commits),
        *(lookup.is_touching(commit, [path]) for commit in commits for path in ["d", "a", ""]),
        *(lookup.steps_back(commits[at::3]) for at in range(min(3, len(commits)))),
    ]


@settings(max_examples=40, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(st.lists(one_commit, min_size=1, max_size=16), st.data())
def test_every_answer_is_that_of_the_walk(
    tmp_path_factory: pytest.TempPathFactory, told: list[dict[str, Any]], data: st.DataObject
) -> None:
    histories = Histories(tmp_path_factory.mktemp("h"))
    build(histories, told)
    upto = data.draw(st.integers(0, len(told)), "indexed before")
    head = data.draw(st.integers(max(upto - 2, 1), len(told)), "head")
    repository, oid = histories.repository, histories.oids[head - 1]
    with closing(GrowingIndex.open(HistoryIndex.path_for(histories.path))) as index:
        list(catch_up(index, repository, histories.oids[upto - 1] if upto else None))
    walked = WalkedHistory(repository, oid)

    def ask(lookup: CommitLookup) -> None:
        for question in questions(histories.oids[:head]):
            expected = answer(walked, *question)
            fresh = CommitLookup(repository, oid, lookup.index)
            assert expected == answer(fresh, *question), question
            assert expected == answer(lookup, *question), question
        assert changes_and_steps(walked) == changes_and_steps(lookup)

    look_back(repository, oid, ask)
    histories.repository.close()


@pytest.fixture
def histories(tmp_path: Path) -> Histories:
    made = Histories(tmp_path)
    for number in range(40):
        made.commit({f"d/{number % 3}": f"{number}\n"}, session="s")
    assert expected(made) == asked(made)
    release()
    return made


def asked(histories: Histories) -> list[str]:
    def run(lookup: CommitLookup) -> list[str]:
        found = [each.commit for each in lookup.candidates(CommitFilter(path="d/1"), None)]
        return [commit.oid for commit in found if lookup.changes(commit)]

    return look_back(histories.repository, histories.oids[-1], run)


def expected(histories: Histories) -> list[str]:
    return [oid for n, oid in enumerate(histories.oids) if n % 3 == 1][::-1]


def test_what_stands_is_as_of_the_head_that_is_asked_about(histories: Histories) -> None:
    """The index goes on to the newest commit, which the question may not have."""
    oids = list(histories.oids)
    undo = histories.commit({"u": "1\n"}, kind="undo", session="s", reverts=(oids[3], oids[5]))
    histories.commit({"u": "2\n"}, kind="undo", session="s", reverts=(oids[7],))
    redo = histories.commit({"u": "3\n"}, kind="redo", session="s", reverts=(undo,))
    last = histories.commit({"u": "4\n"}, kind="undo", session="s", reverts=(redo, oids[9]))

    def standing(head: str) -> list[list[str]]:
        def run(lookup: CommitLookup) -> list[list[str]]:
            some = (lookup.standing_edits("s", None, paths) for paths in ((), ["d"]))
            return [[each.oid for each in edits] for edits in some]

        return look_back(histories.repository, head, run)

    def without(*numbers: int) -> list[str]:
        return [oid for n, oid in enumerate(oids) if n not in numbers][::-1]

    assert [without(3, 5, 7, 9)] * 2 == standing(last)
    assert [without(7)] * 2 == standing(redo)
    assert [without(3, 5)] * 2 == standing(undo)
    assert [without()[1:]] * 2 == standing(oids[-2])


def test_files_that_were_too_large_to_be_compared_beforehand_are_counted_when_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_changes, "_COMPARED_BYTES", 100)
    histories = Histories(tmp_path)
    histories.commit({"large": "line\n" * 30, "small": "1\n"})
    histories.commit({"large": "line\n" * 29 + "needle\n" * 3, "small": "2\n", "too": "3\n"})
    last = histories.repository.commit(histories.oids[-1])

    def run(lookup: CommitLookup) -> None:
        assert [None, 1, 1] == [row.added for row in lookup.index.files(2)]
        changes = lookup.changes(last)
        assert WalkedHistory(histories.repository, last.oid).changes(last) == changes
        assert [(3, 1), (1, 1), (1, 0)] == [(each.added, each.removed) for each in changes]
        assert lookup.has_text(last, "needle")

    look_back(histories.repository, last.oid, run)


def test_an_index_of_another_history_is_made_anew(histories: Histories, tmp_path: Path) -> None:
    other = Histories(tmp_path / "other")
    for number in range(30):
        other.commit({f"d/{number % 3}": f"other {number}\n"})
    index = Path(HistoryIndex.path_for(other.path))
    index.parent.mkdir()
    index.write_bytes(Path(HistoryIndex.path_for(histories.path)).read_bytes())
    assert expected(other) == asked(other)


def test_an_index_that_has_what_was_dropped_since_is_made_anew(histories: Histories) -> None:
    """The objects go later, so whoever asked the index would still see the commits."""
    kept = histories.oids[10:]
    write_shallow(histories.path, kept[0], Disk())
    histories.repository.reopen()

    def run(lookup: CommitLookup) -> tuple[int, list[str]]:
        with suppress(Refused):
            lookup.find([histories.oids[9]])
            raise AssertionError("a dropped commit was found")
        return lookup.count, lookup.with_prefix(kept[0])

    assert (30, [kept[0]]) == look_back(histories.repository, kept[-1], run)


@pytest.mark.parametrize("size", [0, 100, 4096, 9000, 40000, None])
def test_a_damaged_index_changes_no_answer(histories: Histories, size: int | None) -> None:
    """Cut off, or (None) garbage, which is made anew."""
    path = Path(HistoryIndex.path_for(histories.path))
    whole = path.read_bytes()
    path.write_bytes(os.urandom(len(whole)) if size is None else whole[:size])
    assert expected(histories) == asked(histories)
    assert size is not None or (40, histories.oids[-1]) == last_indexed(histories)


def last_indexed(histories: Histories) -> tuple[int, str] | None:
    index = HistoryIndex.for_reading(HistoryIndex.path_for(histories.path))
    assert index is not None
    with closing(index):
        return index.last()


def test_where_no_index_can_be_kept_one_is_made_for_the_question(histories: Histories) -> None:
    path = HistoryIndex.path_for(histories.path)
    os.unlink(path)
    os.mkdir(path)
    assert expected(histories) == asked(histories)
    assert [] == os.listdir(path)


def test_an_index_that_names_commits_which_are_not_there_is_made_anew(
    histories: Histories,
) -> None:
    with closing(GrowingIndex.open(HistoryIndex.path_for(histories.path))) as index:
        index.db.execute("UPDATE commits SET oid = randomblob(20) WHERE n = 5")
    assert expected(histories) == asked(histories)


def test_an_index_stays_where_it_is_the_history_that_is_damaged(
    histories: Histories, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    def counted(*given: Any) -> Generator[int]:
        made.append(1)
        return catch_up(*given)

    monkeypatch.setattr(keeping, "catch_up", counted)
    lost = histories.oids[4]
    os.unlink(histories.repository.loose_path(lost))
    histories.repository.reopen()
    for _ in range(2):
        with pytest.raises(MissingObject):
            asked(histories)
    assert (40, histories.oids[-1]) == last_indexed(histories)
    assert made == [1]  # each attempt takes long


def test_permissions_of_other_files_are_not_looked_for(histories: Histories) -> None:
    histories.commit({"x": "1\n", "y": "1\n"}, permissions=(("x", 0o600), ("y", 0o600)))
    commit = histories.repository.commit(histories.commit({"x": None}, kind="outside"))
    found = look_back(
        histories.repository, commit.oid, lambda it: list(it.permissions_before(commit, ["x"]))
    )
    assert found == [("x", 0o600)]


def test_an_index_is_made_over_contents_that_are_damaged(histories: Histories) -> None:
    blob = histories.repository.file_in(histories.repository.commit(histories.oids[4]).tree, "d/1")
    assert blob is not None
    os.unlink(histories.repository.loose_path(blob[1]))
    os.unlink(HistoryIndex.path_for(histories.path))
    histories.repository.reopen()
    with pytest.raises(MissingObject):
        asked(histories)
    newest = histories.oids[-1]
    assert [newest] == look_back(histories.repository, newest, lambda it: it.with_prefix(newest))


def test_a_question_is_refused_if_its_index_takes_too_long_which_is_gone_on_with(
    histories: Histories, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    os.unlink(HistoryIndex.path_for(histories.path))
    monkeypatch.setattr(commit_lookup, "_PATIENCE_S", 0.0)
    followed: list[str] = []
    nothing: Any = None
    library = Library(Disk(), nothing, Settings(), followed.append, lambda _: None, nothing)
    view = messages.WorkspaceView(
        root=str(tmp_path), shadow=histories.path, head=histories.oids[-1], number=0
    )
    params = msgspec.msgpack.encode(["name", "HEAD"])
    pin = messages.Ask(id=1, question="pin", view=view, params=params)
    with pytest.raises(Refused) as refused:
        answer_question(library, pin, Progress())
    assert ("overloaded", [histories.path]) == (refused.value.kind, followed)
    monkeypatch.undo()
    assert expected(histories) == asked(histories)


@pytest.mark.parametrize("root", ["gone", "file", "link", "x" * 300])
def test_only_a_root_that_is_not_there_is_no_workspace(
    histories: Histories, tmp_path: Path, root: str
) -> None:
    """Any other error may pass, and a client gives up a workspace that is not allowed."""
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path)
    nothing: Any = None
    library = Library(Disk(), nothing, Settings(), nothing, lambda _: None, nothing)
    view = messages.WorkspaceView(
        root=str(tmp_path / root), shadow=histories.path, head=histories.oids[-1], number=0
    )
    params = msgspec.msgpack.encode(["name", "HEAD"])
    pin = messages.Ask(id=1, question="pin", view=view, params=params)
    with pytest.raises(Refused) as refused:
        answer_question(library, pin, Progress())
    passing = root.startswith("x")  # the name is too long
    assert refused.value.kind == ("io_error" if passing else "workspace_not_allowed")
