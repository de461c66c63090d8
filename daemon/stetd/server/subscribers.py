"""Sends events to subscribers, in the order of the history.

The files of a commit are known if a call made it. For other commits (outside edits, snapshots) the
historian is asked. If it can't answer, the event counts as lost.

A subscriber on control.sock gets all events of its workspace, or of all workspaces if it has none.
One on agent.sock gets the commits of its workspace, and the modes and upgrade requests of its own
session and of the workspace.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

import msgspec

from stet.wire.events import AnyEvent, CommitEvent, LostEvent, ModeEvent
from stet.wire.failures import Refused
from stet.wire.results import FileChange
from stetd.history.commits import commit_info, parse_commit
from stetd.processes.historian_client import Historian
from stetd.state.events import Committed, Events, Note, Overflow

#: Files of one commit that an event lists at most.
MAX_FILES = 1000

_log = logging.getLogger(__name__)


class Subscriber(msgspec.Struct, eq=False):
    """One connection's subscription. ``workspace`` (its root) or ``session`` is None: those of all.

    No event is sent before ``begin``, so that the answer to ``subscribe`` comes first.
    """

    notify: Callable[[object], None]
    events: Sequence[str]
    workspace: str | None
    session: str | None
    #: The number of the newest note at its subscription: it gets only later ones.
    after: int = 0
    _waiting: list[AnyEvent] | None = []

    def begin(self) -> None:
        """Send the events that have waited, and later ones at once."""
        waiting, self._waiting = self._waiting or [], None
        for event in waiting:
            self.notify(event)

    def send(self, event: AnyEvent) -> None:
        """Send an event, or keep it until ``begin``."""
        if self._waiting is None:
            self.notify(event)
        else:
            self._waiting.append(event)

    def event_count(self, note: Note) -> int:
        """How many events of this note the subscriber gets."""
        if isinstance(note, Overflow):
            counts = note.counts
            return sum(counts[root] for root in counts if self.workspace in (None, root))
        if self.workspace not in (None, note.workspace):
            return 0
        if isinstance(note, Committed):
            return "commit" in self.events
        name = "mode" if isinstance(note, ModeEvent) else "upgrade_request"
        own = self.session is None or note.session in (None, self.session)
        return name in self.events and own


class Feed:
    """Makes events of the writer's notes and sends them to the subscribers."""

    def __init__(self, events: Events, historian: Historian) -> None:
        self._events = events
        self._historian = historian
        self._subscribers: frozenset[Subscriber] = frozenset()
        self._sending: asyncio.Task[None] | None = None

    def add(self, subscriber: Subscriber) -> None:
        """Send this subscriber the events from now on."""
        subscriber.after = self._events.number
        self._subscribers |= {subscriber}
        self._events.listen(self._start_sending)

    def remove(self, subscriber: Subscriber) -> None:
        """Send this subscriber no more events."""
        self._subscribers -= {subscriber}
        if not self._subscribers:
            self._events.listen(None)

    def _start_sending(self) -> None:
        if self._sending is None or self._sending.done():
            self._sending = asyncio.get_running_loop().create_task(self._send_all())

    async def _send_all(self) -> None:
        while (taken := self._events.take()) is not None:
            await self._send(*taken)
            await asyncio.sleep(0)  # a long queue must not block the event loop

    async def _send(self, number: int, note: Note) -> None:
        receivers = [s for s in self._subscribers if s.after < number and s.event_count(note)]
        if not receivers:
            return
        event = await self._make_event(note)
        for subscriber in receivers:
            if subscriber in self._subscribers:
                subscriber.send(event or LostEvent(subscriber.event_count(note)))

    async def _make_event(self, note: Note) -> AnyEvent | None:
        """The event of a note; None if it is lost."""
        if isinstance(note, Overflow):
            return None
        if not isinstance(note, Committed):
            return note
        files = note.files
        if files is None:
            wanted = "files of a commit"
            try:
                files = await self._historian.ask(wanted, note.oid, list[FileChange], note.view)
            except Refused as error:
                _log.warning("commit %s can't be sent to subscribers: %s", note.oid, error)
                return None
        # As in log right after the commit was made: no undo of it exists yet.
        shown = sorted(files, key=lambda each: each.path)[:MAX_FILES]
        info = commit_info(parse_commit(note.oid, note.content), shown)
        return CommitEvent(note.workspace, info, len(files) - len(shown))
