"""The benchmark finds each sync of the journal in what strace says, once."""

from __future__ import annotations

import runpy
from pathlib import Path

SYNCS = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "benchmarks" / "syncs.py"))

TRACE = rb"""
7 fdatasync(9</state/journal/00000001.wal>) = 0
7 fdatasync(9</state/journal/00000001.wal> <unfinished ...>
8 fdatasync(12</state/workspaces/w/objects/pack/tmp>) = 0
7 <... fdatasync resumed>) = 0
7 fdatasync(9</state/journal/00000002.wal>) = 0 (DELAYED)
"""


def test_a_sync_that_is_told_in_two_lines_is_one() -> None:
    assert SYNCS["syncs_in"](TRACE) == 3
