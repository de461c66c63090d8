"""What calls cost as the history and the workspace grow: flat, or not, as ratios.

The same calls are measured in a small history and in long ones (made by
:mod:`benchmarks.made_history`), each with a daemon of its own; the ratio is that of the medians,
the largest to the smallest. Then what 20,000 calls leave behind on disk and in memory.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import stet
from benchmarks.lines import JsonLines, request
from benchmarks.made_history import BEGUN, MadeHistory, far_path, make_history, source_path
from benchmarks.measuring import quantile, timed
from benchmarks.table import aligned
from benchmarks.terminal_ui import measure_ui
from private_daemon import PrivateDaemon
from stetd.historian.index.history_index import HistoryIndex

_PROBE = "probe.txt"
#: Commits of a page that the smallest history has enough of, too.
_SHORT = 5
_PAGE = 4096
_PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class Extent:
    """A history to be made: so many commits, over so many files, in one directory or many."""

    commits: int
    files: int
    flat: bool = False

    @property
    def name(self) -> str:
        """As the table has it."""
        return f"{self.files:,} files" + (" in one directory" if self.flat else "")


@dataclass(frozen=True, slots=True)
class Plan:
    """What is measured: growing histories, growing workspaces, and many calls."""

    histories: Sequence[Extent]
    workspaces: Sequence[Extent]
    repeats: int
    calls: int


FULL = Plan(
    histories=[Extent(n, 1000) for n in (100, 10_000, 100_000)],
    workspaces=[
        *(Extent(1000, n) for n in (100, 10_000, 50_000)),
        Extent(100, 10_000, flat=True),
        Extent(100, 50_000, flat=True),
    ],
    repeats=15,
    calls=20_000,
)
QUICK = Plan(
    histories=[Extent(n, 50) for n in (100, 500)],
    workspaces=[Extent(100, 50), Extent(100, 200), Extent(100, 200, flat=True)],
    repeats=3,
    calls=200,
)


@dataclass(frozen=True, slots=True)
class Column:
    """What was measured of one history: seconds by what was called, and how it was made."""

    name: str
    seconds: dict[str, tuple[float, ...]]
    made: MadeHistory
    sizes: dict[str, int]


@dataclass(frozen=True, slots=True)
class Growth:
    """Bytes on disk and in memory as calls are made."""

    calls: int
    seconds: float
    sizes: dict[str, int]


class _Calls:
    """A person's and an agent's connection to a daemon, and what they are asked for."""

    def __init__(self, person: stet.Session, agent: stet.Session, made: MadeHistory) -> None:
        self._person = person
        self._agent = agent
        self._made = made
        self._version = 0
        self._undone = 0

    def measured(self, extent: Extent) -> dict[str, Callable[[int], object]]:
        """What is measured, by its name in the table."""
        middle = f"HEAD~{self._made.commits // 2}"
        path = source_path(7, flat=extent.flat)
        log, begun = self._person.log, BEGUN
        return {
            "patch": self.patch,
            "log, first page": lambda _: log(),
            "log of a session": lambda _: log(session="conv-3", limit=_SHORT),
            "log of a session and an agent": lambda _: log(
                session="conv-3", agent="agent-3", limit=_SHORT
            ),
            "log of a file": lambda _: log(far_path(7), limit=1),
            "log of a directory": lambda _: log("far", limit=_SHORT),
            "log until half": lambda _: log(until=begun + self._made.commits // 2, limit=_SHORT),
            "log of a text": lambda _: log(text=f"version 8 of {far_path(7)}"),
            "log of a text that is nowhere": lambda _: log(text="zzzzzz"),
            "show, half way": lambda _: self._person.show(middle),
            "diff of two, half way": lambda _: self._person.diff(middle, middle),
            "read, half way": lambda _: self._person.read(path, at=middle),
            "blame": lambda _: self._person.blame("blamed.txt"),
            "undo, newest": self.undo_newest,
            "undo, far back": self.undo_far,
        }

    def patch(self, _: int) -> object:
        old, self._version = self._version, self._version + 1
        lines = [stet.replace(f"version {old} of", f"version {self._version} of")]
        return self._agent.patch(_PROBE, lines)

    def undo_newest(self, _: int) -> object:
        """Takes back what was edited before, so that the file is what it was."""
        self._version -= 1
        return self._agent.undo(last=1)

    def undo_far(self, _: int) -> object:
        self._undone += 1
        return self._person.undo([self._made.far[self._undone - 1]])


def _measure(extent: Extent, directory: str, runtime: str, repeats: int) -> Column:
    root = os.path.join(directory, "workspace")
    os.makedirs(root)
    state = os.path.join(directory, "state")
    os.makedirs(state, mode=0o700)
    made = make_history(state, root, commits=extent.commits, files=extent.files, flat=extent.flat)
    with ExitStack() as stack:
        daemon = stack.enter_context(PrivateDaemon(directory, runtime))
        daemon.start()
        person = stack.enter_context(
            stet.connect(root, control=True, endpoint=daemon.endpoint(control=True), start=False)
        )
        agent = stack.enter_context(
            stet.connect(root, "bench", "bench", endpoint=daemon.endpoint(), start=False)
        )
        calls = _Calls(person, agent, made)
        seconds = {}
        for name, run in calls.measured(extent).items():
            if name == "undo, newest":
                seconds[name] = _undo_each(calls, repeats)
            else:
                timed(2, run)
                seconds[name] = tuple(timed(repeats, run))
        seconds |= measure_ui(daemon.environ, root, max(2, repeats // 3))
        sizes = _sizes(daemon, made.shadow)
    return Column(extent.name, seconds, made, sizes)


def _undo_each(calls: _Calls, repeats: int) -> tuple[float, ...]:
    taken = []
    for _ in range(repeats):
        calls.patch(0)
        taken += timed(1, calls.undo_newest)
    return tuple(taken)


def _sizes(daemon: PrivateDaemon, shadow: str) -> dict[str, int]:
    index = HistoryIndex.path_for(shadow)
    return {
        "resident memory": _resident(daemon.pid),
        "shadow repository": _size_of(shadow),
        "index": sum(os.path.getsize(index + s) for s in ("", "-wal") if os.path.exists(index + s)),
        "journal": _size_of(os.path.join(daemon.state, "journal")),
    }


def _resident(pid: int) -> int:
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * _PAGE


def _size_of(directory: str) -> int:
    """Bytes that the disk has given for the files below a directory."""
    return sum(
        os.lstat(os.path.join(above, name)).st_blocks * 512
        for above, _, names in os.walk(directory)
        for name in names
    )


def _many_calls(directory: str, runtime: str, calls: int) -> list[Growth]:
    """What so many calls on 100 files leave behind, looked at four times on the way."""
    root = os.path.join(directory, "workspace")
    os.makedirs(root)
    growth = []
    with ExitStack() as stack:
        daemon = stack.enter_context(PrivateDaemon(directory, runtime))
        daemon.start()
        control = daemon.endpoint(control=True)
        with stet.connect(None, control=True, endpoint=control, start=False) as person:
            shadow = person.workspace_allow(root).shadow
        plain = stack.enter_context(JsonLines(daemon.endpoint().path, root, "bench"))
        begun = time.perf_counter()
        growth.append(Growth(0, 0.0, _sizes(daemon, shadow)))
        for number in range(1, calls + 1):
            plain.send(_one_call(number))
            if number > 8:
                plain.receive()
            if number % max(1, calls // 4) == 0:
                taken = time.perf_counter() - begun
                growth.append(Growth(number, taken, _sizes(daemon, shadow)))
        for _ in range(min(8, calls)):
            plain.receive()
        _wait_for_index(root, control, shadow)
        growth.append(Growth(calls, time.perf_counter() - begun, _sizes(daemon, shadow)))
    return growth


def _one_call(number: int) -> bytes:
    text = "".join(f"line {n} of call {number}\n" for n in range(30))
    patch = {"operation": "overwrite", "newText": text}
    return request("patch", {"path": f"d{number % 10}/f{number % 100}", "patches": [patch]}, number)


def _wait_for_index(root: str, control: stet.service.spawn.Endpoint, shadow: str) -> None:
    with stet.connect(root, control=True, endpoint=control, start=False) as person:
        head = person.log(limit=1).commits[0].commit
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        index = HistoryIndex.for_reading(HistoryIndex.path_for(shadow))
        if index is not None:
            last = index.last()
            index.close()
            if last is not None and last[1] == head:
                return
        time.sleep(0.2)


def measure(directory: str, runtime: str, plan: Plan, told: Callable[[str], None]) -> Iterator[str]:
    """Table by table, as text; ``told`` is called with what was finished."""
    for what, extents in (("commits", plan.histories), ("files", plan.workspaces)):
        columns = []
        for number, extent in enumerate(extents):
            own = os.path.join(directory, f"{what}-{number}")
            column = _measure(extent, own, os.path.join(runtime, what, str(number)), plan.repeats)
            shutil.rmtree(own)
            told(f"{column.made.commits:,} commits over {column.name}")
            columns.append(column)
        yield _table(what, columns)
    growth = _many_calls(
        os.path.join(directory, "calls"), os.path.join(runtime, "calls"), plan.calls
    )
    yield _growth_table(growth)


def _table(what: str, columns: Sequence[Column]) -> str:
    """Medians in milliseconds, and the largest to the smallest history as a ratio."""
    heads = [f"{c.made.commits:,} commits" if what == "commits" else c.name for c in columns]
    table = [("median, ms", *heads, "ratio")]
    for name in columns[0].seconds:
        medians = [quantile(column.seconds[name], 0.5) for column in columns]
        cells = [f"{median * 1000:.1f}" for median in medians]
        table.append((name, *cells, f"{max(medians[1:]) / medians[0]:.1f}x"))
    table += [
        (size + ", MB", *(f"{c.sizes[size] / 1e6:.1f}" for c in columns), "")
        for size in columns[0].sizes
    ]
    table.append(("made, s", *(f"{c.made.made_s:.1f}" for c in columns), ""))
    table.append(("indexed, s", *(f"{c.made.indexed_s:.1f}" for c in columns), ""))
    return "\n".join(aligned(table))


def _growth_table(growth: Sequence[Growth]) -> str:
    sizes = list(growth[0].sizes)
    table = [("calls", "s", *(f"{size}, MB" for size in sizes))]
    for each in growth:
        cells = (f"{each.sizes[size] / 1e6:.1f}" for size in sizes)
        table.append((f"{each.calls:,}", f"{each.seconds:.0f}", *cells))
    return "\n".join(aligned(table))
