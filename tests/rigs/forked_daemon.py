"""Daemons from the fork server, as the rigs use them; see :mod:`rigs.fork_server`."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from typing import Any

from e2e.forking import ForkServer
from e2e.running_daemon import PATIENCE_S, ConnectionEnded, DaemonProcess, Site


class ForkedDaemon(DaemonProcess):
    """One daemon after another on the same private directories.

    ``place``: where the state and the workspaces lie (default: beside the sockets).
    """

    def __init__(
        self,
        forks: ForkServer,
        settings: Mapping[str, object] | None = None,
        *,
        place: str = ".",
        state: str | None = None,
        boot: str = "boot-1",
    ) -> None:
        super().__init__(settings, {"STET_BOOT_ID": boot})
        self._forks = forks
        self._pid = 0
        #: What the fork server plays on every daemon that is not given tricks of its own.
        self.tricks: Mapping[str, Any] = {}
        self.place = self.base / place
        self.state = self.base / (place if state is None else state) / "s"
        self.environment["STET_STATE_DIR"] = str(self.state)

    def fork(
        self,
        environment: Mapping[str, str] = {},
        *,
        held: bool = False,
        tricks: Mapping[str, Any] | None = None,
    ) -> int:
        """Fork a daemon without waiting for anything; its process id."""
        assert not self._pid, "this daemon is running"
        self._pid = self._forks.ask(
            do="fork",
            environment={**self.environment, **environment},
            log=str(self.base / "log"),
            directory=str(self.base),
            held=held,
            tricks=self.tricks if tricks is None else tricks,
        )
        return self._pid

    def start(self, **environment: str) -> None:
        self.fork(environment)
        self.wait_until_it_answers()

    def wait_until_it_answers(self) -> None:
        """AssertionError if it ends, or says nothing for too long."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            status = self.look()
            assert status is None, f"the daemon did not start ({status}):\n{self.log()}"
            try:
                client = self.agent()
                client.call("status")
            except (OSError, ConnectionEnded):
                time.sleep(0.005)
            else:
                return
        raise AssertionError(f"the daemon does not answer:\n{self.log()}")

    @property
    def pid(self) -> int:
        """The running daemon's process id."""
        assert self._pid, "this daemon is not running"
        return self._pid

    @property
    def running(self) -> bool:
        """Whether there is a daemon, as far as was looked."""
        return bool(self._pid)

    def look(self) -> int | str | None:
        """None while it runs; "stopped"; or its exit status, once (negative: the signal)."""
        answer: int | str | None = self._forks.ask(do="look", pid=self.pid)
        if isinstance(answer, int):
            self._pid = 0
            return os.waitstatus_to_exitcode(answer)
        return answer

    def wait(self) -> int:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            status = self.look()
            if isinstance(status, int):
                return status
            time.sleep(0.002)
        raise AssertionError(f"the daemon does not end:\n{self.log()}")

    def stop(self) -> int:
        os.kill(self.pid, signal.SIGTERM)
        return self.wait()

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        self.wait()

    def hang_up(self) -> None:
        """Close the connections of this life."""
        for client in self._clients:
            client.close()
        self._clients.clear()

    def close(self) -> None:
        if self._pid:
            self.kill()
        super().close()

    def site(self, name: str, **more: Any) -> Site:
        root = self.place / name
        root.mkdir(exist_ok=True)
        self.control().call("workspace_allow", root=str(root))
        return Site(self, root, more.get("session", "conv-1"))
