"""What all connections share: who is closed when it is too much, and which large requests wait."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import Any

from stetd.server.shared_limits import LARGE, Crowd

LIMIT = 16 * LARGE


@dataclass(eq=False)
class Holding:
    """A connection that holds so much."""

    held: int
    closed: bool = False

    def shed(self) -> None:
        self.closed = True
        self.held = 0


def crowd_of(*members: Any) -> Crowd:
    return Crowd(LIMIT, lambda: members)


def wake() -> None:
    """Nobody waits here."""


def test_who_holds_the_most_is_closed_until_the_others_fit() -> None:
    small, large, larger = Holding(LIMIT // 4), Holding(LIMIT // 2), Holding(LIMIT)
    crowd = crowd_of(small, larger, large)
    crowd.grew(LIMIT)
    assert [False, False, True] == [small.closed, large.closed, larger.closed]
    large.held += LIMIT // 2
    crowd.grew(LIMIT // 2)
    assert [False, True] == [small.closed, large.closed]


def test_nobody_is_closed_while_all_fit() -> None:
    members = [Holding(LIMIT // 8) for _ in range(8)]
    crowd = crowd_of(*members)
    for _ in range(100):
        crowd.grew(LIMIT)
    assert not any(each.closed for each in members)


def test_little_growth_is_added_up() -> None:
    holding = Holding(2 * LIMIT)
    crowd = crowd_of(holding)
    for _ in range(9):
        crowd.grew(LIMIT // 64)
    assert holding.closed


def test_large_requests_wait_for_room_and_small_ones_do_not() -> None:
    crowd = Crowd(LIMIT, list)
    woken = []
    for _ in range(3):
        assert crowd.has_room(LARGE, wake)
        crowd.begin(LARGE)
    assert not crowd.has_room(2 * LARGE, lambda: woken.append(1))
    assert crowd.has_room(LARGE - 1, wake)
    crowd.end(LARGE)
    assert [1] == woken
    assert crowd.has_room(2 * LARGE, wake)


def test_the_largest_request_of_all_is_begun_when_nothing_else_is_in_work() -> None:
    crowd = Crowd(LIMIT, list)
    assert crowd.has_room(LIMIT, wake)
    crowd.begin(LIMIT)
    assert not crowd.has_room(LIMIT, wake)
    crowd.end(LIMIT)
    assert crowd.has_room(LIMIT, wake)


def test_decoding_a_large_request_is_paid_for_and_a_small_one_is_not() -> None:
    async def main() -> None:
        crowd = Crowd(LIMIT, list)
        crowd.decoded(LARGE - 1, seconds=3600)
        assert crowd.has_turn(LARGE, wake)
        crowd.decoded(LARGE, seconds=3600)
        assert not crowd.has_turn(LARGE, wake)
        assert crowd.has_turn(LARGE - 1, wake)

    asyncio.run(main())


def test_those_who_wait_to_be_decoded_are_woken_in_turn_and_one_at_a_time() -> None:
    async def main() -> None:
        crowd = Crowd(LIMIT, list)
        woken: list[int] = []
        turns: list[bool] = []
        all_woken = asyncio.Event()

        def wake(who: int) -> None:
            woken.append(who)
            if who != 3 and len(woken) < 50:  # the client of 3 is gone meanwhile, say
                turns.append(crowd.has_turn(LARGE, wakes[who]))
                crowd.decoded(LARGE, seconds=0.04)
                turns.append(crowd.has_turn(LARGE, wakes[who]))
            if len(woken) == 10:
                all_woken.set()

        wakes = [partial(wake, who) for who in range(5)]
        crowd.decoded(LARGE, seconds=0.04)  # a pause of 160 ms: a busy machine takes some
        for each in wakes + wakes:
            assert not crowd.has_turn(LARGE, each)
        assert woken == []
        await asyncio.wait_for(all_woken.wait(), 60)
        assert woken[:9] == [0, 1, 2, 3, 4, 0, 1, 2, 4]
        assert turns == [True, False] * (len(turns) // 2)

    asyncio.run(main())


def test_a_defect_in_one_of_those_who_wait_leaves_the_others_their_turns() -> None:
    async def main() -> None:
        crowd = Crowd(LIMIT, list)
        woken = asyncio.Event()

        def defective() -> None:
            raise RuntimeError

        asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
        crowd.decoded(LARGE, seconds=0.04)
        assert not crowd.has_turn(LARGE, defective)
        assert not crowd.has_turn(LARGE, woken.set)
        await asyncio.wait_for(woken.wait(), 60)

    asyncio.run(main())
