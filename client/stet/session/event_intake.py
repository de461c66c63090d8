"""What both streams of events keep and decide; waiting and I/O are theirs.

    _began(answer)     after every subscribe   -> a gap to be filled, or None
    _taken(told)       a notification          -> a gap to be filled, or None
    _filled()          after every gap, and where there was none
    _ready             events to be given, in order

How a gap is noticed and filled is :mod:`stet.session.following`'s.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

import msgspec

from stet.errors import ConnectionLost, DaemonUnreachable, GarbledReply, ShuttingDown, TimedOut
from stet.session.following import Follower, Gap
from stet.session.methods import Opening
from stet.wire.events import EVENTS, AnyEvent, LostEvent, Subscribed, read_event

#: The connection is gone; another one is worth a try.
GONE = (ConnectionLost, DaemonUnreachable, ShuttingDown, TimedOut)


class EventIntake:
    """One stream's subscription, from its first answer on.

    ``heads`` has the newest commit of each workspace, by its root, when it was first
    subscribed: everything later comes.
    """

    def __init__(self, opening: Opening, names: Sequence[str]) -> None:
        self._opening = opening
        self._names = tuple(names) or EVENTS
        self._follower = Follower(self._names)
        self._ready: deque[AnyEvent] = deque()
        #: What is to be given after the gap that is being filled. The connection may be lost
        #: meanwhile, and the next one tells nothing of it.
        self._afterwards: list[LostEvent] = []
        self._subscribed = False
        self.heads: dict[str, str | None] = {}

    def _began(self, answer: Subscribed) -> Gap | None:
        if not self._subscribed:
            self._subscribed, self.heads = True, answer.heads
        return self._follower.began(answer.heads)

    def _taken(self, told: Mapping[str, object]) -> Gap | None:
        """Take a notification. Raises GarbledReply for a known event of another shape."""
        try:
            event = read_event(told)
        except msgspec.ValidationError as error:
            raise GarbledReply(
                f"the daemon's event has another shape than this version of stet knows: {error}"
            ) from error
        found = None if event is None else self._follower.take(event)
        if isinstance(found, Gap):
            if found.then is not None:
                self._afterwards.append(found.then)
            return found
        if found is not None:
            self._ready.append(found)
        return None

    def _filled(self) -> None:
        self._ready.extend(self._afterwards)
        self._afterwards.clear()
