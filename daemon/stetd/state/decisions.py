"""Calls that wait for a decision of the person.

A wait is a future: no thread, no poll, no place in the writer's queue. It is added in the same
step that finds the request pending, so that no decision can fall between. It ends with the
decision, or with None when its time is over, its client gone, or the daemon stopping.
"""

from __future__ import annotations

import asyncio

from stetd.session.upgrades import UpgradeRequest


class Wait:
    """A call that waits for a decision."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[UpgradeRequest | None] = loop.create_future()

    async def result(self, seconds: float) -> UpgradeRequest | None:
        """The decided request; None if it was not decided in time."""
        await asyncio.wait({self._ended}, timeout=seconds)
        return self._ended.result() if self._ended.done() else None

    def end(self, request: UpgradeRequest | None = None) -> None:
        """End the wait."""
        if not self._ended.done():
            self._ended.set_result(request)


class Waits:
    """Who waits for which request."""

    def __init__(self) -> None:
        self._waiting: dict[str, set[Wait]] = {}
        #: The daemon stops: nobody waits any longer, nor from now on.
        self.stopping = False

    def add(self, request: str, wait: Wait) -> None:
        """Let this one know when the request is decided."""
        self._waiting.setdefault(request, set()).add(wait)

    def discard(self, request: str, wait: Wait) -> None:
        """The call waits no more."""
        waiting = self._waiting.get(request, set())
        waiting.discard(wait)
        if not waiting:
            self._waiting.pop(request, None)

    def decided(self, request: UpgradeRequest) -> None:
        """Answer the calls that wait for this request."""
        for wait in self._waiting.pop(request.id, set()):
            wait.end(request)

    def end_all(self) -> None:
        """End all: the daemon stops."""
        self.stopping = True
        for waits in self._waiting.values():
            for wait in waits:
                wait.end()
