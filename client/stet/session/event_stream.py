"""Events as they happen, for programs that block: ``for event in session.events(): ...``.

A stream has a connection of its own, so that calls of the session go on beside it. It lives
through restarts of the daemon: it waits until one answers again (it starts none), and gives
what happened meanwhile, from the log (:mod:`stet.session.following`). What is not taken from it
waits in the daemon, which counts what becomes too much.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Self, TypeVar

from stet.calls import Call, subscribe
from stet.errors import StetError
from stet.service.spawn import reach
from stet.session.connection import Connection
from stet.session.conversation import Introduction, outcome
from stet.session.event_intake import GONE, EventIntake
from stet.session.following import CaughtUp, Gap, catching_up
from stet.session.methods import Opening
from stet.session.retrying import FIRST_PAUSE, LONGEST_PAUSE
from stet.wire.events import AnyEvent, LostEvent
from stet.wire.results import HelloResult

T = TypeVar("T")


class EventStream(EventIntake):
    """An iterator of events; a context manager that closes it.

    Made by :meth:`stet.Session.events`, and subscribed from then on. ``heads`` has the newest
    commit of each workspace, by its root, at that moment: everything later comes.
    """

    def __init__(self, opening: Opening, names: Sequence[str] = ()) -> None:
        super().__init__(opening, names)
        self._connection: Connection | None = None
        self._closed = threading.Event()
        #: Whoever uses the connection, to which close() must not be one more.
        self._turn = threading.Lock()
        self._subscribe()

    def __iter__(self) -> Iterator[AnyEvent]:
        return self

    def __next__(self) -> AnyEvent:
        event = self.wait()
        if event is None:
            raise StopIteration
        return event

    def wait(self, timeout: float | None = None) -> AnyEvent | None:
        """The next event; None when none came in ``timeout`` seconds, or after close().

        Raises what the daemon refuses after a reconnect (WorkspaceNotAllowed, say).
        """
        try:
            with self._turn:
                return self._next(None if timeout is None else time.monotonic() + timeout)
        finally:
            self._drop_if_closed()

    def _next(self, deadline: float | None) -> AnyEvent | None:
        pause = FIRST_PAUSE
        while not self._ready and not self._closed.is_set():
            try:
                if self._connection is None:
                    self._subscribe()  # which may find something to give
                    continue
                told = self._connection.next_event(deadline)
                if told is None:
                    return None
                pause = FIRST_PAUSE
                self._fill(self._taken(told))
            except GONE:
                self._drop()
                left = LONGEST_PAUSE if deadline is None else deadline - time.monotonic()
                if left <= 0:
                    return None
                self._closed.wait(min(pause, left))
                pause = min(pause * 2, LONGEST_PAUSE)
        return self._ready.popleft() if self._ready and not self._closed.is_set() else None

    @property
    def connected(self) -> bool:
        """Whether the daemon was there when the stream last looked."""
        return self._connection is not None

    def close(self) -> None:
        """End the stream; a wait in another thread ends too. May be called twice."""
        self._closed.set()
        connection = self._connection
        if connection is not None:
            connection.interrupt()
        self._drop_if_closed()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _subscribe(self) -> None:
        connection = self._greeted(self._opening.introduction)
        try:
            answer = self._ask(connection, subscribe(self._names))
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        self._fill(self._began(answer))

    def _fill(self, gap: Gap | None) -> None:
        for root in gap.roots if gap is not None else ():
            self._ready.extend(self._missing(root))
        self._filled()

    def _missing(self, root: str) -> list[AnyEvent]:
        try:
            connection = self._greeted(self._opening.introduction.in_workspace(root))
        except GONE:
            raise
        except StetError:  # no longer allowed, and so no longer to be read
            return [LostEvent(None)]
        try:
            return self._follower.filled(root, self._catch_up(connection, root))
        finally:
            connection.close()

    def _catch_up(self, connection: Connection, root: str) -> CaughtUp:
        catching = catching_up(self._follower.last(root))
        call = next(catching)
        while True:
            try:
                call = catching.send(self._ask(connection, call))
            except StopIteration as done:
                caught_up: CaughtUp = done.value
                return caught_up

    def _greeted(self, introduction: Introduction) -> Connection:
        connection = Connection(reach(self._opening.endpoint, start=False), self._opening.encoding)
        try:
            self._ask(connection, Call("hello", introduction.params(), HelloResult))
        except BaseException:
            connection.close()
            raise
        return connection

    def _ask(self, connection: Connection, call: Call[T]) -> T:
        deadline = (
            None if self._opening.timeout is None else time.monotonic() + self._opening.timeout
        )
        for _, answer in connection.exchange([(call.method, call.params)], deadline):
            result = outcome(call, answer, connection.encoding)
            if isinstance(result, StetError):
                raise result
            return result
        raise AssertionError("BUG: a call without an answer")

    def _drop_if_closed(self) -> None:
        """Close the connection of a closed stream, unless somebody still waits with it.

        Who waits comes here after he has given up his turn: one of the two finds it closed.
        """
        if self._closed.is_set() and self._turn.acquire(blocking=False):
            self._drop()
            self._turn.release()

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
