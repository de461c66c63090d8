"""The session for asyncio: the same methods, awaited; any number of calls may run at once.

    async with stet.aio.connect(workspace=".", session="conv-1") as s:
        await s.patch("src/a.py", [stet.replace("old", "new")])

Calls are sent in the order in which they are made, and writing calls are carried out in that
order. Everything except waiting is shared with :mod:`stet.session.blocking`. A session belongs to
one event loop.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import itertools
import os
import socket
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Sequence
from functools import partial
from typing import Any, Self, TypeVar, Unpack

from stet.calls import Call, LogFilters
from stet.errors import ConnectionLost, ShuttingDown, StetError, TimedOut
from stet.service.spawn import Endpoint, reach
from stet.session.connection import NO_ANSWER, RECEIVE_BYTES
from stet.session.conversation import Conversation
from stet.session.event_stream import EventStream
from stet.session.methods import TIMEOUT, Opening, SessionMethods
from stet.session.retrying import Retrying
from stet.wire.events import AnyEvent
from stet.wire.framing import Encoding
from stet.wire.results import CommitInfo

T = TypeVar("T")


def connect(
    workspace: str | os.PathLike[str] | None = ".",
    session: str | None = None,
    agent: str | None = None,
    *,
    control: bool = False,
    secret: str | None = None,
    encoding: str = Encoding.MSGPACK,
    timeout: float | None = TIMEOUT,
    start: bool = True,
    endpoint: Endpoint | None = None,
) -> AsyncSession:
    """A session that ``async with`` opens and closes, or ``await`` opens.

    Parameters and errors are those of :func:`stet.connect`.
    """
    place = endpoint or Endpoint.from_environment(control=control)
    directory = None if workspace is None else os.path.abspath(workspace)
    opening = Opening(place, directory, session, agent, secret, Encoding(encoding), start)
    return AsyncSession(opening, timeout)


class AsyncSession(SessionMethods):
    """A session over a connection that is opened again when it is lost."""

    def __init__(self, opening: Opening, timeout: float | None) -> None:
        super().__init__(opening, timeout)
        self._link: _Link | None = None
        self._greeting = asyncio.Lock()
        #: The calls that are to be sent, also again, by their numbers. Later ones wait.
        self._unsent: dict[int, asyncio.Event] = {}
        self._numbers = itertools.count()

    async def open(self) -> Self:
        """Connect and say hello, unless already connected. Raises as stet.connect()."""
        await self._persist(lambda _: self._linked(), Retrying(self._deadline(), patient=False))
        return self

    async def close(self) -> None:
        """Close the connection; later calls raise ConnectionLost. May be called twice."""
        self._closed = True
        if self._link is not None:
            await self._link.close()

    def __await__(self) -> Generator[Any, None, Self]:
        return self.open().__await__()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def history(
        self, path: str | None = None, **filters: Unpack[LogFilters]
    ) -> AsyncIterator[CommitInfo]:
        """All commits that log() finds with these filters, newest first, read page by page."""
        while True:
            page = await self.log(path, **filters)
            for commit in page.commits:
                yield commit
            if page.cursor is None:
                return
            filters["cursor"] = page.cursor

    def events(self, *names: str) -> AsyncEventStream:
        """An asynchronous iterator of events; see :meth:`stet.Session.events`.

        ``async with session.events() as events`` subscribes, or else the first wait for an event.
        """
        return AsyncEventStream(self, names)

    async def perform(self, call: Call[T]) -> T:
        """Carry out one call. Raises StetError."""

        async def attempt(made: int) -> T | StetError:
            link = await self._linked()
            while earlier := [each for each in self._unsent if each < made]:
                await self._unsent[max(earlier)].wait()
                link = await self._linked()
            self._unsent.pop(made).set()
            answer = await link.ask(call)
            if isinstance(answer, ShuttingDown):  # the call was not carried out: try again
                raise answer
            return answer

        retrying = Retrying(self._deadline(call.wait), patient=not self._opening.start)
        try:
            answer = await self._persist(attempt, retrying, repeatable=call.repeatable)
        except StetError as error:
            answer = retrying.reason(error, call.request_id)
        if isinstance(answer, StetError):
            raise answer
        return answer

    async def _persist(
        self, attempt: Callable[[int], Awaitable[T]], retrying: Retrying, *, repeatable: bool = True
    ) -> T:
        """Try, and retry by the rules of stet.session.retrying, until ``retrying.deadline``."""
        made = next(self._numbers)
        self._unsent[made] = asyncio.Event()
        try:
            while True:
                try:
                    async with asyncio.timeout_at(retrying.deadline):
                        return await attempt(made)
                except StetError as error:
                    pause = retrying.pause_after(error, time.monotonic())
                    if (
                        self._closed
                        or pause is None
                        or (isinstance(error, ConnectionLost) and not repeatable)
                    ):
                        raise
                    self._unsent.setdefault(made, asyncio.Event())
                    await asyncio.sleep(pause)
        except TimeoutError as error:
            raise TimedOut(NO_ANSWER) from error
        finally:
            self._unsent.pop(made, asyncio.Event()).set()

    async def _linked(self) -> _Link:
        async with self._greeting:
            if not self._closed and (self._link is None or self._link.broken is not None):
                self._link = await self._greet()
            if self._closed or self._link is None:
                await self.close()  # the link may have been made during a close()
                raise ConnectionLost("this session is closed; open another one")
            return self._link

    async def _greet(self) -> _Link:
        opening = self._opening
        # In a thread: a daemon may have to be started first.
        reached = _in_thread(partial(reach, opening.endpoint, start=opening.start))
        try:
            connected = await asyncio.wrap_future(reached)
        except BaseException:
            reached.add_done_callback(_close_reached)
            raise
        reader, writer = await asyncio.open_unix_connection(sock=connected)
        link = _Link(reader, writer, opening.encoding)
        try:
            hello = await link.ask(opening.hello())
            if isinstance(hello, StetError):
                raise hello
        except BaseException:
            await link.close()
            raise
        self._greeted(hello)
        return link


class _Link:
    """One connection. A task receives the outcomes for the futures of the calls that wait.

    ``broken`` is the error that ended the connection; nothing can be asked after that.
    """

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, encoding: Encoding
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._conversation = Conversation(encoding)
        self.broken: StetError | None = None
        self._receiving = asyncio.create_task(self._receive())

    async def ask(self, call: Call[T]) -> T | StetError:
        """The outcome of a call. Raises ConnectionLost, GarbledReply."""
        if self.broken is not None:
            raise self.broken
        future: asyncio.Future[T | StetError] = asyncio.get_running_loop().create_future()
        # Written before the first await, so that calls are sent in order. No drain(): the caller
        # waits for the answer anyway.
        self._writer.write(self._conversation.send(call, future))
        return await future

    async def close(self) -> None:
        self._break(ConnectionLost("the session was closed before the reply came"))
        self._receiving.cancel()
        await asyncio.wait([self._receiving])
        self._writer.transport.abort()
        with contextlib.suppress(OSError):  # the daemon has closed it first
            await self._writer.wait_closed()

    async def _receive(self) -> None:
        try:
            while data := await self._reader.read(RECEIVE_BYTES):
                self._conversation.feed(data)
                while (found := self._conversation.next_outcome()) is not None:
                    future, outcome = found
                    if not future.done():
                        future.set_result(outcome)
                    if self._conversation.refused:
                        raise ConnectionLost("the daemon refused what was sent last")
        except StetError as error:
            self._break(error)
        except OSError as error:
            self._break(ConnectionLost(f"the connection to the daemon broke: {error.strerror}"))
        finally:
            self._break(ConnectionLost("the daemon closed the connection before the reply came"))
            # Not close(): it would first wait until all is sent, and the daemon no longer reads.
            self._writer.transport.abort()

    def _break(self, error: StetError) -> None:
        if self.broken is None:
            self.broken = error
        for _, future, _ in self._conversation.waiting.values():
            if not future.done():
                future.set_exception(error)


class AsyncEventStream:
    """An asynchronous iterator of events; ``async with`` subscribes and closes it.

    A thread waits on a blocking stream. If a task's wait is cancelled, the thread's wait goes on,
    and the next wait gets its event. Tasks may share a stream: each event goes to one of them.
    """

    def __init__(self, session: AsyncSession, names: Sequence[str]) -> None:
        self._session = session
        self._names = names
        self._stream: EventStream | None = None
        self._waiting: asyncio.Future[AnyEvent | None] | None = None
        #: Held by the task that subscribes or waits.
        self._turn = asyncio.Lock()
        self._closed = False

    @property
    def heads(self) -> dict[str, str | None]:
        """The newest commit of each workspace, by its root, when it was subscribed."""
        return self._stream.heads if self._stream is not None else {}

    @property
    def connections(self) -> int:
        """How often the stream has subscribed; see :class:`EventStream`."""
        return self._stream.connections if self._stream is not None else 0

    def __aiter__(self) -> AsyncIterator[AnyEvent]:
        return self

    async def __anext__(self) -> AnyEvent:
        async with self._turn:
            stream = await self._subscribed()
            if self._waiting is None:
                self._waiting = asyncio.wrap_future(_in_thread(stream.wait))
            await asyncio.wait({self._waiting})  # if cancelled, the next call gets the event
            found, self._waiting = self._waiting, None
        event = found.result()
        if event is None:
            raise StopAsyncIteration
        return event

    async def close(self) -> None:
        """End the stream, and all waits for an event. May be called twice."""
        self._closed = True
        if self._stream is not None:
            self._stream.close()

    async def __aenter__(self) -> Self:
        async with self._turn:
            await self._subscribed()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _subscribed(self) -> EventStream:
        if self._stream is None and not self._closed:
            session = self._session
            await session.open()  # the daemon may have to be started, or to name the session
            stream = self._stream = EventStream(session._opening, session.timeout, self._names)
            if self._closed:
                stream.close()
            try:
                await asyncio.wrap_future(_in_thread(stream.open))
            except BaseException:
                stream.close()
                self._stream = None
                raise
        if self._stream is None:
            raise StopAsyncIteration
        return self._stream


def _close_reached(reached: concurrent.futures.Future[socket.socket]) -> None:
    """Close a connection that nobody wants any more."""
    if not reached.cancelled() and reached.exception() is None:
        reached.result().close()


def _in_thread(function: Callable[[], T]) -> concurrent.futures.Future[T]:
    """Run a blocking function in a daemon thread, which does not delay the program's exit."""
    future: concurrent.futures.Future[T] = concurrent.futures.Future()

    def run() -> None:
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(function())
            except BaseException as error:  # noqa: BLE001 - it is raised where it is awaited
                future.set_exception(error)

    threading.Thread(target=run, name="stet", daemon=True).start()
    return future
