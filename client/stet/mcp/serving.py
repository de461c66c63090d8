"""A connection of the SDK's server to lines: from a client's first call until it is gone.

    input ends         calls under way are answered, for at most DRAIN_S, then the server ends
    SIGTERM, SIGINT    the same, for at most STOP_S
    output breaks      the server ends at once; calls that were sent are carried out by the daemon
    no message         answered with a JSON-RPC error, with its id if it has one

A cancelled call (``notifications/cancelled``) is not sent if it still waits for its turn.
One that was sent is one transaction in the daemon, which is carried out and recorded; only its
answer is dropped, as the protocol has it.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterable, Iterator
from typing import Any

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage

from stet.mcp import json_rpc
from stet.mcp.opening import Asked
from stet.mcp.options import Options
from stet.mcp.stdio import LONGEST_LINE, LineReader, LineWriter, NoLine
from stet.mcp.tool_server import make_server

DRAIN_S = 10.0
STOP_S = 1.0

#: Lines that are read ahead of the server.
_READ_AHEAD = 64


async def serve(reader: LineReader, writer: LineWriter, asked: Asked, options: Options) -> None:
    """Serve one client until it is gone, or this process is told to end."""
    server = make_server(options)
    to_server, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, from_server = anyio.create_memory_object_stream[SessionMessage](0)
    exchange = _Exchange(writer, asked.answered)
    running = asyncio.create_task(
        server.run(incoming, outgoing, server.create_initialization_options())
    )
    sending = asyncio.create_task(exchange.send_all(from_server))
    receiving = asyncio.create_task(exchange.receive_all(reader, asked.lines, to_server))
    stopping = asyncio.create_task(_told_to_stop())
    await _first_of(running, sending, receiving, stopping)
    if not running.done() and not sending.done():
        drained = asyncio.create_task(exchange.all_answered())
        seconds = STOP_S if stopping.done() else DRAIN_S
        await _first_of(running, sending, drained, timeout=seconds)
    for task in (running, sending, receiving):
        if task.done():
            task.result()


async def _first_of(*tasks: asyncio.Task[Any], timeout: float | None = None) -> None:
    await asyncio.wait(tasks, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)


async def _told_to_stop() -> None:
    told = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, told.set)
    await told.wait()


def _parsed(line: bytes) -> types.JSONRPCMessage:
    """A message. Raises ValueError."""
    try:
        return types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        if not json_rpc.has_surrogates(line):
            raise
        return types.jsonrpc_message_adapter.validate_python(json_rpc.decoded(line), by_name=False)


def _line(message: types.JSONRPCMessage) -> bytes:
    try:
        return message.model_dump_json(by_alias=True, exclude_unset=True).encode()
    except ValueError:  # an error that quotes half of a surrogate pair
        return json_rpc.encoded(message.model_dump(by_alias=True, exclude_unset=True))


class _Exchange:
    """The messages of one client, both ways, and which requests have no answer yet."""

    def __init__(self, writer: LineWriter, answered: Iterable[json_rpc.Id]) -> None:
        self._writer = writer
        self._writing = asyncio.Lock()
        #: Requests that the server is told of and whose answers the client has already.
        self._answered = set(answered)
        self._under_way: set[json_rpc.Id] = set()
        self._settled = asyncio.Event()
        self._settled.set()

    async def all_answered(self) -> None:
        """Wait until no request is without its answer."""
        await self._settled.wait()

    async def receive_all(
        self,
        reader: LineReader,
        first: Iterable[bytes],
        server: MemoryObjectSendStream[SessionMessage | Exception],
    ) -> None:
        """Give the server every message until the input ends."""
        for line in first:
            await self._receive(line, server)
        lines = _ReadAhead(reader)
        while (line_or_not := await lines.next_line()) is not NoLine.END:
            if isinstance(line_or_not, NoLine):
                await self._write(json_rpc.too_long(LONGEST_LINE))
            else:
                await self._receive(line_or_not, server)

    async def _receive(
        self, line: bytes, server: MemoryObjectSendStream[SessionMessage | Exception]
    ) -> None:
        try:
            message = _parsed(line)
        except (ValueError, json_rpc.NotJson):  # pydantic's ValidationError is the former
            complaint = json_rpc.complaint(line)
            if complaint is not None:
                await self._write(complaint)
            return
        if isinstance(message, types.JSONRPCNotification) and b'"id"' in line:
            # To the SDK a request whose id is none is a notification, and never answered.
            odd = json_rpc.decoded(line)
            if isinstance(odd, dict) and "id" in odd:
                await self._write(json_rpc.no_request(json_rpc.id_of(odd)))
                return
        if isinstance(message, types.JSONRPCRequest):
            self._under_way.add(message.id)
            self._settled.clear()
        elif isinstance(message, types.JSONRPCNotification):
            self._note_cancelled(message)
        await server.send(SessionMessage(message))

    def _note_cancelled(self, message: types.JSONRPCNotification) -> None:
        """A cancelled request gets no answer from the SDK."""
        if message.method == "notifications/cancelled":
            cancelled = (message.params or {}).get("requestId")
            if isinstance(cancelled, str | int):
                self._settle(cancelled)

    def _settle(self, request: json_rpc.Id) -> None:
        self._under_way.discard(request)
        if not self._under_way:
            self._settled.set()

    async def send_all(self, server: MemoryObjectReceiveStream[SessionMessage]) -> None:
        """Give the client every message of the server, until it no longer reads."""
        async for outgoing in server:
            message = outgoing.message
            answered = (
                message.id
                if isinstance(message, types.JSONRPCResponse | types.JSONRPCError)
                else None
            )
            if answered in self._answered:
                self._answered.discard(answered)
            elif not await self._write(_line(message)):
                return
            if answered is not None:
                self._settle(answered)

    async def _write(self, line: bytes) -> bool:
        async with self._writing:
            return await asyncio.to_thread(self._writer.write, line)


class _ReadAhead:
    """Lines that a thread reads, because nothing else waits for any kind of descriptor.

    The thread is left behind in its waiting when the process ends.
    """

    def __init__(self, reader: LineReader) -> None:
        self._reader = reader
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[bytes | NoLine] = asyncio.Queue()
        self._room = threading.Semaphore(_READ_AHEAD)
        threading.Thread(target=self._read, name="stdin", daemon=True).start()

    async def next_line(self) -> bytes | NoLine:
        line = await self._lines.get()
        self._room.release()
        return line

    def _read(self) -> None:
        for line in self._until_end():
            self._loop.call_soon_threadsafe(self._lines.put_nowait, line)

    def _until_end(self) -> Iterator[bytes | NoLine]:
        line: bytes | NoLine = b""
        while line is not NoLine.END:
            self._room.acquire()
            line = self._reader.next_line()
            yield line
