"""Calls per second of several callers at once, or of one that does not wait for replies.

Calls that wait together share one fdatasync, so the rate should grow with the callers until
the interpreter, not the disk, is what they wait for. Each caller has its own connection,
session and file; the requests are made before the clock starts.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence

from benchmarks.editing import content, line
from benchmarks.lines import JsonLines, request


class Caller:
    """One connection, its file, and the requests it is going to send."""

    def __init__(self, socket_path: str, workspace: str, number: int) -> None:
        self._name = f"caller-{number}.txt"
        with open(os.path.join(workspace, self._name), "w", encoding="utf-8") as file:
            file.write(content(0))
        self._connection = JsonLines(socket_path, workspace, f"caller-{number}")
        self._count = 0
        self._requests: list[bytes] = []

    def prepare(self, calls: int) -> None:
        """Make the next ``calls`` requests."""
        self._requests = [self._request() for _ in range(calls)]

    def run(self, in_flight: int) -> None:
        """Send what was prepared, with at most ``in_flight`` unanswered."""
        for number, message in enumerate(self._requests):
            if number >= in_flight:
                self._connection.receive()
            self._connection.send(message)
        for _ in range(min(in_flight, len(self._requests))):
            self._connection.receive()

    def close(self) -> None:
        """Close the connection."""
        self._connection.__exit__(None, None, None)

    def _request(self) -> bytes:
        patch = {
            "operation": "replace",
            "oldText": line(self._count),
            "newText": line(self._count + 1),
        }
        self._count += 1
        return request("patch", {"path": self._name, "patches": [patch]}, self._count)


def calls_per_second(callers: Sequence[Caller], calls: int, in_flight: int = 1) -> float:
    """All callers at once, ``calls`` each: calls per second together."""
    for caller in callers:
        caller.prepare(calls)
    ready = threading.Barrier(len(callers) + 1)
    failures: list[BaseException] = []

    def run(caller: Caller) -> None:
        ready.wait()
        try:
            caller.run(in_flight)
        except Exception as error:  # noqa: BLE001 - raised again below, in the main thread
            failures.append(error)

    threads = [threading.Thread(target=run, args=(caller,)) for caller in callers]
    for thread in threads:
        thread.start()
    ready.wait()
    begun = time.perf_counter()
    for thread in threads:
        thread.join()
    taken = time.perf_counter() - begun
    if failures:
        raise failures[0]
    return len(callers) * calls / taken
