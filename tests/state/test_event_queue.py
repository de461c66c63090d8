"""What happened waits for the subscribers in order, and not without bound."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from stet.wire.events import ModeEvent
from stetd.history.objects import NewObject
from stetd.state import events
from stetd.state.events import Events, Note, Overflow


def mode(number: int, workspace: str = "/w") -> ModeEvent:
    return ModeEvent(workspace, str(number), "restricted", None, "restricted")


def taken(queue: Events) -> list[tuple[int, Note]]:
    found = []
    while (note := queue.take()) is not None:
        found.append(note)
    return found


def test_nothing_is_kept_while_nobody_listens() -> None:
    queue = Events()
    queue.publish(mode(1))
    queue.listen(lambda: None)
    queue.publish(mode(2))
    assert taken(queue) == [(1, mode(2))]
    queue.publish(mode(3))
    queue.listen(None)
    assert taken(queue) == []


def test_every_note_wakes() -> None:
    woken: list[int] = []
    queue = Events()
    queue.listen(lambda: woken.append(1))
    queue.publish(mode(1))
    queue.publish(mode(2))
    assert len(woken) == 2


def test_what_is_too_much_is_counted_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "MOST", 3)
    queue = Events()
    queue.listen(lambda: None)
    for number in range(6):
        queue.publish(mode(number))
    queue.publish(mode(6, "/v"))
    assert taken(queue) == [
        (1, mode(0)),
        (2, mode(1)),
        (3, mode(2)),
        (7, Overflow({"/w": 3, "/v": 1})),
    ]
    queue.publish(mode(7))
    assert taken(queue) == [(8, mode(7))]


def test_who_comes_later_gets_what_is_counted_after_that(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "MOST", 1)
    queue = Events()
    queue.listen(lambda: None)
    for number in range(3):
        queue.publish(mode(number))
    after = queue.number
    queue.publish(mode(3))
    later = [note for number, note in taken(queue) if number > after]
    assert len(later) == 1


def test_a_record_of_several_commits_is_as_many_notes_and_keeps_no_contents() -> None:
    queue = Events()
    queue.listen(lambda: None)
    objects = [
        NewObject("blob", "b" * 40, b"x" * 1000),
        NewObject("commit", "1" * 40, b"first"),
        NewObject("tree", "t" * 40, b""),
        NewObject("commit", "2" * 40, b"second"),
    ]
    workspace: Any = SimpleNamespace(name="w", root="/w", shadow="/shadow")
    queue.committed(workspace, 7, objects, [])
    first, second = (note for _, note in taken(queue))
    assert isinstance(first, events.Committed)
    assert isinstance(second, events.Committed)
    assert (first.oid, first.content, first.files) == ("1" * 40, b"first", None)
    assert (second.oid, second.content, second.files) == ("2" * 40, b"second", [])
