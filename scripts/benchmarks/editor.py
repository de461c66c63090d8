"""Connections that edit: one line of a file of their own, one call after the other.

Each call has a request id, as those of real clients have.
"""

from __future__ import annotations

import os
import select
import time
import uuid
from collections.abc import Sequence

from benchmarks.editing import LINES, content, line
from benchmarks.lines import JsonLines, request


class Editor(JsonLines):
    """One connection, its session, and its file of so many lines."""

    def __init__(self, path: str, workspace: str, name: str, lines: int = LINES) -> None:
        self._name = f"{name}.txt"
        self._run = uuid.uuid4().hex
        self.count = 0
        with open(os.path.join(workspace, self._name), "w", encoding="utf-8") as file:
            file.write(content(0, lines))
        super().__init__(path, workspace, name)

    def next(self) -> bytes:
        """The next request."""
        old, self.count = self.count, self.count + 1
        patch = {"operation": "replace", "oldText": line(old), "newText": line(self.count)}
        params = {"path": self._name, "patches": [patch], "request_id": f"{self._run}{self.count}"}
        return request("patch", params, self.count)

    def calls(self, count: int) -> list[float]:
        """The seconds of so many calls."""
        return [self._timed() for _ in range(count)]

    def calls_for(self, seconds: float) -> list[float]:
        """The seconds of each call, one after the other for so long."""
        taken, ends = [self._timed()], time.perf_counter() + seconds
        while time.perf_counter() < ends:
            taken.append(self._timed())
        return taken

    def _timed(self) -> float:
        message = self.next()
        begun = time.perf_counter()
        self.ask(message)
        return time.perf_counter() - begun


def calls_per_second(editors: Sequence[Editor], seconds: float) -> float:
    """All of them at once: whoever has its reply asks again at once."""
    waiting = select.epoll()
    by_handle = {editor.fileno(): editor for editor in editors}
    for handle in by_handle:
        waiting.register(handle, select.EPOLLIN)
    begun, count = time.perf_counter(), 0
    for editor in editors:
        editor.send(editor.next())
    while (taken := time.perf_counter() - begun) < seconds:
        for handle, _ in waiting.poll():
            by_handle[handle].receive()
            by_handle[handle].send(by_handle[handle].next())
            count += 1
    waiting.close()
    for editor in editors:
        editor.receive()
    return count / taken
