"""How long an agent's client waits for ``stet hook``, from the start of its process to its end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator

import stet
from benchmarks.measuring import Row
from benchmarks.starting import NOTHING
from private_daemon import PrivateDaemon

#: Files of the workspace in which a shell command is observed.
_FILES = 2_000


def hook_rows(daemon: PrivateDaemon, directory: str, repeats: int) -> list[Row]:
    """Before and after an edit of one file, and a shell command that may touch any of many."""
    workspace = os.path.join(directory, "observed")
    os.mkdir(workspace)
    for number in range(_FILES):
        _write(workspace, f"{number}.txt", number)
    with stet.connect(
        None, control=True, endpoint=daemon.endpoint(control=True), start=False
    ) as person:
        person.workspace_allow(workspace)
    _run(daemon, _payload("PreToolUse", "Bash", workspace, "first"))  # takes up all files
    rows = []
    for tool, name in (("Edit", "an edit"), ("Bash", f"a command, {_FILES:,} files")):
        before, after = zip(*_uses(daemon, workspace, tool, repeats), strict=True)
        rows += [
            Row(f"stet hook, before {name}", before, NOTHING),
            Row(f"stet hook, after {name}", after, NOTHING),
        ]
    return rows


def _uses(
    daemon: PrivateDaemon, workspace: str, tool: str, repeats: int
) -> Iterator[tuple[float, float]]:
    """What each use of a tool takes: its hook before, an edit that is not counted, and after."""
    for number in range(repeats):
        before = _payload("PreToolUse", tool, workspace, str(number))
        after = _payload("PostToolUse", tool, workspace, str(number))
        first = _run(daemon, before)
        _write(workspace, "1.txt", f"{tool} {number}")
        yield first, _run(daemon, after)


def _write(workspace: str, name: str, content: object) -> None:
    with open(os.path.join(workspace, name), "w", encoding="utf-8") as file:
        file.write(f"{content}\n")


def _payload(event: str, tool: str, workspace: str, use: str) -> bytes:
    given = {"command": "true"} if tool == "Bash" else {"file_path": f"{workspace}/1.txt"}
    payload = {
        "session_id": "bench",
        "cwd": workspace,
        "hook_event_name": event,
        "tool_name": tool,
        "tool_input": given,
        "tool_use_id": f"{tool}-{use}",
    }
    return json.dumps(payload).encode()


def _run(daemon: PrivateDaemon, payload: bytes) -> float:
    """One hook; the seconds that it took."""
    begun = time.perf_counter()
    done = subprocess.run(
        [
            sys.executable,
            "-P",
            "-m",
            "stet.cli",
            "hook",
            "bench",
            "--before",
            "30",
            "--after",
            "30",
        ],
        input=payload,
        env=daemon.environ,
        capture_output=True,
        check=True,
    )
    if done.stderr:
        raise RuntimeError(done.stderr.decode())
    return time.perf_counter() - begun
