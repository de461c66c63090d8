"""Generated patches, carried out by ours alone: none does what was not meant."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPTS = Path(__file__).parents[2] / "scripts"


def test_no_generated_patch_does_what_was_not_meant() -> None:
    told = subprocess.run(
        [sys.executable, "codex_differential.py", "--seed", "test", "--patches", "250"],
        cwd=SCRIPTS,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert (0, "") == (told.returncode, told.stderr), told.stdout
    figures = {
        line.rsplit(maxsplit=1)[0].strip(): line.split()[-1]
        for line in told.stdout.strip().split("\n")[1:]
    }
    assert int(figures["right"]) > 150
    assert int(figures["refused, nothing changed"]) > 30
    assert "0" == figures["wrong: other text"]
    assert "0" == figures["wrong: terminators, final newline or mode"]
    assert "0" == figures["refused, but files had changed"]
