"""Measure calls beside the floors of the same disk, in turns, and print the ratios.

    python scripts/bench.py [--quick] [--json] [--history | --editing | --hostile] [--directory D]

What is measured is in the package ``benchmarks``; here is in which order. The floors are
measured in turns with the calls, because a disk is not equally fast all the time. The daemon
writes Git objects in the background up to half a second after it has answered: turns are
long enough that calls have that beside them, as in steady work, and the pauses between them
long enough that the next turn has not.
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
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import product

import stet
from benchmarks import engine, history, hostile
from benchmarks.editing import Calls
from benchmarks.floors import BOTH, Floors
from benchmarks.hooks import hook_rows
from benchmarks.lines import JsonLines
from benchmarks.mcp_server import mcp_rows
from benchmarks.measuring import Rate, Row, timed
from benchmarks.serving import serving
from benchmarks.starting import NOTHING, starting
from benchmarks.syncs import Syncs, count_syncs
from benchmarks.table import Results, as_json, as_text, environment
from benchmarks.together import Caller, calls_per_second
from private_daemon import PrivateDaemon

#: The same call where only checkpoints are synced.
RELAXED = "patch, JSON lines, durability relaxed"
#: Lines of the largest file of --editing.
_LINES, _QUICK_LINES = 100_000, 2_000
_CHECKOUT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured: ``rounds`` times ``per_round`` calls of each kind, and so on."""

    warm_up: int
    rounds: int
    per_round: int
    together: int
    starts: int
    hooks: int
    pause_s: float


FULL = Size(warm_up=50, rounds=2, per_round=250, together=200, starts=10, hooks=100, pause_s=0.6)
QUICK = Size(warm_up=2, rounds=1, per_round=6, together=5, starts=1, hooks=1, pause_s=0.0)


def one_at_a_time(
    daemon: PrivateDaemon,
    workspace: str,
    relaxed: PrivateDaemon,
    relaxed_workspace: str,
    floors: Floors,
    size: Size,
) -> list[Row]:
    """The floors, and each kind of call by one caller; also of a daemon that is ``relaxed``."""
    endpoint = daemon.endpoint()
    with (
        stet.connect(workspace, "python", "bench", endpoint=endpoint, start=False) as agent,
        JsonLines(endpoint.path, workspace, "plain") as plain,
        JsonLines(relaxed.endpoint().path, relaxed_workspace, "plain") as unsynced,
    ):
        calls = Calls(agent, plain, workspace)
        measured = calls.measured()
        measured[RELAXED] = Calls(agent, unsynced, relaxed_workspace).patch_plain
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


def several_at_once(
    daemon: PrivateDaemon, workspace: str, size: Size
) -> tuple[list[Rate], list[Syncs]]:
    """Calls per second of 8 and 16 callers, beside one; and their syncs of the journal.

    The syncs are counted apart: strace slows down what it watches.
    """
    path = daemon.endpoint().path
    callers = [Caller(path, workspace, number) for number in range(16)]
    calls_per_second(callers, max(1, size.together // 10))
    alone = calls_per_second(callers[:1], size.together)
    rates = [Rate("1 caller", alone, alone)]
    for count in (8, 16):
        time.sleep(size.pause_s)
        rate = calls_per_second(callers[:count], size.together)
        rates.append(Rate(f"{count} callers at once", rate, alone))
    time.sleep(size.pause_s)
    pipelined = calls_per_second(callers[:1], size.together, in_flight=16)
    rates.append(Rate("1 caller, 16 calls in flight", pipelined, alone))
    syncs = []
    for sync_ms, count in product((0, 20), (1, 8, 16)):
        each = max(1, size.together // count)
        name = "1 caller" if count == 1 else f"{count} callers at once"
        if sync_ms:
            name += f", a sync of {sync_ms} ms"
        run = partial(calls_per_second, callers[:count], each)
        found = count_syncs(daemon.pid, name, each * count, run, sync_ms)
        syncs += [found] if found else []
    for caller in callers:
        caller.close()
    return rates, syncs


def measure(directory: str, runtime: str, size: Size) -> Results:
    """Everything, below two directories that are there already."""
    floors = Floors(directory)
    with ExitStack() as stack:
        full, workspace = running(stack, directory, runtime, "full")
        relaxed, other = running(stack, directory, runtime, "relaxed")
        rows = one_at_a_time(full, workspace, relaxed, other, floors, size)
        rates, syncs = several_at_once(full, workspace, size)
        spoken = mcp_rows(full, workspace, size.starts, size.per_round)
        spoken += hook_rows(full, directory, size.hooks)
    floors.close()
    rows += [*starting(directory, runtime, size.starts), *spoken]
    served = serving(size.starts, NOTHING)
    return Results([*rows, *served.rows], rates, syncs, served)


def running(
    stack: ExitStack, directory: str, runtime: str, durability: str
) -> tuple[PrivateDaemon, str]:
    """A daemon with its own directories, and a workspace that is allowed."""
    own = os.path.join(directory, durability)
    workspace = os.path.join(own, "workspace")
    os.makedirs(workspace)
    options = {"STET_DURABILITY": durability}
    daemon = stack.enter_context(PrivateDaemon(own, os.path.join(runtime, durability), options))
    daemon.start()
    control = daemon.endpoint(control=True)
    with stet.connect(None, control=True, endpoint=control, start=False) as person:
        person.workspace_allow(workspace)
    return daemon, workspace


def grow(options: argparse.Namespace) -> int:
    """How the engine takes to large files; 1 if anything grows faster than the file."""
    lines = _QUICK_LINES if options.quick else _LINES
    show = partial(print, file=sys.stderr, flush=True) if sys.stderr.isatty() else str
    growths = list(engine.measure(lines, show))
    if options.json:
        print(json.dumps(engine.as_values(lines, growths), indent=2))
    else:
        print(engine.as_text(lines, growths))
    return 1 if not options.quick and any(each.ratio > engine.WORST for each in growths) else 0


def main() -> int:
    """Measure and print; the exit status."""
    parser = argparse.ArgumentParser(prog="scripts/bench")
    parser.add_argument("--quick", action="store_true", help="few calls, to see that it works")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--history", action="store_true", help="instead: long histories and large workspaces"
    )
    parser.add_argument(
        "--editing", action="store_true", help="instead: large files and many edits, at n and 2n"
    )
    parser.add_argument(
        "--hostile", action="store_true", help="instead: a good client beside 50 hostile ones"
    )
    parser.add_argument("--only", action="append", help="with --hostile: this way of being so")
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
    os.makedirs(options.directory, exist_ok=True)
    directory = os.path.realpath(tempfile.mkdtemp(prefix="bench-", dir=options.directory))
    # A socket's path must be short, wherever the rest is.
    runtime = tempfile.mkdtemp(prefix="stet-bench-", dir="/tmp")
    try:
        about = environment(directory)
        if options.history:
            plan = history.QUICK if options.quick else history.FULL
            told = partial(print, file=sys.stderr, flush=True)
            for table in history.measure(directory, runtime, plan, told):
                print(table + "\n", flush=True)
            return 0
        if options.hostile:
            size = hostile.QUICK if options.quick else hostile.FULL
            situations = hostile.measure(directory, runtime, size, options.only or [])
            print((hostile.as_json if options.json else hostile.as_text)(situations))
            return 0
        results = measure(directory, runtime, QUICK if options.quick else FULL)
    finally:
        shutil.rmtree(directory)
        shutil.rmtree(runtime)
    print((as_json if options.json else as_text)(about, results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
