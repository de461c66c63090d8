"""Calls that wait for a decision of the person.

A wait is a future on the event loop and costs nobody anything: no thread, no poll, no place in
the writer's queue. It is added on the writer thread, in the same turn that finds the request
pending, so that no decision can fall between. It ends with the decision, or with None when its
time is over, its client gone, or the daemon stopping.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading

from stetd.session.upgrades import UpgradeRequest


class Wait:
    """One call's wait, made on its event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[UpgradeRequest | None] = self._loop.create_future()

    async def result(self, seconds: float) -> UpgradeRequest | None:
        """The decided request; None if it was not decided in time."""
        await asyncio.wait({self._ended}, timeout=seconds)
        return self._ended.result() if self._ended.done() else None

    def end(self, request: UpgradeRequest | None = None) -> None:
        """End it; on the event loop."""
        if not self._ended.done():
            self._ended.set_result(request)

    def end_soon(self, request: UpgradeRequest) -> None:
        """The same, from any thread."""
        with contextlib.suppress(RuntimeError):  # the loop has ended: nobody waits
            self._loop.call_soon_threadsafe(self.end, request)


class Waits:
    """Who waits for which request."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[str, set[Wait]] = {}
        self._stopping = False

    def add(self, request: str, wait: Wait) -> None:
        """Let this one know when the request is decided; on the writer thread."""
        with self._lock:
            self._waiting.setdefault(request, set()).add(wait)

    def discard(self, request: str, wait: Wait) -> None:
        """It waits no more."""
        with self._lock:
            waiting = self._waiting.get(request, set())
            waiting.discard(wait)
            if not waiting:
                self._waiting.pop(request, None)

    def decided(self, request: UpgradeRequest) -> None:
        """Tell whoever waits for this one; on the writer thread."""
        with self._lock:
            waiting = self._waiting.pop(request.id, set())
        for wait in waiting:
            wait.end_soon(request)

    def end_all(self) -> None:
        """The daemon stops: nobody waits any longer, nor from now on; on the event loop."""
        self._stopping = True
        with self._lock:
            waiting = [wait for waits in self._waiting.values() for wait in waits]
        for wait in waiting:
            wait.end()

    @property
    def stopping(self) -> bool:
        """Whether a wait would have no sense any more."""
        return self._stopping
