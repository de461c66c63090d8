"""Limits shared by all connections: memory for requests and replies, and time to decode requests.

- A connection *holds* the bytes of its unfinished frame, of its requests in progress and of its
  unread replies. When all connections hold more than ``max_held_bytes``, the one that holds the
  most is refused (``overloaded``) and closed, then the next, until the rest fits.
- Large requests in progress may hold a quarter of that; more of them wait until there is room.
- Decoding large requests may take one fifth of the event loop's time. The rest of the time they
  wait in a queue; small requests do not.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stetd.server.connection import ClientConnection

#: Requests of fewer bytes never wait for these limits.
LARGE = 64 * 1024

#: Held bytes are counted again whenever connections have grown by 1 / _RECOUNT_PARTS of the limit.
_RECOUNT_PARTS = 8
#: After a large request was decoded, the next waits this many times as long as the decoding took.
_PAUSE_FACTOR = 4.0


class SharedLimits:
    """The shared limits of one server; ``members`` returns its open connections."""

    def __init__(self, limit: int, members: Callable[[], Iterable[ClientConnection]]) -> None:
        #: Bytes that all connections may hold together.
        self.limit = limit
        self._members = members
        self._grown = 0
        self._in_work = 0
        self._waiting_for_room: dict[Callable[[], None], None] = {}
        #: The loop's time at which the next large request may be decoded, and who waits for it.
        self._next_decode_at = 0.0
        self._decode_queue: deque[Callable[[], None]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def grew(self, count: int) -> None:
        """Note that a connection holds ``count`` more bytes; close some if all hold too much."""
        self._grown += count
        if self._grown <= self.limit // _RECOUNT_PARTS:
            return
        self._grown = 0
        held = sorted(((each.held, each) for each in self._members()), key=lambda pair: pair[0])
        total = sum(count for count, _ in held)
        while held and total > self.limit:
            count, most = held.pop()
            most.shed()
            total -= count

    def has_room(self, size: int, wake: Callable[[], None]) -> bool:
        """Whether a request of this size may start; if not, ``wake`` is called when it may."""
        if size < LARGE or self._in_work == 0 or self._in_work + size <= self.limit // 4:
            return True
        self._waiting_for_room[wake] = None
        return False

    def begin(self, size: int) -> None:
        """Note that a request of this size was started."""
        self._in_work += size

    def end(self, size: int) -> None:
        """Note that a request of this size was answered."""
        self._in_work -= size
        waiting, self._waiting_for_room = self._waiting_for_room, {}
        for wake in waiting:
            wake()

    def may_decode(self, size: int, wake: Callable[[], None]) -> bool:
        """Whether a request of this size may be decoded now; if not, ``wake`` is called later."""
        if size < LARGE or asyncio.get_running_loop().time() >= self._next_decode_at:
            return True
        if wake not in self._decode_queue:
            self._decode_queue.append(wake)
            self._start_timer()
        return False

    def decoded(self, seconds: float) -> None:
        """Note how many ``seconds`` a large request took to decode."""
        self._next_decode_at = asyncio.get_running_loop().time() + _PAUSE_FACTOR * seconds

    def _start_timer(self) -> None:
        if self._decode_queue and self._timer is None:
            self._timer = asyncio.get_running_loop().call_at(self._next_decode_at, self._wake_next)

    def _wake_next(self) -> None:
        # One at a time: waking all would cost more, as only one may decode.
        self._timer = None
        try:
            while self._decode_queue and asyncio.get_running_loop().time() >= self._next_decode_at:
                self._decode_queue.popleft()()
        finally:  # an exception in one callback must not block the others
            self._start_timer()
