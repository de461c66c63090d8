"""Measure the daemon, and print figures that are ratios within the run.

    python scripts/bench.py [--quick] [--json] [--only PART] [--against REV] [--directory D]
                            [--anatomy | --calls | --history | --editing | --hostile]

What is measured is in the package ``benchmarks``; here is which of it. What is compared is
measured in turns, because neither a disk nor a machine is equally fast all the time.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass

import stet
from benchmarks import anatomy, engine, figures, history, hostile, pages, sides, table
from benchmarks.editing import Calls
from benchmarks.floors import BOTH, Floors
from benchmarks.hooks import hook_rows
from benchmarks.lines import JsonLines, allow
from benchmarks.mcp_server import mcp_rows
from benchmarks.measuring import Row, timed
from benchmarks.starting import starting
from private_daemon import PrivateDaemon

#: Lines of the largest file of --editing.
_LINES, _QUICK_LINES = 100_000, 2_000
#: Calls of --anatomy.
_CALLS, _QUICK_CALLS = 1_000, 20
_CHECKOUT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


@dataclass(frozen=True, slots=True)
class Size:
    """How much of --calls: ``rounds`` times ``per_round`` calls of each kind, and so on."""

    warm_up: int
    rounds: int
    per_round: int
    starts: int
    hooks: int
    pause_s: float


FULL = Size(warm_up=50, rounds=2, per_round=250, starts=10, hooks=100, pause_s=0.6)
QUICK = Size(warm_up=2, rounds=1, per_round=6, starts=1, hooks=1, pause_s=0.0)


def one_at_a_time(daemon: PrivateDaemon, workspace: str, floors: Floors, size: Size) -> list[Row]:
    """The floors, and each kind of call by one caller."""
    endpoint = daemon.endpoint()
    with (
        stet.connect(workspace, "python", "bench", endpoint=endpoint, start=False) as agent,
        JsonLines(endpoint.path, workspace, "plain") as plain,
    ):
        calls = Calls(agent, plain, workspace)
        measured = calls.measured()
        samples: dict[str, list[float]] = {name: [] for name in measured}
        for turn in range(size.rounds + 1):
            repeats = size.per_round if turn else size.warm_up
            for number, (name, run) in enumerate(measured.items()):
                time.sleep(size.pause_s)
                if turn and number % 2 == 0:
                    floors.measure(repeats // 3)
                taken = take(calls, run, repeats)
                if turn:
                    samples[name] += taken
    rows = [Row(name, tuple(taken)) for name, taken in floors.samples.items()]
    return rows + [Row(name, tuple(taken), BOTH) for name, taken in samples.items()]


def take(calls: Calls, run: Callable[[int], object], repeats: int) -> list[float]:
    """Durations of ``run``; an undo is preceded by an edit that is not counted."""
    if run != calls.undo:
        return timed(repeats, run)
    taken = []
    for _ in range(repeats):
        calls.before_undo()
        taken += timed(1, run)
    return taken


def each_call(directory: str, runtime: str, size: Size) -> list[Row]:
    """Each kind of call, the MCP server, and the hooks."""
    floors = Floors(directory)
    workspace = os.path.join(directory, "workspace")
    os.mkdir(workspace)
    with PrivateDaemon(directory, runtime) as daemon:
        daemon.start()
        allow(daemon, workspace)
        rows = one_at_a_time(daemon, workspace, floors, size)
        rows += starting(size.starts)
        rows += mcp_rows(daemon, workspace, size.starts, size.per_round)
        rows += hook_rows(daemon, directory, size.hooks)
    floors.close()
    return rows


def held_figures(options: argparse.Namespace, directory: str, runtime: str) -> list[sides.Side]:
    """What the daemon is held to, of this tree and of another revision, if one was given."""
    measured = [sides.Side("this tree", _CHECKOUT)]
    if options.against:
        measured.append(sides.revision(_CHECKOUT, options.against, options.directory))
    size, made = figures.FULL, options.directory
    if options.quick:
        size, made = figures.QUICK, directory
    place = sides.Place(directory, runtime, made)
    measuring = figures.Measuring(measured, place, directory, size)
    for name, measure in measuring.all().items():
        if name in (options.only or [name]):
            begun = time.perf_counter()
            measure()
            if not options.quick:
                tell(f"{name}: {time.perf_counter() - begun:.0f} s")
    return measured


def tell(text: str) -> None:
    """What is going on, to whoever waits."""
    print(text, file=sys.stderr, flush=True)


def grow(options: argparse.Namespace) -> int:
    """How the engine takes to large files; 1 if anything grows faster than the file."""
    lines = _QUICK_LINES if options.quick else _LINES
    show = tell if sys.stderr.isatty() else str
    growths = list(engine.measure(lines, show))
    if options.json:
        print(json.dumps(engine.as_values(lines, growths), indent=2))
    else:
        print(engine.as_text(lines, growths))
    return 1 if not options.quick and any(each.ratio > engine.WORST for each in growths) else 0


def show(options: argparse.Namespace, directory: str, runtime: str) -> None:
    """Measure what was asked for, and print it."""
    quick = options.quick
    about = table.environment(directory)
    if options.history:
        for found in history.measure(
            directory, runtime, history.QUICK if quick else history.FULL, tell
        ):
            print(found + "\n", flush=True)
    elif options.hostile:
        size = hostile.QUICK if quick else hostile.FULL
        situations = hostile.measure(directory, runtime, size, options.only or [])
        print((hostile.as_json if options.json else hostile.as_text)(situations))
    elif options.anatomy:
        cut = anatomy.measure(directory, runtime, _QUICK_CALLS if quick else _CALLS)
        values = {"environment": about, "anatomy": anatomy.as_values(cut)}
        print(json.dumps(values, indent=2) if options.json else anatomy.as_text(cut))
    elif options.calls:
        rows = each_call(directory, runtime, QUICK if quick else FULL)
        text = f"{table.facts(about)}\n\n{table.as_text(rows)}"
        print(table.as_json(about, rows) if options.json else text)
    else:
        measured = held_figures(options, directory, runtime)
        text = f"{table.facts(about)}\n\n{figures.as_text(measured)}"
        print(figures.as_json(about, measured) if options.json else text)
        if options.pages:
            pages.write(_CHECKOUT, measured[0])


def main() -> int:
    """Measure and print; the exit status."""
    parser = argparse.ArgumentParser(prog="scripts/bench")
    parser.add_argument("--quick", action="store_true", help="few calls, to see that it works")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--pages", action="store_true", help="write the figures into README.md and docs, too"
    )
    parser.add_argument("--against", metavar="REV", help="and the same of another revision")
    what = parser.add_mutually_exclusive_group()
    for name, instead in (
        ("anatomy", "where the time of one small edit goes, and its system calls"),
        ("calls", "each kind of call, the MCP server, and the hooks"),
        ("history", "long histories and large workspaces"),
        ("editing", "large files and many edits, at n and 2n"),
        ("hostile", "a good client beside 50 hostile ones"),
    ):
        what.add_argument(f"--{name}", action="store_true", help=f"instead: {instead}")
    parser.add_argument(
        "--only",
        action="append",
        help="this part of the figures (calls, syncs, long, wide, process); with --hostile: this "
        "way of being so",
    )
    parser.add_argument(
        "--directory",
        default=os.path.join(_CHECKOUT, ".run"),
        help="where to work; its file system is the one that is measured",
    )
    options = parser.parse_args()
    if options.editing:
        return grow(options)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    options.directory = os.path.realpath(options.directory)
    os.makedirs(options.directory, exist_ok=True)
    directory = tempfile.mkdtemp(prefix="bench-", dir=options.directory)
    # A socket's path must be short, wherever the rest is.
    runtime = tempfile.mkdtemp(prefix="stet-bench-", dir="/tmp")
    try:
        show(options, directory, runtime)
    finally:
        shutil.rmtree(directory)
        shutil.rmtree(runtime)
    return 0


if __name__ == "__main__":
    sys.exit(main())
