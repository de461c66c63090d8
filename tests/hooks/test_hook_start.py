"""``stet hook`` starts fast: an agent waits for it twice at each of its tools."""

from __future__ import annotations

import subprocess
import sys

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


def test_nothing_heavy_is_imported() -> None:
    run = subprocess.run(
        [sys.executable, "-c", LOADED],
        input=b'{"hook_event_name": "PreToolUse", "tool_name": "Read"}',
        capture_output=True,
        check=True,
    )
    assert (run.stderr, HEAVY & set(run.stdout.decode().split())) == (b"", set())
