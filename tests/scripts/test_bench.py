"""scripts/bench measures all that it says; how much it is, is not checked."""

from __future__ import annotations

import importlib
import json
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"
FLOOR = "append + fdatasync, then temporary file + rename"


def bench(directory: Path, *options: str) -> Any:
    done = subprocess.run(
        [
            *(sys.executable, str(SCRIPTS / "bench.py"), "--quick", "--json"),
            *("--directory", str(directory), *options),
        ],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert (done.stderr, done.returncode) == ("", 0)
    assert list(directory.iterdir()) == []
    return json.loads(done.stdout)


def test_every_figure_is_measured(tmp_path: Path) -> None:
    figures = bench(tmp_path)["figures"]
    assert len(figures) == 20
    assert all(figure["value"] > 0 for figure in figures)
    goals = {figure["name"]: figure["goal"] for figure in figures}
    assert goals["patch p50 / floor, 60 lines"] == 2.5
    assert goals["patch p99 beside a gc run / quiet p99"] == 1.5


def test_the_tables_of_the_pages_are_written_from_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    figures, pages, sides = (
        importlib.import_module(f"benchmarks.{name}") for name in ("figures", "pages", "sides")
    )
    side = sides.Side("this", str(SCRIPTS.parent))
    for figure in figures.FIGURES:
        side.note(figure.of, 0.003)
        if figure.by:
            side.note(figure.by, 0.001)
    for page in ("README.md", "docs/benchmarks.md"):
        (tmp_path / page).parent.mkdir(exist_ok=True)
        shutil.copy(SCRIPTS.parent / page, tmp_path / page)
    pages.write(str(tmp_path), side)
    for page in ("README.md", "docs/benchmarks.md"):
        old, new = (SCRIPTS.parent / page).read_text(), (tmp_path / page).read_text()
        assert "| `patch` p50 / floor, 60 lines; 300 lines | ≤ 2.5 | 3.0 !; 3.0 ! |" in new
        rows = [[line for line in text.split("\n") if line[:2] != "| "] for text in (old, new)]
        assert rows[0] == rows[1]


def test_there_is_a_ratio_for_every_call(tmp_path: Path) -> None:
    rows = bench(tmp_path, "--calls")["rows"]
    floors = {"append 11 KB + fdatasync", "write temporary file + rename", FLOOR, "python -c pass"}
    assert floors == {row["name"] for row in rows if "floor" not in row}
    assert all(row["p50_ratio"] > 0 for row in rows if "floor" in row)


def test_every_part_of_a_call_is_timed_and_nothing_that_is_wrapped_is_gone(tmp_path: Path) -> None:
    cut = bench(tmp_path, "--anatomy")["anatomy"]
    wrapped = [note for note in cut["notes"] if note.startswith("not found")]
    assert wrapped == []
    ours = {name: ms for name, ms in cut["p50"].items() if name != "socket, event loop, client"}
    assert all(ms > 0 for ms in ours.values())
    if cut["system_calls"]:
        assert cut["system_calls"]["journal sync"]["fdatasync"] == 1


TRACE = b"""\
7 epoll_wait(3, [], 8, 0) = 1
7 access("/mark+publish", F_OK) = -1 ENOENT (No such file or directory)
7 renameat2(9, "a", 9, "b", RENAME_EXCHANGE <unfinished ...>
8 fdatasync(12) = 0
7 <... renameat2 resumed>) = 0
7 access("/mark-publish", F_OK) = -1 ENOENT (No such file or directory)
7 sendto(5, "x", 1, 0, NULL, 0) = 1
"""


def test_a_system_call_counts_where_it_begins(monkeypatch: Any) -> None:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    count = runpy.run_path(str(SCRIPTS / "benchmarks" / "anatomy.py"))["count"]
    assert count(TRACE.splitlines(), b"7", 1) == {
        "socket, event loop, client": {"epoll_wait": 1, "sendto": 1},
        "publish": {"renameat2": 1},
        "other threads and processes": {"fdatasync": 1},
    }
