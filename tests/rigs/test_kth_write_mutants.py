"""The k-th-write rig finds defects: a daemon with one is caught.

In a file of its own, so that all of them, with STET_TEST_ALL=1, are tried beside the sweep.
"""

from __future__ import annotations

import os

import pytest

from rigs.kth_write_runs import verdicts_of
from rigs.mutants import MUTANTS

ALL = bool(os.environ.get("STET_TEST_ALL"))
#: Of the usual run; the rest would take it minutes.
PROVEN_EVERY_TIME = ("no_fsync", "no_exchange", "reply_before_journal")


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("mutant", MUTANTS if ALL else PROVEN_EVERY_TIME)
def test_a_daemon_with_a_defect_is_caught(mutant: str) -> None:
    # It ends at the first that tells. One of 2,000 picked points told of each, but not every time.
    found = verdicts_of("--sample", "6000", "--first", "--seed", "3", mutant=mutant)
    assert found[-1]["violations"], f"{len(found)} points did not tell"
