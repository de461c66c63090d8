"""The query index against the history that it is made from, asked in every way."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stetd.historian.index import history_index as index_schema
from stetd.historian.index.history_index import (
    CommitFilter,
    FileRow,
    GrowingIndex,
    HistoryIndex,
    IndexedFile,
    is_damage,
)
from stetd.history.commits import CommitMeta, StoredCommit
from stetd.history.line_diffs import Hunk
from stetd.history.objects import EMPTY_TREE


def oid(n: int) -> str:
    return f"{n * 0x9E3779B97F4A7C15 % (1 << 64):016x}" + f"{n:024x}"


Row = tuple[StoredCommit, list[IndexedFile]]


def row(n: int, files: tuple[FileRow, ...] = (), text: str | None = "", **fields: object) -> Row:
    """A commit with these files; the text is that of a file of its own."""
    told: dict[str, object] = {
        "time": 1000 + n,
        "kind": "edit",
        "subject": f"subject {n}",
        **fields,
    }
    meta = CommitMeta(**told)  # type: ignore[arg-type]
    changed: list[IndexedFile] = [IndexedFile(file, "") for file in files]
    changed += [IndexedFile(change("told"), text)] if text != "" else []
    return StoredCommit(oid(n), EMPTY_TREE, None, meta), changed


def add(index: GrowingIndex, rows: list[Row]) -> None:
    with index.db:
        index.db.execute("BEGIN")
        for commit, files in rows:
            assert 1 == len(list(index.add(commit, files)))


def change(path: str, old_path: str | None = None) -> FileRow:
    return FileRow(
        path, "R" if old_path else "M", oid(1), oid(2), old_path, 1, 0, (Hunk(0, 0, 0, 1),)
    )


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "index" / "w.sqlite3")


@pytest.fixture
def index(path: str) -> Iterator[GrowingIndex]:
    opened = GrowingIndex.open(path)
    yield opened
    opened.close()


def numbers(index: HistoryIndex, upto: int = 10_000, **wanted: Any) -> list[int]:
    return [*index.select(CommitFilter(**wanted), upto)]


def test_commits_are_found_by_id_number_and_prefix(index: GrowingIndex, path: str) -> None:
    add(index, [row(1), row(2), row(3)])
    reading = HistoryIndex.for_reading(path)
    assert reading is not None
    assert (3, oid(3)) == reading.last()
    assert 2 == reading.position(oid(2))
    assert oid(2) == reading.oid(2)
    assert (None, None) == (reading.position(oid(4)), reading.oid(4))
    assert [oid(2)] == reading.with_prefix(oid(2)[:5], 3, 10)
    assert [] == reading.with_prefix(oid(3)[:5], 2, 10)
    reading.close()


def test_files_are_what_was_put_in(index: GrowingIndex) -> None:
    files = (
        FileRow("a", "A", None, oid(1), None, 3, 0, (Hunk(0, 0, 0, 3),)),
        FileRow("b/c", "R", oid(1), oid(2), "b/d", 1, 2, (Hunk(1, 2, 1, 1), Hunk(400, 0, 399, 0))),
        FileRow("large", "M", oid(3), oid(4)),
    )
    add(index, [row(1, files=files)])
    assert list(files) == index.files(1)
    assert (1, files[1]) == index.last_change("b/c", 5)
    assert None is index.last_change("b/c", 0)
    assert None is index.last_change("b/d", 5)
    assert None is index.last_change("b", 5)


def test_a_path_is_a_file_or_a_directory_and_old_paths_count(index: GrowingIndex) -> None:
    add(
        index,
        [
            row(1, files=(change("src/a.py"),)),
            row(2, files=(change("src/deep/b.py"), change("other"))),
            row(3, files=(change("srcs/a.py"),)),
            row(4, files=(change("new.py", "src/deep/b.py"),)),
        ],
    )
    assert [4, 2, 1] == numbers(index, path="src")
    assert [4, 2] == numbers(index, path="src/deep")
    assert [1] == numbers(index, path="src/a.py")
    assert [4] == numbers(index, path="new.py")
    assert [] == numbers(index, path="sr")
    assert [4, 3, 2, 1] == numbers(index, path="")
    assert [2] == numbers(index, upto=3, path="src/deep/b.py")


def test_times_are_found_though_the_clock_was_set_back(index: GrowingIndex) -> None:
    times = [100, 200, 300, 150, 160, 310, 50, 320]
    add(index, [row(n, time=time) for n, time in enumerate(times, 1)])
    for since, until in product([None, *range(40, 340, 10)], repeat=2):
        expected = [
            n
            for n, time in reversed(list(enumerate(times, 1)))
            if (since is None or time >= since) and (until is None or time <= until)
        ]
        assert expected == numbers(index, since=since, until=until), (since, until)


TEXTS = {
    1: "patch a\nreturn 42\nreturn 43",
    2: 'say "quoted" AND NEAR(*) OR',
    3: "größe and café \U0001f600\U0001f601\U0001f602",
    4: "Return",
    5: "nul\0inside\0text",
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("return 4", [1]),
        ("43", [5, 4, 3, 2, 1]),  # no trigram: everything is to be verified
        ("Return", [4]),
        ('"quoted" AND NEAR(*', [2]),
        ("fé \U0001f600\U0001f601", [3]),
        ("l\0i", [5]),
        ("nowhere", []),
    ],
)
def test_texts_are_found_by_their_trigrams(
    index: GrowingIndex, text: str, expected: list[int]
) -> None:
    if not index.has_text:
        pytest.skip("this SQLite has no trigrams")
    add(index, [row(n, text=told) for n, told in TEXTS.items()])
    assert expected == numbers(index, text=text)


def test_what_is_too_large_to_be_indexed_is_always_to_be_verified(index: GrowingIndex) -> None:
    add(
        index, [row(1, text="needle"), row(2, text=None), row(3, text="hay"), row(4, text="needle")]
    )
    assert [4, 2, 1] == numbers(index, text="needle")
    assert [2] == numbers(index, text="needle", since=1002, until=1003)


def test_a_commit_is_found_by_each_part_and_only_those_files_are_looked_at(
    index: GrowingIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_schema, "_PART_FILES", 2)
    told = [
        ("a", "needle"), ("d/b", ""), ("d/c", None), ("d/d", "hay"), ("d/e", "hay needle"),
        ("d/f", "hay"), ("f", "hay"),
    ]  # fmt: skip
    add(index, [row(1, text="needle")])
    with index.db:
        index.db.execute("BEGIN")
        lengths = list(
            index.add(row(2)[0], [IndexedFile(change(path), text) for path, text in told])
        )
    assert [len("subject 2\nneedle"), 0, len("hay\nhay needle"), len("hay\nhay")] == lengths
    add(index, [row(3, text="hay")])
    assert [2, 1] == numbers(index, text="needle")
    assert [3, 2] == numbers(index, text="hay")
    assert [2] == numbers(index, text="nowhere")
    assert [2] == numbers(index, text="needle", path="d")
    assert index.files(2) == index.files_with(2, "ne")
    if index.has_text:
        needle = sorted(f.path for f in index.files_with(2, "needle"))
        assert ["a", "d/b", "d/c", "d/d", "d/e"] == needle
        assert ["d/c"] == [f.path for f in index.files_with(2, "nowhere")]
    assert ["a", "d/b", "d/c", "d/d", "d/e", "d/f", "f"] == [f.path for f in index.files(2)]


def test_between_two_files_that_are_too_large_to_index_others_get_their_turn(
    index: GrowingIndex,
) -> None:
    """Each may take seconds to compare."""
    compared = 0

    def files() -> Iterator[IndexedFile]:
        nonlocal compared
        for number in range(10):
            compared += 1
            yield IndexedFile(change(f"{number}"), None)

    with index.db:
        index.db.execute("BEGIN")
        turns = [compared for _ in index.add(row(1)[0], files())]
    assert [2, 3, 4, 5, 6, 7, 8, 9, 10, 10] == turns


def test_no_trigrams_are_looked_for_in_a_commit_with_one_text(
    index: GrowingIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That would take most of the time of a search."""
    files = (change("a"), change("b"))
    add(index, [row(1, files=files)])
    monkeypatch.setattr(index_schema, "_trigrams", None)
    assert list(files) == index.files_with(1, "needle")


