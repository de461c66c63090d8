"""The blocking session: one typed method per request, over a connection that is kept open.

    with stet.connect(workspace=".", session="conv-1", agent="my-agent") as s:
        r = s.patch("src/a.py", [stet.replace("old", "new")])

The methods come from :mod:`stet.session.methods`. This module waits and retries: it opens a lost
connection again, and sends unanswered calls again with the same request ids
(:mod:`stet.session.retrying`). :mod:`stet.aio` is the same for asyncio.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Self, TypeVar, Unpack

from stet.calls import Call, LogFilters
from stet.errors import ConnectionLost, StetError
from stet.service.spawn import Endpoint
from stet.session.connection import Connection, greet, persist
from stet.session.methods import TIMEOUT, Opening, SessionMethods
from stet.session.retrying import Retrying
from stet.wire.framing import Encoding
from stet.wire.results import CommitInfo

if TYPE_CHECKING:
    from stet.session.event_stream import EventStream

T = TypeVar("T")


def connect(
    workspace: str | os.PathLike[str] | None = ".",
    session: str | None = None,
    agent: str | None = None,
    *,
    control: bool = False,
    secret: str | None = None,
    encoding: str = Encoding.MSGPACK,
    timeout: float | None = TIMEOUT,
    start: bool = True,
    endpoint: Endpoint | None = None,
) -> Session:
    """A connected session; a context manager that closes it.

    ``workspace``: an allowed directory or one inside it; None only with ``control``, which uses the
    person's socket and rights. ``session``: the name under which clipboards and mode are kept; None
    lets the daemon choose one. ``secret``: if one is given when the session is new, it must be
    given whenever the session is resumed. ``encoding``: of the messages, ``msgpack`` or ``json``.
    ``timeout``: seconds for a call with all its retries; None: no limit. ``start``: whether to
    start a daemon if none answers. ``endpoint``: another daemon than the environment's.

    Raises DaemonUnreachable, and the refusals of ``hello``: WorkspaceNotAllowed, NotPermitted,
    UnsupportedProtocol.
    """
    place = endpoint or Endpoint.from_environment(control=control)
    directory = None if workspace is None else os.path.abspath(workspace)
    opening = Opening(place, directory, session, agent, secret, Encoding(encoding), start)
    opened = Session(opening, timeout)
    opened.open()
    return opened


class Session(SessionMethods):
    """A session over a connection that is opened again when it is lost.

    Threads may share it; their calls run one after the other.
    """

    def __init__(self, opening: Opening, timeout: float | None) -> None:
        super().__init__(opening, timeout)
        self._connection: Connection | None = None
        self._locks: dict[int, threading.RLock] = {}

    def open(self) -> None:
        """Connect and say hello, unless already connected. Raises as connect()."""
        with self._lock:
            retrying = Retrying(self._deadline(), patient=False)
            persist(lambda: self._connected(retrying.deadline), retrying)

    def close(self) -> None:
        """Close the connection; later calls raise ConnectionLost. May be called twice."""
        with self._lock:
            self._closed = True
            self._drop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def history(
        self, path: str | None = None, **filters: Unpack[LogFilters]
    ) -> Iterator[CommitInfo]:
        """All commits that log() finds with these filters, newest first, read page by page."""
        while True:
            page = self.log(path, **filters)
            yield from page.commits
            if page.cursor is None:
                return
            filters["cursor"] = page.cursor

    def events(self, *names: str) -> EventStream:
        """An iterator of the events from now on (:mod:`stet.wire.events`).

        ``names``: ``commit``, ``mode``, ``upgrade_request``; all of them if none is given. Commits
        come in the order of the history, also those that were made while no connection was open.
        The stream has its own connection; close it, or use it as a context manager.
        """
        from stet.session.event_stream import EventStream  # few programs need it

        self.open()
        stream = EventStream(self._opening, self.timeout, names)
        stream.open()
        return stream

    def perform(self, call: Call[T]) -> T:
        """Carry out one call. Raises StetError."""
        (result,) = self.perform_all([call])
        if isinstance(result, StetError):
            raise result
        return result

    def perform_all(self, batch: Sequence[Call[T]]) -> list[T | StetError]:
        """Pipeline calls: send all at once. Returns the result or refusal of each, in order.

        Writing calls are carried out in this order. If one is refused, the later ones are carried
        out nevertheless.
        """
        outcomes: dict[int, T | StetError] = {}
        with self._lock:
            deadline = self._deadline(sum(call.wait for call in batch))
            retrying = Retrying(deadline, patient=not self._opening.start)
            while unanswered := {i: each for i, each in enumerate(batch) if i not in outcomes}:
                try:
                    self._connected(deadline).exchange(unanswered, outcomes, deadline)
                except StetError as error:
                    self._drop()
                    pause = retrying.pause_after(error, time.monotonic())
                    for index in unanswered.keys() - outcomes.keys():
                        reason = retrying.reason(error, batch[index].request_id)
                        lost = isinstance(reason, ConnectionLost) and not batch[index].repeatable
                        if pause is None or lost:
                            outcomes[index] = reason
                    time.sleep(pause or 0)
                except BaseException:
                    # Interrupted (by KeyboardInterrupt, say): replies that are still to come would
                    # be taken for the answers to later calls.
                    self._drop()
                    raise
        return [outcomes[i] for i in range(len(batch))]

    @property
    def _lock(self) -> threading.RLock:
        # One for each process: what a thread of the parent held at a fork nobody releases here.
        return self._locks.setdefault(os.getpid(), threading.RLock())

    def _connected(self, deadline: float | None) -> Connection:
        if self._closed:
            raise ConnectionLost("this session is closed; open another one")
        if self._connection is not None and self._connection.ended:
            self._drop()
        if self._connection is None:
            self._connection, hello = greet(self._opening, deadline)
            self._greeted(hello)
        return self._connection

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
