"""Long work on the histories: one piece after the other, and given up when the daemon stops."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from stet.wire.failures import Kind, Refused
from stetd.config.settings import Settings
from stetd.storage.progress import Progress
from stetd.upkeep import schedule
from stetd.upkeep.schedule import Job, Upkeep


async def begun(idle_s: float = 0) -> Upkeep:
    state = SimpleNamespace(settings=Settings(gc_idle_s=idle_s))
    nobody: Any = SimpleNamespace(quiet_s=lambda: 0.0, state=state)
    return Upkeep(asyncio.get_running_loop(), nobody, cast("Any", None))


async def test_one_piece_after_the_other_and_what_fails_stops_none() -> None:
    running = 0

    async def counted(progress: Progress) -> int:
        nonlocal running
        running += 1
        assert running == 1
        for _ in range(3):
            await asyncio.sleep(0)
            progress.step()
        running -= 1
        return progress.done

    async def broken(_: Progress) -> int:
        raise OSError("the disk is full")

    upkeep = await begun()
    first = upkeep.submit(Job("first", "/w", counted))
    second = upkeep.submit(Job("second", "/w", broken))
    third = upkeep.submit(Job("third", "/w", counted))
    assert [job.what for job in upkeep.jobs] == ["first", "second", "third"]
    assert await first == 3
    with pytest.raises(OSError, match="the disk is full"):
        await second
    assert await third == 3
    await upkeep.close()


async def test_what_is_done_and_what_waits_is_refused_when_the_daemon_stops() -> None:
    async def endless(_: Progress) -> None:
        await asyncio.sleep(3600)

    upkeep = await begun()
    futures = [upkeep.submit(Job(what, "/w", endless)) for what in ("one", "two")]
    await asyncio.sleep(0.01)
    await upkeep.close()
    futures.append(upkeep.submit(Job("three", "/w", endless)))
    for future in futures:
        with pytest.raises(Refused) as refused:
            await future
        assert refused.value.kind == Kind.SHUTTING_DOWN


@pytest.mark.parametrize("turns", range(5))
async def test_commits_that_come_just_before_the_stop_do_not_hold_it_up(turns: int) -> None:
    upkeep = await begun(idle_s=60)
    upkeep.follow("/one")
    await asyncio.sleep(0.01)
    upkeep.follow("/another")
    for _ in range(turns):
        await asyncio.sleep(0)
    async with asyncio.timeout(20):
        await upkeep.close()


@pytest.mark.timeout(20)
async def test_a_workspace_that_is_closed_does_not_hold_up_the_daemon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Retention was due for it for ever, and the event loop did nothing else."""
    passes: list[Any] = []

    async def retain(workspace: Any, _: Progress) -> int:
        passes.append(workspace)
        return 0

    opened = {name: SimpleNamespace(shadow=name, root=name) for name in ("one", "two")}
    historian = SimpleNamespace(ask=lambda *_: asyncio.sleep(0, False))
    settings = Settings(gc_idle_s=0.01, retention_days=1)
    state = SimpleNamespace(open=opened, settings=settings)
    writer: Any = SimpleNamespace(state=state, historian=historian, quiet_s=lambda: 60.0)
    upkeep = Upkeep(asyncio.get_running_loop(), writer, retain)
    for _ in range(2):  # new commits are no reason for a second pass in six hours
        upkeep.follow("one")
        await asyncio.sleep(0.03)
        for _ in range(50):  # though both timers may have been due at once
            await asyncio.sleep(0)
        assert len(passes) == 2
    monkeypatch.setattr(schedule, "_RETENTION_INTERVAL_S", 0.05)
    del opened["one"]
    upkeep.follow("two")
    began = time.monotonic()
    await asyncio.sleep(0.3)
    for _ in range(50):
        await asyncio.sleep(0)
    assert 2 < len(passes) < 6 + (time.monotonic() - began) / 0.05
    assert opened["two"] is passes[-1]
    await upkeep.close()
