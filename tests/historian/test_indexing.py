"""The indexing thread: it follows Git, stops when asked, and begins anew when it has to."""

from __future__ import annotations

import logging
import os
import shutil
import sqlite3
import time
from collections.abc import Generator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from stetd.historian.index import keeping as indexing
from stetd.historian.index.history_index import GrowingIndex, HistoryIndex
from stetd.historian.index.keeping import Indexer, catch_up, opened
from stetd.historian.queries.commit_lookup import look_back
from stetd.repository.references import write_shallow
from stetd.state.workspace import head_at
from stetd.storage.disk import Disk
from storage.histories import Histories

_PATIENCE_S = 60.0


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexing, "_GATHER_S", 0.01)


@pytest.fixture
def histories(tmp_path: Path) -> Histories:
    return Histories(tmp_path)


@pytest.fixture
def indexer(tmp_path: Path) -> Iterator[Indexer]:
    started = Indexer()
    yield started
    started.close()


def wait_until_indexed(histories: Histories, oids: list[str]) -> None:
    """Wait until these ids are in the index, and no others."""
    deadline = time.monotonic() + _PATIENCE_S
    while kept(histories) != oids:
        assert time.monotonic() < deadline, "the thread does not come that far"
        time.sleep(0.01)


def kept(histories: Histories) -> list[str] | None:
    """The ids in the index that is there, oldest first; None: there is none, or a damaged one."""
    try:
        index = HistoryIndex.for_reading(HistoryIndex.path_for(histories.path))
        if index is None:
            return None
        with closing(index):
            last = index.last()
            return [index.oid(n) or "" for n in range(1, (last[0] if last else 0) + 1)]
    except sqlite3.DatabaseError:
        return None


def file_of(index: HistoryIndex) -> str:
    """The path of an index; "" if it has no name."""
    return str(index.db.execute("PRAGMA database_list").fetchone()[2])


def test_new_commits_are_added(indexer: Indexer, histories: Histories) -> None:
    for number in range(70):
        histories.commit({"a": f"{number}\n"})
    indexer.follow(histories.path)
    wait_until_indexed(histories, histories.oids)
    histories.commit({"a": "more\n"})
    indexer.follow(histories.path)
    wait_until_indexed(histories, histories.oids)


def test_another_history_is_indexed_anew(indexer: Indexer, histories: Histories) -> None:
    histories.commit({"a": "1\n"})
    histories.commit({"a": "2\n"})
    indexer.follow(histories.path)
    wait_until_indexed(histories, histories.oids)
    shutil.rmtree(histories.path)
    other = Histories(Path(histories.path).parent.parent)
    other.commit({"b": "other\n"})
    indexer.follow(other.path)
    wait_until_indexed(other, other.oids)


def test_an_index_that_is_ahead_of_the_head_stays_unless_the_history_goes_another_way(
    tmp_path: Path, histories: Histories
) -> None:
    for number in range(5):
        histories.commit({"a": f"{number}\n"})
    index = GrowingIndex.open(str(tmp_path / "i.sqlite3"))
    list(catch_up(index, histories.repository, histories.oids[-1]))
    assert (5, histories.oids[4]) == index.last()
    list(catch_up(index, histories.repository, histories.oids[2]))
    list(catch_up(index, histories.repository, None))
    assert (5, histories.oids[4]) == index.last()
    histories.head = head_at(histories.repository, histories.oids[2], 3)
    other = histories.commit({"a": "other\n"})
    with pytest.raises(sqlite3.DatabaseError):
        list(catch_up(index, histories.repository, other))
    index.close()


def test_an_index_of_what_was_dropped_since_is_made_anew_from_where_the_history_begins(
    indexer: Indexer, histories: Histories
) -> None:
    for number in range(9):
        histories.commit({"a": f"{number}\n"})
    indexer.follow(histories.path)
    wait_until_indexed(histories, histories.oids)
    write_shallow(histories.path, histories.oids[4], Disk())
    histories.repository.reopen()
    histories.commit({"a": "more\n"})
    indexer.follow(histories.path)
    wait_until_indexed(histories, histories.oids[4:])


