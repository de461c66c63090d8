"""Crashes at the k-th change of the disk: nothing torn, nothing lost, nothing twice.

:mod:`rigs.kth_write` does it; here are the points that are tried: a fixed sample in the usual
run, all of them with STET_TEST_ALL=1. That it finds defects is in test_kth_write_mutants.py.
"""

from __future__ import annotations

import os
from contextlib import ExitStack

import pytest

from rigs import findings
from rigs.kth_write import MODES, Point
from rigs.kth_write_runs import begun, verdicts_of

ALL = bool(os.environ.get("STET_TEST_ALL"))
PROCESSES = 2


@pytest.mark.timeout(5 * 3600 if ALL else 240)
def test_a_crash_at_any_change_of_the_disk_leaves_every_call_whole_once_and_lasting() -> None:
    chosen = [] if ALL else ["--sample", "120", "--seconds", "35"]
    with ExitStack() as processes:
        all_verdicts = [
            processes.enter_context(begun(*chosen, "--part", str(n), str(PROCESSES)))
            for n in range(PROCESSES)
        ]
        found = [verdict for verdicts in all_verdicts for verdict in verdicts()]
    tallies = {mode: findings.begin(f"k-th write, {mode}") for mode in MODES}
    for verdict in found:
        tally = tallies[Point.parse(verdict["point"]).mode]
        tally.points += 1
        for kind in {kind for kind, _ in verdict["violations"]}:
            setattr(tally, kind, getattr(tally, kind) + 1)
    assert [] == [verdict for verdict in found if verdict["violations"]]
    assert all(tally.points for tally in tallies.values())


def test_a_point_can_be_tried_again_by_its_name() -> None:
    (verdict,) = verdicts_of("--point", "day:60:drop")
    assert ("day:60:drop", []) == (verdict["point"], verdict["violations"])
