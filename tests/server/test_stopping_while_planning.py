"""A stop waits so long for a call that is being planned, and no longer: then it is refused."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memory_world import MemoryWorld
from own_peer import own_peer
from stet.wire.failures import Kind, Refused
from stetd.config import Settings
from stetd.daemon import Daemon
from stetd.directories import Directories
from stetd.planning_beside import PlanningBeside
from stetd.planning_process import Nursery, PlannerLost

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


def test_a_call_whose_planning_does_not_end_is_refused_when_a_stop_has_waited(base: Path) -> None:
    nursery = Nursery()
    directories = Directories(*(str(base / name) for name in ("run", "state", "c.toml")))
    settings = Settings(grace_s=0.01, checkpoint_idle_s=3600)  # nothing else wakes the writer
    daemon = Daemon.open(settings, directories, beside=PlanningBeside(nursery))
    person = daemon.handlers.connect(control=True, peer=own_peer("person"))
    agent = daemon.handlers.connect(control=False, peer=own_peer("agent"))

    async def stop() -> None:
        await person.call("workspace_allow", {"root": str(base / "w")})
        hello = {"protocol": 1, "workspace": str(base / "w"), "session": "s", "agent": "bot"}
        await agent.call("hello", hello)
        await agent.call("patch", edit("line 1 of", "line one of"))
        [planning] = Path(f"/proc/{nursery.pid}/task/{nursery.pid}/children").read_text().split()
        os.kill(int(planning), signal.SIGSTOP)
        call = asyncio.ensure_future(agent.call("patch", edit("line 2 of", "line two of")))
        await asyncio.sleep(0.5)
        daemon.writer.finish_within(0.05)
        with pytest.raises(Refused) as refused:
            await asyncio.wait_for(call, 60)
        assert Kind.SHUTTING_DOWN == refused.value.kind
        os.kill(int(planning), signal.SIGCONT)

    try:
        asyncio.run(stop())
    finally:
        daemon.close()
    assert LARGE.replace("line 1 of", "line one of") == (base / "w" / "large.txt").read_text()


def test_a_process_that_has_stopped_holds_nobody_who_lets_it_go() -> None:
    nursery = Nursery()
    planner = nursery.planner()
    [pid] = Path(f"/proc/{nursery.pid}/task/{nursery.pid}/children").read_text().split()
    os.kill(int(pid), signal.SIGSTOP)
    planner.end()
    with pytest.raises(PlannerLost):
        planner.plan("patch", edit("line 1 of", "x"), MemoryWorld(), time.monotonic() + 20)
    os.kill(int(pid), signal.SIGCONT)
    planner.close()
    nursery.close()
