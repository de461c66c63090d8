"""The uses of agents' own tools that run now, as hooks report them. In memory, event loop only.

If a tool's changes are found by a scan, it must not get the changes of a file that a tool of
another session has announced.

Some clients report no end of a use (a command that the client runs itself), or report it too early
(a command in the background). Such a use is *late*: the files that it has named are read whenever
its session reports anything. As a late use may have been denied and never start, it gets changes
of these files only, of each file once (in the background: until it ends), and none after the end
of the agent's turn.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterator
from typing import NamedTuple

import msgspec

#: Bytes of paths kept for a workspace's uses; the oldest uses are dropped first.
_MAX_BYTES = 4 << 20
#: Bytes of memory that a path takes besides its characters.
_PATH_OVERHEAD = 100
#: Seconds after which a use without an end counts as failed or denied.
_TIMEOUT_S = 600.0
#: The same for a use in the background.
_BACKGROUND_TIMEOUT_S = 3600.0
_MAX_USES = 1000
#: At most so many late uses of a session are examined, the newest.
_MAX_LATE = 20


class Late(NamedTuple):
    """A late use: its id, the tool's name, the subagent, and the message for the commit.

    ``background``: the tool goes on after its reported end.
    """

    use: str
    tool: str | None
    subagent: str | None
    why: str
    background: bool


class _Use(msgspec.Struct):
    paths: frozenset[str]
    until: float
    bytes: int
    late: Late | None
    #: It runs in the background: an end was reported, so it was not denied.
    running: bool = False


class WatchedTools(msgspec.Struct):
    """The uses of tools in one workspace whose end has not been reported."""

    #: Held while the whole workspace is scanned.
    scanning: asyncio.Lock = msgspec.field(default_factory=asyncio.Lock)
    _uses: dict[tuple[str | None, str], _Use] = {}

    def expect(
        self,
        session: str | None,
        use: str | None,
        paths: Collection[str],
        late: Late | None = None,
    ) -> None:
        """Note that a tool of a session is about to touch these paths (relative to the root)."""
        if use is None:
            return
        self._drop_expired()
        self._uses.pop((session, use), None)
        size = sum(_PATH_OVERHEAD + len(path.encode()) for path in paths)
        until = time.monotonic() + _TIMEOUT_S
        self._uses[session, use] = _Use(frozenset(paths), until, size, late)
        total = sum(each.bytes for each in self._uses.values())
        while len(self._uses) > _MAX_USES or total > _MAX_BYTES:
            total -= self._uses.pop(next(iter(self._uses))).bytes

    def done(self, session: str | None, use: str | None) -> bool:
        """Note that the tool has ended; False: a use in the background, which goes on."""
        known = self._uses.get((session, use or ""))
        if known is not None and known.late is not None and known.late.background:
            known.running = True
            known.until = time.monotonic() + _BACKGROUND_TIMEOUT_S
            return False
        self._uses.pop((session, use or ""), None)
        return True

    def stopped(self, session: str | None, *, background: bool) -> None:
        """Note that the turn is over; ``background``: background uses and subagents go on."""
        for key, use in list(self._uses.items()):
            if key[0] == session and not (background and (use.running or use.late is None)):
                del self._uses[key]

    def late_of(self, session: str | None, current: str | None) -> Iterator[tuple[Late, list[str]]]:
        """The session's late uses, except the current one, and the paths that each may change."""
        self._drop_expired()
        named: set[str] = set()
        found: list[tuple[Late, frozenset[str]]] = []
        for (whose, name), use in self._uses.items():
            # An earlier use of the session may have failed without a reported end.
            is_earlier = whose == session and name != current
            if use.late is None and not is_earlier:
                named |= use.paths
            elif use.late is not None and is_earlier and use.running == use.late.background:
                found.append((use.late, use.paths))
        for late, paths in found[-_MAX_LATE:]:
            yield late, sorted(paths - named)

    def found(self, session: str | None, late: Late, paths: Collection[str]) -> None:
        """Note that these files were committed; only a background use may change them again."""
        use = self._uses.get((session, late.use))
        if use is not None and not late.background:
            use.paths = use.paths.difference(paths)

    def expected_of_others(self, session: str | None) -> frozenset[str]:
        """The paths that tools of other sessions are about to touch."""
        self._drop_expired()
        uses = [use for (whose, _), use in self._uses.items() if whose != session]
        return frozenset().union(*(use.paths for use in uses))

    def _drop_expired(self) -> None:
        now = time.monotonic()
        self._uses = {key: use for key, use in self._uses.items() if use.until >= now}