def test_what_was_begun_and_not_finished_is_not_there(index: GrowingIndex) -> None:
    add(index, [row(1)])
    commit, files = row(2, files=(change("a"),), text="needle")

    def begin() -> Iterator[None]:
        with index.db:
            index.db.execute("BEGIN")
            for _ in index.add(commit, files):
                yield

    begun = begin()
    next(begun)
    begun.close()  # type: ignore[attr-defined]
    assert (1, oid(1)) == index.last()
    assert [] == numbers(index, path="a")
    add(index, [row(2, text="hay")])
    assert [] == numbers(index, text="needle")


def test_another_version_is_none_to_readers_and_damage_to_writers(path: str) -> None:
    first = GrowingIndex.open(path)
    add(first, [row(1)])
    first.close()
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 99")
    db.close()
    assert None is HistoryIndex.for_reading(path)
    with pytest.raises(sqlite3.DatabaseError) as caught:
        GrowingIndex.open(path)
    assert is_damage(caught.value)
    assert None is HistoryIndex.for_reading(path + ".nowhere")


def test_it_works_without_trigrams(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_schema, "_TEXT_SCHEMA", "CREATE VIRTUAL TABLE t USING nothing (x)")
    index = GrowingIndex.open(path)
    assert not index.has_text
    add(index, [row(1, text="needle"), row(2, text="hay")])
    assert [2, 1] == numbers(index, text="needle")
    index.close()


