"""A real daemon in directories of its own, driven through the ``stet`` command.

The daemon is started by the first command, as for a user, and stopped by process id.
"""

from __future__ import annotations

import contextlib
import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from stet.service.spawn import Endpoint, is_running


@dataclass(frozen=True)
class Installation:
    """Own runtime, state and configuration, and a workspace directory beside them."""

    base: str
    name: str = "ws"

    @property
    def workspace(self) -> str:
        return os.path.join(self.base, self.name)

    @property
    def environ(self) -> dict[str, str]:
        """The environment of a user; what a test's own caller has set is left out."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("STET_", "XDG_"))}
        return kept | {
            "STET_RUNTIME_DIR": os.path.join(self.base, "run"),
            "STET_STATE_DIR": os.path.join(self.base, "state"),
            "STET_CONFIG": os.path.join(self.base, "config.toml"),
            "STET_NOTIFY": "false",  # nothing on the desktop of whoever runs the tests
        }

    def endpoint(self, *, control: bool = False) -> Endpoint:
        run, state = os.path.join(self.base, "run"), os.path.join(self.base, "state")
        return Endpoint(run, state, control)

    def another(self, name: str) -> Installation:
        """Another workspace of the same daemon, allowed."""
        own = Installation(self.base, name)
        os.mkdir(own.workspace)
        assert own.stet("init").returncode == 0
        return own

    def start(self, *arguments: str, **environ: str) -> subprocess.Popen[bytes]:
        """A command that runs on."""
        return subprocess.Popen(
            [sys.executable, "-m", "stet.cli", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self.workspace,
            env=self.environ | environ,
        )

    def stet(
        self, *arguments: str, stdin: str = "", cwd: str = "", **environ: str
    ) -> subprocess.CompletedProcess[str]:
        """Run one command in the workspace."""
        return subprocess.run(
            [sys.executable, "-m", "stet.cli", *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            cwd=os.path.join(self.workspace, cwd),
            env=self.environ | environ,
            timeout=60,
            check=False,
        )

    def on_terminal(self, *arguments: str, status: int = 0, **environ: str) -> str:
        """What a command writes to a terminal."""
        ours, theirs = pty.openpty()
        run = subprocess.Popen(
            [sys.executable, "-m", "stet.cli", *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=subprocess.STDOUT,
            cwd=self.workspace,
            env=self.environ | {"TERM": "dumb", "PAGER": "cat"} | environ,
        )
        os.close(theirs)
        written = b""
        with contextlib.suppress(OSError):  # EIO: the last writer has closed the terminal
            while data := os.read(ours, 65536):
                written += data
        os.close(ours)
        assert run.wait() == status
        return written.decode()

    def json(self, *arguments: str, stdin: str = "", **environ: str) -> Any:
        """The result of a command that must succeed."""
        run = self.stet(*arguments, "--json", stdin=stdin, **environ)
        assert (run.returncode, run.stderr) == (0, ""), run
        return json.loads(run.stdout)

    def patch(self, path: str, old: str, new: str, **environ: str) -> Any:
        patches = [{"operation": "replace", "oldText": old, "newText": new}]
        return self.json("patch", "--path", path, stdin=json.dumps(patches), **environ)

    def write(self, path: str, text: str) -> None:
        target = os.path.join(self.workspace, path)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "w", newline="") as file:
            file.write(text)

    def text(self, path: str) -> str:
        with open(os.path.join(self.workspace, path), newline="") as file:
            return file.read()

    def pid(self) -> int | None:
        """The daemon's process, if one runs."""
        try:
            with open(os.path.join(self.base, "state", "stetd.lock")) as lock:
                pid = int(lock.read())
        except (OSError, ValueError):
            return None
        return pid if is_running(pid) else None

    def stop(self, number: int = signal.SIGTERM) -> None:
        """End the daemon, if one runs, and wait until it is gone."""
        pid = self.pid()
        if pid is None:
            return
        os.kill(pid, number)
        deadline = time.monotonic() + 60
        while is_running(pid):
            assert time.monotonic() < deadline, "the daemon does not stop"
            time.sleep(0.01)


@contextlib.contextmanager
def installation() -> Iterator[Installation]:
    """New directories, removed afterwards; short, for socket paths hold 107 bytes."""
    base = tempfile.mkdtemp(prefix="stet-", dir="/tmp")
    found = Installation(os.path.realpath(base))
    os.mkdir(found.workspace)
    try:
        yield found
    finally:
        found.stop()
        shutil.rmtree(base)
