"""Calling ``stet hook`` as an agent's client does: a process with a payload on standard input."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from e2e.running_daemon import DaemonProcess


def run_hook(
    daemon: DaemonProcess, payload: bytes | dict[str, Any], *words: str, **environment: str
) -> str:
    """Run it in good order, and give what it said on standard error."""
    data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    done = subprocess.run(
        [sys.executable, "-P", "-m", "stet.cli", "hook", *(words or ("claude-code",))],
        input=data,
        env={**daemon.environment, **environment},
        capture_output=True,
        cwd=daemon.base,
        check=False,
        timeout=100,
    )
    said = done.stderr.decode()
    assert (done.returncode, done.stdout) == (0, b""), said
    assert said.count("\n") <= 1
    return said


def in_place(value: Any, root: Path) -> Any:
    """A payload with the workspace's root for ``$ROOT``."""
    return json.loads(json.dumps(value).replace("$ROOT", str(root)))


def claude(event: str, tool: str, given: dict[str, Any], use: str, root: Path) -> dict[str, Any]:
    """A payload of Claude Code."""
    return {
        "session_id": "s-1", "transcript_path": str(root / "t.jsonl"), "cwd": str(root),
        "hook_event_name": event, "tool_name": tool, "tool_input": given, "tool_use_id": use,
    }  # fmt: skip
