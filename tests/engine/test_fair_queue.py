"""The queue of the writer: order within a lane, fairness between lanes, and what waits for all."""

from __future__ import annotations

import math

from stetd.engine import fair_queue
from stetd.engine.fair_queue import FairQueue, Lane, Waiting

MOST = 64
TURN_S = 0.012


class Item(Waiting, eq=False, kw_only=True):
    item: object


def put(
    queue: FairQueue,
    item: object,
    lane: Lane,
    *,
    after_all: bool = False,
    within: float = math.inf,
) -> None:
    queue.put(Item(item=item, lane=lane, after_all=after_all), within=within)


def take(queue: FairQueue, most: int) -> list[Item]:
    drawn: list[Item] = []
    queue.take(most, TURN_S, drawn)
    return drawn


def items(queue: FairQueue, most: int = MOST) -> list[object]:
    """What one turn gives; each item is charged what it was foreseen to cost."""
    return [waiting.item for waiting in take(queue, most)]


def everything(queue: FairQueue) -> list[object]:
    found: list[object] = []
    while taken := items(queue):
        found += taken
    return found


def fill(queue: FairQueue, lane: Lane, name: str, count: int) -> None:
    for number in range(count):
        put(queue, f"{name}{number}", lane)


def test_a_lane_keeps_its_order() -> None:
    queue, lane = FairQueue(), Lane()
    fill(queue, lane, "a", 100)
    assert [f"a{n}" for n in range(100)] == everything(queue)
    assert queue.empty


def test_lanes_go_in_turns_however_much_each_has_queued() -> None:
    queue, flood, small = FairQueue(), Lane(new=False), Lane(new=False)
    fill(queue, flood, "f", 50)
    fill(queue, small, "s", 3)
    first = items(queue, 6)
    assert {"f0", "f1", "f2", "s0", "s1", "s2"} == set(first)


def test_who_comes_late_hardly_waits_for_those_who_came_before() -> None:
    queue = FairQueue()
    for name in "abcdefgh":
        fill(queue, Lane(), name, 64)
    for _ in range(10):
        items(queue, 8)
    late = Lane()
    put(queue, "late", late)
    assert "late" in [*items(queue, 12), *items(queue, 12)]
    put(queue, "late again", late)
    assert "late again" in items(queue, 9)


def test_who_comes_anew_for_each_call_does_not_go_before_those_who_stay() -> None:
    queue, stays = FairQueue(), Lane(new=False)
    for number in range(50):
        put(queue, f"stays {number}", stays)
        for _ in range(3):
            put(queue, "anew", Lane())
        turn: list[object] = []
        while f"stays {number}" not in turn:
            [first] = take(queue, 1)
            queue.charge(first, 0.003)
            turn.append(first.item)
        assert len(turn) <= 3


def test_a_lane_saves_up_nothing_while_it_is_empty() -> None:
    queue, busy, idle = FairQueue(), Lane(), Lane()
    fill(queue, idle, "i", 1)
    fill(queue, busy, "b", 200)
    for _ in range(10):
        items(queue, 10)
    fill(queue, idle, "j", 50)
    taken = [*items(queue, 10), *items(queue, 10)]
    assert 10 in (sum(str(each).startswith("b") for each in taken) + n for n in (-1, 0, 1))


def test_who_used_much_waits_until_the_others_had_as_much() -> None:
    queue, heavy, light = FairQueue(), Lane(), Lane()
    fill(queue, heavy, "h", 3)
    fill(queue, light, "l", 300)
    order = []
    while taken := take(queue, 1):
        [waiting] = taken
        order.append(waiting.item)
        queue.charge(waiting, 0.1 if waiting.lane is heavy else 0.001)
    first, second, third = (order.index(f"h{n}") for n in range(3))
    assert second - first > 90
    assert third - second > 90


def done(queue: FairQueue, seconds: float) -> object:
    [waiting] = take(queue, 1)
    queue.charge(waiting, seconds)
    return waiting.item


def test_what_was_used_while_nobody_waited_is_forgotten() -> None:
    queue, good = FairQueue(), Lane()
    put(queue, "alone", good)
    assert done(queue, 100.0) == "alone"
    assert take(queue, 1) == []
    for name in "abcdefgh":
        fill(queue, Lane(), name, 10)
    put(queue, "good", good)
    assert "good" in [done(queue, 0.001) for _ in range(9)]


def test_one_long_call_is_not_paid_for_without_an_end() -> None:
    queue, good, flood = FairQueue(), Lane(new=False), Lane(new=False)
    fill(queue, flood, "f", 1_000)
    put(queue, "long", good)
    taken = [take(queue, 1)[0] for _ in range(3)]
    for waiting in taken:
        queue.charge(waiting, 10.0 if waiting.item == "long" else 0.001)
    assert "long" in {waiting.item for waiting in taken}
    put(queue, "good", good)
    order = []
    while "good" not in order:
        order.append(done(queue, 0.01))
    assert len(order) < 3 * fair_queue.MOST_AHEAD_S / 0.01


