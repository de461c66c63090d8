"""What happened, on its way from the writer to the subscribers.

The writer puts a *note* here and goes on; while nobody subscribes it does nothing at all.
:mod:`stetd.server.subscribers` makes events of the notes. A note keeps no file contents. When MOST
notes wait, further ones are only counted, at the end of the queue: the order stays, and the memory
is bounded.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import msgspec

from stet.wire.events import ModeEvent, UpgradeRequestEvent
from stet.wire.results import FileChange
from stetd.history.objects import NewObject

#: Notes that may wait.
MOST = 2000


class Committed(msgspec.Struct, frozen=True):
    """A commit was published: its object, and its files if they are known already.

    ``number`` is the journal record with which it reaches Git.
    """

    workspace: str
    root: str
    shadow: str
    number: int
    oid: str
    content: bytes
    files: Sequence[FileChange] | None


class Told(msgspec.Struct, frozen=True):
    """A mode was set (``event.session`` None: the workspace's), or write access asked for, or
    decided.
    """

    workspace: str
    event: ModeEvent | UpgradeRequestEvent


@dataclass(slots=True)
class Overflow:
    """The number of notes that were dropped here, by workspace."""

    counts: dict[str, int] = field(default_factory=dict)


Occurrence = Committed | Told
Note = Occurrence | Overflow


class Events:
    """The notes that wait, oldest first."""

    def __init__(self) -> None:
        self._notes: deque[tuple[int, Note]] = deque()
        #: How many notes there were: whoever begins to listen now gets later ones.
        self.number = 0
        self._wake: Callable[[], None] | None = None

    def listen(self, wake: Callable[[], None] | None) -> None:
        """Call this when notes come; None: nobody wants any."""
        self._wake = wake
        if wake is None:
            self._notes.clear()

    @property
    def wanted(self) -> bool:
        """Whether anybody listens."""
        return self._wake is not None

    def committed(
        self,
        workspace: str,
        root: str,
        shadow: str,
        number: int,
        objects: Iterable[NewObject],
        files: Sequence[FileChange] | None = None,
    ) -> None:
        """Queue a note for each commit among these objects; ``files``: those of the last one."""
        if not self.wanted:
            return
        commits = [each for each in objects if each.kind == "commit"]
        for commit in commits:
            known = files if commit is commits[-1] else None
            note = Committed(workspace, root, shadow, number, commit.oid, commit.content, known)
            self.publish(note)

    def publish(self, note: Occurrence) -> None:
        """Queue a note, or count it where too many wait."""
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
            # Under the newest number: whoever listens only since the first must get it, too.
            self._notes[-1] = self.number, last
            last.counts[note.workspace] = last.counts.get(note.workspace, 0) + 1
        self._wake()

    def take(self) -> tuple[int, Note] | None:
        """The oldest note and its number."""
        return self._notes.popleft() if self._notes else None
