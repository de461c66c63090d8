"""Samples of durations, what they amount to, and rows of a table of them. No I/O but time."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

_NS = 1e9


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table. ``seconds``: one duration per call, in the order of the calls.

    ``floor``: what it is compared with, the name of another row.
    """

    name: str
    seconds: tuple[float, ...]
    floor: str | None = None
    note: str = ""


def timed(repeats: int, run: Callable[[int], object]) -> list[float]:
    """Seconds of ``run(0)``, ``run(1)``, .. each."""
    taken = []
    for number in range(repeats):
        begun = time.perf_counter_ns()
        run(number)
        taken.append((time.perf_counter_ns() - begun) / _NS)
    return taken


def quantile(seconds: tuple[float, ...], share: float) -> float:
    """The smallest sample that at least ``share`` of the samples don't exceed."""
    assert seconds, "BUG: a row without samples"
    ordered = sorted(seconds)
    return ordered[max(0, -int(-share * len(ordered) // 1) - 1)]
