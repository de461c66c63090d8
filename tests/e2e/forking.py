"""Daemons forked from one process that has loaded them: milliseconds, not a start of Python.

What lives here: the server's side of the conversation is :mod:`rigs.fork_server`; this is the
tests' side, and a forked daemon with the methods of ``subprocess.Popen`` that the tests use.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

_POLL_S = 0.002
#: Seconds for the server to end once its input has.
_PATIENCE_S = 60.0


class ForkServer:
    """The process that forks daemons. A context manager: its daemons end with it. Any thread."""

    def __init__(self) -> None:
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("STET_", "GIT_"))}
        own = [path for path in [os.environ.get("PYTHONPATH")] if path]
        tests = str(Path(__file__).parent.parent)
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            # The last word is for those who look at a daemon's command line.
            [sys.executable, "-m", "rigs.fork_server", "stetd"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            # What the caller's PYTHONPATH puts first (a mutant's sources) stays first.
            env={**clean, "PYTHONPATH": os.pathsep.join([*own, tests])},
        )

    def ask(self, **order: Any) -> Any:
        """Give an order and read its answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._lock:
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
            return json.loads(self._process.stdout.readline())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(_PATIENCE_S)


@functools.cache
def shared_server() -> ForkServer:
    """The one of this process of pytest; it ends with it, as its input does."""
    return ForkServer()


class ForkedProcess:
    """A forked daemon."""

    def __init__(self, environment: Mapping[str, str], log: Path, directory: Path) -> None:
        self._server = shared_server()
        self.returncode: int | None = None
        self.pid: int = self._server.ask(
            do="fork",
            environment=dict(environment),
            log=str(log),
            directory=str(directory),
            held=False,
            tricks={},
        )

    def poll(self) -> int | None:
        """The exit status (negative: the signal); None while it runs."""
        if self.returncode is None:
            status = self._server.ask(do="look", pid=self.pid)
            if isinstance(status, int):
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout: float) -> int:
        """Wait for its end; the exit status. Raises subprocess.TimeoutExpired."""
        deadline = time.monotonic() + timeout
        while (status := self.poll()) is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("stetd", timeout)
            time.sleep(_POLL_S)
        return status

    def send_signal(self, number: int) -> None:
        """Send a signal, if it runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """SIGTERM, if it runs."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL, if it runs."""
        self.send_signal(signal.SIGKILL)
