"""Events as they happen, for asyncio: ``async for event in session.events(): ...``.

The same as :mod:`stet.session.event_stream`, awaited. It is subscribed when it is entered
(``async with session.events() as events``) or first iterated. Nothing is read from the socket
while nobody waits for an event, so what is not taken waits in the daemon.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from stet.calls import Call, subscribe
from stet.errors import ConnectionLost, GarbledReply, StetError, TimedOut
from stet.service.spawn import reach
from stet.session.conversation import Conversation, Introduction, outcome
from stet.session.event_intake import GONE, EventIntake
from stet.session.following import CaughtUp, Gap, catching_up
from stet.session.methods import Opening
from stet.session.retrying import FIRST_PAUSE, LONGEST_PAUSE
from stet.wire.events import AnyEvent, LostEvent
from stet.wire.framing import Encoding
from stet.wire.results import HelloResult

T = TypeVar("T")

_RECEIVE_BYTES = 64 * 1024


class AsyncEventStream(EventIntake):
    """An asynchronous iterator of events; ``async with`` subscribes and closes it."""

    def __init__(self, opening: Opening, names: Sequence[str] = ()) -> None:
        super().__init__(opening, names)
        self._line: _Line | None = None
        self._closed = False

    def __aiter__(self) -> AsyncIterator[AnyEvent]:
        return self

    async def __anext__(self) -> AnyEvent:
        if not self._subscribed:
            await self._subscribe()  # a refusal is told; later on a lost daemon is waited for
        pause = FIRST_PAUSE
        while True:
            if self._closed:
                raise StopAsyncIteration
            if self._ready:
                return self._ready.popleft()
            try:
                if self._line is None:
                    await self._subscribe()  # which may find something to give
                    continue
                told = await self._line.next_event()
                pause = FIRST_PAUSE
                await self._fill(self._taken(told))
            except GONE:
                self._drop()
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)

    async def close(self) -> None:
        """End the stream; whoever waits for an event stops waiting. May be called twice."""
        self._closed = True
        self._drop()

    async def __aenter__(self) -> Self:
        if not self._subscribed:
            await self._subscribe()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def _subscribe(self) -> None:
        line = await self._greeted(self._opening.introduction)
        try:
            answer = await line.ask(subscribe(self._names), self._opening.timeout)
        except BaseException:
            line.close()
            raise
        if self._closed:  # meanwhile
            line.close()
            return
        self._line = line
        await self._fill(self._began(answer))

    async def _fill(self, gap: Gap | None) -> None:
        for root in gap.roots if gap is not None else ():
            self._ready.extend(await self._missing(root))
        self._filled()

    async def _missing(self, root: str) -> list[AnyEvent]:
        try:
            line = await self._greeted(self._opening.introduction.in_workspace(root))
        except GONE:
            raise
        except StetError:  # no longer allowed, and so no longer to be read
            return [LostEvent(None)]
        try:
            return self._follower.filled(root, await self._catch_up(line, root))
        finally:
            line.close()

    async def _catch_up(self, line: _Line, root: str) -> CaughtUp:
        catching = catching_up(self._follower.last(root))
        call = next(catching)
        while True:
            page = await line.ask(call, self._opening.timeout)
            try:
                call = catching.send(page)
            except StopIteration as done:
                caught_up: CaughtUp = done.value
                return caught_up

    async def _greeted(self, introduction: Introduction) -> _Line:
        connected = await asyncio.to_thread(reach, self._opening.endpoint, start=False)
        reader, writer = await asyncio.open_unix_connection(sock=connected)
        line = _Line(reader, writer, self._opening.encoding)
        try:
            await line.ask(Call("hello", introduction.params(), HelloResult), self._opening.timeout)
        except BaseException:
            line.close()
            raise
        return line

    def _drop(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None


class _Line:
    """One connection that is read only while somebody waits for something."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, encoding: Encoding
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._conversation = Conversation(encoding)

    async def ask(self, call: Call[T], timeout: float | None) -> T:
        """The result of a call. Raises StetError."""
        _, data = self._conversation.send(call.method, call.params)
        self._writer.write(data)
        try:
            async with asyncio.timeout(timeout):
                while (answer := self._conversation.next_answer()) is None:
                    await self._receive()
        except TimeoutError as error:
            raise TimedOut("the daemon did not answer in time") from error
        result = outcome(call, answer, self._conversation.encoding)
        if isinstance(result, StetError):
            raise result
        return result

    async def next_event(self) -> Mapping[str, Any]:
        """The params of the next notification."""
        while not self._conversation.events:
            answer = self._conversation.next_answer()
            if answer is not None:
                raise answer.error or GarbledReply("the daemon answered what was not asked")
            if not self._conversation.events:
                await self._receive()
        return self._conversation.events.popleft()

    async def _receive(self) -> None:
        try:
            data = await self._reader.read(_RECEIVE_BYTES)
        except OSError as error:
            raise ConnectionLost(f"the connection broke: {error.strerror}") from error
        if not data:
            raise ConnectionLost("the daemon closed the connection")
        self._conversation.feed(data)

    def close(self) -> None:
        """Close the socket at once; whoever waits for it is told."""
        self._reader.feed_eof()
        with contextlib.suppress(OSError):
            self._writer.transport.abort()
