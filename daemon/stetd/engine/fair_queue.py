"""The writer's queue: first in, first out on each lane, fair between lanes.

Each connection has a *lane*, and the daemon has one. The lane that has used the least of the
writer's time goes first (start-time fair queueing), so a client that sends one call at a time waits
for its fair share, not for the thousands of calls that others have queued. A lane that was empty
begins at the present virtual time: it has no credit. A new lane begins a little later, and later
than other new lanes: a client must gain nothing by a new connection for each call.

The order of one lane is never changed. Between lanes there is no order to keep: two items that wait
are both unanswered, so no client can know which came first. An item that must see all items before
it, on every lane, is put with ``after_all``. It holds up its own lane only, not later items of
others, so a flood of such items gains nothing.

A lane can be *held*: its first item has begun and is being planned by another process, and the
items behind it wait. It keeps its place in the order: ``after_all`` items wait for it, no others.

An ``after_all`` item can have a time limit (``within``): after so many seconds it is next, though
not before earlier items of its own lane. The items that it overtakes run later, and see its effect.

No threads and no I/O; only the writer (:mod:`stetd.engine.writer`) knows what the items are.
"""

from __future__ import annotations

import heapq
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

#: Estimated cost of a lane's first item, in seconds.
_FIRST_GUESS_S = 0.001
#: Seconds by which a new lane begins behind the others, and behind the new lane before it.
_NEWCOMER_S = 0.002
#: Weight of the newest item's cost in a lane's estimate.
_NEWEST_WEIGHT = 0.3
#: The most seconds that a lane may owe to the others, so that one long call does not delay its next
#: short calls for long.
MOST_AHEAD_S = 0.25

#: Items of lost clients that may wait, of all lanes together; above that a lane's are dropped.
MOST_ABANDONED = 1_000

#: ``_order`` is cleaned only when it has at least this many drawn items.
_MOST_DRAWN = 256


class Lane(msgspec.Struct, eq=False):
    """One client's items, and how much of the writer's time it has used."""

    waiting: deque[Waiting] = msgspec.field(default_factory=deque)
    #: Seconds of the writer's time that were used, on a virtual clock that all lanes share.
    used: float = 0.0
    #: Seconds that the next item will take.
    estimate: float = _FIRST_GUESS_S
    #: No item was ever put on it.
    new: bool = True
    #: Its client is gone.
    abandoned: bool = False
    #: No item may be drawn for now.
    held: bool = False


class Waiting(msgspec.Struct, eq=False):
    """An item in its lane. ``estimate``: seconds that were charged when it was drawn.

    ``due``: the time limit of an ``after_all`` item, by the queue's clock.
    """

    item: Any
    lane: Lane
    after_all: bool = False
    drawn: bool = False
    estimate: float = 0.0
    due: float = math.inf