@pytest.mark.parametrize("damage", ["garbage", "truncated", "removed", "version", "one page"])
def test_a_damaged_file_is_made_anew(
    indexer: Indexer, histories: Histories, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    for number in range(50):
        histories.commit({f"{number}": f"{number}\n"})
    indexer.follow(histories.path)
    wait_until_indexed(histories, histories.oids)
    path = Path(HistoryIndex.path_for(histories.path))
    content = path.read_bytes()
    if damage == "removed":
        path.unlink()
    elif damage == "truncated":
        path.write_bytes(content[: len(content) // 3])
    elif damage == "garbage":
        path.write_bytes(os.urandom(len(content)))
    elif damage == "version":
        indexing.release()  # as after an upgrade
        with closing(sqlite3.connect(path)) as db:
            db.execute("PRAGMA user_version = 99")
    else:
        path.write_bytes(content[:4096] + b"\xff" * 4096 + content[8192:])
    histories.commit({"a": "more\n"})
    indexer.follow(histories.path)
    time.sleep(0.1)
    look_back(histories.repository, histories.oids[-1], lambda lookup: lookup.with_prefix("0000"))
    wait_until_indexed(histories, histories.oids)


def test_it_stops_in_the_middle_of_its_work(tmp_path: Path, histories: Histories) -> None:
    for number in range(300):
        histories.commit({"a": f"{number}\n"})
    slow = Indexer()
    slow.follow(histories.path)
    time.sleep(0.1)
    slow.close()
    index = GrowingIndex.open(HistoryIndex.path_for(histories.path))
    list(catch_up(index, histories.repository, histories.oids[-1]))
    assert (300, histories.oids[-1]) == index.last()
    index.close()


def test_a_commit_that_was_only_begun_is_not_in_the_index(histories: Histories) -> None:
    head = histories.commit({"a": "1\n"})
    index = GrowingIndex.open(HistoryIndex.path_for(histories.path))
    steps = catch_up(index, histories.repository, head)
    assert [next(steps), next(steps)] == [1, 0]  # it is missing, and its first part is added
    steps.close()
    assert index.last() is None
    index.close()


def test_one_that_is_closed_takes_nothing_any_more(histories: Histories) -> None:
    closed = Indexer()
    closed.close()
    closed.follow(histories.path)
    assert kept(histories) is None


def test_a_repository_without_commits_makes_no_file(
    indexer: Indexer, histories: Histories, tmp_path: Path
) -> None:
    indexer.follow(histories.path)
    indexer.follow(histories.path + "-that-is-not-there")
    last = Histories(tmp_path / "last")
    last.commit({"a": "1\n"})
    indexer.follow(last.path)
    wait_until_indexed(last, last.oids)
    assert not os.path.exists(HistoryIndex.path_for(histories.path))


def test_a_question_is_answered_from_the_index_that_is_kept(histories: Histories) -> None:
    for number in range(2):
        head = histories.commit({"a": f"{number}\n"})
        index = opened(histories.repository, head, time.monotonic() + _PATIENCE_S)
        assert file_of(index) == HistoryIndex.path_for(histories.path)
        index.close()


def test_an_index_that_can_not_be_added_to_is_kept_for_later(
    histories: Histories, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(index: GrowingIndex, *rest: Any) -> Generator[int]:
        if file_of(index):
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise error
        return catch_up(index, *rest)

    for there in (True, False):
        head = histories.commit({"a": f"{there}\n"})
        index = opened(histories.repository, head, time.monotonic() + _PATIENCE_S)
        assert index.position(head) == len(histories.oids)
        assert bool(file_of(index)) == there
        index.close()
        monkeypatch.setattr(indexing, "catch_up", full)
    assert kept(histories) == histories.oids[:1]
