"""The figures that the daemon is held to: what is measured for them, in turns, and the table.

Each figure is a quotient of two things measured in the same run, or a plain time or size. Where
another revision is measured beside this one, each is measured a round at a time.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from benchmarks.editor import Editor, calls_per_second
from benchmarks.floors import SIZE, Floors
from benchmarks.lines import JsonLines, request
from benchmarks.measuring import quantile, timed
from benchmarks.processes import NO_OP, Echo, on_one_processor, pss_mib, settle
from benchmarks.sides import LARGE, SCATTERED, Extent, Place, Running, Side, in_turns, make
from benchmarks.table import aligned

SMALL, MIDDLE = 60, 300
_SLOW_SYNC = {"STET_FAILPOINT": "journal.before_sync:*@sleep=0.02"}
_MS = 1000.0
#: For how many times as long as was meant a question is waited for while calls go on.
_AT_MOST = 4


@dataclass(frozen=True, slots=True)
class Figure:
    """A quantile of what was measured, divided ``by`` that of something else, if by anything.

    ``goal``: the most that it may be, or with ``at_least`` the least.
    """

    name: str
    goal: float | None
    of: str
    share: float = 0.5
    by: str = ""
    by_share: float = 0.5
    at_least: bool = False
    scale: float = _MS
    unit: str = "ms"
    #: What went on beside it, in words.
    beside: str = ""

    def value(self, side: Side) -> float | None:
        """The figure; None if it was not measured."""
        if not side.samples.get(self.of) or (self.by and not side.samples.get(self.by)):
            return None
        above, below = self.parts(side)
        return above / below if self.by else above

    def parts(self, side: Side) -> tuple[float, float]:
        """What is divided, and what by (1.0 if by nothing)."""
        above = quantile(tuple(side.samples[self.of]), self.share) * self.scale
        if not self.by:
            return above, 1.0
        return above, quantile(tuple(side.samples[self.by]), self.by_share) * self.scale

    def missed(self, value: float) -> bool:
        """Whether it is not what it should be."""
        if self.goal is None:
            return False
        return value < self.goal if self.at_least else value > self.goal


def _rate(name: str, goal: float | None, of: str, by: str = "") -> Figure:
    return Figure(name, goal, of, by=by, at_least=True, scale=1.0, unit="calls/s")


def _beside(what: str) -> Figure:
    of, by = f"beside {what}", f"before {what}"
    return Figure(f"patch p99 {of} / quiet p99", 1.5, of, 0.99, by, 0.99, beside=what)


SEARCH, BLAME, GC, SNAPSHOT = "a log search", "a blame", "a gc run", "a snapshot"
FIGURES = [
    Figure("patch p50 / floor, 60 lines", 2.5, "patch 60", by="floor 60"),
    Figure("patch p50 / floor, 300 lines", 2.5, "patch 300", by="floor 300"),
    Figure("patch p99 / p50, steady load", 2.0, "steady", 0.99, "steady"),
    Figure("no-op request p50 / bare Python echo", 3.0, "no-op", by="echo"),
    _rate("calls/s of 16 clients / of one", 2.0, "of 16", "of 1"),
    _rate("the same, a sync 20 ms slower", 6.0, "of 16, slow sync", "of 1, slow sync"),
    _rate("calls/s of 16 clients", None, "of 16"),
    Figure("log, first page, right after an edit, long history", 8.0, "log"),
    Figure("blame, 5,000 lines, 2,000 versions of one line", 50.0, f"blame {LARGE}"),
    Figure("blame, 5,000 lines, 2,000 of them changed", None, f"blame {SCATTERED}"),
    Figure("patch p50, long history / none", 1.1, "patch, long", by="patch, beside long"),
    Figure("patch p50, many files / 100", 1.1, "patch, wide", by="patch, beside wide"),
    *map(_beside, (SEARCH, BLAME, GC, SNAPSHOT)),
    Figure("memory idle, all processes (PSS)", 50.0, "memory", scale=1.0, unit="MiB"),
    Figure("memory idle, the engine alone (PSS)", 30.0, "engine", scale=1.0, unit="MiB"),
    Figure("start to the first reply", 250.0, "start"),
    Figure("stet status, as a process", 45.0, "command"),
]


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured. Seconds, or calls a round."""

    rounds: int
    calls: int
    rate_s: float
    steady_s: float
    beside_s: float
    starts: int
    idle_s: float
    pause_s: float
    long: Extent
    wide: Extent


FULL = Size(
    *(4, 120, 1.5, 60.0, 3.0, 10, 6.0, 0.6),
    long=Extent(100_000, 1_000, versions=2_000, lines=5_000),
    wide=Extent(1_000, 50_000),
)
QUICK = Size(
    *(1, 4, 0.1, 0.2, 0.1, 1, 0.1, 0.0),
    long=Extent(100, 20, versions=5, lines=50),
    wide=Extent(20, 100),
)


