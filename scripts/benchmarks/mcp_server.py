"""How long ``stet mcp`` takes: from the start of its process, and per call."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any, Self

from benchmarks.floors import BOTH
from benchmarks.measuring import Row, timed
from benchmarks.starting import NOTHING
from private_daemon import PrivateDaemon

_HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "bench", "version": "1"},
}
_LINES = 300


class Server:
    """A ``stet mcp`` process and its client. One request at a time."""

    def __init__(self, daemon: PrivateDaemon, workspace: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "stet.cli", "mcp", "--workspace", workspace],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=daemon.environ,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def ask(self, method: str, params: dict[str, Any]) -> None:
        """A request and its reply. Raises RuntimeError for an error."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()
        reply = json.loads(self._process.stdout.readline())
        if "error" in reply or reply["result"].get("isError"):
            raise RuntimeError(f"refused: {reply}")

    def call(self, tool: str, arguments: dict[str, Any]) -> None:
        """A tool call that succeeds."""
        self.ask("tools/call", {"name": tool, "arguments": arguments})


def mcp_rows(daemon: PrivateDaemon, workspace: str, starts: int, calls: int) -> list[Row]:
    """Starts until tools/list and until a first call are answered; calls on a running server."""
    with open(os.path.join(workspace, "mcp.py"), "w", encoding="utf-8") as file:
        file.writelines(f"line {number}\n" for number in range(_LINES))
    listed, called = zip(*_starts(daemon, workspace, starts), strict=True)
    with Server(daemon, workspace) as server:
        server.ask("initialize", _HELLO)
        read = {"path": "mcp.py"}
        server.call("read", read)
        reads = timed(calls, lambda _: server.call("read", read))
        edits = timed(calls, lambda number: server.call("patch", _edit(number)))
    return [
        Row("stet mcp, until tools/list is answered", listed, NOTHING),
        Row("stet mcp, until a first call is answered", called, NOTHING),
        Row("read, stet mcp", tuple(reads), BOTH),
        Row("patch, stet mcp", tuple(edits), BOTH),
    ]


def _starts(daemon: PrivateDaemon, workspace: str, repeats: int) -> Iterator[tuple[float, float]]:
    for _ in range(repeats):
        begun = time.perf_counter()
        with Server(daemon, workspace) as server:
            server.ask("initialize", _HELLO)
            server.ask("tools/list", {})
            listed = time.perf_counter() - begun
            server.call("read", {"path": "mcp.py", "end": 1})
            yield listed, time.perf_counter() - begun


def _edit(number: int) -> dict[str, Any]:
    """A replacement of one line, to and fro."""
    one, two = f"line {_LINES // 2}\n", f"line {_LINES // 2}, changed\n"
    old, new = (one, two) if number % 2 == 0 else (two, one)
    return {"path": "mcp.py", "patches": [_replacement(old, new)]}


def _replacement(old: str, new: str) -> dict[str, str]:
    return {"operation": "replace", "oldText": old, "newText": new}
