"""``stet hook`` starts fast: an agent waits for it twice at each of its tools."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

LOADED = """
import sys
before = set(sys.modules)
from stet.cli import main
main(["hook", "nobody"])
print(*sorted({name.partition(".")[0] for name in set(sys.modules) - before}))
"""
#: What takes longer to import than all that a hook does.
HEAVY = {
    "argparse", "asyncio", "dataclasses", "datetime", "decimal", "hashlib", "inspect", "logging",
    "msgspec", "pathlib", "platform", "random", "shutil", "subprocess", "tempfile", "threading",
    "typing", "uuid",
}  # fmt: skip


@pytest.mark.parametrize(
    "payload",
    [
        {"hook_event_name": "PreToolUse", "tool_name": "Read"},
        {
            "hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_use_id": "t1", "cwd": "/",
            "session_id": "s", "tool_input": {"command": "cd /a && b > c", "run_in_background": 1},
        },
        {"hook_event_name": "SessionStart", "session_id": "s", "cwd": "/"},
    ],
    ids=lambda payload: payload["hook_event_name"],
)  # fmt: skip
def test_nothing_heavy_is_imported(payload: dict[str, object], tmp_path: Path) -> None:
    own = {name: str(tmp_path / name) for name in ("STET_RUNTIME_DIR", "STET_STATE_DIR")}
    run = subprocess.run(
        [sys.executable, "-c", LOADED],
        input=json.dumps(payload).encode(),
        env={**os.environ, **own},
        capture_output=True,
        check=True,
    )
    assert (run.stderr, HEAVY & set(run.stdout.decode().split())) == (b"", set())


def test_where_no_daemon_has_ever_run_nothing_is_left_open_or_said(tmp_path: Path) -> None:
    payload = {
        "hook_event_name": "PostToolUse", "tool_name": "Edit", "tool_use_id": "t1", "cwd": "/",
        "session_id": "s", "tool_input": {"file_path": "/a"},
    }  # fmt: skip
    own = {name: str(tmp_path / name) for name in ("STET_RUNTIME_DIR", "STET_STATE_DIR")}
    run = subprocess.run(
        [sys.executable, "-m", "stet.cli", "hook", "nobody"],
        input=json.dumps(payload).encode(),
        env={**os.environ, **own, "PYTHONWARNINGS": "default"},
        capture_output=True,
        check=True,
    )
    assert run.stderr == b""