class Measuring:
    """All of it, on one or two sides, whose samples it adds to."""

    def __init__(self, sides: Sequence[Side], place: Place, directory: str, size: Size) -> None:
        self._sides = sides
        self._place = place
        self._directory = directory
        self._size = size

    def all(self) -> dict[str, Callable[[], None]]:
        """What can be measured apart, by its name."""
        return {
            "calls": self.calls,
            "syncs": self.slow_syncs,
            "long": self.long_history,
            "wide": self.many_files,
            "process": self.processes,
        }

    def calls(self) -> None:
        """Calls beside the floors, requests beside an echo, calls per second, and steady load."""
        size = self._size
        with ExitStack() as stack:
            running = [self._place.new(stack, side) for side in self._sides]
            floors = {}
            for lines in (SMALL, MIDDLE):
                own = os.path.join(self._directory, f"floor-{lines}")
                os.mkdir(own)
                floors[lines] = Floors(own, SIZE * lines // MIDDLE)
                stack.callback(floors[lines].close)
            clients = [_Clients(stack, each, self._place.socket()) for each in running]
            for _ in range(size.rounds):
                for client in clients:
                    for lines, floor in floors.items():
                        time.sleep(size.pause_s)
                        client.beside_floor(lines, floor, size.calls)
                    client.no_ops(size.calls)
                    client.rates(size.rate_s, "")
            for _ in range(3):
                for client in clients:
                    client.steady(size.steady_s / 3)

    def slow_syncs(self) -> None:
        """Calls per second where a sync takes 20 ms more."""
        with ExitStack() as stack:
            running = [self._place.new(stack, side, _SLOW_SYNC) for side in self._sides]
            clients = [_Clients(stack, each, self._place.socket()) for each in running]
            for _ in range(2):
                for client in clients:
                    client.rates(self._size.rate_s, ", slow sync")

    def long_history(self) -> None:
        """Questions about a long history, and calls beside them."""
        size = self._size
        search = {"text": "version 8 of far/007.txt"}
        with self._beside_small("long", size.long) as pairs:
            for _ in range(size.rounds):
                for running, editor, person in pairs:
                    for _ in range(max(1, size.calls // 8)):
                        editor.calls(1)
                        running.side.note("log", *_asked(person, "log", 1))
                    running.side.note(f"blame {LARGE}", *_asked(person, "blame", 3, path=LARGE))
            for running, _, person in pairs:
                taken = _asked(person, "blame", 2, path=SCATTERED)
                running.side.note(f"blame {SCATTERED}", *taken)
            for _ in range(2):
                for running, editor, person in pairs:
                    self._beside(running, editor, SEARCH, person, request("log", search))
                    blamed = request("blame", {"path": LARGE})
                    self._beside(running, editor, BLAME, person, blamed)
            for running, editor, person in pairs:
                self._beside(running, editor, GC, person, request("gc", {}))

    def many_files(self) -> None:
        """Calls in a workspace of many files, and beside a snapshot of it."""
        with self._beside_small("wide", self._size.wide) as pairs:
            for _ in range(2):
                for running, editor, person in pairs:
                    self._beside(running, editor, SNAPSHOT, person, request("snapshot", {}))

    def processes(self) -> None:
        """Starts, memory when nothing is done, and a command."""
        size = self._size
        for _ in range(size.starts):
            for side in self._sides:
                with self._place.daemon(side) as daemon:
                    side.note("start", daemon.start())
        for side in self._sides:
            with ExitStack() as stack:
                running = self._place.new(stack, side)
                with running.editor("small", SMALL) as editor:
                    editor.calls(10)
                time.sleep(size.idle_s)
                side.note("memory", pss_mib(running.daemon.pid))
                side.note("engine", pss_mib(running.daemon.pid, alone=True))
        with ExitStack() as stack:
            for running in in_turns(
                [self._place.new(stack, side) for side in self._sides], size.starts
            ):
                running.side.note("command", *_command_seconds(running, 2))

    @contextmanager
    def _beside_small(
        self, name: str, extent: Extent
    ) -> Iterator[list[tuple[Running, Editor, JsonLines]]]:
        """A daemon on a made history; patches on it and on one without, in turns."""
        size = self._size
        make(self._sides, [extent], self._place.made)
        with ExitStack() as stack:
            pairs = []
            for side in self._sides:
                small = self._place.new(stack, side, files=100)
                large = self._place.with_history(stack, side, extent)
                one = stack.enter_context(small.editor("small", SMALL))
                other = stack.enter_context(large.editor("probe", SMALL))
                pairs.append((large, other, stack.enter_context(large.person()), one))
            for turn in range(size.rounds + 1):
                for running, other, _, one in pairs:
                    time.sleep(size.pause_s)
                    found = {f"patch, beside {name}": one, f"patch, {name}": other}
                    for of, editor in found.items():
                        taken = editor.calls(size.calls)
                        if turn:
                            running.side.note(of, *taken)
            yield [(running, other, person) for running, other, person, _ in pairs]

    def _beside(
        self, running: Running, editor: Editor, what: str, person: JsonLines, question: bytes
    ) -> None:
        """Calls while nothing else is asked, then while a question is, again and again."""
        settle(running.daemon.pid)
        running.side.note(f"before {what}", *editor.calls_for(self._size.beside_s))
        ends = time.perf_counter() + self._size.beside_s

        def ask() -> None:
            answered = timed(1, lambda _: person.ask(question))
            while time.perf_counter() < ends:
                answered += timed(1, lambda _: person.ask(question))
            running.side.note(f"answers to {what}", *answered)

        asking = threading.Thread(target=ask)
        asking.start()
        latest = ends + self._size.beside_s * _AT_MOST
        while asking.is_alive() and time.perf_counter() < latest:
            running.side.note(f"beside {what}", *editor.calls(1))
        asking.join()  # what gives way to edits is over soon now


class _Clients:
    """Those of one daemon: of a small and a larger file, sixteen at once, and one without hello."""

    def __init__(self, stack: ExitStack, running: Running, socket: str) -> None:
        path = running.daemon.endpoint().path
        self._side, self._daemon = running.side, running.daemon.pid
        enter = stack.enter_context
        self._editors = {n: enter(running.editor(f"{n}", n)) for n in (SMALL, MIDDLE)}
        self._many = [enter(running.editor(f"many-{n}", MIDDLE)) for n in range(16)]
        self._plain = enter(JsonLines(path, None, None, greet=False))
        self._echo = enter(Echo(socket, path))
        calls_per_second(self._many, 0.1)
        for editor in self._editors.values():
            editor.calls(20)

    def beside_floor(self, lines: int, floors: Floors, calls: int) -> None:
        for _ in range(2):
            self._side.note(f"floor {lines}", *floors.both(max(1, calls // 4)))
            self._side.note(f"patch {lines}", *self._editors[lines].calls(max(1, calls // 2)))

    def no_ops(self, calls: int) -> None:
        with on_one_processor(self._echo.pid, self._daemon):
            for _ in range(2):
                self._side.note("echo", *timed(calls, lambda _: self._echo.ask()))
                self._side.note("no-op", *timed(calls, lambda _: self._plain.ask(NO_OP)))

    def rates(self, seconds: float, where: str) -> None:
        for count in (1, 16):
            self._side.note(f"of {count}{where}", calls_per_second(self._many[:count], seconds))

    def steady(self, seconds: float) -> None:
        self._side.note("steady", *self._editors[SMALL].calls_for(seconds))


def _asked(connection: JsonLines, method: str, repeats: int, **params: object) -> list[float]:
    """The seconds that the answers took."""
    question = request(method, params)
    return timed(repeats, lambda _: connection.ask(question))


def _command_seconds(running: Running, repeats: int) -> list[float]:
    """The seconds that the smallest command takes, with its process."""
    command, environ = [running.side.program("stet"), "status"], running.daemon.environ
    return timed(repeats, lambda _: subprocess.check_output(command, env=environ))


def as_values(sides: Sequence[Side]) -> list[dict[str, object]]:
    """The figures that were measured, for programs."""
    values: list[dict[str, object]] = []
    for figure in FIGURES:
        found = [figure.value(side) for side in sides]
        known = [value for value in found if value is not None]
        if len(known) < len(sides):
            continue
        row: dict[str, object] = {
            "name": figure.name,
            "goal": figure.goal,
            "value": round(known[0], 3),
            "missed": figure.missed(known[0]),
            "unit": "" if figure.by else figure.unit,
            "parts": [round(part, 3) for part in figure.parts(sides[0])] if figure.by else [],
        }
        if len(sides) > 1:
            row |= {"against": round(known[1], 3), "ratio": round(known[0] / known[1], 3)}
        values.append(row)
    return values


def as_text(sides: Sequence[Side]) -> str:
    """The same as a table; what missed its goal has a mark."""
    heads = [head for side in sides for head in (side.name, "")]
    table = [("", "goal", *heads, *(["ratio"] if len(sides) > 1 else []))]
    for figure in FIGURES:
        found = [figure.value(side) for side in sides]
        known = [value for value in found if value is not None]
        if len(known) < len(sides):
            continue
        cells = []
        for side, value in zip(sides, known, strict=True):
            mark = " !" if side is sides[0] and figure.missed(value) else ""
            above, below = figure.parts(side)
            shown = f"{value:.2f}{mark}" if figure.by else f"{_short(value)} {figure.unit}{mark}"
            detail = f"{_short(above)} / {_short(below)} {figure.unit}" if figure.by else ""
            if figure.beside:
                answers = side.samples[f"answers to {figure.beside}"]
                detail += f", {len(answers)} of {_short(_p50(answers))} s"
            cells += [shown, detail]
        sign = ">=" if figure.at_least else "<="
        goal = "" if figure.goal is None else f"{sign} {figure.goal:g}"
        ratio = [f"{known[0] / known[1]:.2f}"] if len(sides) > 1 else []
        table.append((figure.name, goal, *cells, *ratio))
    return "\n".join(aligned(table))


def _p50(samples: Sequence[float]) -> float:
    return quantile(tuple(samples), 0.5)


def _short(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.0f}"


def as_json(about: dict[str, str | int], sides: Sequence[Side]) -> str:
    """Everything, for programs."""
    return json.dumps({"environment": about, "figures": as_values(sides)}, indent=2)
