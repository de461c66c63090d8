"""Running scenarios in daemons that get killed, from the test's side."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from e2e.running_daemon import fsck

KILLED = 9


class Zygote:
    """The process that forks daemons; see :mod:`recovery.zygote`."""

    def __init__(self) -> None:
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("STET_", "GIT_"))}
        tests = str(Path(__file__).parent.parent)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "recovery.zygote"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**clean, "PYTHONPATH": os.pathsep.join([tests, *sys.path])},
        )

    def run(self, order: Mapping[str, Any]) -> int:
        """Carry out an order; the wait status of its process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        assert self._process.wait(20) == 0


class Place:
    """Directories for one daemon's life, or several lives."""

    def __init__(self, zygote: Zygote, files: Mapping[str, str] = {}) -> None:
        self._zygote = zygote
        self.base = Path(tempfile.mkdtemp(prefix="stet-crash-", dir="/tmp"))
        self.root = self.base / "ws"
        self.root.mkdir()
        self.configure()
        for path, content in files.items():
            file = self.root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content, newline="")

    def configure(self, **settings: object) -> None:
        """The daemon's configuration; segments are short, so that journals get rotated."""
        lines = {"checkpoint_bytes": 65536, "log_level": '"warning"', **settings}
        text = "".join(f"{key} = {value}\n" for key, value in lines.items())
        (self.base / "c.toml").write_text(text)

    def run(
        self, scenario: str, *arguments: object, failpoint: str = "", boot: str = "boot-1",
        trace: bool = False,
    ) -> int:  # fmt: skip
        """Run a scenario in a fresh daemon; the signal that ended it, 0 for none.

        Any other end (an exception, a daemon that does not start) is the test's failure.
        """
        environment = {"STET_FAILPOINT": failpoint, "STET_BOOT_ID": boot}
        if trace:
            environment["STET_FAILPOINT_TRACE"] = str(self.base / "trace")
        status = self._zygote.run(
            {
                "run": scenario,
                "base": str(self.base),
                "arguments": arguments,
                "environment": environment,
            }
        )
        assert os.WIFSIGNALED(status) or os.waitstatus_to_exitcode(status) == 0, self.log()
        return os.WTERMSIG(status)

    def log(self) -> str:
        """What the daemons wrote to standard error."""
        return (self.base / "log").read_text()

    def lines(self, name: str) -> list[Any]:
        """What a scenario has noted under a name."""
        file = self.base / name
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def forget(self, *names: str) -> None:
        """Remove notes."""
        for name in names:
            (self.base / name).unlink(missing_ok=True)

    def fsck(self) -> str:
        """What git complains about in the shadow repositories."""
        return "".join(fsck(path) for path in (self.base / "state" / "workspaces").iterdir())

    @staticmethod
    def all_objects(shadow: Path) -> str:
        """Every object of a shadow repository, as git gives it; needed or not."""
        command = ["git", "--git-dir", str(shadow), "cat-file", "--batch", "--batch-all-objects"]
        found = subprocess.run(command, check=True, capture_output=True).stdout
        return found.decode("latin-1")

    def close(self) -> None:
        """Remove the directories."""
        shutil.rmtree(self.base, ignore_errors=True)
