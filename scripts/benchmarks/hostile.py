"""One good client beside a thousand idle and fifty hostile ones: what becomes of its calls.

Its small ``patch`` calls are timed alone, then beside idle connections, then beside hostile
ones as well (``scripts/hostile_clients.py``, in processes of their own), all in one run. Only
the factor between them means something on another machine; and part of it is that the hostile
processes want processors too.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.editing import content
from benchmarks.editor import Editor
from benchmarks.lines import allow
from benchmarks.measuring import quantile
from benchmarks.table import aligned
from private_daemon import PrivateDaemon

#: Processes that the hostile connections are shared among.
_PROCESSES = 2
_CLIENTS = Path(__file__).parents[1] / "hostile_clients.py"


@dataclass(frozen=True, slots=True)
class Plan:
    """How many connections, and for how many seconds each situation is measured."""

    idle: int
    hostile: int
    seconds: float


FULL = Plan(idle=1000, hostile=50, seconds=30.0)
QUICK = Plan(idle=20, hostile=34, seconds=2.0)


@dataclass(frozen=True, slots=True)
class Situation:
    """The good client's calls in one situation, and the daemon's memory by its end."""

    name: str
    seconds: tuple[float, ...]
    peak_bytes: int


class GoodClient(Editor):
    """Edits one line of its file again and again, and checks that it was done."""

    def __init__(self, daemon: PrivateDaemon, workspace: str) -> None:
        self._path = Path(workspace, "good.txt")
        super().__init__(daemon.endpoint().path, workspace, "good")

    def receive(self) -> bytes:
        """The reply. Raises RuntimeError if it is a refusal, or the edit is not there."""
        reply = super().receive()
        if self.count and self._path.read_text(encoding="utf-8") != content(self.count):
            raise RuntimeError(f"edit {self.count} was answered, but it is not what stands there")
        return reply


def arrange(workspace: str) -> None:
    """The files that hostile clients ask about."""
    lines = "".join(f"this is line {n} of a large file\n" for n in range(20_000))
    Path(workspace, "large.txt").write_text(lines, encoding="utf-8")
    Path(workspace, "exponential.txt").write_text("a" * 60 + "!\n", encoding="utf-8")


@contextmanager
def hostile(
    daemon: PrivateDaemon, workspace: str, count: int, only: Sequence[str]
) -> Iterator[None]:
    """Hostile clients in processes of their own, until the context is left."""
    ways = [option for way in only for option in ("--only", way)]
    processes = [
        _start(daemon, workspace, "--connections", count // _PROCESSES, "--seed", number, *ways)
        for number in range(_PROCESSES)
    ]
    try:
        yield
    finally:
        for process in processes:
            _end(process)


@contextmanager
def idle(daemon: PrivateDaemon, workspace: str, count: int) -> Iterator[None]:
    """So many connections that say nothing more than hello."""
    process = _start(daemon, workspace, "--connections", "0", "--idle", count)
    try:
        yield
    finally:
        _end(process)


def measure(directory: str, runtime: str, plan: Plan, only: Sequence[str]) -> list[Situation]:
    """Alone, beside idle clients, and beside hostile ones; ``only`` of these ways, if any."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    workspace = os.path.join(directory, "workspace")
    os.mkdir(workspace)
    arrange(workspace)
    found = []
    with PrivateDaemon(directory, runtime, {"STET_LOG_LEVEL": "error"}) as daemon:
        daemon.start()
        allow(daemon, workspace)
        good = GoodClient(daemon, workspace)
        good.calls_for(min(1.0, plan.seconds))

        def taken(name: str) -> None:
            seconds = tuple(good.calls_for(plan.seconds))
            found.append(Situation(name, seconds, peak_bytes(daemon.pid)))

        taken("alone")
        with idle(daemon, workspace, plan.idle):
            taken(f"beside {plan.idle} idle connections")
            with hostile(daemon, workspace, plan.hostile, only):
                taken(f"and {plan.hostile} hostile ones")
        good.close()
    return found


def peak_bytes(pid: int) -> int:
    """The most memory that the process has had resident."""
    for row in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if row.startswith("VmHWM:"):
            return int(row.split()[1]) * 1024
    raise RuntimeError("the kernel does not tell VmHWM")


def _start(daemon: PrivateDaemon, workspace: str, *options: str | int) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, str(_CLIENTS), daemon.endpoint().path, workspace, *map(str, options)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None, "BUG: its output is a pipe"
    if process.stdout.readline() != "ready\n":
        raise RuntimeError("the hostile clients did not start")
    return process


def _end(process: subprocess.Popen[str]) -> None:
    process.communicate()


def as_values(situations: list[Situation]) -> list[dict[str, object]]:
    """Milliseconds, the factor to the first situation, and megabytes."""
    quiet = situations[0].seconds
    return [
        {
            "name": each.name,
            "calls": len(each.seconds),
            "p50_ms": round(quantile(each.seconds, 0.5) * 1000, 2),
            "p99_ms": round(quantile(each.seconds, 0.99) * 1000, 2),
            "worst_ms": round(max(each.seconds) * 1000, 2),
            "p99_factor": round(quantile(each.seconds, 0.99) / quantile(quiet, 0.99), 1),
            "peak_mb": round(each.peak_bytes / 1e6),
        }
        for each in situations
    ]


def as_text(situations: list[Situation]) -> str:
    """The same as a table."""
    rows = as_values(situations)
    table = [("patch by a good client", *list(rows[0])[1:])]
    table += [tuple(str(value) for value in row.values()) for row in rows]
    return "\n".join(aligned(table))


def as_json(situations: list[Situation]) -> str:
    """The same for programs."""
    return json.dumps({"hostile": as_values(situations)}, indent=2)
