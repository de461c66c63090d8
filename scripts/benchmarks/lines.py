"""A client of a few lines: JSON over the socket, without ``import stet``."""

from __future__ import annotations

import json
import socket
from typing import Any, Self

from private_daemon import PrivateDaemon


class JsonLines:
    """One connection that has said hello. Requests can be made beforehand, as bytes.

    Without a workspace (on control.sock) or a session these are left out of hello; with
    ``greet=False`` all of it is.
    """

    def __init__(
        self, path: str, workspace: str | None, session: str | None, *, greet: bool = True
    ) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect(path)
        self._replies = self._socket.makefile("rb")
        hello = {"protocol": 1, "workspace": workspace, "session": session, "agent": "bench"}
        if greet:
            self.ask(request("hello", hello))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def fileno(self) -> int:
        """For select: it is readable when a reply is there."""
        return self._socket.fileno()

    def close(self) -> None:
        """Close the connection."""
        self._replies.close()
        self._socket.close()

    def send(self, message: bytes) -> None:
        """Send without waiting for the reply."""
        self._socket.sendall(message)

    def receive(self) -> bytes:
        """One reply. Raises RuntimeError for a refusal: nothing here is to be refused."""
        reply = self._replies.readline()
        if b'"result"' not in reply[:200]:
            raise RuntimeError(f"refused: {reply.decode('utf-8', 'replace')[:2000]}")
        return reply

    def ask(self, message: bytes) -> bytes:
        """Send, and wait for the reply."""
        self.send(message)
        return self.receive()


def request(method: str, params: dict[str, Any], number: int = 0) -> bytes:
    """A request as a line."""
    return json.dumps({"id": number, "method": method, "params": params}).encode() + b"\n"


def allow(daemon: PrivateDaemon, workspace: str) -> None:
    """Allow the workspace, as the person."""
    with JsonLines(daemon.endpoint(control=True).path, None, None) as person:
        person.ask(request("workspace_allow", {"root": workspace}))