AGENTS = st.sampled_from([None, "a1", "a2"])
reverting = st.lists(
    st.tuples(
        st.sampled_from(["edit", "undo", "undo", "outside"]), st.sets(st.integers(1, 6), max_size=3)
    ),
    max_size=30,
)


@settings(max_examples=150, deadline=None)
@given(reverting, st.integers(1, 5))
def test_what_stands_is_among_the_edits_and_what_is_surely_undone_is_not(
    tmp_path_factory: pytest.TempPathFactory, told: list[tuple[str, set[int]]], batch: int
) -> None:
    index = GrowingIndex.open(str(tmp_path_factory.mktemp("i") / "w.sqlite3"))
    rows, reverts = [], {}
    for n, (kind, back_by) in enumerate(told, 1):
        reverts[n] = {n - back for back in back_by if back < n} if kind == "undo" else set()
        taken = tuple(oid(t) for t in sorted(reverts[n]))
        rows.append(row(n, kind=kind, reverts=taken))
    for at in range(0, len(rows), batch):
        add(index, rows[at : at + batch])
    undone: set[int] = set()
    for n in sorted(reverts, reverse=True):
        if n not in undone:
            undone |= reverts[n]
    taken_back = set().union(*reverts.values())
    surely = {n for taker in reverts.keys() - taken_back for n in reverts[taker]}
    edits = [n for n in sorted(reverts, reverse=True) if rows[n - 1][0].meta.kind == "edit"]
    found = list(index.select(CommitFilter(standing=True), len(rows)))
    assert found == [n for n in edits if n not in surely]
    assert set(found) >= set(edits) - undone
    index.close()


commits = st.lists(
    st.tuples(
        AGENTS, AGENTS, st.sampled_from(["patch", "undo"]), st.sampled_from(["a", "d/a", "d/e/b"])
    ),
    max_size=25,
)


@settings(max_examples=100, deadline=None)
@given(commits, AGENTS, AGENTS, st.sampled_from([None, "patch", "x"]), st.sampled_from([None, "d"]))
def test_filters_together_are_what_each_lets_through(
    tmp_path_factory: pytest.TempPathFactory,
    told: list[tuple[str | None, str | None, str, str]],
    agent: str | None,
    session: str | None,
    method: str | None,
    path: str | None,
) -> None:
    index = GrowingIndex.open(str(tmp_path_factory.mktemp("i") / "w.sqlite3"))
    add(
        index,
        [
            row(n, agent=a, session=s, method=m, files=(change(p),), text="needle" * (n % 2))
            for n, (a, s, m, p) in enumerate(told, 1)
        ],
    )
    expected = [
        n
        for n, (a, s, m, p) in reversed(list(enumerate(told, 1)))
        if (agent is None or a == agent)
        and (session is None or s == session)
        and (method is None or m == method)
        and (path is None or p.startswith(path + "/"))
    ]
    given_filters: dict[str, Any] = {
        "agent": agent,
        "session": session,
        "method": method,
        "path": path,
    }
    assert expected == numbers(index, **given_filters)
    if index.has_text:
        odd = [n for n in expected if n % 2]
        assert odd == numbers(index, text="eedl", **given_filters)
    index.close()
