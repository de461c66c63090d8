"""Replies by request id: kept for long enough, forgotten when both limits have passed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from stetd.historian.index.request_store import RequestStore
from stetd.storage.request_record import RequestRecord


def record(seq: int, time: int = 0, request: str | None = None) -> RequestRecord:
    return RequestRecord("w", "s", request or f"r{seq}", b"digest", b"reply", time, seq)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "requests.sqlite3")


def remembered(store: RequestStore, last: int) -> list[int]:
    return [seq for seq in range(1, last + 1) if store.find("w", "s", f"r{seq}")]


def test_record_is_found_by_another_connection_and_after_a_restart(path: str) -> None:
    writing, reading = RequestStore(path), RequestStore(path)
    writing.add([record(1)], keep_calls=10, forget_before=0)
    assert reading.find("w", "s", "r1") == record(1)
    writing.close()
    reading.close()
    again = RequestStore(path)
    assert again.find("w", "s", "r1") == record(1)
    again.close()


def test_id_belongs_to_workspace_and_session(path: str) -> None:
    store = RequestStore(path)
    store.add([record(1)], keep_calls=10, forget_before=0)
    assert store.find("w", "other", "r1") is None
    assert store.find("other", "s", "r1") is None
    store.close()


def test_only_what_is_old_and_not_among_the_newest_is_forgotten(path: str) -> None:
    store = RequestStore(path)
    store.add([record(n, time=n) for n in range(1, 9)], keep_calls=3, forget_before=0)
    assert remembered(store, 8) == [1, 2, 3, 4, 5, 6, 7, 8]
    store.add([], keep_calls=3, forget_before=5)
    assert remembered(store, 8) == [5, 6, 7, 8]
    store.add([], keep_calls=3, forget_before=100)
    assert remembered(store, 8) == [6, 7, 8]
    store.close()


def test_same_record_may_be_added_again(path: str) -> None:
    """A checkpoint that was killed is taken again."""
    store = RequestStore(path)
    for _ in range(2):
        store.add([record(1)], keep_calls=10, forget_before=0)
    assert store.find("w", "s", "r1") == record(1)
    store.close()


def test_whoever_opens_it_is_told_of_all_that_it_has(path: str) -> None:
    store = RequestStore(path)
    store.add([record(1), record(2)], keep_calls=10, forget_before=0)
    store.close()
    told: list[list[tuple[str, str, str]]] = []
    again = RequestStore(path, told.append)
    again.open()
    again.open()
    again.close()
    assert told == [[("w", "s", "r1"), ("w", "s", "r2")]]


def found(store: RequestStore) -> None:
    with pytest.raises(OSError, match="nobody knows whether this request was answered"):
        store.find("w", "s", "r7")


def added(store: RequestStore) -> None:
    store.add([record(1001)], keep_calls=10, forget_before=0)
    assert store.find("w", "s", "r1001") == record(1001)


@pytest.mark.parametrize("use", [found, added])
@pytest.mark.parametrize("when", ["before it is opened", "later"])
def test_damaged_file_is_made_anew_and_no_copy_stays(
    path: str, when: str, use: Callable[[RequestStore], None]
) -> None:
    """Wherever it is damaged, and whoever comes upon it; its beginning is sound."""
    store = RequestStore(path)
    store.add([record(n) for n in range(1000)], keep_calls=2000, forget_before=0)
    store.close()
    later = RequestStore(path) if when == "later" else None
    file = Path(path)
    content = file.read_bytes()
    file.write_bytes(content[:4096] + b"\xaa" * (len(content) - 4096))
    store = later or RequestStore(path)
    use(store)
    assert not [other for other in file.parent.iterdir() if "damaged" in other.name]
    store.add([record(1002)], keep_calls=10, forget_before=0)
    store.close()
    again = RequestStore(path)
    assert again.find("w", "s", "r1002") == record(1002)
    again.close()


def test_a_file_that_is_removed_while_it_is_open_is_written_again(path: str) -> None:
    store = RequestStore(path)
    store.add([record(1)], keep_calls=10, forget_before=0)
    os.unlink(path)
    assert store.find("w", "s", "r1") == record(1)
    store.add([record(2)], keep_calls=10, forget_before=0)
    store.close()
    again = RequestStore(path)
    assert remembered(again, 2) == [1, 2]
    again.close()


def test_what_goes_wrong_in_a_change_of_replies_is_told_and_no_reply_changes(path: str) -> None:
    def change(reply: bytes) -> bytes:
        if reply == record(2).reply:
            raise ValueError("this reply")
        return b"changed"

    store = RequestStore(path)
    store.add([record(1), record(2)], keep_calls=10, forget_before=0)
    with pytest.raises(ValueError, match="this reply"):
        store.rewrite("w", change)
    assert store.find("w", "s", "r1") == record(1)
    store.rewrite("w", lambda reply: reply + b" changed")
    found = store.find("w", "s", "r2")
    assert found is not None
    assert found.reply == record(2).reply + b" changed"
    store.close()
