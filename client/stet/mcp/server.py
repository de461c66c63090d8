"""The server of ``stet mcp``: one client on standard input and output, until it disconnects.

    input ends         calls in progress are answered, for at most DRAIN_S, then the server exits
    SIGTERM, SIGINT    the same, for at most STOP_S
    output breaks      the server exits at once; the daemon completes the calls that were sent

A cancelled call that still waits for its turn is not sent. One that was sent is performed and
recorded; only its answer is dropped, as the protocol demands.

Every failure of a call is a tool error, which the model reads and can act on. So are wrong
arguments and unknown tools: clients hide the protocol's own errors for these from the model.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Coroutine
from typing import Any, BinaryIO

from stet.errors import StetError
from stet.mcp import catalogue
from stet.mcp.answers import OWN_SESSION, Answer, answered, refused
from stet.mcp.protocol import (
    INTERNAL,
    INVALID_REQUEST,
    Cancelled,
    Id,
    Protocol,
    ToolCall,
    error_line,
)
from stet.mcp.sessions import Sessions
from stet.mcp.stdio import LONGEST_LINE, claim, next_line, write_line
from stet.mcp.tool_calls import REQUEST_KEY, SESSION_KEY, Options, call_of, caller_of
from stet.wire.results import EditResult

DRAIN_S = 10.0
STOP_S = 1.0
_TOO_LONG = error_line(None, INVALID_REQUEST, f"A line of over {LONGEST_LINE:,} bytes was ignored.")


def run(options: Options) -> None:
    """Serve on standard input and output until the client disconnects; then exit."""
    reader, writer = claim()
    asyncio.run(_serve(reader, writer, options))


async def _serve(reader: BinaryIO, writer: BinaryIO, options: Options) -> None:
    server = _Server(writer, options)
    loop = asyncio.get_running_loop()
    #: Set when the server has to end: seconds that the calls in progress still have.
    ending: asyncio.Future[float] = loop.create_future()

    def end(seconds: float) -> None:
        if not ending.done():
            ending.set_result(seconds)

    def read() -> None:
        while (line := next_line(reader)) != b"":
            asyncio.run_coroutine_threadsafe(server.receive(line), loop).result()
        loop.call_soon_threadsafe(end, DRAIN_S)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end, STOP_S)
    # A thread: only a blocking read works for every kind of descriptor.
    threading.Thread(target=read, name="stdin", daemon=True).start()
    await server.drain(await ending)
    # No return: asyncio.run() would wait for threads that wait for the client, or for a daemon's
    # start.
    os._exit(0)


class _Server:
    def __init__(self, writer: BinaryIO, options: Options) -> None:
        self._writer = writer
        self._writing = asyncio.Lock()
        self._options = options
        self._sessions = Sessions(options.workspace, options.secret)
        tools = catalogue.definitions(
            options.dialects, structured=options.structured, directory=options.workspace
        )
        self._names = [each["name"] for each in tools]
        self._protocol = Protocol(tools)
        #: The tasks that answer, and the ids of those that are calls and can be cancelled.
        self._running: dict[asyncio.Task[None], Id | None] = {}

    async def receive(self, line: bytes | None) -> None:
        """Start a task that answers a line: the next lines must not wait for a slow reader."""
        asked = _TOO_LONG if line is None else self._protocol.take(line)
        if isinstance(asked, bytes):
            self._begin(self._write(asked))
        elif isinstance(asked, ToolCall):
            self._begin(self._answer(asked), asked.request)
        elif isinstance(asked, Cancelled):
            for task, request in self._running.items():
                if request == asked.request:
                    task.cancel()

    def _begin(self, answering: Coroutine[Any, Any, None], call: Id | None = None) -> None:
        task = asyncio.create_task(answering)
        self._running[task] = call
        task.add_done_callback(self._running.pop)

    async def drain(self, seconds: float) -> None:
        """Wait until the calls in progress are answered, for at most ``seconds``."""
        if self._running:
            await asyncio.wait(self._running, timeout=seconds)

    async def _answer(self, call: ToolCall) -> None:
        try:
            line = self._protocol.answered(call, *await self._perform(call))
        except Exception as error:  # noqa: BLE001 - no request may stay without an answer
            line = error_line(call.request, INTERNAL, f"{type(error).__name__}: {error}")
        await self._write(line)

    async def _perform(self, asked: ToolCall) -> tuple[Answer, dict[str, Any]]:
        meta: dict[str, Any] = {}
        try:
            call = call_of(asked.tool, asked.arguments, asked.meta, self._names)
            caller = caller_of(asked.meta, self._options, asked.client)
            meta[SESSION_KEY] = caller.session
            if call.params.get("session") == OWN_SESSION:
                call.params["session"] = caller.session
            result = await self._sessions.perform(caller, call)
            request = result.request if call.result is EditResult else None
            answer = answered(result, call.params, caller.session)
        except StetError as error:
            request = error.data.get("request_id")
            answer = refused(error)
        if request:
            meta[REQUEST_KEY] = request
        # If there is structured content, Claude Code and Codex show it instead of the text.
        return answer if self._options.structured else answer._replace(structured=None), meta

    async def _write(self, line: bytes) -> None:
        async with self._writing:
            if not await asyncio.to_thread(write_line, self._writer, line):
                os._exit(0)  # the client has closed its end