def test_a_turn_holds_no_more_than_is_foreseen_to_take_its_time() -> None:
    queue, lanes = FairQueue(), [Lane(estimate=TURN_S / 2.5) for _ in range(6)]
    for lane in lanes:
        put(queue, "x", lane)
    assert len(take(queue, MOST)) == 2


def test_what_was_not_done_is_first_again() -> None:
    queue, one, other = FairQueue(), Lane(), Lane()
    fill(queue, one, "a", 4)
    fill(queue, other, "b", 4)
    drawn = take(queue, 6)
    queue.put_back(drawn[2:])
    mine = [each for each in everything(queue) if str(each).startswith("a")]
    assert ["a0", "a1", "a2", "a3"] == [
        *(each.item for each in drawn[:2] if str(each.item).startswith("a")),
        *mine,
    ]


def test_what_waits_for_all_comes_after_all_that_came_before_and_holds_up_its_own_lane_only() -> (
    None
):
    queue, one, other, third = FairQueue(), Lane(), Lane(), Lane()
    fill(queue, one, "a", 30)
    put(queue, "all", other, after_all=True)
    put(queue, "after", other)
    fill(queue, one, "b", 30)
    put(queue, "else", third)
    order = everything(queue)
    assert {f"a{n}" for n in range(30)} <= set(order[: order.index("all")])
    assert order.index("all") < order.index("after")
    assert order.index("else") < order.index("all")


def test_several_that_wait_for_all_keep_their_order_and_block_nobody_for_ever() -> None:
    queue, lanes = FairQueue(), [Lane() for _ in range(5)]
    for number, lane in enumerate(lanes):
        put(queue, number, lane, after_all=True)
        put(queue, f"behind {number}", lane)
    order = everything(queue)
    assert [0, 1, 2, 3, 4] == [each for each in order if isinstance(each, int)]
    assert len(order) == 10


def test_little_of_who_is_gone_goes_on() -> None:
    queue, lane = FairQueue(), Lane()
    fill(queue, lane, "a", 64)
    assert queue.abandon(lane) == []
    assert len(everything(queue)) == 64


def test_too_much_of_who_is_gone_is_given_up_and_others_go_on() -> None:
    queue, good = FairQueue(), Lane()
    put(queue, "good", good)
    given_up = []
    for name in range(40):
        lane = Lane()
        fill(queue, lane, f"{name}-", 64)
        given_up += [each.item for each in queue.abandon(lane)]
    kept = everything(queue)
    assert "good" in kept
    assert len(kept) <= fair_queue.MOST_ABANDONED + 1
    assert len(kept) + len(given_up) == 40 * 64 + 1
    assert not set(kept) & set(given_up)
    # What was given up, or done, makes room for others who will be gone.
    fill(queue, last := Lane(), "last", 64)
    assert queue.abandon(last) == []
    assert not queue.empty


def test_nothing_is_given_up_because_of_much_that_somebody_waits_for() -> None:
    queue = FairQueue()
    fill(queue, Lane(), "wanted", fair_queue.MOST_ABANDONED + 1)
    fill(queue, gone := Lane(), "gone", 1)
    assert queue.abandon(gone) == []


def test_that_somebody_is_gone_may_be_said_twice_and_before_the_last_calls_come() -> None:
    queue = FairQueue()
    for _ in range(5):
        lane = Lane()
        fill(queue, lane, "a", 100)
        assert queue.abandon(lane) == []
        fill(queue, lane, "b", 100)
        assert queue.abandon(lane) == []
    fill(queue, over := Lane(), "over", 1)
    assert [each.item for each in queue.abandon(over)] == ["over0"]
    assert len(everything(queue)) == 1_000
    fill(queue, again := Lane(), "again", 1)
    assert queue.abandon(again) == []


def test_what_was_drawn_is_not_kept() -> None:
    """A call that waits long must not keep alive all that were done meanwhile."""
    queue, held, busy = FairQueue(), Lane(used=1e9), Lane()
    put(queue, "held", held)
    for _ in range(20):
        fill(queue, busy, "b", 100)
        for _ in range(10):
            take(queue, 10)
    assert len(queue._order) < 1_000


def test_nothing_of_a_lane_that_is_held_is_drawn_and_others_go_on() -> None:
    queue, held, other = FairQueue(), Lane(), Lane()
    fill(queue, held, "h", 2)
    fill(queue, other, "o", 2)
    queue.put_back([each for each in take(queue, 1) if each.lane is held])
    queue.hold(held)
    put(queue, "h2", held)
    assert {"o0", "o1"} >= set(everything(queue))
    assert not queue.empty
    assert [held] == queue.held()
    queue.release(held)
    assert ["h0", "h1", "h2"] == [item for item in everything(queue) if item != "o0"]
    assert queue.empty
    assert [] == queue.held()


