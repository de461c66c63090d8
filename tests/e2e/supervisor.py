"""What a service manager does, as far as the daemon can tell: it listens, and passes sockets.

For tests that must see each datagram, or restart a daemon hundreds of times; the real manager
has tests of its own. No assertions here.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import selectors
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from e2e.running_daemon import PATIENCE_S

# The shell puts the sockets where a service manager would, and becomes the daemon.
_PASS = 'exec 3<&{0} 4<&{1} {0}<&- {1}<&-; LISTEN_PID=$$ exec "$@"'


class Notified:
    """The socket on which a daemon tells how it is."""

    def __init__(self, path: Path) -> None:
        self.address = str(path)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(self.address)
        #: Everything that came, a line an entry.
        self.lines: list[str] = []

    def close(self) -> None:
        self._socket.close()

    def fill(self) -> None:
        """Let the queue be full."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
            other.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while True:
                    other.sendto(b"x", self.address)

    def until(self, wanted: str, seconds: float = PATIENCE_S) -> bool:
        """Wait for a line that begins so; whether it came. With 0: only what is there."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0 or seconds == 0:
            self._socket.settimeout(max(left, 0))
            try:
                lines = self._socket.recv(65536).decode().split("\n")
            except (TimeoutError, BlockingIOError):
                break
            self.lines += lines
            if any(line.startswith(wanted) for line in lines):
                return True
        return False


class SocketActivation:
    """Holds the two sockets open, and starts a daemon whenever a client comes and none runs.

    A context manager; the daemon that runs at its end is told to stop.
    """

    def __init__(self, runtime: Path, log: Path, environment: Mapping[str, str]) -> None:
        self._log = log
        self._environment = dict(environment)
        runtime.mkdir(mode=0o700, exist_ok=True)
        self._sockets = []
        for name in ("agent.sock", "control.sock"):
            listening = socket.socket(socket.AF_UNIX)
            listening.bind(str(runtime / name))
            listening.listen(1024)
            self._sockets.append(listening)
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.process: subprocess.Popen[bytes] | None = None
        self.starts = 0
        self.statuses: list[int] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._ending.set()
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
        self._thread.join()
        for listening in self._sockets:
            listening.close()

    def _run(self) -> None:
        # Not select(2), which takes no number above 1023: a process of many tests may be there.
        with selectors.DefaultSelector() as waiting:
            for listening in self._sockets:
                waiting.register(listening, selectors.EVENT_READ)
            while not self._ending.is_set():
                if waiting.select(0.02) and not self._ending.is_set():
                    self.process = self._start()
                    self.starts += 1
                    self.statuses.append(self.process.wait())

    def _start(self) -> subprocess.Popen[bytes]:
        # High numbers, so that neither is overwritten when they are put in place.
        passed = [fcntl.fcntl(s.fileno(), fcntl.F_DUPFD_CLOEXEC, 100) for s in self._sockets]
        names = {"LISTEN_FDS": "2", "LISTEN_FDNAMES": "stetd.socket:stetd.socket"}
        try:
            with self._log.open("ab") as log:
                return subprocess.Popen(
                    ["bash", "-c", _PASS.format(*passed), "-", sys.executable, "-m", "stetd.cli"],
                    env=self._environment | names,
                    pass_fds=passed,
                    stderr=log,
                    stdin=subprocess.DEVNULL,
                    cwd="/",
                )
        finally:
            for number in passed:
                os.close(number)
