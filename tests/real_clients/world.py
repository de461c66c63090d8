"""A person's machine with one client on it: its home, a workspace, stet's daemon, a model."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.running_daemon import DaemonProcess, running
from real_clients.clients import Home, RealClient, Said, run
from real_clients.scripted_model import ScriptedModel, Step, Use

TEXT = "one\ntwo\nthree\n"


@dataclass
class World:
    """What a test has to do with."""

    client: RealClient
    daemon: DaemonProcess
    home: Home
    workspace: Path
    model: ScriptedModel

    def stet(self, *words: str, status: int = 0) -> str:
        """What a command of stet's prints in the workspace, both streams."""
        done = subprocess.run(
            [sys.executable, "-P", "-m", "stet.cli", *words],
            cwd=self.workspace,
            env=self.home.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            timeout=100,
        )
        said = done.stdout.decode()
        assert status == done.returncode, said
        return said

    def connect(self, *more: str) -> None:
        """Put stet into the client's configuration, and allow the workspace."""
        self.stet("init")
        self.stet("connect", self.client.name, "--write", *self.client.connect, *more)

    def converse(self, *steps: Step, more: Sequence[str] = ()) -> Said:
        """One conversation, in which the model makes these calls. ``shown``: what it sees."""
        search = [self.client.search] if self.client.search else []
        self.model.steps = [*search, *steps]
        self.model.requests.clear()
        said = run(
            self.client, self.home, self.workspace, self.model, *self.client.trusting_hooks, *more
        )
        said.shown = said.shown[len(search) :]
        uses = sum(1 if isinstance(step, Use) else len(step) for step in steps)
        assert len(said.shown) == uses, said
        assert self.model.strangers == [], "requests that the scripted model does not know"
        return said

    def edits(self) -> list[dict[str, Any]]:
        """The commits that are not outside edits, newest first, as ``stet log --json`` has them."""
        commits: list[dict[str, Any]] = json.loads(self.stet("log", "--json"))["commits"]
        return [commit for commit in commits if commit["kind"] != "outside"]

    def read(self, name: str) -> str | None:
        """A file of the workspace; None if there is none."""
        path = self.workspace / name
        return path.read_text() if path.exists() else None


@contextmanager
def world_of(client: RealClient) -> Iterator[World]:
    """A world with one file, ``a.txt``; nothing is connected or allowed yet."""
    with running() as daemon, ScriptedModel() as model:
        home = Home.made(daemon.base / "home", daemon.environment)
        workspace = daemon.base / "w"
        workspace.mkdir()
        (workspace / "a.txt").write_text(TEXT)
        client.configure(home.path, model)
        yield World(client, daemon, home, workspace, model)