class FairQueue:
    """The queue. ``clock`` gives seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        #: Lanes whose first item waits only for its turn.
        self._ready: set[Lane] = set()
        #: All items in the order of arrival. Drawn items are dropped when they are at the front,
        #: or are more than half of it: they may hold megabytes.
        self._order: deque[Waiting] = deque()
        #: The items with a time limit. Drawn items are dropped when it is read.
        self._timed: list[Waiting] = []
        self._length = 0
        self._abandoned = 0
        self._held: set[Lane] = set()
        #: ``used`` of the lane that was drawn last, and the largest of any lane.
        self._virtual_now = 0.0
        self._foremost_used = 0.0
        #: ``used`` with which the last new lane began.
        self._newest_start = 0.0

    def put(
        self, item: Any, lane: Lane, *, after_all: bool = False, within: float = math.inf
    ) -> None:
        """Queue an item behind those of its lane; ``after_all``: behind all items, but for at most
        ``within`` seconds.
        """
        waiting = Waiting(item, lane, after_all, due=self._clock() + within)
        if waiting.due < math.inf:
            self._timed.append(waiting)
        self._length += 1
        self._abandoned += lane.abandoned
        self._order.append(waiting)
        if len(self._order) > 2 * self._length + _MOST_DRAWN:
            self._order = deque(each for each in self._order if not each.drawn)
        lane.waiting.append(waiting)
        if len(lane.waiting) == 1:
            lane.used = max(lane.used, self._start_of_new_lane() if lane.new else self._virtual_now)
            lane.new = False
            self._update_ready(lane)

    @property
    def empty(self) -> bool:
        """Whether nothing waits."""
        return not self._length

    def take(self, most: int, turn_s: float, drawn: list[Waiting]) -> None:
        """Draw the next items, in the order in which to run them: at most ``most``, and after the
        first only as long as all together are estimated to take ``turn_s`` seconds.

        ``drawn`` is filled in place: if this raises, the caller has all items that were drawn.
        """
        if self._oldest() is None:
            self._virtual_now = self._foremost_used
            return
        heap = [(lane.used, id(lane), lane) for lane in self._ready]
        heapq.heapify(heap)
        estimated = 0.0
        while len(drawn) < most and (lane := self._next_lane(heap)) is not None:
            if drawn and estimated + lane.estimate > turn_s:
                break
            estimated += lane.estimate
            self._draw(lane, drawn)
            if lane in self._ready:
                heapq.heappush(heap, (lane.used, id(lane), lane))

    def put_back(self, drawn: Sequence[Waiting]) -> None:
        """Put drawn items that were not run back to the front of their lanes, in their order."""
        for waiting in reversed(drawn):
            lane = waiting.lane
            again = Waiting(waiting.item, lane, waiting.after_all, due=waiting.due)
            self._order.appendleft(again)
            if again.due < math.inf:
                self._timed.append(again)
            self._length += 1
            self._abandoned += lane.abandoned
            lane.waiting.appendleft(again)
            lane.used -= waiting.estimate
            self._update_ready(lane)

    def hold(self, lane: Lane) -> None:
        """Draw nothing from a lane until it is released. ``after_all`` items wait for it, too."""
        lane.held = True
        self._held.add(lane)
        self._update_ready(lane)

    def release(self, lane: Lane) -> None:
        """Draw from a held lane again."""
        if not lane.held:
            return
        lane.held = False
        self._held.discard(lane)
        lane.used = max(lane.used, self._virtual_now)
        self._update_ready(lane)

    def held(self) -> list[Lane]:
        """The lanes that are held."""
        return list(self._held)

    def held_items(self) -> list[tuple[Lane, Any]]:
        """The held lanes that have items, each with its first item."""
        return [(lane, lane.waiting[0].item) for lane in self._held if lane.waiting]

    def withdraw(self, lane: Lane, item: Any) -> bool:
        """Remove the first item of a held lane and release the lane; False if it is not there."""
        if not (lane.held and lane.waiting and lane.waiting[0].item is item):
            return False
        lane.waiting.popleft().drawn = True
        self._length -= 1
        self._abandoned -= lane.abandoned
        self.release(lane)
        return True

    def abandon(self, lane: Lane) -> list[Any]:
        """Note that the lane's client is gone. Its items are dropped, and returned, if too many
        items of such clients wait.

        Otherwise a client that connects, queues much and leaves, again and again, fills the memory.
        """
        if not lane.abandoned:
            lane.abandoned = True
            self._abandoned += len(lane.waiting)
        if self._abandoned <= MOST_ABANDONED:
            return []
        dropped = list(lane.waiting)
        self._abandoned -= len(dropped)
        self._length -= len(dropped)
        for waiting in dropped:
            waiting.drawn = True
        lane.waiting.clear()
        self._ready.discard(lane)
        return [waiting.item for waiting in dropped]

    def drop_all(self) -> list[Any]:
        """Drop all items, and return them: after a defect the queue's own books may be wrong."""
        items = [waiting.item for waiting in self._order if not waiting.drawn]
        for waiting in self._order:
            waiting.lane.waiting.clear()
            waiting.lane.held = False
        for book in (self._order, self._timed, self._ready, self._held):
            book.clear()
        self._length = self._abandoned = 0
        return items

    def charge(self, waiting: Waiting, seconds: float) -> None:
        """Correct the charge for a drawn item: it took so many seconds."""
        lane = waiting.lane
        used = lane.used + seconds - waiting.estimate
        lane.used = min(used, self._virtual_now + MOST_AHEAD_S)
        self._foremost_used = max(self._foremost_used, lane.used)
        lane.estimate += _NEWEST_WEIGHT * (seconds - lane.estimate)

    def _start_of_new_lane(self) -> float:
        begins = max(self._virtual_now, self._newest_start) + _NEWCOMER_S
        self._newest_start = min(begins, self._virtual_now + MOST_AHEAD_S)
        return self._newest_start

    def _oldest(self) -> Waiting | None:
        while self._order and self._order[0].drawn:
            self._order.popleft()
        return self._order[0] if self._order else None

    def due_in(self) -> float | None:
        """Seconds until an item can be drawn if none is put; None if no item waits for a time."""
        if self._can_draw():
            return 0.0
        now = self._clock()
        return min((each.due - now for each in self._timed if each.due > now), default=None)

    def _can_draw(self) -> bool:
        oldest = self._oldest()
        if oldest is None:
            return False
        return bool(self._ready) or oldest.after_all or self._overdue() is not None

    def _overdue(self) -> Waiting | None:
        """The first item whose time limit is over, and that is the first of its lane."""
        if not self._timed:
            return None
        self._timed = [each for each in self._timed if not each.drawn]
        now = self._clock()
        for each in self._timed:
            if each.due <= now and not each.lane.held and each.lane.waiting[0] is each:
                return each
        return None

    def _next_lane(self, heap: list[tuple[float, int, Lane]]) -> Lane | None:
        oldest = self._oldest()
        if oldest is None:
            return None
        overdue = self._overdue()
        if overdue is not None:
            return overdue.lane
        if oldest.after_all:
            return oldest.lane
        while heap:
            _, _, lane = heapq.heappop(heap)
            if lane in self._ready:
                return lane
        if not oldest.lane.held:
            raise AssertionError("BUG: the oldest item waits for nothing; its lane is not ready")
        return None

    def _draw(self, lane: Lane, drawn: list[Waiting]) -> None:
        waiting = lane.waiting.popleft()
        drawn.append(waiting)
        waiting.drawn = True
        self._length -= 1
        self._abandoned -= lane.abandoned
        waiting.estimate = lane.estimate
        self._virtual_now = max(self._virtual_now, lane.used)
        lane.used += lane.estimate
        self._foremost_used = max(self._foremost_used, lane.used)
        self._update_ready(lane)

    def _update_ready(self, lane: Lane) -> None:
        if lane.waiting and not lane.held and not lane.waiting[0].after_all:
            self._ready.add(lane)
        else:
            self._ready.discard(lane)
