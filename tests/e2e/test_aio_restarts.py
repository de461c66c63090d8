"""The asyncio client while the daemon is killed: calls under way, and events, each exactly once."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

import stet
from client.live import Installation, installation
from stet.aio import AsyncEventStream
from stet.wire.events import CommitEvent

TASKS = 4
KILLS = 20 if os.environ.get("STET_TEST_ALL") else 2
#: Answers to every task between two kills.
CALLS = 3


@pytest.fixture
def own() -> Iterator[Installation]:
    with installation() as made:
        yield made


@dataclass
class Seen:
    """What the calls were answered, by task, and which commits came as events."""

    answers: list[list[str]] = field(default_factory=lambda: [[] for _ in range(TASKS)])
    told: list[str] = field(default_factory=list)
    enough: bool = False

    @property
    def answered(self) -> list[str]:
        return [commit for answers in self.answers for commit in answers]


async def append_lines(session: stet.aio.AsyncSession, task: int, seen: Seen) -> None:
    while not seen.enough:
        line = f"task {task} call {len(seen.answers[task])}\n"
        done = await session.patch(f"{task % 2}.txt", stet.append_eof(line))
        assert done.commit is not None
        seen.answers[task].append(done.commit)


async def kill_again_and_again(own: Installation, seen: Seen) -> None:
    for _ in range(KILLS):
        await progress(seen)
        pid = own.pid()
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
    await progress(seen)
    seen.enough = True


async def progress(seen: Seen) -> None:
    wanted = [len(answers) + CALLS for answers in seen.answers]
    while any(len(a) < least for a, least in zip(seen.answers, wanted, strict=True)):
        await asyncio.sleep(0.005)


async def be_told(events: AsyncEventStream, seen: Seen) -> None:
    async for event in events:
        assert isinstance(event, CommitEvent), event
        seen.told.append(event.commit.commit)
        if seen.enough and set(seen.answered) <= set(seen.told):
            return


async def story(own: Installation, seen: Seen) -> None:
    endpoint = own.endpoint()
    async with (
        stet.aio.connect(own.workspace, "s", "a", endpoint=endpoint) as session,
        session.events("commit") as events,
        asyncio.timeout(100),
        asyncio.TaskGroup() as group,
    ):
        listening = group.create_task(be_told(events, seen))
        async with asyncio.TaskGroup() as work:
            for task in range(TASKS):
                work.create_task(append_lines(session, task, seen))
            work.create_task(kill_again_and_again(own, seen))
        # The last event may have come before its answer: one more, to be seen.
        last = await session.patch("end.txt", stet.append_eof("end\n"))
        seen.answers.append([last.commit or ""])
        await listening


@pytest.mark.timeout(1800 if KILLS > 2 else 240)
def test_calls_and_events_come_exactly_once_though_the_daemon_is_killed(own: Installation) -> None:
    assert own.stet("init").returncode == 0
    seen = Seen()
    asyncio.run(story(own, seen))
    expected = [
        f"task {task} call {n}\n" for task in range(TASKS) for n in range(len(seen.answers[task]))
    ]
    lines = [line for name in ("0.txt", "1.txt") for line in own.text(name).splitlines(True)]
    assert sorted(expected) == sorted(lines)
    with stet.connect(own.workspace, control=True, endpoint=own.endpoint(control=True)) as there:
        history = [info.commit for info in there.history(limit=1000)]
    assert sorted(history) == sorted(seen.answered)
    assert seen.told == history[::-1]
