"""A blocking connection: one socket and its conversation, with deadlines.

It sends and receives at the same time, so that client and daemon can't block each other, however
much is pipelined. :mod:`stet.session.blocking` reconnects and retries.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import socket
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from stet.calls import Call
from stet.errors import ConnectionLost, InvalidParams, ShuttingDown, StetError, TimedOut
from stet.service.spawn import reach
from stet.session.conversation import Conversation
from stet.session.methods import Opening
from stet.session.retrying import Retrying
from stet.wire.framing import Encoding
from stet.wire.results import HelloResult

T = TypeVar("T")

RECEIVE_BYTES = 256 * 1024
_FOR_EVER_S = 2_000_000
NO_ANSWER = (
    "the daemon did not answer in time. A call that changes something may still be carried out: "
    "ask again with the same request_id to learn its outcome"
)


def greet(
    opening: Opening, deadline: float | None, made: Callable[[Connection], None] = lambda _: None
) -> tuple[Connection, HelloResult]:
    """A new connection after hello, and the daemon's answer to it. Raises StetError.

    ``made`` gets the connection before hello, so that another thread can interrupt the wait.
    """
    connection = Connection(reach(opening.endpoint, start=opening.start), opening.encoding)
    try:
        made(connection)
        return connection, connection.ask(opening.hello(), deadline)
    except BaseException:
        connection.close()
        raise


def persist(attempt: Callable[[], T], retrying: Retrying) -> T:
    """Try to connect, and retry by the rules of stet.session.retrying. Raises StetError."""
    while True:
        try:
            return attempt()
        except StetError as error:
            pause = retrying.pause_after(error, time.monotonic())
            if pause is None:
                raise
            time.sleep(pause)


class Connection:
    """A connected, non-blocking socket and the conversation over it.

    Not thread-safe, except interrupt().
    """

    def __init__(self, connected: socket.socket, encoding: Encoding) -> None:
        self._socket = connected
        self._process = os.getpid()
        self._conversation = Conversation(encoding)
        self._poll = select.poll()
        self._poll.register(connected, select.POLLIN)

    def exchange(
        self,
        batch: Mapping[int, Call[T]],
        outcomes: dict[int, T | StetError],
        deadline: float | None,
    ) -> None:
        """Send all calls at once; fill in their outcomes, by number, as answers arrive.

        The outcome of a call that can't be encoded is InvalidParams. ``deadline`` is a value of
        time.monotonic(). Raises ShuttingDown in the end if calls were refused with it, which have
        no outcome, as they were not carried out. Raises ConnectionLost, TimedOut, GarbledReply.
        After all of these the connection must be closed.
        """
        sent: list[bytes] = []
        for number, call in batch.items():
            try:
                sent.append(self._conversation.send(call, number))
            except InvalidParams as error:
                outcomes[number] = error
        outgoing = memoryview(b"".join(sent))
        waiting = self._conversation.waiting
        stopping: ShuttingDown | None = None
        while waiting:
            outgoing = self._send(outgoing)
            if not self._wait(bool(outgoing), deadline):
                raise TimedOut(NO_ANSWER)
            self._receive()
            # What comes after the last answer is the next call's: perhaps why this connection ends.
            while waiting and (found := self._conversation.next_outcome()) is not None:
                number, outcome = found
                if isinstance(outcome, ShuttingDown):
                    stopping = outcome
                else:
                    outcomes[number] = outcome
        if stopping is not None:
            raise stopping

    def ask(self, call: Call[T], deadline: float | None) -> T:
        """The result of one call. Raises StetError."""
        outcomes: dict[int, T | StetError] = {}
        self.exchange({0: call}, outcomes, deadline)
        outcome = outcomes[0]
        if isinstance(outcome, StetError):
            raise outcome
        return outcome

    def next_event(self, deadline: float | None) -> Mapping[str, Any] | None:
        """The params of the next notification; None if none comes by the deadline.
        Raises ConnectionLost and GarbledReply; after these the connection must be closed.
        """
        if self._foreign:
            raise ConnectionLost("the connection belongs to the parent of this process")
        events = self._conversation.events
        # No call waits for its outcome here: this only collects events.
        while self._conversation.next_outcome() is None and not events:
            if not self._wait(False, deadline):
                return None
            self._receive()
        return events.popleft()

    def interrupt(self) -> None:
        """Make another thread that waits on this connection raise ConnectionLost."""
        if not self._foreign:  # the parent still uses it
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    @property
    def ended(self) -> bool:
        """Whether an idle connection can't be used any more: the daemon has closed it (at a stop,
        say), or it belongs to the parent of this process (after a fork).
        """
        return self._foreign or self._conversation.refused or bool(self._poll.poll(0))

    @property
    def _foreign(self) -> bool:
        return self._process != os.getpid()

    def close(self) -> None:
        """Close the socket. May be called twice."""
        self._socket.close()

    def _send(self, outgoing: memoryview) -> memoryview:
        try:
            return outgoing[self._socket.send(outgoing) :] if outgoing else outgoing
        except BlockingIOError:
            return outgoing
        except (BrokenPipeError, ConnectionResetError):
            # The daemon has closed the connection and may have said why. _receive reads that, and
            # then notices the end of the stream.
            return memoryview(b"")
        except OSError as error:
            raise ConnectionLost(f"sending to the daemon failed: {error.strerror}") from error

    def _wait(self, sending: bool, deadline: float | None) -> bool:
        """Whether the socket is ready by the deadline; polls once even if it has passed."""
        self._poll.modify(self._socket, select.POLLIN | (select.POLLOUT if sending else 0))
        left = math.inf if deadline is None else max(0.0, deadline - time.monotonic())
        # poll() takes no longer timeout than _FOR_EVER_S; such a wait counts as endless.
        return bool(self._poll.poll(math.ceil(left * 1000) if left < _FOR_EVER_S else None))

    def _receive(self) -> None:
        try:
            data = self._socket.recv(RECEIVE_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            raise ConnectionLost(
                f"the connection to the daemon broke before the reply came: {error.strerror}"
            ) from error
        if not data:
            raise ConnectionLost("the daemon closed the connection before the reply came")
        self._conversation.feed(data)
