"""What becomes of a call whose planning has no process."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from stet.wire.failures import Refused
from stetd.engine.long_planning import Beside, PlanningBeside
from stetd.processes.planner import NoPlanner, Planner, PlannerLost


class Lost:
    """A workspace that can't be looked at any more because the process is gone."""

    def apart(self) -> None:
        raise PlannerLost("it was ended")


async def planned(beside: PlanningBeside) -> object:
    """What comes of a call whose process is lost each time."""
    done = asyncio.Event()
    call, workspace = cast("Any", SimpleNamespace(method="patch")), cast("Any", Lost())
    unused = cast("Any", None)
    asked = Beside(call, workspace, None, unused, done.set, wanted=lambda: True, over=lambda: False)
    beside.submit(asked)
    await asyncio.wait_for(done.wait(), 30)
    asked.taken.set()
    return asked.recorded


def test_each_call_whose_process_was_lost_gets_a_refusal_of_its_own() -> None:
    async def main() -> list[object]:
        beside = PlanningBeside()
        refusals = [await planned(beside), await planned(beside)]
        await beside.close()
        return refusals

    refusals = asyncio.run(main())
    assert all(isinstance(refusal, Refused) for refusal in refusals)
    assert refusals[0] is not refusals[1]


def test_without_a_process_the_writer_plans_itself() -> None:
    async def main() -> object:
        async def none() -> Planner:
            raise NoPlanner("as many processes as there may be")

        beside = PlanningBeside(none)
        recorded = await planned(beside)
        await beside.close()
        return recorded

    assert asyncio.run(main()) is None
