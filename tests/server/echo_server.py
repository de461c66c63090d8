"""A real server on real sockets whose methods do nothing but echo, wait, refuse and fail.

For the tests of everything between the socket and the handlers; the methods of the product
are tested end to end elsewhere.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from stet.wire.failures import Kind, refuse
from stet.wire.framing import UNLIMITED_FRAME, Encoding, Framer, enclose
from stet.wire.messages import encode_request
from stetd.config.settings import Settings
from stetd.server.connection import ClientConnection
from stetd.server.peer import PeerProcess
from stetd.server.server import Server, listen


class EchoHandlers:
    """Remembers who connected, which calls began, and how many connections were over."""

    def __init__(self) -> None:
        self.connections: list[EchoCalls] = []
        self.began: list[Any] = []
        self.gone = 0
        #: Why nobody may connect, if so.
        self.against: Exception | None = None
        #: ``wait`` calls wait for this.
        self.gate = asyncio.Event()

    def connect(self, *, control: bool, peer: PeerProcess, client: ClientConnection) -> EchoCalls:
        if self.against is not None:
            raise self.against
        self.connections.append(EchoCalls(self, control, peer, client))
        return self.connections[-1]


class EchoCalls:
    def __init__(
        self, shared: EchoHandlers, control: bool, peer: PeerProcess, client: ClientConnection
    ) -> None:
        self.shared, self.control, self.pid, self.command = shared, control, peer.pid, peer.command
        self.greeted = self.gone = False
        self.notify = client.notify

    def labels(self) -> dict[str, str | None]:
        return {}

    def disconnected(self) -> None:
        self.shared.gone += not self.gone
        self.gone = True

    async def call(self, method: str, params: dict[str, Any]) -> object:
        self.shared.began.append(params.get("n", method))
        match method:
            case "hello":
                await asyncio.sleep(0.05)
                self.greeted = True
                return {"protocol": 1}
            case "greeted":
                return self.greeted
            case "who":
                return {"control": self.control, "pid": self.pid, "command": self.command}
            case "echo":
                return params
            case "wait":
                await self.shared.gate.wait()
                return params
            case "text":
                return "x" * params["bytes"]
            case "refuse":
                raise refuse(Kind.STALE, "the file is another by now", path="a.py")
            case "fail":
                raise ZeroDivisionError("a secret detail")
            case "unencodable":
                return object()
        raise refuse(Kind.UNKNOWN_METHOD, f"there is no method {method!r}")


class Client:
    """One connection to the server, speaking JSON unless told otherwise."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        encoding: Encoding,
    ) -> None:
        self.reader, self.writer, self.encoding = reader, writer, encoding
        self._framer = Framer(UNLIMITED_FRAME, encoding)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        await self.vanish()

    async def vanish(self) -> None:
        """Close at once, whatever was still to be sent or read."""
        self.writer.transport.abort()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()

    def send(self, method: str, params: object = None, id: str | int | None = 1) -> None:  # noqa: A002
        self.raw(enclose(self.encoding, encode_request(self.encoding, id, method, params or {})))

    def raw(self, data: bytes) -> None:
        self.writer.write(data)

    async def receive(self) -> Any:
        """The next message as plain values, or None when the server closed the connection."""
        while (frame := self._framer.next_frame()) is None:
            try:
                data = await asyncio.wait_for(self.reader.read(1 << 18), 20)
            except ConnectionResetError:
                return None
            if not data:
                return None
            self._framer.feed(data)
        if self.encoding is Encoding.JSON:
            return msgspec.json.decode(frame)
        return msgspec.msgpack.decode(frame)

    async def ask(self, method: str, params: object = None, id: str | int = 1) -> Any:  # noqa: A002
        self.send(method, params, id)
        return await self.receive()

    async def kinds_until_closed(self) -> list[tuple[Any, str]]:
        """Id and error kind of everything that comes until the server closes."""
        answers = []
        while (message := await self.receive()) is not None:
            answers.append((message["id"], message["error"]["data"]["kind"]))
        return answers


class Served:
    """A running server, and clients for it."""

    def __init__(self, server: Server, handlers: EchoHandlers, directory: Path) -> None:
        self.server, self.handlers, self.directory = server, handlers, directory
        self.clients: list[Client] = []

    async def client(self, encoding: Encoding = Encoding.JSON, *, control: bool = False) -> Client:
        name = "control.sock" if control else "agent.sock"
        path = str(self.directory / name)
        reader, writer = await asyncio.open_unix_connection(path, limit=1 << 20)
        self.clients.append(Client(reader, writer, encoding))
        return self.clients[-1]


@asynccontextmanager
async def serving(directory: Path, **options: Any) -> AsyncIterator[Served]:
    """A server in ``directory`` with these settings; it and its clients end with the block."""
    handlers = EchoHandlers()
    listeners = [
        listen(str(directory / "agent.sock"), control=False),
        listen(str(directory / "control.sock"), control=True),
    ]
    server = Server(Settings(**options), handlers, listeners)
    await server.start()
    served = Served(server, handlers, directory)
    try:
        yield served
    finally:
        handlers.gate.set()
        await server.stop()
        for client in served.clients:
            await client.vanish()


async def eventually(condition: Callable[[], bool], seconds: float = 60) -> None:
    """Wait until ``condition`` holds; the test fails if it never does."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)
