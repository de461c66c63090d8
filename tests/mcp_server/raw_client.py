"""A real ``stet mcp`` process and the raw lines to and from it; nothing of the SDK.

Every line that comes must be JSON: anything else on standard output is a defect.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Starting = Callable[..., "RawClient"]

PATIENCE_S = 60.0
HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "raw", "version": "1"},
}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


class RawClient:
    """One server process and its client."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 - closed by kill()
        self._numbers = 0
        self._replies: dict[Any, dict[str, Any]] = {}
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "stet.cli", "mcp", "--structured", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            env=environment,
        )

    # -- sending

    def send_bytes(self, data: bytes) -> None:
        """Anything at all."""
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, message: object) -> None:
        """One message."""
        self.send_bytes(json.dumps(message).encode() + b"\n")

    def request(self, method: str, params: object = None) -> int:
        """Send a request; its id."""
        self._numbers += 1
        given = {} if params is None else {"params": params}
        self.send({"jsonrpc": "2.0", "id": self._numbers, "method": method, **given})
        return self._numbers

    def begin_call(self, tool: str, meta: Mapping[str, Any] = {}, /, **arguments: Any) -> int:
        """Send a tool call; its id."""
        params: dict[str, Any] = {"name": tool, "arguments": arguments}
        return self.request("tools/call", params | ({"_meta": meta} if meta else {}))

    def end_input(self) -> None:
        """Close the server's standard input."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    # -- receiving

    def line(self) -> Any:
        """The next message, whatever it answers; None at the end."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        return json.loads(line) if line else None

    def reply(self, number: Any) -> dict[str, Any]:
        """The reply to a request."""
        while number not in self._replies:
            message = self.line()
            assert message is not None, f"the server ended:\n{self.complaints()}"
            assert message["id"] not in self._replies, "answered twice"
            self._replies[message["id"]] = message
        return self._replies.pop(number)

    def result(self, number: Any) -> dict[str, Any]:
        """The result of a request that is no JSON-RPC error."""
        reply = self.reply(number)
        assert "error" not in reply, reply
        result: dict[str, Any] = reply["result"]
        return result

    # -- what most tests do

    def initialize(self) -> RawClient:
        """The handshake."""
        self.result(self.request("initialize", HELLO))
        self.send(INITIALIZED)
        return self

    def call(self, tool: str, meta: Mapping[str, Any] = {}, /, **arguments: Any) -> dict[str, Any]:
        """A tool call that succeeds: its structured content."""
        result = self.result(self.begin_call(tool, meta, **arguments))
        assert result["isError"] is False, result
        structured: dict[str, Any] = result["structuredContent"]
        return structured

    def refusal(self, tool: str, meta: Mapping[str, Any] = {}, /, **arguments: Any) -> Refusal:
        """A tool call that is refused."""
        return Refusal(self.result(self.begin_call(tool, meta, **arguments)))

    # -- ending

    def wait(self) -> int:
        """The exit status, once the process ends by itself."""
        return self.process.wait(PATIENCE_S)

    def complaints(self) -> str:
        """What it wrote to standard error."""
        self._complaints.seek(0)
        return self._complaints.read().decode(errors="replace")

    def kill(self) -> None:
        """SIGKILL, if it still runs."""
        self.process.kill()
        self.process.wait(PATIENCE_S)
        self._complaints.close()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()


class Refusal:
    """A tool error, which must have a text and say the same in its structured content."""

    def __init__(self, result: Mapping[str, Any]) -> None:
        assert result["isError"] is True, result
        [content] = result["content"]
        self.text: str = content["text"]
        self.error: dict[str, Any] = result["structuredContent"]["error"]
        self.kind: str = self.error["kind"]
        assert self.text.startswith(self.error["message"])
