"""What waits for the writer: in order on each lane, fairly between lanes.

A *lane* is one connection's, or the daemon's own. Whoever has used the least of the writer's
time goes first (start-time fair queueing), so a client that sends one call at a time does not
wait behind the thousands that others have queued: it waits for its fair share. A lane that was
empty begins where the others are; it saves up nothing. One that is new begins a little behind them
and behind other new ones: else clients with a connection per call would go before those that stay.

The order of one lane is never changed. Between lanes there is no order to keep: what waits on
two of them is not answered yet, so neither side can know which came first. What must see all
that came before it, on every lane, says so (``after_all``). It holds up its own lane only, not
those that come later, so a flood of such requests gains nothing.

A lane can be *held*: its first item has begun and goes on somewhere else (it is being planned), and
those behind it wait for it. It keeps its place in the order, so what must see all that came before
it waits for it too; nobody else does.

What waits for all may say for how long (``within``): after so many seconds it is next, though not
before what its own lane has asked for earlier. What it goes before is done later, and sees it.

No threads and no I/O; only the writer knows what the items are (:mod:`stetd.engine.writer`).
"""

from __future__ import annotations

import heapq
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

#: What the first item of a lane is taken to cost, in seconds.
_FIRST_GUESS_S = 0.001
#: Seconds by which a new lane begins behind the others, and behind the new one before it.
NEWCOMER_S = 0.002
#: How much of a lane's estimate is the newest item's.
_NEWEST = 0.3
#: Seconds by which a lane can be ahead of the others at most. What it used beyond that, or while
#: nobody else wanted anything, is forgotten: one long call is not paid for by many short ones.
MOST_AHEAD_S = 0.25

#: Items of clients that are gone which may wait together; more are given up.
MOST_ABANDONED = 1_000

#: Items that were drawn out of turn and are kept, at least, before they are let go.
_MOST_DRAWN = 256


@dataclass(slots=True, eq=False)
class Lane:
    """One client's place in the queue. Only the queue looks inside."""

    waiting: deque[Waiting] = field(default_factory=deque)
    #: Seconds of the writer that were used, on a clock that all lanes share.
    used: float = 0.0
    estimate: float = _FIRST_GUESS_S
    #: Nothing was ever put on it.
    new: bool = True
    #: Its client is gone.
    abandoned: bool = False
    #: Nothing of it is to be done for now.
    held: bool = False


@dataclass(slots=True, eq=False)
class Waiting:
    """An item in its lane. ``estimate``: the seconds that it was taken to cost when drawn.

    ``due``: when it stops waiting for all, on the queue's clock.
    """

    item: Any
    lane: Lane
    after_all: bool = False
    drawn: bool = False
    estimate: float = 0.0
    due: float = math.inf


