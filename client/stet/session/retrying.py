"""How often and how long a session tries again after a lost connection; no I/O, no clock.

What is tried again only reads, sets a value, or carries a ``request_id`` (P6). The rules:

- a connection lost under a call: at most LOSSES times, for a call that kills the daemon
  must not kill it for ever;
- a daemon that is shutting down: nothing was carried out, so it is tried for PATIENCE
  seconds, which a restart under systemd fits into;
- no daemon: the same if it is somebody else's task to start it (``patient``);
- garbled replies, time-outs and refusals are never tried again.
"""

from __future__ import annotations

from stet.errors import (
    ConnectionLost,
    DaemonUnreachable,
    GarbledReply,
    ShuttingDown,
    StetError,
    TimedOut,
)

#: Connections that may be lost under one call before it is given up.
LOSSES = 3

#: Seconds during which a daemon that is gone is waited for.
PATIENCE = 10.0

#: Seconds before the second attempt; each further pause is twice as long, up to a second.
FIRST_PAUSE = 0.02
LONGEST_PAUSE = 1.0


class Retrying:
    """The attempts of one call. Times are seconds of any steady clock."""

    def __init__(self, *, deadline: float | None, patient: bool) -> None:
        self.deadline = deadline
        self._patient = patient
        self._losses = 0
        self._pause = FIRST_PAUSE
        self._gone_since: float | None = None

    def pause_after(self, error: Exception, now: float) -> float | None:
        """Seconds to wait before trying again; None: give up."""
        if not self._worth_it(error, now):
            return None
        pause, self._pause = self._pause, min(self._pause * 2, LONGEST_PAUSE)
        late = self.deadline is not None and now + pause >= self.deadline
        return None if late else pause

    def reason(self, error: StetError) -> StetError:
        """Why a call was given up. Once a connection was lost under it, only the daemon's answer
        knows whether it was carried out: what prevents a later attempt is no more than a cause.
        """
        if not self._losses or isinstance(error, ConnectionLost):
            return error
        lost = ConnectionLost(f"the connection was lost under this call; then: {error.message}")
        lost.__cause__ = error
        return lost

    def _worth_it(self, error: Exception, now: float) -> bool:
        if isinstance(error, GarbledReply | TimedOut):
            return False
        if isinstance(error, ConnectionLost):
            self._losses += 1
            return self._losses < LOSSES
        gone = isinstance(error, DaemonUnreachable) and self._patient
        if not gone and not isinstance(error, ShuttingDown):
            return False
        if self._gone_since is None:
            self._gone_since = now
        return now - self._gone_since < PATIENCE
