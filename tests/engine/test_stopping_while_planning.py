"""A stop waits so long for a call that is being planned, and no longer: then it is refused."""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from in_process import Asking, InProcess
from own_peer import own_peer
from planning_calls import planning
from stet.wire.failures import Kind, Refused
from stetd.config.directories import Directories
from stetd.config.settings import Settings
from stetd.engine.fair_queue import MOST_ABANDONED, Lane
from stetd.engine.long_planning import PlannerLost, Planners, begin_planner
from stetd.engine.preparing import EditJob

#: Large enough not to be planned on the writer.
LARGE = "".join(f"line {n} of a large file\n" for n in range(30_000))


def edit(old: str, new: str) -> dict[str, Any]:
    patches = [{"operation": "replace", "oldText": old, "newText": new}]
    return {"path": "large.txt", "patches": patches}


@pytest.fixture
def base() -> Iterator[Path]:
    base = Path(tempfile.mkdtemp(prefix="stet-", dir="/tmp"))
    for name in ("state", "run", "w"):
        base.joinpath(name).mkdir(0o700)
    base.joinpath("w", "large.txt").write_text(LARGE)
    yield base
    shutil.rmtree(base)


def planner_pid() -> int:
    """The process that plans."""
    for _ in range(100):  # the list may lack a child while another one ends (proc(5))
        for pid in Path(f"/proc/{os.getpid()}/task").glob("*/children"):
            for child in map(int, pid.read_text().split()):
                if b"stetd.planning.planner" in Path(f"/proc/{child}/cmdline").read_bytes():
                    return child
        time.sleep(0.01)
    raise AssertionError("nothing plans")


@pytest.fixture
def daemon(base: Path) -> Iterator[InProcess]:
    directories = Directories(*(str(base / name) for name in ("run", "state", "c.toml")))
    settings = Settings(grace_s=0.01, checkpoint_idle_s=3600)  # nothing else wakes the writer
    daemon = InProcess(settings, directories, planners=Planners())
    yield daemon
    daemon.close()


async def entered(daemon: InProcess, base: Path) -> Asking:
    person = daemon.connect(control=True, peer=own_peer("person"))
    agent = daemon.connect(control=False, peer=own_peer("agent"))
    await person.call("workspace_allow", {"root": str(base / "w")})
    hello = {"protocol": 1, "workspace": str(base / "w"), "session": "s", "agent": "bot"}
    await agent.call("hello", hello)
    return agent


@pytest.mark.usefixtures("no_collector")
def test_of_calls_that_were_planned_nothing_is_left_to_the_collector(
    base: Path, daemon: InProcess
) -> None:
    """Each edit of a file of 10 MB left 21 MB, until the collector came by after a dozen."""

    def jobs() -> int:
        return sum(isinstance(each, EditJob) for each in gc.get_objects())

    async def story() -> None:
        agent = await entered(daemon, base)
        for n in range(3):
            await agent.call("patch", edit(f"line {n} of", f"line number {n} of"))
            with pytest.raises(Refused):
                await agent.call("patch", edit(f"line {n} of", "x"))
        async with asyncio.timeout(10):
            while daemon.on_loop(jobs):
                await asyncio.sleep(0.01)

    asyncio.run(story())


def test_a_call_whose_planning_does_not_end_is_refused_when_a_stop_has_waited(
    base: Path, daemon: InProcess
) -> None:
    async def stop() -> None:
        agent = await entered(daemon, base)
        await agent.call("patch", edit("line 1 of", "line one of"))
        process = planner_pid()
        os.kill(process, signal.SIGSTOP)
        call = asyncio.ensure_future(agent.call("patch", edit("line 2 of", "line two of")))
        await asyncio.sleep(0.5)
        daemon.on_loop(lambda: daemon.writer.finish_within(0.05))
        with pytest.raises(Refused) as refused:
            await asyncio.wait_for(call, 60)
        assert Kind.SHUTTING_DOWN == refused.value.kind

    asyncio.run(stop())
    assert LARGE.replace("line 1 of", "line one of") == (base / "w" / "large.txt").read_text()


def test_a_stop_waits_for_a_call_that_is_being_planned(base: Path, daemon: InProcess) -> None:
    async def begin() -> None:
        agent = await entered(daemon, base)
        call = asyncio.ensure_future(agent.call("patch", edit("line 1 of", "line one of")))
        while not daemon.on_loop(daemon.writer._queue.held):
            await asyncio.sleep(0.01)
        assert not call.done()

    asyncio.run(begin())
    daemon.close()
    assert LARGE.replace("line 1 of", "line one of") == (base / "w" / "large.txt").read_text()


def test_what_calls_are_refused_with_does_not_grow_with_each(base: Path, daemon: InProcess) -> None:
    async def refused_thrice() -> list[int]:
        agent = await entered(daemon, base)
        daemon.on_loop(lambda: daemon.writer.finish_within(-1))
        depths = []
        for _ in range(3):
            with pytest.raises(Refused) as refused:
                await agent.call("patch", edit("line 2 of", "line two of"))
            assert Kind.SHUTTING_DOWN == refused.value.kind
            depths.append(len(refused.traceback))
        return depths

    assert 1 == len(set(asyncio.run(refused_thrice())))


def test_each_of_those_that_are_given_up_gets_a_refusal_of_its_own(daemon: InProcess) -> None:
    def give_up() -> list[asyncio.Future[None]]:
        lane = Lane()
        asked = [daemon.writer.submit(lambda: None, lane) for _ in range(MOST_ABANDONED + 1)]
        daemon.writer.abandon(lane)
        return asked

    refusals = [future.exception() for future in daemon.on_loop(give_up)]
    assert all(isinstance(refusal, Refused) for refusal in refusals)
    assert len(refusals) == len(set(map(id, refusals)))


def test_a_process_for_which_nobody_waits_any_more_is_ended_while_it_begins() -> None:
    async def begin() -> int:
        beginning = asyncio.create_task(begin_planner())
        await asyncio.sleep(0)
        pid = planner_pid()
        os.kill(pid, signal.SIGSTOP)
        beginning.cancel()
        with pytest.raises(asyncio.CancelledError):
            await beginning
        return pid

    pid = asyncio.run(begin())
    assert not Path(f"/proc/{pid}").exists()


def test_a_process_that_has_stopped_holds_nobody_who_lets_it_go(base: Path) -> None:
    planner = asyncio.run(begin_planner())
    os.kill(planner_pid(), signal.SIGSTOP)
    planner.close()
    with pytest.raises(PlannerLost):
        asyncio.run(planner.plan(planning(base / "w", "patch", edit("line 1 of", "x")), 20))
