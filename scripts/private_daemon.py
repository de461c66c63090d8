"""A daemon with directories of its own, for the story and the benchmarks.

Nothing of the user's is read or written: runtime, state and configuration are inside a
directory that the caller made, and every STET_* and GIT_* variable that was set is left out
of the environment. Only the process that was started here is ever ended.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Self

import msgspec

from stet.service.spawn import Endpoint

_START_S = 30.0
_STOP_S = 30.0
_POLL_S = 0.001
_OWN_CONFIGURATION = ("STET_", "GIT_")
_STATUS = b'{"id": 0, "method": "status", "params": {}}\n'


class DaemonTrouble(Exception):
    """The daemon did not start, or did not stop as it should; the message has its log."""


class PrivateDaemon:
    """``stetd`` with its directories below ``directory``; leaving its context stops it.

    ``runtime``: where the sockets are to be, if not below ``directory`` (a socket's path can
    have no more than 107 bytes). ``options``: settings, given as STET_* variables. ``command``:
    what starts it, if not this environment's ``stetd``.
    """

    def __init__(
        self,
        directory: str,
        runtime: str | None = None,
        options: Mapping[str, str] | None = None,
        command: Sequence[str] = (),
    ) -> None:
        self._command = command or [os.path.join(os.path.dirname(sys.executable), "stetd")]
        self.runtime = runtime or os.path.join(directory, "runtime")
        self.state = os.path.join(directory, "state")
        self.log_path = os.path.join(directory, "stetd.log")
        self.environ = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(_OWN_CONFIGURATION)
        } | {
            "STET_RUNTIME_DIR": self.runtime,
            "STET_STATE_DIR": self.state,
            "STET_CONFIG": os.path.join(directory, "config.toml"),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            **(options or {}),
        }
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self.stop()

    @property
    def pid(self) -> int:
        """The process id of the running daemon."""
        assert self._process is not None, "BUG: no daemon was started"
        return self._process.pid

    @property
    def log(self) -> str:
        """What the daemon has said so far."""
        with open(self.log_path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def endpoint(self, *, control: bool = False) -> Endpoint:
        """Where ``stet.connect(endpoint=..)`` finds it."""
        return Endpoint(self.runtime, self.state, control)

    def start(self) -> float:
        """Start it and wait for its first answer; the seconds that took."""
        begun = time.perf_counter()
        with open(self.log_path, "ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env=self.environ,
            )
        while not self._answers():
            if self._process.poll() is not None:
                self._process = None
                raise DaemonTrouble(f"the daemon ended at its start. It said:\n{self.log}")
            if time.perf_counter() - begun > _START_S:
                self._process.kill()
                self._process.wait()
                self._process = None
                raise DaemonTrouble(f"no answer within {_START_S:.0f} s. It said:\n{self.log}")
            time.sleep(_POLL_S)
        return time.perf_counter() - begun

    def stop(self) -> None:
        """Ask it to end (SIGTERM), as a service manager does, and wait until it has."""
        assert self._process is not None, "BUG: no daemon was started"
        process, self._process = self._process, None
        process.terminate()
        try:
            status = process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise DaemonTrouble(
                f"the daemon went on for {_STOP_S:.0f} s after SIGTERM. It said:\n{self.log}"
            ) from None
        if status != 0:
            raise DaemonTrouble(f"the daemon ended with status {status}. It said:\n{self.log}")

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(_START_S)
            try:
                connection.connect(self.endpoint().path)
                connection.sendall(_STATUS)
                reply = connection.makefile("rb").readline()
            except (FileNotFoundError, ConnectionError):
                return False
        return bool(reply) and "result" in msgspec.json.decode(reply)
