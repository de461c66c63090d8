"""The benchmark of the editing engine runs; its figures on small files mean little."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SCRIPTS = Path(__file__).parents[2] / "scripts"
DIALECTS = {"patch", "patch_file", "patch_block", "apply_patch"}


def test_every_task_is_measured_in_every_dialect_at_two_sizes() -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPTS / "bench.py"), "--editing", "--quick", "--json"],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (done.stderr, done.returncode) == ("", 0)
    result = json.loads(done.stdout)
    assert result["lines"] == 2_000
    tasks = {row["name"] for row in result["editing"]}
    assert {(name, dialect) for name in tasks for dialect in DIALECTS} == {
        (row["name"], row["dialect"]) for row in result["editing"]
    }
    assert {"a miss", "50 lines against identical ones", "1,000 edits"} <= tasks
    assert all(row["half_ms"] > 0 and row["ratio"] > 0 for row in result["editing"])
