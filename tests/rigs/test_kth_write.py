"""Crashes at the k-th change of the disk: nothing torn, nothing lost, nothing twice.

:mod:`rigs.kth_write` does it; here are the points that are tried - a fixed sample in the usual
run, all of them with STET_TEST_ALL=1 - and the proof that the rig finds defects: the mutants.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from rigs import findings
from rigs.kth_write import MODES, Point
from rigs.mutants import MUTANTS

ALL = bool(os.environ.get("STET_TEST_ALL"))
PROCESSES = 2
#: Of the usual run; the rest would take it minutes.
PROVEN_EVERY_TIME = ("no_fsync", "no_exchange", "reply_before_journal")


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

    def verdicts(self) -> list[dict[str, Any]]:
        """What it has found at its points."""
        with self._output as output, self._process as process:
            try:
                _, complaints = process.communicate()
            except BaseException:  # out of time
                process.kill()
                raise
            assert process.returncode == 0, complaints
            output.seek(0)
            return [json.loads(line) for line in output]


@pytest.mark.timeout(5 * 3600 if ALL else 240)
def test_a_crash_at_any_change_of_the_disk_leaves_every_call_whole_once_and_lasting() -> None:
    chosen = [] if ALL else ["--sample", "120", "--seconds", "35"]
    rigs = [Rig(*chosen, "--part", str(n), str(PROCESSES)) for n in range(PROCESSES)]
    verdicts = [verdict for rig in rigs for verdict in rig.verdicts()]
    tallies = {mode: findings.begin(f"k-th write, {mode}") for mode in MODES}
    for verdict in verdicts:
        tally = tallies[Point.parse(verdict["point"]).mode]
        tally.points += 1
        for kind in {kind for kind, _ in verdict["violations"]}:
            setattr(tally, kind, getattr(tally, kind) + 1)
    assert [] == [verdict for verdict in verdicts if verdict["violations"]]
    assert all(tally.points for tally in tallies.values())


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("mutant", MUTANTS if ALL else PROVEN_EVERY_TIME)
def test_a_daemon_with_a_defect_is_caught(mutant: str) -> None:
    verdicts = Rig("--sample", "2000", "--first", "--seed", "3", mutant=mutant).verdicts()
    assert verdicts[-1]["violations"], f"{len(verdicts)} points did not tell"


def test_a_point_can_be_tried_again_by_its_name() -> None:
    (verdict,) = Rig("--point", "day:60:drop").verdicts()
    assert ("day:60:drop", []) == (verdict["point"], verdict["violations"])
