"""A bounded run of the mutation benchmark; and that it notices an engine that is careless."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"
#: What most hunks must survive.
EASY = (
    *("nothing", "deeper", "not indented", "tabs in the text", "CRLF in the file"),
    *("typographic quotes in the text", "blank lines around it"),
)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=SCRIPTS,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )


def test_no_spoilt_hunk_is_edited_wrongly_in_any_dialect() -> None:
    done = run("mutation_benchmark.py", "--draws", "2", "--seed", "11", "--json")
    found = json.loads(done.stdout)
    assert found["wrong_cases"] == []
    assert (done.returncode, found["wrong"], done.stderr) == (0, 0, "")
    assert found["cases"] > 400
    assert {"patch", "patch_file", "patch_block", "apply_patch"} == set(
        found["mistakes"]["nothing"]
    )
    easy = [each for name in EASY for each in found["mistakes"][name].values()]
    assert sum(each["right"] for each in easy) > 4 * sum(each["refused"] for each in easy)
    assert all(rung["patch"]["right"] > 4 for rung in found["rungs"].values())


def test_the_tables_are_printed() -> None:
    arguments = ["--draws", "1", "--mistake", "nothing", "--mistake", "deeper"]
    text = run("mutation_benchmark.py", *arguments).stdout
    assert "cases, 0 wrong (seed 1)" in text
    markdown = run("mutation_benchmark.py", *arguments, "--markdown").stdout
    assert "| what is wrong | cases | right | refused | wrong |" in markdown
    assert "\n| deeper | " in markdown
    assert "\n| indent | " in markdown


CARELESS = """
import sys
from mutation_benchmark import main
from stetd.editing.matching import ladder as matching
matching.{name} = lambda *_, **__: False
sys.exit(main())
"""


@pytest.mark.parametrize(
    ("name", "mistake", "seed"),
    [
        ("is_applied", "already applied", "3"),
        ("_alike", "gone; a sibling with another first line", "8"),
        ("_lacks_indentation", "not indented, typographic", "2"),
    ],
)
def test_an_engine_without_a_check_is_found_out(name: str, mistake: str, seed: str) -> None:
    arguments = ["--seed", seed, "--draws", "45", "--mistake", mistake, "--json"]
    done = run("-c", CARELESS.format(name=name), *arguments)
    assert done.stderr == ""
    assert (done.returncode, json.loads(done.stdout)["wrong"] > 0) == (1, True)
