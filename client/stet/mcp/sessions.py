"""The sessions of one MCP server: connections to the daemon, and carrying out calls on them.

There is one session for each conversation and agent, opened at its first call and kept; the least
recently used ones are closed when there are many, which costs them nothing but a new connection:
the calls whose outcome is not known outlast it. A daemon that is gone is started again, and a call
that lost its connection is sent again with the same request id (:mod:`stet.aio`).

A call whose answer got lost may have been carried out. A model that sees the error makes the same
call again, and does not know of request ids: so the id is kept, and used again if the session's
next writing call is the same one. Then its outcome is returned, and nothing done twice.
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

#: Sessions whose connections are kept open.
MOST_OPEN = 8
#: Sessions without a connection whose calls of unknown outcome are remembered.
MOST_UNSETTLED = 1000
#: Calls of a session that are sent at the same time; a later one waits, and one that is
#: cancelled while it waits is never sent.
MOST_UNDER_WAY = 16

#: Request ids, by what was to be done.
_Unsettled = dict[bytes, str]


class Sessions:
    """All sessions of one server, in one workspace. Belongs to one event loop."""

    def __init__(self, workspace: str, secret: str | None = None) -> None:
        self._workspace = workspace
        self._secret = secret
        self._open: dict[Caller, _Session] = {}
        #: What is not settled of those that are closed, oldest first.
        self._unsettled: dict[Caller, _Unsettled] = {}

    async def perform(self, caller: Caller, call: Call[T]) -> T:
        """Carry out a call. Raises StetError."""
        session = self._open.pop(caller, None)
        if session is None:
            connection = aio.connect(
                self._workspace, caller.session, caller.agent, secret=self._secret
            )
            session = _Session(connection, self._unsettled.pop(caller, {}))
        self._open[caller] = session
        session.users += 1
        try:
            await self._close_unused()
            return await session.perform(call)
        finally:
            session.users -= 1

    async def _close_unused(self) -> None:
        """Close what was not used for longest, the first of the dict."""
        unused = [caller for caller, session in self._open.items() if not session.users]
        for caller in unused[: max(0, len(self._open) - MOST_OPEN)]:
            session = self._open.pop(caller)
            if session.unsettled:
                self._unsettled[caller] = session.unsettled
            await session.connection.close()
        for caller in list(self._unsettled)[:-MOST_UNSETTLED]:
            del self._unsettled[caller]


class _Session:
    """A connection, how many use it, and the calls whose outcome is not known."""

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
        """Carry out a writing call whose request id is ours to choose."""
        meant = msgspec.json.encode([call.method, call.params], order="deterministic")
        known = self.unsettled.pop(meant, None)
        if known is None:
            self.unsettled.clear()  # the model goes on with something else
        request = known or new_id()
        call = msgspec.structs.replace(call, params={**call.params, "request_id": request})
        try:
            return await self.connection.perform(call)
        except (TransportError, OutcomeUnknown, asyncio.CancelledError):
            self.unsettled[meant] = request
            raise
        except StetError:
            # What refuses a retry may say nothing about the attempts before it (a connection
            # that is turned away). If it does, the id is as good as new: nothing was recorded.
            if known is not None:
                self.unsettled[meant] = known
            raise
