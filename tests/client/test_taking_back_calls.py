"""What undo, redo, rollback and restore send, and what both kinds of session give."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from typing import Any

import pytest

import stet
from client.live import Installation, installation
from stet import calls
from stet.wire.results import EditResult


@pytest.mark.parametrize(
    ("call", "method", "params"),
    [
        (calls.redo(request_id="r"), "redo", {"request_id": "r"}),
        (
            calls.redo(["abcd"], message="again", preview=True, request_id="r"),
            "redo",
            {"commits": ["abcd"], "message": "again", "preview": True, "request_id": "r"},
        ),
        (calls.rollback("HEAD~3", request_id="r"), "rollback", {"to": "HEAD~3", "request_id": "r"}),
        (
            calls.rollback(
                "abcd",
                session="s",
                agent="a",
                paths=["src"],
                include_outside=True,
                request_id="r",
            ),
            "rollback",
            {
                "to": "abcd",
                "session": "s",
                "agent": "a",
                "paths": ["src"],
                "include_outside": True,
                "request_id": "r",
            },
        ),
        (
            calls.restore("a.py", "abcd", if_match=None, request_id="r"),
            "restore",
            {"path": "a.py", "at": "abcd", "request_id": "r"},
        ),
    ],
)
def test_what_is_sent(call: calls.Call[EditResult], method: str, params: dict[str, Any]) -> None:
    assert (call.method, call.params, call.result) == (method, params, EditResult)
    assert call.repeatable


def test_every_call_has_an_id_of_its_own() -> None:
    made = [calls.redo(), calls.redo(), calls.rollback("HEAD"), calls.restore("a", "HEAD")]
    assert len({call.request_id for call in made} - {None}) == 4


@pytest.fixture(scope="module")
def live() -> Iterator[Installation]:
    with installation() as found:
        assert found.stet("init").returncode == 0
        yield found


def test_a_blocking_session_takes_back(live: Installation) -> None:
    live.write("a.txt", "one\n")
    with stet.connect(live.workspace, "s1", "me", endpoint=live.endpoint()) as session:
        first = session.patch("a.txt", stet.replace("one", "two"))
        session.patch("a.txt", stet.replace("two", "three"))
        assert first.commit is not None
        session.undo()
        assert live.text("a.txt") == "two\n"
        session.redo()
        assert live.text("a.txt") == "three\n"
        assert len(session.rollback(first.commit).undone) == 1  # type: ignore[arg-type]
        assert live.text("a.txt") == "two\n"
        session.redo()
        restored = session.restore("a.txt", first.commit)
        assert restored.files[0].path == "a.txt"
        assert live.text("a.txt") == "two\n"
        with pytest.raises(stet.NoChange):
            session.restore("a.txt", first.commit)
        with pytest.raises(stet.NothingToUndo):
            session.redo()


def test_an_asyncio_session_takes_back(live: Installation) -> None:
    async def story() -> None:
        async with stet.aio.connect(
            live.workspace, "s2", "me", endpoint=live.endpoint()
        ) as session:
            first = await session.patch("b.txt", stet.overwrite("one\n"))
            await session.patch("b.txt", stet.replace("one", "two"))
            assert first.commit is not None
            await session.rollback(first.commit)
            assert live.text("b.txt") == "one\n"
            await session.redo()
            assert live.text("b.txt") == "two\n"
            await session.restore("b.txt", first.commit)
            assert live.text("b.txt") == "one\n"
            live.write("b.txt", "zwei\n")
            with pytest.raises(stet.Conflict) as caught:
                await session.undo([first.commit])
            [conflict] = caught.value.conflicts
            [file] = caught.value.files
            assert ("b.txt", 3) == (file.path, len(file.commits))  # edit, redo, restore
            assert conflict == {"path": file.path, "hunks": file.hunks, "commits": file.commits}
            assert ["the commit created this file; it was changed since"] == file.hunks

    asyncio.run(story())
    assert os.path.exists(os.path.join(live.workspace, "b.txt"))
