"""A blocking stream of events: ``for event in session.events(): ...``.

A stream has its own connection, so that the session can make calls at the same time. It survives
restarts of the daemon: it waits until a daemon answers again (it starts none), and takes the
commits made in between from the log. Events that are not read yet wait in the daemon.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Self

import msgspec

from stet import calls
from stet.calls import Call
from stet.errors import ConnectionLost, DaemonUnreachable, GarbledReply, ShuttingDown, StetError
from stet.session.connection import Connection, greet, persist
from stet.session.methods import Opening
from stet.session.retrying import FIRST_PAUSE, LONGEST_PAUSE, Retrying
from stet.wire.events import EVENTS, AnyEvent, CommitEvent, LostEvent, read_event
from stet.wire.results import CommitInfo, LogResult

#: The connection is lost, and a new one may work.
_GONE = (ConnectionLost, DaemonUnreachable, ShuttingDown)

#: Seconds that a request may take at least, also in a shorter wait: else a program that waits often
#: and briefly would never be subscribed again.
_LEAST_S = 2.0

#: Commits in a page of the log, and pages read for one gap at most; older commits are lost.
_PAGE = 500
_PAGES = 10


class EventStream:
    """An iterator of events; a context manager that closes it.

    :meth:`stet.Session.events` makes and opens it. ``heads`` has the newest commit of each
    workspace, by its root, at that moment; the stream gives every later commit.
    """

    def __init__(self, opening: Opening, timeout: float | None, names: Sequence[str] = ()) -> None:
        self._opening = opening
        self._timeout = timeout
        #: The end of the wait that is going on, if it has one.
        self._until: float | None = None
        self._names = tuple(names) or EVENTS
        self._follower = Follower(self._names)
        self._connection: Connection | None = None
        #: The connection that was made last. It may still wait for its answers.
        self._newest: Connection | None = None
        #: How often it has subscribed. Events between two connections are lost, except commits.
        self.connections = 0
        self._closed = threading.Event()
        #: Held while a thread uses the connection; close() must not use it at the same time.
        self._turn = threading.Lock()
        self.heads: dict[str, str | None] = {}

    def open(self) -> None:
        """Subscribe for the first time, unless the stream is closed. Raises StetError."""
        retrying = Retrying(self._deadline(), patient=not self._opening.start)
        try:
            # Not tried again after close(): that would start a daemon, or wait for one.
            self.heads = persist(
                lambda: {} if self._closed.is_set() else self._subscribe(), retrying
            )
            self._opening = msgspec.structs.replace(self._opening, start=False)
        finally:
            self._drop_if_closed()

    def __iter__(self) -> Iterator[AnyEvent]:
        return self

    def __next__(self) -> AnyEvent:
        event = self.wait()
        if event is None:
            raise StopIteration
        return event

    def wait(self, timeout: float | None = None) -> AnyEvent | None:
        """The next event; None if none comes in ``timeout`` seconds, or after close().

        Raises the daemon's refusal after a reconnect (WorkspaceNotAllowed, say), and GarbledReply.
        """
        try:
            with self._turn:
                return self._next(None if timeout is None else time.monotonic() + timeout)
        finally:
            self._drop_if_closed()

    def _next(self, deadline: float | None) -> AnyEvent | None:
        pause, ready, self._until = FIRST_PAUSE, self._follower.ready, deadline
        while not ready and not self._closed.is_set():
            try:
                if self._connection is None:
                    self._subscribe()  # it may make events ready
                    continue
                params = self._connection.next_event(deadline)
                if params is None:
                    return None
                pause = FIRST_PAUSE
                self._take(params)
            except StetError as error:
                self._drop()  # the next subscription fills what is missing by now
                if isinstance(error, GarbledReply) or not isinstance(error, _GONE):
                    raise
                left = LONGEST_PAUSE if deadline is None else deadline - time.monotonic()
                if left <= 0:
                    return None
                self._closed.wait(min(pause, left))
                pause = min(pause * 2, LONGEST_PAUSE)
        return ready.popleft() if ready and not self._closed.is_set() else None

    @property
    def connected(self) -> bool:
        """Whether the stream had a connection when it last waited."""
        return self._connection is not None

    def close(self) -> None:
        """End the stream, and a wait in another thread. May be called twice."""
        self._closed.set()
        for connection in (self._connection, self._newest):
            if connection is not None:
                connection.interrupt()
        self._drop_if_closed()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _subscribe(self) -> dict[str, str | None]:
        connection, _ = greet(self._opening, self._deadline(), self._made)
        try:
            answer = connection.ask(calls.subscribe(self._names), self._deadline())
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        self.connections += 1
        self._follower.began(answer.heads)
        self._catch_up()
        return answer.heads

    def _made(self, connection: Connection) -> None:
        self._newest = connection
        if self._closed.is_set():  # close() may have come too early to see this connection
            connection.interrupt()

    def _take(self, params: Mapping[str, object]) -> None:
        """Handle a notification. Raises GarbledReply for a known event of another shape."""
        try:
            event = read_event(params)
        except msgspec.ValidationError as error:
            raise GarbledReply(
                f"the daemon's event has another shape than this client knows: {error}"
            ) from error
        if event is not None:
            self._follower.take(event)
            self._catch_up()

    def _catch_up(self) -> None:
        for root in self._follower.behind:
            self._catch_up_in(root)
        self._follower.caught_up()

    def _catch_up_in(self, root: str) -> None:
        elsewhere = msgspec.structs.replace(self._opening, workspace=root)
        try:
            connection, _ = greet(elsewhere, self._deadline(), self._made)
        except _GONE:
            raise
        except StetError:  # the workspace is no longer allowed, so its log can't be read
            self._follower.ready.append(LostEvent(None))
            return
        with contextlib.closing(connection):
            self._follower.catch_up(root, lambda call: connection.ask(call, self._deadline()))

    def _deadline(self) -> float | None:
        now = time.monotonic()
        limits = [] if self._timeout is None else [now + self._timeout]
        if self._until is not None:
            limits.append(max(self._until, now + _LEAST_S))
        return min(limits, default=None)

    def _drop_if_closed(self) -> None:
        """Close the connection of a closed stream, unless another thread still waits on it.
        That thread calls this after it has released the lock, so one of the two closes it.
        """
        if self._closed.is_set() and self._turn.acquire(blocking=False):
            self._drop()
            self._turn.release()

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class Follower:
    """Follows histories without missing a commit, whatever happens to the connection; no I/O.

    ``subscribe`` answers with the heads of the histories, and every commit event names its parent.
    So a client that remembers the last commit of each workspace notices when commits are missing
    (after a reconnect, or because the daemon dropped events), and reads them from ``log``::

        follower.began(heads)             after every subscribe
        follower.take(event)              for every event
        for root in follower.behind: follower.catch_up(root, ask)
        follower.caught_up()              after both; then the events to give are in follower.ready

    Commits from the log may come as events again, a little later; those events are skipped.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.ready: deque[AnyEvent] = deque()
        self.behind: list[str] = []
        #: Lost events to give after the missing commits. They are kept, because the connection may
        #: be lost meanwhile, and the next one does not repeat them.
        self._afterwards: list[LostEvent] = []
        self._commits = "commit" in names
        self._only_commits = tuple(names) == ("commit",)
        self._began = False
        self._last: dict[str, str | None] = {}
        #: Commits from the log, which may come as events again.
        self._given: dict[str, set[str]] = {}

    def began(self, heads: Mapping[str, str | None]) -> None:
        """Note that events come after these heads."""
        # A workspace that was not there before the gap may have been allowed again, with an old
        # history: nobody knows which of its commits are new.
        if self._began and self._commits and any(heads[root] for root in heads.keys() - self._last):
            self.ready.append(LostEvent(None))
        self._began = True
        self._last = {**heads, **self._last}
        self.behind = [root for root in heads if self._commits and self._last[root] != heads[root]]

    def take(self, event: AnyEvent) -> None:
        """Note an event: it is ready if it is the next one, and skipped if it was given already."""
        if isinstance(event, LostEvent) and self._commits:
            self.behind = list(self._last)
            if not self._only_commits:
                self._afterwards.append(event)
            return
        if isinstance(event, CommitEvent):
            root, commit = event.workspace, event.commit
            given = self._given.get(root, set())
            if commit.commit in given:
                given.discard(commit.commit)
                return
            if self._last.get(root, commit.parent) != commit.parent:
                self.behind = [root]
                return
            given.clear()
            self._last[root] = commit.commit
        self.ready.append(event)

    def catch_up(self, root: str, ask: Callable[[Call[LogResult]], LogResult]) -> None:
        """Read the missing commits of a workspace from the log, at most _PAGES pages of it. If an
        older one is missing, too, only a LostEvent is ready.
        """
        last, cursor = self._last.get(root), None
        found: list[CommitInfo] = []
        complete = False
        for _ in range(_PAGES):
            page = ask(calls.log(limit=_PAGE, cursor=cursor))
            later = list(takewhile(lambda each: each.commit != last, page.commits))
            found += later
            cursor = page.cursor
            met_last = len(later) < len(page.commits)
            complete = met_last or (cursor is None and last is None)
            if complete or cursor is None:
                break
        if found:
            self._last[root] = found[0].commit
            self._given.setdefault(root, set()).update(each.commit for each in found)
            events = (CommitEvent(root, commit) for commit in reversed(found))
            self.ready.extend(events if complete else [LostEvent(None)])

    def caught_up(self) -> None:
        """Note that no commits are missing any more."""
        self.behind = []
        self.ready.extend(self._afterwards)
        self._afterwards.clear()
