"""Subscribers, and the events that they get, in the order of the history.

Which files a commit changed is known where a call made it; for others (outside edits, snapshots)
the historian is asked. Where that fails, the event counts as lost.

Who gets what: control.sock everything of its workspace, or of all when it has none;
agent.sock the commits of its workspace, and modes and requests of its own session or of the
workspace.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from stet.wire.events import AnyEvent, CommitEvent, LostEvent, ModeEvent
from stet.wire.failures import Refused
from stet.wire.results import FileChange
from stetd.history.commits import commit_info, parse_commit
from stetd.processes.historian_client import Historian
from stetd.processes.historian_messages import Place
from stetd.state.events import AccessChanged, Committed, Events, Note, Overflow

#: Files of one commit that an event lists.
MOST_FILES = 1000

_log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class Subscriber:
    """One connection's subscription; ``workspace`` and ``session`` are None for all.

    Nothing is sent before ``begin``, so that the answer to ``subscribe`` comes first.
    """

    notify: Callable[[object], None]
    events: Sequence[str]
    workspace: str | None
    session: str | None
    #: Number of the last note that it does not get: it was there before.
    after: int = 0
    _waiting: list[AnyEvent] | None = field(default_factory=list)

    def begin(self) -> None:
        """Send from now on, first what has come already."""
        waiting, self._waiting = self._waiting or [], None
        for event in waiting:
            self.notify(event)

    def send(self, event: AnyEvent) -> None:
        """Send an event, or keep it until ``begin``, which is a moment away."""
        if self._waiting is None:
            self.notify(event)
        else:
            self._waiting.append(event)

    def wants(self, note: Note) -> int:
        """How many events a note is for this subscriber."""
        if isinstance(note, Overflow):
            counts = note.counts
            return sum(counts[name] for name in counts if self.workspace in (None, name))
        if self.workspace not in (None, note.workspace):
            return 0
        if isinstance(note, Committed):
            return "commit" in self.events
        name = "mode" if isinstance(note.event, ModeEvent) else "upgrade_request"
        own = self.session is None or note.event.session in (None, self.session)
        return name in self.events and own


class Feed:
    """Takes the notes and sends events to the subscribers."""

    def __init__(self, events: Events, historian: Historian) -> None:
        self._events = events
        self._historian = historian
        self._subscribers: frozenset[Subscriber] = frozenset()
        self._telling: asyncio.Task[None] | None = None

    def add(self, subscriber: Subscriber) -> None:
        """Send this one too all that happens from now on."""
        subscriber.after = self._events.number
        self._subscribers |= {subscriber}
        self._events.listen(self._tell_soon)

    def remove(self, subscriber: Subscriber) -> None:
        """Send this one nothing more."""
        self._subscribers -= {subscriber}
        if not self._subscribers:
            self._events.listen(None)

    def _tell_soon(self) -> None:
        if self._telling is None or self._telling.done():
            self._telling = asyncio.get_running_loop().create_task(self._tell_all())

    async def _tell_all(self) -> None:
        while (taken := self._events.take()) is not None:
            try:
                await self._tell(*taken)
            except Exception:  # noqa: BLE001 - the later events must still be sent
                _log.exception("an event could not be sent")
            await asyncio.sleep(0)  # a long queue must not keep the loop from its clients

    async def _tell(self, number: int, note: Note) -> None:
        wanting = [s for s in self._subscribers if s.after < number and s.wants(note)]
        if not wanting:
            return
        event = await self._event(note)
        for subscriber in wanting:
            if subscriber in self._subscribers:
                subscriber.send(event or LostEvent(subscriber.wants(note)))

    async def _event(self, note: Note) -> AnyEvent | None:
        """The event to send; None where it can't be made."""
        if isinstance(note, Overflow):
            return None
        if isinstance(note, AccessChanged):
            return note.event
        files = note.files
        if files is None:
            number, wanted = note.number, "files of a commit"
            place = Place(note.workspace, note.root, note.shadow, head=note.oid, number=number)
            try:
                files = await self._historian.ask(wanted, note.oid, list[FileChange], place)
            except Refused as error:
                _log.warning("commit %s can't be sent to subscribers: %s", note.oid, error)
                return None
        # As log gives it the moment it was made: nothing has undone it yet.
        shown = sorted(files, key=lambda each: each.path)[:MOST_FILES]
        info = commit_info(parse_commit(note.oid, note.content), shown)
        return CommitEvent(note.root, info, len(files) - len(shown))
