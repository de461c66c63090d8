"""The table of figures as it stands in README.md and docs/benchmarks.md, written from a run."""

from __future__ import annotations

import os
from collections.abc import Sequence

from benchmarks.figures import FIGURES, Figure
from benchmarks.sides import Side

_PAGES = ("README.md", "docs/benchmarks.md")
_HEAD = "| figure | meant to be | is |\n|---|---|---|\n"
#: What is measured, and the figures that say it, by their names.
_ROWS: Sequence[tuple[str, Sequence[str]]] = (
    (
        "`patch` p50 / floor, 60 lines; 300 lines",
        (
            "patch p50 / floor, 60 lines",
            "patch p50 / floor, 300 lines",
        ),
    ),
    (
        "`patch` p99 / p50, steady load of 60 s with history following",
        ("patch p99 / p50, steady load",),
    ),
    (
        "a request that does nothing / a bare Python socket echo",
        ("no-op request p50 / bare Python echo",),
    ),
    (
        "calls per second of 16 clients / of one; where a sync takes 20 ms more",
        (
            "calls/s of 16 clients / of one",
            "the same, a sync 20 ms slower",
        ),
    ),
    (
        "first page of `log` right after an edit, 100,000 commits",
        ("log, first page, right after an edit, long history",),
    ),
    (
        "blame, 5,000 lines, 2,000 versions of the file",
        ("blame, 5,000 lines, 2,000 versions of one line",),
    ),
    (
        "`patch` p50 at 100,000 commits / at 0; with 50,000 files / 100",
        (
            "patch p50, long history / none",
            "patch p50, many files / 100",
        ),
    ),
    (
        "`patch` p99 beside a log search; a blame; gc; a snapshot of 50,000 files / quiet",
        (
            "patch p99 beside a log search / quiet p99",
            "patch p99 beside a blame / quiet p99",
            "patch p99 beside a gc run / quiet p99",
            "patch p99 beside a snapshot / quiet p99",
        ),
    ),
    (
        "memory when nothing is done, both processes; the engine alone (PSS)",
        (
            "memory idle, all processes (PSS)",
            "memory idle, the engine alone (PSS)",
        ),
    ),
    (
        "start to the first reply; `stet status` as a process",
        (
            "start to the first reply",
            "stet status, as a process",
        ),
    ),
)


def as_markdown(side: Side) -> str:
    """The table. Raises KeyError where something was not measured."""
    by_name = {figure.name: figure for figure in FIGURES}
    lines = [
        f"| {title} | {_goals([by_name[name] for name in names])} "
        f"| {'; '.join(_is(by_name[name], side) for name in names)} |\n"
        for title, names in _ROWS
    ]
    return _HEAD + "".join(lines)


def write(checkout: str, side: Side) -> None:
    """Put the table into the pages that have one."""
    table = as_markdown(side)
    for page in _PAGES:
        path = os.path.join(checkout, page)
        with open(path, encoding="utf-8") as file:
            before, _, rest = file.read().partition(_HEAD)
        after = rest[rest.index("\n\n") + 1 :]
        with open(path, "w", encoding="utf-8") as file:
            file.write(before + table + after)


def _goals(figures: Sequence[Figure]) -> str:
    goals = [f"{'≥' if each.at_least else '≤'} {each.goal:g}" for each in figures]
    unit = "" if figures[0].by else f" {figures[0].unit}"
    return "; ".join(dict.fromkeys(goals)) + (unit if unit != " calls/s" else "")


def _is(figure: Figure, side: Side) -> str:
    value = figure.value(side)
    if value is None:
        raise KeyError(figure.name)
    shown = f"{value:.1f}" if value < 10 else f"{value:.0f}"
    if figure.goal is not None and figure.goal < 2:
        shown = f"{value:.2f}"
    unit = "" if figure.by or figure.at_least else f" {figure.unit}"
    return shown + unit + (" !" if figure.missed(value) else "")
