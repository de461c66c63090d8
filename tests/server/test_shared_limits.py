"""What all connections share: who is closed when it is too much, and which large requests wait."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import Any

from stetd.server.shared_limits import LARGE, SharedLimits

LIMIT = 16 * LARGE


@dataclass(eq=False)
class Holding:
    """A connection that holds so much."""

    held: int
    closed: bool = False

    def shed(self) -> None:
        self.closed = True
        self.held = 0


def limits_of(*members: Any) -> SharedLimits:
    return SharedLimits(LIMIT, lambda: members)


def wake() -> None:
    """Nobody waits here."""


def test_who_holds_the_most_is_closed_until_the_others_fit() -> None:
    small, large, larger = Holding(LIMIT // 4), Holding(LIMIT // 2), Holding(LIMIT)
    limits = limits_of(small, larger, large)
    limits.grew(LIMIT)
    assert [False, False, True] == [small.closed, large.closed, larger.closed]
    large.held += LIMIT // 2
    limits.grew(LIMIT // 2)
    assert [False, True] == [small.closed, large.closed]


def test_nobody_is_closed_while_all_fit() -> None:
    members = [Holding(LIMIT // 8) for _ in range(8)]
    limits = limits_of(*members)
    for _ in range(100):
        limits.grew(LIMIT)
    assert not any(each.closed for each in members)


def test_little_growth_is_added_up() -> None:
    holding = Holding(2 * LIMIT)
    limits = limits_of(holding)
    for _ in range(9):
        limits.grew(LIMIT // 64)
    assert holding.closed


def test_large_requests_wait_for_room_and_small_ones_do_not() -> None:
    limits = SharedLimits(LIMIT, list)
    woken = []
    for _ in range(3):
        assert limits.has_room(LARGE, wake)
        limits.begin(LARGE)
    assert not limits.has_room(2 * LARGE, lambda: woken.append(1))
    assert limits.has_room(LARGE - 1, wake)
    limits.end(LARGE)
    assert [1] == woken
    assert limits.has_room(2 * LARGE, wake)


def test_a_large_request_that_waits_for_small_ones_is_woken_when_they_end() -> None:
    limits = SharedLimits(LIMIT, list)
    woken = []
    for _ in range(4):
        limits.begin(LARGE - 1)
    assert not limits.has_room(LARGE, lambda: woken.append(1))
    limits.end(LARGE - 1)
    assert [1] == woken
    assert limits.has_room(LARGE, wake)


def test_the_largest_request_of_all_is_begun_when_nothing_else_is_in_work() -> None:
    limits = SharedLimits(LIMIT, list)
    assert limits.has_room(LIMIT, wake)
    limits.begin(LIMIT)
    assert not limits.has_room(LIMIT, wake)
    limits.end(LIMIT)
    assert limits.has_room(LIMIT, wake)


def test_decoding_a_large_request_is_paid_for_and_a_small_one_is_not() -> None:
    async def main() -> None:
        limits = SharedLimits(LIMIT, list)
        assert limits.may_decode(LARGE, wake)
        limits.decoded(seconds=3600)
        assert not limits.may_decode(LARGE, wake)
        assert limits.may_decode(LARGE - 1, wake)

    asyncio.run(main())


def test_those_who_wait_to_be_decoded_are_woken_in_turn_and_one_at_a_time() -> None:
    async def main() -> None:
        limits = SharedLimits(LIMIT, list)
        woken: list[int] = []
        turns: list[bool] = []
        all_woken = asyncio.Event()

        def wake(who: int) -> None:
            woken.append(who)
            if who != 3 and len(woken) < 50:  # the client of 3 is gone meanwhile, say
                turns.append(limits.may_decode(LARGE, wakes[who]))
                limits.decoded(seconds=0.04)
                turns.append(limits.may_decode(LARGE, wakes[who]))
            if len(woken) == 10:
                all_woken.set()

        wakes = [partial(wake, who) for who in range(5)]
        limits.decoded(seconds=0.04)  # a pause of 160 ms: a busy machine takes some
        for each in wakes + wakes:
            assert not limits.may_decode(LARGE, each)
        assert woken == []
        await asyncio.wait_for(all_woken.wait(), 60)
        assert woken[:9] == [0, 1, 2, 3, 4, 0, 1, 2, 4]
        assert turns == [True, False] * (len(turns) // 2)

    asyncio.run(main())


def test_a_defect_in_one_of_those_who_wait_leaves_the_others_their_turns() -> None:
    async def main() -> None:
        limits = SharedLimits(LIMIT, list)
        woken = asyncio.Event()

        def defective() -> None:
            raise RuntimeError

        asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
        limits.decoded(seconds=0.04)
        assert not limits.may_decode(LARGE, defective)
        assert not limits.may_decode(LARGE, woken.set)
        await asyncio.wait_for(woken.wait(), 60)

    asyncio.run(main())
