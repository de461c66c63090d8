"""Processes of the k-th-write rig (:mod:`rigs.kth_write`), for the tests that use it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Verdicts = list[dict[str, Any]]


@contextmanager
def begun(*arguments: str, mutant: str = "") -> Iterator[Callable[[], Verdicts]]:
    """One process; the function waits for it, and gives what it has found at its points.

    Its output goes to a file, so that it never waits for a reader.
    """
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("STET_", "GIT_"))}
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8") as output,
        subprocess.Popen(
            [sys.executable, "-m", "rigs.kth_write", *arguments],
            stdout=output,
            stderr=subprocess.PIPE,
            text=True,
            env={**clean, "STET_MUTANT": mutant},
            cwd=Path(__file__).parent.parent,
        ) as process,
    ):

        def verdicts() -> Verdicts:
            _, complaints = process.communicate()
            assert process.returncode == 0, complaints
            output.seek(0)
            return [json.loads(line) for line in output]

        try:
            yield verdicts
        finally:
            process.kill()


def verdicts_of(*arguments: str, mutant: str = "") -> Verdicts:
    """What one process finds at its points."""
    with begun(*arguments, mutant=mutant) as verdicts:
        return verdicts()
