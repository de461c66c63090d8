"""What becomes of a call that is planned in another process if there is none; whose turn it is."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import pytest

from planning_calls import planning
from stet.wire.failures import Refused
from stetd.engine.long_planning import Planner, PlannerLost, Planners
from stetd.planning.planner import Planning, RecordedPlan


class Lost(Planner):
    """A process that is gone."""

    async def plan(self, asked: Planning, seconds: float) -> list[RecordedPlan]:
        raise PlannerLost("it was ended")


async def lost() -> Planner:
    return Lost(socket.socket(), Mock())


async def planned(planners: Planners) -> object:
    asked = planning(Path("/"), "patch", {})
    workspace = cast("Any", SimpleNamespace(root=asked.root))
    return await planners.plan(asked.call, workspace, None, asked.limits)


def test_each_call_whose_process_was_lost_gets_a_refusal_of_its_own() -> None:
    async def main() -> list[Refused]:
        planners = Planners(lost)
        refusals = []
        for _ in range(2):
            with pytest.raises(Refused) as refused:
                await planned(planners)
            refusals.append(refused.value)
        planners.close()
        return refusals

    refusals = asyncio.run(main())
    assert refusals[0] is not refusals[1]


@pytest.mark.parametrize("error", [ZeroDivisionError, asyncio.CancelledError])
def test_a_process_whose_call_is_given_up_is_ended_and_plans_no_other(
    error: type[BaseException],
) -> None:
    """It still computes, and its answer would be taken for that to the next call."""
    ended: list[int] = []

    class Spoilt(Planner):
        async def plan(self, asked: Planning, seconds: float) -> list[RecordedPlan]:
            raise error

        def close(self) -> None:
            ended.append(id(self))
            super().close()

    begun: list[Planner] = []

    async def begin() -> Planner:
        begun.append(Spoilt(socket.socket(), Mock()))
        return begun[-1]

    async def main() -> None:
        planners = Planners(begin)
        for _ in range(2):
            with pytest.raises(error):
                await planned(planners)
        assert ended == list(map(id, begun))
        assert len(begun) == 2
        planners.close()
        assert len(ended) == 2

    asyncio.run(main())


def test_without_a_process_the_writer_plans_itself() -> None:
    async def main() -> object:
        async def none() -> Planner:
            raise OSError("as many processes as there may be")

        return await planned(Planners(none))

    assert asyncio.run(main()) is None


def test_two_have_their_turn_at_a_time_and_calls_that_nobody_waits_for_come_last() -> None:
    async def main() -> list[str]:
        planners, had = Planners(), list[str]()
        goes_on = asyncio.Event()

        async def call(name: str, *, wanted: bool) -> None:
            async with planners.turn(lambda: wanted):
                had.append(name)
                await goes_on.wait()

        names = {"first": True, "second": True, "abandoned": False, "given up": True, "third": True}
        tasks = {name: asyncio.create_task(call(name, wanted=w)) for name, w in names.items()}
        await asyncio.sleep(0)
        assert had == ["first", "second"]
        tasks["given up"].cancel()
        tasks["first"].cancel()
        await asyncio.sleep(0.01)
        assert had == ["first", "second", "third"]
        goes_on.set()
        await asyncio.gather(*tasks.values(), return_exceptions=True)
        return had

    assert asyncio.run(main())[-1] == "abandoned"
