"""The tools that agents use at present in a workspace, as their hooks report; in memory only.

A tool whose changes are found by a scan must not claim a file that a tool of another session has
said it is about to change.

Of some uses no end is reported (a command that the client carries out itself), or too early (a
command in the background). Those are *late*: the files that they have named are read whenever
their session reports anything. A late use may also have been forbidden, and never begin. So it
claims no other file, each file once (in the background: until it is over), and nothing after the
end of the agent's turn. Event loop only.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

#: Bytes of paths kept of a workspace's uses; the oldest uses go first.
_MOST_BYTES = 4 << 20
#: What a path takes besides its characters.
_EACH = 100
#: Seconds after which a tool that was silent has failed, or was not allowed.
_FORGOTTEN_S = 600.0
#: The same for one in the background.
_BACKGROUND_S = 3600.0
_MOST = 1000
#: How many late uses of a session are examined, newest first.
_MOST_LATE = 20


class Late(NamedTuple):
    """Whose a late change is: the use of a tool, its name, which subagent's, and why."""

    use: str
    tool: str | None
    subagent: str | None
    why: str


@dataclass(slots=True)
class _Use:
    paths: frozenset[str]
    until: float
    bytes: int
    late: Late | None
    background: bool
    #: It runs in the background: its end was reported, so it was not forbidden.
    running: bool = False


@dataclass(slots=True)
class WatchedTools:
    """The uses of tools in one workspace whose end is not reported yet."""

    #: Held by a look at the whole workspace.
    scanning: asyncio.Lock = field(default_factory=asyncio.Lock)
    _uses: dict[tuple[str | None, str], _Use] = field(default_factory=dict)
    _bytes: int = 0

    def expect(
        self,
        session: str | None,
        use: str | None,
        paths: Collection[str],
        *,
        late: Late | None = None,
        background: bool = False,
    ) -> None:
        """A tool of a session is about to touch these paths (from the workspace's root)."""
        if use is None:
            return
        self._forget_old()
        self._forget((session, use))
        size = sum(_EACH + len(path.encode()) for path in paths)
        until = time.monotonic() + _FORGOTTEN_S
        self._uses[session, use] = _Use(frozenset(paths), until, size, late, background)
        self._bytes += size
        while len(self._uses) > _MOST or self._bytes > _MOST_BYTES:
            self._forget(next(iter(self._uses)))

    def done(self, session: str | None, use: str | None) -> None:
        """The tool has ended; one in the background goes on."""
        known = self._uses.get((session, use or ""))
        if known is not None and known.background:
            known.running = True
            known.until = time.monotonic() + _BACKGROUND_S
        else:
            self._forget((session, use or ""))

    def stopped(self, session: str | None, *, background: bool) -> None:
        """A session's turn is over; ``background``: some tool of it goes on."""
        for key, use in list(self._uses.items()):
            if key[0] == session and use.late is not None and not (background and use.running):
                self._forget(key)

    def late_of(self, session: str | None, but: str | None) -> Iterator[tuple[Late, list[str]]]:
        """The late uses of a session, ``but`` for one, and the paths that may be theirs."""
        self._forget_old()
        others = [use.paths for use in self._uses.values() if use.late is None]
        named = frozenset().union(*others)
        late = [
            use
            for (whose, name), use in self._uses.items()
            if whose == session and name != but and use.late and use.running == use.background
        ]
        for use in late[-_MOST_LATE:]:
            assert use.late is not None, "BUG: chosen for it"
            yield use.late, sorted(use.paths - named)

    def found(self, session: str | None, late: Late, paths: Collection[str]) -> None:
        """These files have changed: a use that is not in the background is done with them."""
        use = self._uses.get((session, late.use))
        if use is not None and not use.background:
            use.paths = use.paths.difference(paths)

    def expected_of_others(self, session: str | None) -> frozenset[str]:
        """The paths that tools of other sessions are about to touch."""
        self._forget_old()
        uses = [use for (whose, _), use in self._uses.items() if whose != session]
        return frozenset().union(*(use.paths for use in uses))

    def _forget_old(self) -> None:
        now = time.monotonic()
        for key in [key for key, use in self._uses.items() if use.until < now]:
            self._forget(key)

    def _forget(self, key: tuple[str | None, str]) -> None:
        use = self._uses.pop(key, None)
        self._bytes -= use.bytes if use is not None else 0
