"""The sessions of one MCP server: their connections to the daemon, and calls on them.

Each pair of conversation and agent has one session, opened at its first call. Above MOST_OPEN
sessions the least recently used ones are closed. A closed session only needs a new connection,
because its calls of unknown outcome are kept. :mod:`stet.aio` starts a daemon that is gone again,
and resends a call that lost its connection, with the same request id.

A call whose answer was lost may have been performed. The model sees an error and repeats the call,
without a request id. So the id is kept here, and reused if the session's next writing call is the
same one. The daemon then returns the recorded outcome, and nothing is done twice.
"""

from __future__ import annotations

import asyncio
from typing import TypeVar

import msgspec

from stet import aio
from stet.calls import Call, new_id
from stet.errors import OutcomeUnknown, StetError, TransportError
from stet.mcp.tool_calls import Caller
from stet.wire.results import EditResult

T = TypeVar("T")

MOST_OPEN = 8
#: The most closed sessions whose calls of unknown outcome are kept.
MOST_UNSETTLED = 1000
#: The most concurrent calls of a session. Further ones wait, and one that is cancelled while it
#: waits is never sent.
MOST_UNDER_WAY = 16

#: Calls of unknown outcome, the oldest first: encoded method and parameters, request id.
_Unsettled = list[tuple[bytes, str]]


class Sessions:
    """All sessions of one server, in one workspace. Belongs to one event loop."""

    def __init__(self, workspace: str, secret: str | None = None) -> None:
        self._workspace = workspace
        self._secret = secret
        self._open: dict[Caller, _Session] = {}
        #: Calls of unknown outcome of closed sessions, the oldest first.
        self._unsettled: dict[Caller, _Unsettled] = {}

    async def perform(self, caller: Caller, call: Call[T]) -> T:
        """Perform a call. Raises StetError."""
        session = self._open.pop(caller, None)
        if session is None:
            connection = aio.connect(
                self._workspace, caller.session, caller.agent, secret=self._secret
            )
            session = _Session(connection, self._unsettled.pop(caller, []))
        self._open[caller] = session
        session.users += 1
        try:
            await self._close_unused()
            return await session.perform(call)
        finally:
            session.users -= 1

    async def _close_unused(self) -> None:
        """Close the least recently used sessions, which are the first ones of the dict."""
        while len(self._open) > MOST_OPEN:
            # Asked again after each wait, in which other calls take and close sessions.
            caller = next((each for each, its in self._open.items() if not its.users), None)
            if caller is None:
                break
            session = self._open.pop(caller)
            if session.unsettled:
                self._unsettled[caller] = session.unsettled
            await session.connection.close()
        for caller in list(self._unsettled)[:-MOST_UNSETTLED]:
            del self._unsettled[caller]


class _Session:
    """A connection, the number of its users, and its calls of unknown outcome."""

    def __init__(self, connection: aio.AsyncSession, unsettled: _Unsettled) -> None:
        self.connection, self.unsettled = connection, unsettled
        self.users = 0
        self._turns = asyncio.Semaphore(MOST_UNDER_WAY)

    async def perform(self, call: Call[T]) -> T:
        async with self._turns:
            if call.result is not EditResult or call.request_id is not None:
                return await self.connection.perform(call)
            return await self._perform_once(call)

    async def _perform_once(self, call: Call[T]) -> T:
        """Perform a writing call for which the client gave no request id."""
        key = msgspec.json.encode([call.method, call.params], order="deterministic")
        known = next((each for each in self.unsettled if each[0] == key), None)
        if known is None:
            self.unsettled.clear()  # a different call: the model does not repeat the earlier one
        else:
            self.unsettled.remove(known)
        request = known[1] if known else new_id()
        call = msgspec.structs.replace(call, params={**call.params, "request_id": request})
        try:
            return await self.connection.perform(call)
        except (TransportError, OutcomeUnknown, asyncio.CancelledError):
            self.unsettled.append((key, request))
            raise
        except StetError:
            # The retry's refusal may tell nothing about the first attempt: the connection may have
            # been refused. If it does, nothing was recorded, and the id is as good as a new one.
            if known is not None:
                self.unsettled.append(known)
            raise
