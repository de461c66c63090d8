"""Calls that wait for a decision of the person.

A wait is a future: no thread, no poll, no place in the writer's queue. It is added in the same
step that finds the request pending, so that no decision can fall between. It ends with the
decided request, or with None when its client is gone or the daemon is stopping.
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
    """Who waits for which request."""

    def __init__(self) -> None:
        self._waiting: dict[Wait, str] = {}
        #: The daemon stops: nobody waits any longer, nor from now on.
        self.stopping = False

    def add(self, request: str, wait: Wait) -> None:
        """Let this one know when the request is decided."""
        self._waiting[wait] = request
        wait.add_done_callback(self._waiting.pop)

    def decided(self, request: UpgradeRequest) -> None:
        """Answer the calls that wait for this request."""
        for wait, wanted in list(self._waiting.items()):
            if wanted == request.id:
                end(wait, request)

    def end_all(self) -> None:
        """End all: the daemon stops."""
        self.stopping = True
        for wait in list(self._waiting):
            end(wait)
