"""Follows histories without missing a commit, whatever happens to the connection; no I/O.

``subscribe`` answers with the heads of the histories, and every commit event names its parent. A
client that remembers the last commit of each workspace notices when commits are missing (after a
reconnect, or because the daemon dropped events), and reads them from ``log``::

    follower.began(heads)             after every subscribe
    follower.take(event)              for every event
    for root in follower.behind: follower.catch_up(root, ask)
    follower.caught_up()              after both; then the events to give are in follower.ready

Commits from the log may come as events again, a little later; those events are skipped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile

from stet import calls
from stet.calls import Call
from stet.wire.events import AnyEvent, CommitEvent, LostEvent
from stet.wire.results import CommitInfo, LogResult

#: Commits in a page of the log, and pages read for one gap at most; older commits are lost.
_PAGE = 500
_PAGES = 10


class Follower:
    """Tracks the last commit that was given of each workspace, by its root.

    ``ready``: the events to give, in order. ``behind``: the workspaces with missing commits.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.ready: deque[AnyEvent] = deque()
        self.behind: list[str] = []
        #: Lost events to give after the missing commits. They are kept, because the connection may
        #: be lost meanwhile, and the next one does not repeat them.
        self._afterwards: list[LostEvent] = []
        self._commits = "commit" in names
        self._only_commits = tuple(names) == ("commit",)
        self._last: dict[str, str | None] = {}
        #: Commits from the log, which may come as events again.
        self._given: dict[str, set[str]] = {}

    def began(self, heads: Mapping[str, str | None]) -> None:
        """Note that events come after these heads."""
        known = self._last if self._commits else {}
        self.behind = [root for root in heads if known.get(root, heads[root]) != heads[root]]
        for root in heads:
            self._last.setdefault(root, heads[root])

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
