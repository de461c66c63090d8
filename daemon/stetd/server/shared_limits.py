"""What all connections share: memory for what they send and are sent, and the event loop's time.

- *Held* is what a connection makes the daemon keep: requests that have not wholly arrived, those
  in work, and replies that it does not take. When all hold more than ``max_held_bytes``, the one
  that holds the most is refused (``overloaded``) and closed, until the others fit.
- Large requests in work have at most a quarter of that; others wait until there is room.
- Decoding large requests may take one fifth of the event loop's time. Meanwhile other large
  requests wait, one behind the other; small ones do not.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stetd.server.connection import ClientConnection

#: A request of fewer bytes is never made to wait for others.
LARGE = 64 * 1024

#: What is held is counted again when the connections have grown by this part of the limit.
_SLACK = 8
#: Seconds without large requests for each second that one has taken to decode.
_PAUSES = 4.0


class Crowd:
    """The account of all connections of a server; ``members`` gives those that are open."""

    def __init__(self, limit: int, members: Callable[[], Iterable[ClientConnection]]) -> None:
        #: Bytes that all may hold together.
        self.limit = limit
        self._members = members
        self._grown = 0
        self._in_work = 0
        self._waiting: list[Callable[[], None]] = []
        #: When the next large request may be decoded, on the loop's clock, and who waits for it.
        self._free_at = 0.0
        self._turns: deque[Callable[[], None]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def grew(self, count: int) -> None:
        """A connection holds so many bytes more. Closes some if that is too much for all."""
        self._grown += count
        if self._grown <= self.limit // _SLACK:
            return
        self._grown = 0
        held = sorted(((each.held, each) for each in self._members()), key=lambda pair: pair[0])
        total = sum(count for count, _ in held)
        while held and total > self.limit:
            count, most = held.pop()
            most.shed()
            total -= count

    def has_room(self, size: int, wake: Callable[[], None]) -> bool:
        """Whether a request of this size may be begun; if not, ``wake`` is called when it may."""
        if size < LARGE or self._in_work == 0 or self._in_work + size <= self.limit // 4:
            return True
        if wake not in self._waiting:
            self._waiting.append(wake)
        return False

    def begin(self, size: int) -> None:
        """A request of this size is in work from now on."""
        self._in_work += size

    def end(self, size: int) -> None:
        """The request is answered."""
        self._in_work -= size
        if self._waiting and size >= LARGE:
            waiting, self._waiting = self._waiting, []
            for wake in waiting:
                wake()

    def has_turn(self, size: int, wake: Callable[[], None]) -> bool:
        """Whether a request of this size may be decoded now; if not, ``wake`` is called later."""
        if size < LARGE or asyncio.get_running_loop().time() >= self._free_at:
            return True
        if wake not in self._turns:
            self._turns.append(wake)
            self._wait_for_turn()
        return False

    def decoded(self, size: int, seconds: float) -> None:
        """Decoding a request has taken so long."""
        if size >= LARGE:
            self._free_at = asyncio.get_running_loop().time() + _PAUSES * seconds

    def _wait_for_turn(self) -> None:
        if self._turns and self._timer is None:
            self._timer = asyncio.get_running_loop().call_at(self._free_at, self._give_turns)

    def _give_turns(self) -> None:
        # To one after the other: if all looked whether it is theirs, that would cost more.
        self._timer = None
        try:
            while self._turns and asyncio.get_running_loop().time() >= self._free_at:
                self._turns.popleft()()
        finally:  # a defect of one must not keep the others waiting
            self._wait_for_turn()
