"""Events for programs: iterators that live through a restart and miss nothing."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator

import pytest

import stet
from client.live import Installation, installation
from stet.wire.events import CommitEvent, ModeEvent


@pytest.fixture
def ws() -> Iterator[Installation]:
    with installation() as found:
        assert found.stet("init").returncode == 0
        yield found


def connected(ws: Installation, session: str = "s", *, control: bool = False) -> stet.Session:
    return stet.connect(
        ws.workspace, None if control else session, control=control,
        endpoint=ws.endpoint(control=control),
    )  # fmt: skip


def write(session: stet.Session, text: str) -> str:
    commit = session.patch("a", stet.overwrite(text)).commit
    assert commit is not None
    return commit


def commits(stream: Iterator[object], count: int) -> list[str]:
    found: list[str] = []
    while len(found) < count:
        event = next(stream)
        assert isinstance(event, CommitEvent)
        found.append(event.commit.commit)
    return found


def test_a_program_is_told_what_happens(ws: Installation) -> None:
    with connected(ws, control=True) as person, connected(ws) as agent:
        first = write(agent, "one\n")
        with person.events() as events:
            assert events.heads == {ws.workspace: first}
            assert events.wait(0.05) is None
            second = write(agent, "two\n")
            person.mode_set("restricted", session="s")
            edit = next(events)
            assert isinstance(edit, CommitEvent)
            assert (edit.workspace, edit.commit.commit) == (ws.workspace, second)
            assert edit.commit.files[0].path == "a"
            assert next(events) == ModeEvent(
                ws.workspace, "s", "restricted", "restricted", "unrestricted"
            )
        assert list(events) == []


def test_a_stream_outlives_a_restart_and_tells_what_it_missed(ws: Installation) -> None:
    with connected(ws) as agent, agent.events("commit") as events:
        first = write(agent, "one\n")
        assert commits(events, 1) == [first]
        ws.stop()
        missed = [write(agent, f"{n}\n") for n in range(3)]  # the session starts a daemon
        assert commits(events, 3) == missed
        ws.stop(9)
        missed = [write(agent, f"again {n}\n") for n in range(3)]
        assert commits(events, 3) == missed


async def test_a_stream_that_begins_after_a_stop_starts_a_daemon_as_any_call_does(
    ws: Installation,
) -> None:
    async with stet.aio.connect(ws.workspace, "s", endpoint=ws.endpoint()) as agent:
        await asyncio.to_thread(ws.stop)
        async with agent.events("commit") as events:
            done = await agent.patch("a", stet.overwrite("one\n"))
            event = await anext(events)
            assert isinstance(event, CommitEvent)
            assert event.commit.commit == done.commit
    with pytest.raises(stet.ConnectionLost, match="this session is closed"):
        await anext(agent.events())


def test_after_a_fork_parent_and_child_have_the_stream_each_for_itself(ws: Installation) -> None:
    with connected(ws) as agent, agent.events("commit") as events:
        child = os.fork()
        if not child:
            signal.alarm(60)
            os._exit(0 if isinstance(events.wait(20), CommitEvent) else 1)
        first = write(agent, "one\n")
        assert isinstance(event := events.wait(20), CommitEvent)
        assert event.commit.commit == first
        assert os.waitpid(child, 0)[1] == 0


def test_a_child_that_closes_a_stream_of_its_parent_closes_its_own(ws: Installation) -> None:
    with connected(ws) as agent, agent.events() as events:
        child = os.fork()
        if not child:
            events.close()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        second = write(agent, "two\n")
        assert isinstance(event := events.wait(20), CommitEvent)
        assert event.commit.commit == second
        assert events.connections == 1, "no mode was missed"


def test_a_stream_starts_no_daemon(ws: Installation) -> None:
    with connected(ws) as agent, agent.events() as events:
        ws.stop()
        assert events.wait(0.5) is None
        assert ws.pid() is None


def test_one_that_reads_slowly_gets_every_commit_in_the_end(ws: Installation) -> None:
    """More than the daemon keeps for a subscriber: the rest is read from the log."""
    with connected(ws) as agent, agent.events("commit") as events:
        made = []
        for number in range(60):
            done = agent.patch("a", stet.overwrite(f"{number}\n"), message="w" * 90_000)
            assert done.commit is not None
            made.append(done.commit)
        assert commits(events, 60) == made
        last = write(agent, "end\n")
        assert commits(events, 1) == [last]


def test_a_workspace_that_is_no_longer_allowed_ends_a_stream_after_a_restart(
    ws: Installation,
) -> None:
    with connected(ws) as agent, agent.events() as events:
        with connected(ws, control=True) as person:
            person.workspace_forget(ws.workspace)
        ws.stop()
        assert ws.stet("status").returncode == 0
        with pytest.raises(stet.WorkspaceNotAllowed):
            next(events)


def test_control_without_a_workspace_follows_all(ws: Installation) -> None:
    other = ws.another("other")
    person = stet.connect(None, control=True, endpoint=ws.endpoint(control=True))
    with person, person.events("commit") as events, connected(ws) as one, connected(other) as two:
        made = [(ws.workspace, write(one, "1\n")), (other.workspace, write(two, "2\n"))]
        found = [next(events), next(events)]
        ws.stop()
        made += [(other.workspace, write(two, "3\n")), (ws.workspace, write(one, "4\n"))]
        found += [next(events), next(events)]
    told = [(e.workspace, e.commit.commit) for e in found if isinstance(e, CommitEvent)]
    assert told[:2] == made[:2]
    assert sorted(told[2:]) == sorted(made[2:])


async def test_the_same_with_asyncio(ws: Installation) -> None:
    session = stet.aio.connect(ws.workspace, "s", endpoint=ws.endpoint())
    async with session, session.events("commit") as events:
        made = []
        for number in range(3):
            done = await session.patch("a", stet.overwrite(f"{number}\n"))
            made.append(done.commit)
        await asyncio.to_thread(ws.stop)
        done = await session.patch("a", stet.overwrite("after\n"))
        made.append(done.commit)
        found = []
        async for event in events:
            assert isinstance(event, CommitEvent)
            found.append(event.commit.commit)
            if len(found) == len(made):
                break
        assert found == made
        asyncio.get_running_loop().call_later(0.1, asyncio.ensure_future, events.close())
        assert [event async for event in events] == []


async def test_a_slow_reader_with_asyncio_gets_every_commit(ws: Installation) -> None:
    session = stet.aio.connect(ws.workspace, "s", endpoint=ws.endpoint())
    async with session, session.events("commit") as events:
        made = []
        for number in range(60):
            done = await session.patch("a", stet.overwrite(f"{number}\n"), message="w" * 90_000)
            made.append(done.commit)
        found: list[str] = []
        while len(found) < len(made):
            event = await anext(events)
            assert isinstance(event, CommitEvent)
            found.append(event.commit.commit)
        assert found == made
