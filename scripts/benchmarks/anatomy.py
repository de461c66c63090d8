"""Where the time of one small ``patch`` goes, by part, and how many system calls each part makes.

Two daemons whose functions are wrapped (:mod:`benchmarks.marks`): one that is timed, and one
that strace watches, because strace slows down what it watches. One client, one call at a time.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks import marks
from benchmarks.editing import LINES
from benchmarks.editor import Editor
from benchmarks.floors import APPEND, RENAME, SIZE, Floors
from benchmarks.lines import allow
from benchmarks.measuring import quantile, timed
from benchmarks.processes import Echo, family, pss_mib, threads
from benchmarks.table import aligned
from private_daemon import PrivateDaemon

#: Lines of the file that is edited.
SMALL = 60
#: The parts of a call, what they consist of, and what they may take, in milliseconds;
#: with the name of what the disk alone takes beside it.
LOOP, OTHERS = "socket, event loop, client", "other threads and processes"
BUDGET = [
    (
        "socket, decode, rights, encode, log line",
        (LOOP, marks.DECODE, marks.QUEUE, marks.ENCODE, marks.LOG),
        0.12,
        None,
    ),
    ("planning", (marks.PLAN,), 0.12, None),
    ("seal", (marks.SEAL,), 0.12, None),
    ("journal append, fdatasync", (marks.APPEND, marks.SYNC), 0.03, APPEND),
    ("publish", (marks.PUBLISH,), 0.1, RENAME),
]
_EVERY = [part for _, parts, _, _ in BUDGET for part in parts]
#: The median, and what nearly all calls take: that other work of the machine is hardly in.
_SHARES = (0.5, 0.1)
_CALL = re.compile(rb"(\d+) +(\w+)\(")
#: System calls of a part that are named.
_NAMED = 6


@dataclass(frozen=True, slots=True)
class Anatomy:
    """Seconds of each call, by part; ``system_calls``: by part, how many of each a call makes."""

    round_trips: list[float]
    seconds: dict[str, list[float]]
    floors: dict[str, list[float]]
    echo: list[float]
    system_calls: dict[str, dict[str, float]]
    threads: list[str]
    processes: int
    memory_mib: float
    notes: list[str]


def measure(directory: str, runtime: str, calls: int) -> Anatomy:
    """Both daemons, one after the other."""
    output, trace = os.path.join(directory, "marks"), os.path.join(directory, "trace")
    floors = Floors(directory, SIZE * SMALL // LINES)
    with _marked(directory, runtime, output) as (daemon, editor):
        with Echo(os.path.join(runtime, "echo"), daemon.endpoint().path) as echo:
            echoed = timed(calls, lambda _: echo.ask())
        taken = []
        for _ in range(4):
            floors.measure(calls // 4)
            taken += editor.calls(calls // 4)
        names, processes, memory = threads(daemon.pid), family(daemon.pid), pss_mib(daemon.pid)
    floors.close()
    with open(output, encoding="utf-8") as file:
        told = json.load(file)
    noted = told["calls"][-len(taken) :]
    seconds = {part: [call.get(part, 0.0) for call in noted] for part, _, _ in marks.WRAPPED}
    notes = [f"not found, so its time is in the part around it: {name}" for name in told["missing"]]
    counted: dict[str, dict[str, float]] = {}
    if shutil.which("strace") is None:
        notes.append("system calls: not counted, because strace is not installed")
    else:
        few = max(4, calls // 10)
        with _marked(f"{directory}/traced", f"{runtime}/t", output, "--visible") as (
            daemon,
            editor,
        ):
            with _strace(family(daemon.pid), trace):
                editor.calls(few)
            loop = daemon.pid
        with open(trace, "rb") as traced:
            counted = count(traced, str(loop).encode(), few)
    return Anatomy(
        taken,
        seconds,
        floors.samples,
        echoed,
        counted,
        names,
        len(processes),
        memory,
        notes,
    )


@contextmanager
def _marked(directory: str, runtime: str, *options: str) -> Iterator[tuple[PrivateDaemon, Editor]]:
    """A daemon that is marked, and a client whose first calls are done."""
    workspace = os.path.join(directory, "workspace")
    os.makedirs(workspace)
    environ = {"PYTHONPATH": os.path.dirname(os.path.dirname(os.path.abspath(__file__)))}
    command = [sys.executable, "-m", "benchmarks.marks", *options]
    with PrivateDaemon(directory, runtime, environ, command) as daemon:
        daemon.start()
        allow(daemon, workspace)
        with Editor(daemon.endpoint().path, workspace, "small", SMALL) as editor:
            editor.calls(50)
            yield daemon, editor


@contextmanager
def _strace(pids: Sequence[int], output: str) -> Iterator[None]:
    """strace on all threads of these processes while the context lasts."""
    whom = [argument for pid in pids for argument in ("-p", str(pid))]
    command = ["strace", "-f", "-e", "signal=none", "-o", output, *whom]
    process = subprocess.Popen(command, stderr=subprocess.PIPE)
    assert process.stderr is not None, "BUG: its standard error is a pipe"
    for _ in pids:
        said = process.stderr.readline()
        if b" attached" not in said:
            process.communicate()
            raise OSError(f"strace can't attach: {said.decode().strip()}")
    try:
        yield
    finally:
        process.terminate()
        process.communicate()


def count(trace: Iterable[bytes], loop: bytes, calls: int) -> dict[str, dict[str, float]]:
    """By part how many of which system calls one call makes. ``loop``: the event loop's thread.

    Where another thread comes between, a system call has two lines, and counts where it begins.
    """
    inside: dict[bytes, list[str]] = {}
    found: dict[str, Counter[str]] = {}
    for row in trace:
        begins = _CALL.match(row)
        if begins is None:
            continue
        thread, name = begins.groups()
        parts = inside.setdefault(thread, [LOOP if thread == loop else OTHERS])
        mark = marks.MARK.search(row)
        if mark is None:
            found.setdefault(parts[-1], Counter())[name.decode()] += 1
        elif mark.group(1) == b"+":
            parts.append(mark.group(2).decode())
        elif len(parts) > 1:
            parts.pop()
    return {
        part: {name: times / calls for name, times in counts.most_common()}
        for part, counts in found.items()
    }


def as_values(anatomy: Anatomy) -> dict[str, object]:
    """For programs; milliseconds."""
    return {
        "calls": len(anatomy.round_trips),
        "p50": {part: _ms(anatomy, [part], 0.5) for part in _EVERY},
        "p10": {part: _ms(anatomy, [part], 0.1) for part in _EVERY},
        "round_trip_p50": _ms(anatomy, _EVERY, 0.5),
        "echo_p50": quantile(tuple(anatomy.echo), 0.5) * 1000,
        "system_calls": anatomy.system_calls,
        "threads": anatomy.threads,
        "processes": anatomy.processes,
        "memory_mib": anatomy.memory_mib,
        "notes": anatomy.notes,
    }


def as_text(anatomy: Anatomy) -> str:
    """For people."""
    heads = ("", "p50 ms", "p10 ms", "goal", "of that the disk", "system calls")
    table: list[tuple[str, ...]] = [heads]
    for name, parts, goal, floor in BUDGET:
        disk = quantile(tuple(anatomy.floors[floor]), 0.5) * 1000 if floor else 0.0
        shown = f"{disk:.3f}" if floor else ""
        table.append(
            (name, *_both(anatomy, parts), f"{goal + disk:.3f}", shown, _made(anatomy, parts))
        )
        if len(parts) > 1:
            table += [
                (f"    {part}", *_both(anatomy, [part]), "", "", _made(anatomy, [part]))
                for part in parts
            ]
    table.append(("history follows", "", "", "", "", _made(anatomy, [OTHERS])))
    every = (*_both(anatomy, _EVERY), "", "", _made(anatomy, [*_EVERY, OTHERS]))
    table.append(("all", *every))
    calls, echo = len(anatomy.round_trips), quantile(tuple(anatomy.echo), 0.5) * 1000
    kinds = ", ".join(sorted(set(anatomy.threads)))
    lines = [
        f"patch of one line in {SMALL}, {calls} calls, one at a time",
        "",
        *aligned(table),
        "",
        f"a bare Python socket echo of the same run: {echo:.3f} ms",
        f"threads of the engine: {len(anatomy.threads)} ({kinds}); processes: "
        f"{anatomy.processes}; memory of all: {anatomy.memory_mib:.0f} MiB (PSS)",
    ]
    if anatomy.system_calls:
        lines += ["", "system calls of a call:"]
    for part, names in anatomy.system_calls.items():
        most = [f"{name} {times:.1f}" for name, times in list(names.items())[:_NAMED]]
        more = len(names) - len(most)
        lines.append(f"    {part}: {', '.join(most)}" + (f", {more} more" if more > 0 else ""))
    return "\n".join([*lines, *anatomy.notes])


def _ms(anatomy: Anatomy, parts: Collection[str], share: float) -> float:
    """What these parts of a call take together."""
    seconds = _together(anatomy, parts, share)
    if LOOP in parts:  # whatever of the round trip is in none of the others
        seconds += quantile(tuple(anatomy.round_trips), share) - _together(anatomy, _EVERY, share)
    return seconds * 1000


def _together(anatomy: Anatomy, parts: Collection[str], share: float) -> float:
    calls = zip(*(anatomy.seconds[part] for part in parts if part != LOOP), strict=True)
    return quantile(tuple(map(sum, calls)) or (0.0,), share)


def _both(anatomy: Anatomy, parts: Collection[str]) -> tuple[str, ...]:
    return tuple(f"{_ms(anatomy, parts, share):.3f}" for share in _SHARES)


def _made(anatomy: Anatomy, parts: Iterable[str]) -> str:
    """How many system calls one call makes in these parts."""
    if not anatomy.system_calls:
        return ""
    return f"{sum(sum(anatomy.system_calls.get(part, {}).values()) for part in parts):.1f}"
