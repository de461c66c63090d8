"""The rules by which a session retries after a lost connection; no I/O, no clock.

Only calls are retried that read, set a value, or carry a ``request_id``. The rules:

- the connection is lost during a call: the call may lose at most LOSSES connections, as a call
  that crashes the daemon must not crash it for ever;
- the daemon is shutting down: the call was not carried out, so it is retried for PATIENCE
  seconds, which is enough for a restart under systemd;
- no daemon answers: the same if this client does not start one (``patient``);
- garbled replies, timeouts and refusals are never retried.
"""

from __future__ import annotations

from stet.errors import (
    ConnectionLost,
    DaemonUnreachable,
    GarbledReply,
    ShuttingDown,
    StetError,
    TimedOut,
    TransportError,
)

LOSSES = 3
PATIENCE = 10.0

#: Seconds before the second attempt; each later pause is twice as long, up to LONGEST_PAUSE.
FIRST_PAUSE = 0.02
LONGEST_PAUSE = 1.0


class Retrying:
    """The attempts of one call. Times are seconds of any monotonic clock."""

    def __init__(self, deadline: float | None, *, patient: bool) -> None:
        self.deadline = deadline
        self._patient = patient
        self._losses = 0
        self._pause = FIRST_PAUSE
        self._gone_since: float | None = None

    def pause_after(self, error: Exception, now: float) -> float | None:
        """Seconds to wait before the next attempt; None: give up."""
        if not self._worth_it(error, now):
            return None
        pause, self._pause = self._pause, min(self._pause * 2, LONGEST_PAUSE)
        late = self.deadline is not None and now + pause >= self.deadline
        return None if late else pause

    def reason(self, error: StetError, request_id: str | None) -> StetError:
        """The error of a call that is given up; one of transport has the call's request id.

        If a connection was lost during the call, it may have been carried out. Then this is
        ConnectionLost, and a later error is only its cause.
        """
        kind, message = type(error), error.message
        if self._losses and not isinstance(error, ConnectionLost):
            kind = ConnectionLost
            message = f"the connection was lost under this call; then: {message}"
        if not issubclass(kind, TransportError):
            return error
        reason = kind(message, request_id=request_id)
        reason.__cause__ = error
        return reason

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
