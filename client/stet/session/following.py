"""Follows histories without missing a commit, whatever happens to the connection; no I/O.

``subscribe`` answers with the heads of the histories, and every commit event names its parent. A
client that remembers the last commit of each workspace notices when commits are missing (after a
reconnect, or because the daemon dropped events), and asks ``log`` for them::

    gap = follower.began(heads)             after every subscribe
    event, None or gap = follower.take(event)
    for each root of a gap: events = follower.filled(root, catch_up(ask, follower.last(root)))

Commits from the log may come as events again, a little later; those events are skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from stet import calls
from stet.calls import Call
from stet.wire.events import AnyEvent, CommitEvent, LostEvent
from stet.wire.results import CommitInfo, LogResult

#: Commits in a page of the log, and pages read for one gap at most; older commits are lost.
_PAGE = 500
_PAGES = 10


class Gap(NamedTuple):
    """Commits of these workspaces are missing; ``then`` is the event to give after them."""

    roots: tuple[str, ...]
    then: LostEvent | None = None


class CaughtUp(NamedTuple):
    """The commits after a known one, newest first; ``complete``: none is missing."""

    commits: Sequence[CommitInfo]
    complete: bool


def catch_up(ask: Callable[[Call[LogResult]], LogResult], until: str | None) -> CaughtUp:
    """The commits after ``until`` (None: all), from at most _PAGES pages of the log."""
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
    """Tracks the last commit that was given of each workspace, by its root."""

    def __init__(self, names: Sequence[str]) -> None:
        self._commits = "commit" in names
        self._only_commits = tuple(names) == ("commit",)
        self._last: dict[str, str | None] = {}
        #: Commits from the log, which may come as events again.
        self._given: dict[str, set[str]] = {}

    def last(self, root: str) -> str | None:
        """The last commit that was given."""
        return self._last.get(root)

    def began(self, heads: Mapping[str, str | None]) -> Gap | None:
        """Note that events come after these heads. Returns the gap since the last connection."""
        known = self._last if self._commits else {}
        behind = tuple(root for root in heads if known.get(root, heads[root]) != heads[root])
        for root in heads:
            self._last.setdefault(root, heads[root])
        return Gap(behind) if behind else None

    def take(self, event: AnyEvent) -> AnyEvent | Gap | None:
        """The event if it is the next one; None if it was given already; or the gap before it."""
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
        """The events that fill a gap, in order; only a LostEvent if the log had not all of them."""
        if not missing.commits:
            return []
        self._last[root] = missing.commits[0].commit
        self._given.setdefault(root, set()).update(each.commit for each in missing.commits)
        if not missing.complete:
            return [LostEvent(None)]
        return [CommitEvent(root, commit) for commit in reversed(missing.commits)]
