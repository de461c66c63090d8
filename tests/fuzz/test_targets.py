"""A bounded sample of the fuzzing, in every run of the tests."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuzz.spelling import spelled, unspelled
from fuzz.targets import TARGETS

#: Far more than any input of this size may take, even on a machine that is busy.
_NO_HANG = timedelta(seconds=5)


@pytest.mark.parametrize("name", TARGETS)
def test_any_input_is_accepted_or_refused_in_the_documented_way(name: str) -> None:
    target = TARGETS[name]
    seeded = st.builds(
        _spliced, st.sampled_from(target.seeds), st.binary(max_size=8), st.integers()
    )

    @settings(
        max_examples=1_000,
        deadline=_NO_HANG,
        database=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(st.binary(max_size=160) | seeded)
    def fuzz(data: bytes) -> None:
        target.run(data)

    fuzz()


def _spliced(seed: bytes, piece: bytes, at: int) -> bytes:
    """A seed with something else somewhere in it."""
    at %= len(seed) + 1
    return seed[:at] + piece + seed[at + len(piece) // 2 :]


@pytest.mark.parametrize("name", TARGETS)
def test_seeds_run(name: str) -> None:
    for seed in TARGETS[name].seeds:
        TARGETS[name].run(seed)


def test_what_is_unspelled_spells_the_text() -> None:
    tokens = ["===FIND===\n", "===", "a", "\n"]
    text = "===FIND===\n===FINDa\n=="
    assert text == spelled(unspelled(text, tokens), tokens)


def fuzz_command(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fuzz", *arguments]
    tests = Path(__file__).parents[1]
    return subprocess.run(
        command,
        cwd=cwd,
        env={"PYTHONPATH": str(tests)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_finding_is_reproduced_without_atheris(tmp_path: Path) -> None:
    (tmp_path / "finding").write_bytes(b"\0{}\n")
    done = fuzz_command("framing", "--reproduce", "finding", cwd=tmp_path)
    assert (0, "framing: as documented\n") == (done.returncode, done.stdout)


def test_a_target_that_does_not_exist_is_a_usage_error(tmp_path: Path) -> None:
    done = fuzz_command("nothing", cwd=tmp_path)
    assert done.returncode == 2
    assert "framing" in done.stderr


def test_that_atheris_is_missing_is_said(tmp_path: Path) -> None:
    (tmp_path / "atheris.py").write_text("raise ImportError('no atheris here')\n")
    # The working directory comes first on the path of ``python -m``.
    done = fuzz_command("framing", "--seconds", "1", cwd=tmp_path)
    assert done.returncode == 2
    assert "atheris is not installed" in done.stderr
    assert "--group fuzz" in done.stderr
