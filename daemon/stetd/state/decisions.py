"""Calls that wait for the person's decision on a request for write access.

A wait is a future: no thread, no poll, no place in the writer's queue. It is added in the same step
of the event loop that finds the request pending, so no decision can be missed. Its result is the
decided request, or None if the client is gone or the daemon is stopping.
"""

from __future__ import annotations

import asyncio

from stetd.session.upgrades import UpgradeRequest

Wait = asyncio.Future[UpgradeRequest | None]


def end(wait: Wait, request: UpgradeRequest | None = None) -> None:
    """End a wait."""
    if not wait.done():
        wait.set_result(request)


class Waits:
    """The waits, each with the id of its request."""

    def __init__(self) -> None:
        self._waiting: dict[Wait, str] = {}
        #: The daemon is stopping: no call may wait any more.
        self.stopping = False

    def add(self, request: str, wait: Wait) -> None:
        """Wait for the decision of a request."""
        self._waiting[wait] = request
        wait.add_done_callback(self._waiting.pop)

    def decided(self, request: UpgradeRequest) -> None:
        """End the waits for this request."""
        for wait, wanted in list(self._waiting.items()):
            if wanted == request.id:
                end(wait, request)

    def end_all(self) -> None:
        """End all waits: the daemon is stopping."""
        self.stopping = True
        for wait in list(self._waiting):
            end(wait)
