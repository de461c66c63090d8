"""Following a history without missing a commit, whatever happens to the connection; no I/O.

``subscribe`` answers with the heads of the histories, and every commit event names its parent. So
whoever remembers the last commit of each workspace sees at once where something is missing - after
a reconnect, because the daemon left events out, or for any other reason - and asks ``log`` for it::

    gap = follower.began(heads)             after every subscribe
    event, None or gap = follower.take(event)
    for each root of a gap: events = follower.filled(root, catch_up(ask, follower.last(root)))

What the log has may come as events as well, a little later; these are skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from stet import calls
from stet.calls import Call
from stet.wire.events import AnyEvent, CommitEvent, LostEvent
from stet.wire.results import CommitInfo, LogResult

#: Commits that are asked for at once, and at most for one gap; beyond it they are lost.
_PAGE = 500
_PAGES = 10


class Gap(NamedTuple):
    """Commits of these workspaces are missing; ``then`` is to be given after them."""

    roots: tuple[str, ...]
    then: LostEvent | None = None


class CaughtUp(NamedTuple):
    """What happened since a commit, newest first; ``complete``: all of it."""

    commits: Sequence[CommitInfo]
    complete: bool


def catch_up(ask: Callable[[Call[LogResult]], LogResult], until: str | None) -> CaughtUp:
    """Everything after a commit (None: from the beginning), as far back as pages are asked for."""
    found: list[CommitInfo] = []
    cursor = None
    for _ in range(_PAGES):
        page = ask(calls.log(limit=_PAGE, cursor=cursor))
        for commit in page.commits:
            if commit.commit == until:
                return CaughtUp(found, complete=True)
            found.append(commit)
        cursor = page.cursor
        if cursor is None:
            break
    return CaughtUp(found, complete=cursor is None and until is None)


class Follower:
    """What was seen last of each workspace, by its root."""

    def __init__(self, names: Sequence[str]) -> None:
        self._commits = "commit" in names
        self._only_commits = tuple(names) == ("commit",)
        self._last: dict[str, str | None] = {}
        #: Commits that the log gave, and an event may give again.
        self._given: dict[str, set[str]] = {}

    def last(self, root: str) -> str | None:
        """The commit up to which everything was given."""
        return self._last.get(root)

    def began(self, heads: Mapping[str, str | None]) -> Gap | None:
        """Events come from these heads on; what happened since the connection before."""
        known = self._last if self._commits else {}
        behind = tuple(root for root in heads if known.get(root, heads[root]) != heads[root])
        for root in heads:
            self._last.setdefault(root, heads[root])
        return Gap(behind) if behind else None

    def take(self, event: AnyEvent) -> AnyEvent | Gap | None:
        """The event, if it follows what was given; None if it was given already."""
        if isinstance(event, LostEvent) and self._commits:
            return Gap(tuple(self._last), None if self._only_commits else event)
        if not isinstance(event, CommitEvent):
            return event
        root, commit = event.workspace, event.commit
        given = self._given.get(root, set())
        if commit.commit in given:
            given.discard(commit.commit)
            return None
        if self._last.get(root, commit.parent) != commit.parent:
            return Gap((root,))
        given.clear()
        self._last[root] = commit.commit
        return event

    def filled(self, root: str, missing: CaughtUp) -> list[AnyEvent]:
        """The events of a gap, in order; or that some are lost, and where the next ones begin."""
        if not missing.commits:
            return []
        self._last[root] = missing.commits[0].commit
        self._given.setdefault(root, set()).update(each.commit for each in missing.commits)
        if not missing.complete:
            return [LostEvent(None)]
        return [CommitEvent(root, commit) for commit in reversed(missing.commits)]
