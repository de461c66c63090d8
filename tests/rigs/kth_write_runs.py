"""Processes of the k-th-write rig (:mod:`rigs.kth_write`), for the tests that use it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Self


class Rig:
    """One process of the rig; its output goes to a file, so that it never waits for a reader."""

    def __init__(self, *arguments: str, mutant: str = "") -> None:
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("STET_", "GIT_"))}
        self._output = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115
        self._process = subprocess.Popen(
            [sys.executable, "-m", "rigs.kth_write", *arguments],
            stdout=self._output,
            stderr=subprocess.PIPE,
            text=True,
            env={**clean, "STET_MUTANT": mutant},
            cwd=Path(__file__).parent.parent,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        with self._output, self._process:  # which closes its pipe, and waits for it
            pass

    def verdicts(self) -> list[dict[str, Any]]:
        """What it has found at its points."""
        _, complaints = self._process.communicate()
        assert self._process.returncode == 0, complaints
        self._output.seek(0)
        return [json.loads(line) for line in self._output]


def verdicts(*arguments: str, mutant: str = "") -> list[dict[str, Any]]:
    """What one process finds at its points."""
    with Rig(*arguments, mutant=mutant) as rig:
        return rig.verdicts()