def test_what_waits_for_all_waits_for_who_is_held_and_others_go_on() -> None:
    queue, held, other = FairQueue(), Lane(), Lane()
    fill(queue, held, "h", 2)
    queue.hold(held)
    put(queue, "before", other)
    put(queue, "all", Lane(), after_all=True)
    put(queue, "after", other)
    assert ["before", "after"] == everything(queue)
    queue.release(held)
    assert ["h0", "h1", "all"] == everything(queue)


def test_what_waits_for_all_on_a_held_lane_waits_for_what_came_before_only() -> None:
    queue, held, other = FairQueue(), Lane(), Lane()
    put(queue, "h0", held)
    put(queue, "all", held, after_all=True)
    put(queue, "h1", held)
    queue.hold(held)
    fill(queue, other, "o", 3)
    assert ["o0", "o1", "o2"] == everything(queue)
    queue.release(held)
    assert ["h0", "all", "h1"] == everything(queue)


def test_who_is_gone_while_held_is_given_up_with_too_many_others() -> None:
    queue, held = FairQueue(), Lane()
    fill(queue, held, "h", fair_queue.MOST_ABANDONED + 1)
    queue.hold(held)
    assert fair_queue.MOST_ABANDONED + 1 == len(queue.abandon(held))
    queue.release(held)
    queue.release(held)
    assert queue.empty
    assert [] == everything(queue)


class Clock:
    """Seconds that pass when they are told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_what_waits_for_all_for_so_long_is_next_then_and_the_rest_keeps_its_order() -> None:
    clock = Clock()
    queue, held, other = FairQueue(clock), Lane(), Lane()
    fill(queue, held, "h", 2)
    queue.hold(held)
    put(queue, "all", other, after_all=True, within=5)
    put(queue, "behind", other)
    clock.now += 4
    assert [] == everything(queue)
    clock.now += 1
    fill(queue, busy := Lane(), "b", 2)
    assert "all" == items(queue)[0]
    assert {"behind", "b1"} >= set(everything(queue))
    queue.release(held)
    assert ["h0", "h1"] == everything(queue)
    assert queue.empty
    assert not busy.waiting


def test_what_was_there_before_goes_first_as_long_as_it_is_waited_for() -> None:
    clock = Clock()
    queue, one = FairQueue(clock), Lane()
    fill(queue, one, "a", 60)
    put(queue, "all", Lane(), after_all=True, within=5)
    assert [*(f"a{n}" for n in range(60)), "all"] == everything(queue)
    clock.now += 10
    assert [] == everything(queue)


def test_what_waits_no_longer_for_all_still_waits_for_its_own_lane() -> None:
    clock = Clock()
    queue, own = FairQueue(clock), Lane()
    put(queue, "before", own)
    put(queue, "all", own, after_all=True, within=5)
    queue.hold(own)
    clock.now += 10
    assert [] == everything(queue)
    queue.release(own)
    assert ["before", "all"] == everything(queue)


def test_what_was_put_back_is_still_due() -> None:
    """As with a call that was drawn first and turned out to take long: its lane is held then."""
    clock = Clock()
    queue, held = FairQueue(clock), Lane()
    put(queue, "h", held)
    put(queue, "all", Lane(), after_all=True, within=5)
    drawn = take(queue, MOST)
    assert ["h", "all"] == [waiting.item for waiting in drawn]
    queue.put_back(drawn)
    queue.hold(held)
    assert [] == everything(queue)
    clock.now += 5
    assert ["all"] == everything(queue)


def test_it_says_when_something_is_due() -> None:
    clock = Clock()
    queue, held = FairQueue(clock), Lane()
    assert queue.due_in() is None
    put(queue, "h", held)
    assert queue.due_in() == 0
    queue.hold(held)
    assert queue.due_in() is None
    put(queue, "all", Lane(), after_all=True, within=5)
    assert queue.due_in() == 5
    clock.now += 5
    assert queue.due_in() == 0


def test_what_is_withdrawn_from_a_held_lane_is_not_drawn_and_the_lane_goes_on() -> None:
    queue, held, empty = FairQueue(), Lane(), Lane()
    fill(queue, held, "h", 2)
    queue.hold(held)
    queue.hold(empty)
    put(queue, "all", Lane(), after_all=True)
    [first] = queue.held_items()
    assert (held, "h0") == (first.lane, first.item)
    queue.withdraw(held)
    assert [empty] == queue.held()
    assert ["h1", "all"] == everything(queue)
    assert queue.empty
