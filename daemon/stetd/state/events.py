"""The queue of notes from the writer to the subscribers.

The writer puts a *note* here for each commit and change of access; without subscribers it puts
nothing. :mod:`stetd.server.subscribers` makes events of the notes. A note has no file contents. If
MOST notes wait, further ones are only counted, at the end of the queue: this keeps the order and
bounds the memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence

import msgspec

from stet.wire.events import ModeEvent, UpgradeRequestEvent
from stet.wire.results import FileChange
from stetd.history.objects import NewObject
from stetd.processes.historian_messages import WorkspaceView
from stetd.state.workspace import Workspace

#: Notes that may wait.
MOST = 2000


class Committed(msgspec.Struct, frozen=True):
    """A commit was published: its object, and its files if they are known already.

    ``view``: the workspace at this commit, for questions about it.
    """

    view: WorkspaceView
    oid: str
    content: bytes
    files: Sequence[FileChange] | None

    @property
    def workspace(self) -> str:
        """The root, as in the events."""
        return self.view.root


class Overflow(msgspec.Struct):
    """The number of notes that were dropped here, by the root of the workspace."""

    counts: dict[str, int] = {}


#: Changes of access are queued as their events.
Occurrence = Committed | ModeEvent | UpgradeRequestEvent
Note = Occurrence | Overflow


class Events(msgspec.Struct):
    """The queued notes, oldest first."""

    #: Number of the newest note: a subscriber that begins now gets the later ones.
    number: int = 0
    _notes: deque[tuple[int, Note]] = msgspec.field(default_factory=deque)
    _wake: Callable[[], None] | None = None

    def listen(self, wake: Callable[[], None] | None) -> None:
        """Call ``wake`` for each new note; None: there are no subscribers, drop all notes."""
        self._wake = wake
        if wake is None:
            self._notes.clear()

    def committed(
        self,
        workspace: Workspace,
        number: int,
        objects: Iterable[NewObject],
        files: Sequence[FileChange] | None,
    ) -> None:
        """Queue a note for each commit among these objects, which reach Git with record ``number``.

        ``files``: of the last, if known.
        """
        if self._wake is None:
            return
        commits = [each for each in objects if each.kind == "commit"]
        for commit in commits:
            view = WorkspaceView(workspace.root, workspace.shadow, commit.oid, number)
            known = files if commit is commits[-1] else None
            self.publish(Committed(view, commit.oid, commit.content, known))

    def publish(self, note: Occurrence) -> None:
        """Queue a note, or count it if too many wait."""
        if self._wake is None:
            return
        self.number += 1
        if len(self._notes) < MOST:
            self._notes.append((self.number, note))
        else:
            _, last = self._notes[-1]
            if not isinstance(last, Overflow):
                last = Overflow()
                self._notes.append((self.number, last))
            # Under the newest number, so that subscribers that have begun since get it, too.
            self._notes[-1] = self.number, last
            last.counts[note.workspace] = last.counts.get(note.workspace, 0) + 1
        self._wake()

    def take(self) -> tuple[int, Note] | None:
        """The oldest note and its number."""
        return self._notes.popleft() if self._notes else None
