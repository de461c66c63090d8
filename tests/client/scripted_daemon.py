"""A real server on a real Unix socket that answers as a test says: for faults of transport.

It speaks the protocol through stet.wire, greets by itself, writes down every request, and
for every other request asks the test's function, which returns a result, a Refusal, or
one of the faults below. What the daemon's answers mean is not its subject.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from stet.service.spawn import Endpoint
from stet.wire.failures import Kind, code_of
from stet.wire.framing import Encoding, FrameError, Framer, enclose
from stet.wire.messages import Request, decode_request, encode_error, encode_result


@dataclass(frozen=True)
class Refusal:
    """Answer with an error."""

    kind: Kind
    message: str = "refused"
    data: dict[str, Any] = field(default_factory=dict)
    nobody: bool = False  # answered with id null


class HangUp:
    """Close the connection instead of answering."""


@dataclass(frozen=True)
class HalfReply:
    """Send the first half of the reply's bytes, then close the connection."""

    result: object


@dataclass(frozen=True)
class Raw:
    """Send these bytes instead of a reply."""

    data: bytes


class Silence:
    """Never answer, and keep the connection open."""


Script = Callable[[Request], object]


def empty_edit(commit: str | None = None) -> dict[str, Any]:
    """An EditResult as it goes over the wire."""
    return {"commit": commit}


class ScriptedDaemon:
    """Listens until close(); ``requests`` are those answered by the script, ``hellos`` the rest."""

    def __init__(self, endpoint: Endpoint, script: Script) -> None:
        self.endpoint = endpoint
        self.script = script
        #: The answer to ``hello``, if it is refused.
        self.turn_away: Refusal | None = None
        self.hellos: list[dict[str, Any]] = []
        self.requests: list[Request] = []
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listening.bind(endpoint.path)
        self._listening.listen(64)
        self._connections: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def close(self) -> None:
        """Stop listening and cut every connection."""
        self.stop_listening()
        self.hang_up()
        for thread in self._threads:
            thread.join(5)

    def stop_listening(self) -> None:
        """Take no connection any more. May be called twice."""
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.endpoint.path)

    def hang_up(self) -> None:
        """Cut every connection, and go on listening."""
        for connection in self._connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            self._connections.append(connection)
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        framer = Framer()
        with connection, contextlib.suppress(OSError):
            while data := connection.recv(65536):
                framer.feed(data)
                assert framer.encoding is not None
                try:
                    while (frame := framer.next_frame()) is not None:
                        request = decode_request(framer.encoding, frame)
                        if not self._reply(connection, framer.encoding, request):
                            return
                except FrameError as error:
                    # What the client is still sending is not read: it gets EPIPE.
                    refusal = Refusal(Kind(error.kind), error.message, nobody=True)
                    connection.sendall(_bytes(framer.encoding, Request(""), refusal))
                    return

    def _reply(self, connection: socket.socket, encoding: Encoding, request: Request) -> bool:
        """Answer as the script says; False when the connection is to be closed."""
        if request.method == "hello":
            self.hellos.append(request.params)
            answer: object = self.turn_away or hello_result(request.params)
        else:
            self.requests.append(request)
            answer = self.script(request)
        if isinstance(answer, HangUp):
            return False
        if isinstance(answer, Silence):
            return True
        connection.sendall(_bytes(encoding, request, answer))
        return not isinstance(answer, HalfReply)


def _bytes(encoding: Encoding, request: Request, answer: object) -> bytes:
    if isinstance(answer, Raw):
        return answer.data
    if isinstance(answer, Refusal):
        error = (code_of(answer.kind), answer.message, {"kind": answer.kind, **answer.data})
        number = None if answer.nobody else request.id
        return enclose(encoding, encode_error(encoding, number, *error))
    if isinstance(answer, HalfReply):
        whole = enclose(encoding, encode_result(encoding, request.id, answer.result))
        return whole[: len(whole) // 2]
    return enclose(encoding, encode_result(encoding, request.id, answer))


def hello_result(params: dict[str, Any]) -> dict[str, Any]:
    """What the scripted daemon greets with; a session without a name is called made-up."""
    root = params.get("workspace")
    return {
        "protocol": 1,
        "server": {"name": "scripted", "version": "0"},
        "workspace": None if root is None else {"root": root, "shadow": "/shadow"},
        "session": params.get("session", "made-up"),
        "mode": "unrestricted",
    }


@contextlib.contextmanager
def own_directories(*, control: bool = False) -> Iterator[Endpoint]:
    """An endpoint in a new directory; short, for socket paths hold 107 bytes at most."""
    base = tempfile.mkdtemp(prefix="stet-", dir="/tmp")
    runtime, state = os.path.join(base, "run"), os.path.join(base, "state")
    os.mkdir(runtime, 0o700)
    try:
        yield Endpoint(runtime, state, control)
    finally:
        shutil.rmtree(base)


@contextlib.contextmanager
def scripted(script: Script, *, control: bool = False) -> Iterator[ScriptedDaemon]:
    """A scripted daemon for the length of a test."""
    with own_directories(control=control) as endpoint:
        daemon = ScriptedDaemon(endpoint, script)
        try:
            yield daemon
        finally:
            daemon.close()


def in_turn(*answers: object) -> Script:
    """A script that gives these answers, one a request."""
    left = iter(answers)
    return lambda request: next(left)
