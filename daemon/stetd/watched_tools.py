"""The tools that agents are using just now in a workspace, as their hooks tell; in memory only.

A tool of one session that looks at the whole workspace afterwards must not claim the file that
a tool of another session has said it is about to change. Event loop only.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

from stetd.differing import KnownFiles

#: So many bytes of paths are kept of a workspace's uses; those of the oldest go first.
_MOST_BYTES = 4 << 20
#: What a path takes beside its characters.
_EACH = 100
#: A tool that has said nothing for so many seconds has failed, or was not allowed.
_FORGOTTEN_S = 600.0
_MOST = 1000


@dataclass(slots=True)
class _Use:
    paths: frozenset[str]
    since: float
    bytes: int


@dataclass(slots=True)
class WatchedTools:
    """The uses of tools in one workspace whose end is not told yet, and what scans have learnt."""

    #: Only touched by the scan that holds the lock.
    known: KnownFiles | None = None
    scanning: asyncio.Lock = field(default_factory=asyncio.Lock)
    _uses: dict[tuple[str | None, str], _Use] = field(default_factory=dict)
    _bytes: int = 0

    def expect(self, session: str | None, use: str | None, paths: list[str]) -> None:
        """A tool of a session is about to touch these paths (from the workspace's root)."""
        if use is None:
            return
        self._forget_old()
        self._forget((session, use))
        size = sum(_EACH + len(path.encode()) for path in paths)
        self._uses[session, use] = _Use(frozenset(paths), time.monotonic(), size)
        self._bytes += size
        while len(self._uses) > _MOST or self._bytes > _MOST_BYTES:
            self._forget(next(iter(self._uses)))

    def done(self, session: str | None, use: str | None) -> None:
        """It has."""
        self._forget((session, use or ""))

    def expected_of_others(self, session: str | None) -> frozenset[str]:
        """The paths that tools of other sessions are about to touch."""
        self._forget_old()
        uses = [use for (whose, _), use in self._uses.items() if whose != session]
        return frozenset().union(*(use.paths for use in uses))

    def _forget_old(self) -> None:
        oldest = time.monotonic() - _FORGOTTEN_S
        for key in [key for key, use in self._uses.items() if use.since < oldest]:
            self._forget(key)

    def _forget(self, key: tuple[str | None, str]) -> None:
        use = self._uses.pop(key, None)
        self._bytes -= use.bytes if use is not None else 0
