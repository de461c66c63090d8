"""The writer's queue: first in, first out on each lane, fair between lanes.

Each connection has a *lane*, and the daemon has one. The lane that has used the least of the
writer's time goes first (start-time fair queueing), so a client that sends one call at a time waits
for its fair share, not for the thousands of calls that others have queued. A lane that was empty
begins at the present virtual time: it has no credit. A new lane begins a little later, and later
than other new lanes: a client must gain nothing by a new connection for each call.

The order of one lane is never changed. Between lanes there is no order to keep: two items that wait
are both unanswered, so no client can know which came first. An item that must see all items before
it, on every lane, is marked ``after_all``. It holds up its own lane only, not later items of
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
from collections import OrderedDict, deque
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


class Waiting(msgspec.Struct, eq=False, kw_only=True):
    """An item of a lane; what it is for is in subclasses. Two items are never equal."""

    lane: Lane
    #: It waits for all items before it, on every lane, but at most until ``due`` by the clock.
    after_all: bool = False
    due: float = math.inf
    #: Seconds that were charged when it was drawn.
    estimate: float = 0.0


class FairQueue(msgspec.Struct):
    """The queue."""

    #: Gives seconds.
    _clock: Callable[[], float] = time.monotonic
    #: All items in the order of arrival. Not a dict: to find its first key, it passes over the
    #: places of all that were removed before.
    _order: OrderedDict[Waiting, None] = msgspec.field(default_factory=OrderedDict)
    #: Those of them that have a time limit.
    _timed: dict[Waiting, None] = {}
    #: How many of them are of lost clients.
    _abandoned: int = 0
    #: Lanes whose first item waits only for its turn.
    _ready: set[Lane] = set()
    #: Lanes of which no item may be drawn for now.
    _held: set[Lane] = set()
    #: ``used`` of the lane that was drawn last, and the largest of any lane.
    _virtual_now: float = 0.0
    _foremost_used: float = 0.0
    #: ``used`` with which the last new lane began.
    _newest_start: float = 0.0

    def put(self, item: Waiting, *, within: float = math.inf) -> None:
        """Queue an item behind those of its lane; after so many seconds it waits for no others."""
        lane, item.due = item.lane, self._clock() + within
        self._enter(item)
        lane.waiting.append(item)
        if len(lane.waiting) == 1:
            lane.used = max(lane.used, self._start_of_new_lane() if lane.new else self._virtual_now)
            lane.new = False
            self._update_ready(lane)

    @property
    def empty(self) -> bool:
        """Whether nothing waits."""
        return not self._order

    def take(self, most: int, turn_s: float, drawn: list[Any]) -> None:
        """Draw the next items, in the order in which to run them: at most ``most``, and after the
        first only as long as all together are estimated to take ``turn_s`` seconds.

        ``drawn`` is filled in place: if this raises, the caller has all items that were drawn.
        """
        if not self._order:
            self._virtual_now = self._foremost_used
        heap = [(lane.used, id(lane), lane) for lane in self._ready]
        heapq.heapify(heap)
        estimated = 0.0
        while self._order and len(drawn) < most:
            lane = self._next_lane(heap)
            if lane is None or (drawn and estimated + lane.estimate > turn_s):
                break
            estimated += lane.estimate
            self._draw(lane, drawn)
            if lane in self._ready:
                heapq.heappush(heap, (lane.used, id(lane), lane))

    def put_back(self, drawn: Sequence[Any]) -> None:
        """Put drawn items that were not run back to the front of their lanes, in their order."""
        for item in reversed(drawn):
            lane = item.lane
            self._enter(item)
            self._order.move_to_end(item, last=False)
            lane.waiting.appendleft(item)
            lane.used -= item.estimate
            self._update_ready(lane)

    def hold(self, lane: Lane) -> None:
        """Draw nothing from a lane until it is released. ``after_all`` items wait for it, too."""
        self._held.add(lane)
        self._update_ready(lane)

    def release(self, lane: Lane) -> None:
        """Draw from a held lane again."""
        if lane in self._held:
            self._held.discard(lane)
            lane.used = max(lane.used, self._virtual_now)
            self._update_ready(lane)

    def held(self) -> list[Lane]:
        """The lanes that are held."""
        return list(self._held)

    def held_items(self) -> list[Any]:
        """The first items of the lanes that are held."""
        return [lane.waiting[0] for lane in self._held if lane.waiting]

    def withdraw(self, lane: Lane) -> None:
        """Remove the first item of a held lane, and release the lane."""
        self._leave(lane.waiting.popleft())
        self.release(lane)

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
        lane.waiting.clear()
        for item in dropped:
            self._leave(item)
        self._ready.discard(lane)
        return dropped

    def drop_all(self) -> list[Any]:
        """Drop all items, and return them: after a defect the queue's own books may be wrong."""
        items = list(self._order)
        for item in items:
            item.lane.waiting.clear()
        for book in (self._order, self._timed, self._ready, self._held):
            book.clear()
        self._abandoned = 0
        return items

    def charge(self, item: Waiting, seconds: float) -> None:
        """Correct the charge for a drawn item: it took so many seconds."""
        lane = item.lane
        used = lane.used + seconds - item.estimate
        lane.used = min(used, self._virtual_now + MOST_AHEAD_S)
        self._foremost_used = max(self._foremost_used, lane.used)
        lane.estimate += _NEWEST_WEIGHT * (seconds - lane.estimate)

    def due_in(self) -> float | None:
        """Seconds until an item can be drawn if none is put; None if no item waits for a time."""
        if self._ready or self._out_of_turn() is not None:
            return 0.0
        now = self._clock()
        return min((each.due - now for each in self._timed if each.due > now), default=None)

    def _start_of_new_lane(self) -> float:
        begins = max(self._virtual_now, self._newest_start) + _NEWCOMER_S
        self._newest_start = min(begins, self._virtual_now + MOST_AHEAD_S)
        return self._newest_start

    def _out_of_turn(self) -> Waiting | None:
        """The item that is drawn next whatever its lane has used, if there is one: the first of a
        lane whose time limit is over, or the oldest of all, if it waited for all before it.
        """
        if self._timed:
            now = self._clock()
            for each in self._timed:
                if each.due <= now and each.lane not in self._held and each.lane.waiting[0] is each:
                    return each
        oldest = next(iter(self._order), None)
        return oldest if oldest is not None and oldest.after_all else None

    def _next_lane(self, heap: list[tuple[float, int, Lane]]) -> Lane | None:
        """The lane to draw from; None if all items wait for lanes that are held."""
        first = self._out_of_turn()
        if first is not None:
            return first.lane
        while heap:
            _, _, lane = heapq.heappop(heap)
            if lane in self._ready:
                return lane
        if next(iter(self._order)).lane not in self._held:
            raise AssertionError("BUG: the oldest item waits for nothing; its lane is not ready")
        return None

    def _draw(self, lane: Lane, drawn: list[Any]) -> None:
        item = lane.waiting.popleft()
        drawn.append(item)
        self._leave(item)
        item.estimate = lane.estimate
        self._virtual_now = max(self._virtual_now, lane.used)
        lane.used += lane.estimate
        self._foremost_used = max(self._foremost_used, lane.used)
        self._update_ready(lane)

    def _enter(self, item: Waiting) -> None:
        self._order[item] = None
        if item.due < math.inf:
            self._timed[item] = None
        self._abandoned += item.lane.abandoned

    def _leave(self, item: Waiting) -> None:
        del self._order[item]
        if item.due < math.inf:
            del self._timed[item]
        self._abandoned -= item.lane.abandoned

    def _update_ready(self, lane: Lane) -> None:
        if lane.waiting and lane not in self._held and not lane.waiting[0].after_all:
            self._ready.add(lane)
        else:
            self._ready.discard(lane)
