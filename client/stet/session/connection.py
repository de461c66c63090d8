"""A blocking connection: moves a conversation's bytes through one socket, with deadlines.

Sending and receiving go on at the same time, so that neither side can block the other however much
is pipelined. Reconnecting and trying again is :mod:`stet.session.blocking`'s.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from stet.calls import Call
from stet.errors import ConnectionLost, GarbledReply, InvalidParams, StetError, TimedOut
from stet.service.spawn import reach
from stet.session.conversation import Answer, Conversation, outcome
from stet.session.methods import Opening
from stet.wire.framing import Encoding
from stet.wire.results import HelloResult

T = TypeVar("T")

_RECEIVE_BYTES = 256 * 1024
_FOR_EVER_S = 2_000_000
NO_ANSWER = (
    "the daemon did not answer in time. A call that changes something may still be carried out: "
    "ask again with the same request_id to learn its outcome"
)


def greet(opening: Opening, deadline: float | None) -> tuple[Connection, HelloResult]:
    """A connection on which hello was said, and the answer. Raises StetError."""
    connection = Connection(reach(opening.endpoint, start=opening.start), opening.encoding)
    try:
        return connection, connection.ask(opening.hello(), deadline)
    except BaseException:
        connection.close()
        raise


class Connection:
    """One connected socket and the conversation over it; not safe for threads."""

    def __init__(self, connected: socket.socket, encoding: Encoding) -> None:
        connected.setblocking(False)
        self._socket = connected
        self._process = os.getpid()
        self._conversation = Conversation(encoding)
        self._poll = select.poll()
        self._poll.register(connected, select.POLLIN)

    @property
    def encoding(self) -> Encoding:
        """How the messages are written."""
        return self._conversation.encoding

    def exchange(
        self, requests: Sequence[tuple[str, Mapping[str, Any]]], deadline: float | None
    ) -> Iterator[tuple[int, Answer]]:
        """Send all requests at once; give (position in ``requests``, answer) as they come.

        What can't be sent is answered here, with InvalidParams. ``deadline`` is of
        time.monotonic(). Raises ConnectionLost, TimedOut, GarbledReply, after which the
        connection must be closed, as after an answer that is not ``named``.
        """
        positions: dict[int | None, int] = {}
        sent: list[bytes] = []
        for position, (method, params) in enumerate(requests):
            try:
                number, data = self._conversation.send(method, params)
            except InvalidParams as error:
                yield position, Answer(None, None, error)
            else:
                positions[number] = position
                sent.append(data)
        outgoing = memoryview(b"".join(sent))
        while positions:
            outgoing = self._send(outgoing)
            if not self._wait(bool(outgoing), deadline):
                raise TimedOut(NO_ANSWER)
            self._receive()
            while (answer := self._conversation.next_answer()) is not None:
                yield positions.pop(answer.id), answer

    def ask(self, call: Call[T], deadline: float | None) -> T:
        """The result of one call. Raises StetError."""
        ((_, answer),) = self.exchange([(call.method, call.params)], deadline)
        result = outcome(call, answer, self.encoding)
        if isinstance(result, StetError):
            raise result
        return result

    def next_event(self, deadline: float | None) -> Mapping[str, Any] | None:
        """The params of the next notification; None when there is none by the deadline.
        Raises ConnectionLost and GarbledReply, after which the connection must be closed.
        """
        events = self._conversation.events
        while not events:
            answer = self._conversation.next_answer()
            if answer is not None:
                raise answer.error or GarbledReply("the daemon answered what was not asked")
            if not events:
                if not self._wait(False, deadline):
                    return None
                self._receive()
        return events.popleft()

    def interrupt(self) -> None:
        """Let another thread that waits for something lose the connection."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    @property
    def ended(self) -> bool:
        """Whether an idle connection is of no more use here: the daemon has closed it, as it does
        when it stops, or it is the process's that this one was forked from.
        """
        return self._process != os.getpid() or bool(self._poll.poll(0))

    def close(self) -> None:
        """Close the socket. May be called twice."""
        self._socket.close()

    def _send(self, outgoing: memoryview) -> memoryview:
        try:
            return outgoing[self._socket.send(outgoing) :] if outgoing else outgoing
        except BlockingIOError:
            return outgoing
        except (BrokenPipeError, ConnectionResetError):
            # Closed by the daemon, which may have said why: what it sent is still to be
            # read, and the end of it is noticed there.
            return memoryview(b"")
        except OSError as error:
            raise ConnectionLost(f"sending to the daemon failed: {error.strerror}") from error

    def _wait(self, sending: bool, deadline: float | None) -> bool:
        """Whether the socket is ready by the deadline; asked once in any case."""
        self._poll.modify(self._socket, select.POLLIN | (select.POLLOUT if sending else 0))
        left = math.inf if deadline is None else max(0.0, deadline - time.monotonic())
        # Longer than poll() can wait is for ever.
        return bool(self._poll.poll(math.ceil(left * 1000) if left < _FOR_EVER_S else None))

    def _receive(self) -> None:
        try:
            data = self._socket.recv(_RECEIVE_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            raise ConnectionLost(
                f"the connection to the daemon broke before the reply came: {error.strerror}"
            ) from error
        if not data:
            raise ConnectionLost("the daemon closed the connection before the reply came")
        self._conversation.feed(data)
