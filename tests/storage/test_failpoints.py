"""A process stops at the points where the environment asks it to."""

import time
from pathlib import Path

import pytest

from stetd import failpoints


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("", []),
        ("there@sleep", [1.0]),
        ("there:3@sleep=0.5", [0.5]),
        ("there:4@sleep", []),
        ("there:*@sleep=0.5", [0.5, 0.5, 0.5]),
    ],
)
def test_a_point_waits_when_it_is_asked_to(
    monkeypatch: pytest.MonkeyPatch, target: str, expected: list[float]
) -> None:
    waits: list[float] = []
    monkeypatch.setattr(time, "sleep", waits.append)
    monkeypatch.setenv("STET_FAILPOINT", target)
    monkeypatch.delenv("STET_FAILPOINT_TRACE", raising=False)
    failpoint = failpoints.from_environment()
    for _ in range(3):
        failpoint("there")
        failpoint("elsewhere")
    assert expected == waits


def test_a_point_waits_until_there_is_a_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            (tmp_path / "go").touch()

    monkeypatch.setattr(time, "sleep", wait)
    monkeypatch.setenv("STET_FAILPOINT", f"there:2@until={tmp_path}/go")
    monkeypatch.delenv("STET_FAILPOINT_TRACE", raising=False)
    failpoint = failpoints.from_environment()
    failpoint("there")
    assert waits == []
    failpoint("there")
    assert len(waits) == 3