class FairQueue:
    """``clock`` gives seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        #: Lanes whose first item needs to wait for nothing but its turn.
        self._ready: set[Lane] = set()
        #: All items in the order in which they came. Drawn ones are dropped when they are at
        #: its front, or are the most of it: they may hold megabytes.
        self._order: deque[Waiting] = deque()
        #: Those that do not wait for ever. Drawn ones are dropped when it is read.
        self._pressing: list[Waiting] = []
        self._length = 0
        self._abandoned = 0
        self._held: set[Lane] = set()
        #: Where the lane that was drawn last is, and where the foremost is.
        self._now = 0.0
        self._foremost = 0.0
        #: Where the last new lane has begun.
        self._newest = 0.0

    def put(
        self, item: Any, lane: Lane, *, after_all: bool = False, within: float = math.inf
    ) -> None:
        """Queue an item behind those of its lane; ``after_all``: behind all that wait by now.

        ``within``: for so many seconds.
        """
        waiting = Waiting(item, lane, after_all, due=self._clock() + within)
        if waiting.due < math.inf:
            self._pressing.append(waiting)
        self._length += 1
        self._abandoned += lane.abandoned
        self._order.append(waiting)
        if len(self._order) > 2 * self._length + _MOST_DRAWN:
            self._order = deque(each for each in self._order if not each.drawn)
        lane.waiting.append(waiting)
        if len(lane.waiting) == 1:
            lane.used = max(lane.used, self._beginning() if lane.new else self._now)
            lane.new = False
            self._look_at(lane)

    @property
    def empty(self) -> bool:
        """Whether nothing waits."""
        return not self._length

    def take(self, most: int, turn_s: float) -> list[Waiting]:
        """At most ``most`` items that need not wait, in the order in which to do them.

        More than one only as long as they are foreseen to take ``turn_s`` seconds together.
        """
        if not self._length:
            self._now = self._foremost
            return []
        heap = [(lane.used, id(lane), lane) for lane in self._ready]
        heapq.heapify(heap)
        drawn: list[Waiting] = []
        foreseen = 0.0
        while len(drawn) < most and (lane := self._next_lane(heap)) is not None:
            if drawn and foreseen + lane.estimate > turn_s:
                break
            foreseen += lane.estimate
            drawn.append(self._draw(lane))
            if lane in self._ready:
                heapq.heappush(heap, (lane.used, id(lane), lane))
        return drawn

    def put_back(self, drawn: Sequence[Waiting]) -> None:
        """Take back what was drawn, in that order, and not done: each is first in its lane."""
        for waiting in reversed(drawn):
            lane = waiting.lane
            again = Waiting(waiting.item, lane, waiting.after_all, due=waiting.due)
            self._order.appendleft(again)
            if again.due < math.inf:
                self._pressing.append(again)
            self._length += 1
            self._abandoned += lane.abandoned
            lane.waiting.appendleft(again)
            lane.used -= waiting.estimate
            self._look_at(lane)

    def hold(self, lane: Lane) -> None:
        """Draw nothing from a lane until it is let go. What waits for all waits for it, too."""
        lane.held = True
        self._held.add(lane)
        self._look_at(lane)

    def let_go(self, lane: Lane) -> None:
        """Go on with a lane: it has waited for its turn already."""
        if not lane.held:
            return
        lane.held = False
        self._held.discard(lane)
        lane.used = max(lane.used, self._now)
        self._look_at(lane)

    def held(self) -> list[Lane]:
        """The lanes that are held."""
        return list(self._held)

    def held_items(self) -> list[tuple[Lane, Any]]:
        """The held lanes on which something is left, with the first item of each."""
        return [(lane, lane.waiting[0].item) for lane in self._held if lane.waiting]

    def withdraw(self, lane: Lane, item: Any) -> bool:
        """Take the first item out of a held lane, and let the lane go; False if it was given up."""
        if not (lane.held and lane.waiting and lane.waiting[0].item is item):
            return False
        lane.waiting.popleft().drawn = True
        self._length -= 1
        self._abandoned -= lane.abandoned
        self.let_go(lane)
        return True

    def abandon(self, lane: Lane) -> list[Any]:
        """Say that the lane's client is gone. What is given up with it, because too much is left.

        Otherwise somebody who comes, asks for much and goes, again and again, would fill the
        memory with what nobody waits for.
        """
        if not lane.abandoned:
            lane.abandoned = True
            self._abandoned += len(lane.waiting)
        if self._abandoned <= MOST_ABANDONED:
            return []
        given_up = list(lane.waiting)
        self._abandoned -= len(given_up)
        self._length -= len(given_up)
        for waiting in given_up:
            waiting.drawn = True
        lane.waiting.clear()
        self._ready.discard(lane)
        return [waiting.item for waiting in given_up]

    def charge(self, waiting: Waiting, seconds: float) -> None:
        """Say what a drawn item has cost."""
        lane = waiting.lane
        used = lane.used + seconds - waiting.estimate
        lane.used = min(used, self._now + MOST_AHEAD_S)
        self._foremost = max(self._foremost, lane.used)
        lane.estimate += _NEWEST * (seconds - lane.estimate)

    def _beginning(self) -> float:
        begins = max(self._now, self._newest) + NEWCOMER_S
        self._newest = min(begins, self._now + MOST_AHEAD_S)
        return self._newest

    def _oldest(self) -> Waiting | None:
        while self._order and self._order[0].drawn:
            self._order.popleft()
        return self._order[0] if self._order else None

    def due_in(self) -> float | None:
        """Seconds until something can be drawn, if nobody puts anything; None: nothing waits so."""
        if self._can_draw():
            return 0.0
        now = self._clock()
        return min((each.due - now for each in self._pressing if each.due > now), default=None)

    def _can_draw(self) -> bool:
        oldest = self._oldest()
        if oldest is None:
            return False
        return bool(self._ready) or oldest.after_all or self._overdue() is not None

    def _overdue(self) -> Waiting | None:
        """What has waited for all as long as it does, and for nothing of its own lane."""
        if not self._pressing:
            return None
        self._pressing = [each for each in self._pressing if not each.drawn]
        now = self._clock()
        for each in self._pressing:
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

    def _draw(self, lane: Lane) -> Waiting:
        waiting = lane.waiting.popleft()
        waiting.drawn = True
        self._length -= 1
        self._abandoned -= lane.abandoned
        waiting.estimate = lane.estimate
        self._now = max(self._now, lane.used)
        lane.used += lane.estimate
        self._foremost = max(self._foremost, lane.used)
        self._look_at(lane)
        return waiting

    def _look_at(self, lane: Lane) -> None:
        if lane.waiting and not lane.held and not lane.waiting[0].after_all:
            self._ready.add(lane)
        else:
            self._ready.discard(lane)
