"""The editing engine on large files: what a call costs at a size, and at twice that size.

Calls are planned in this process, on a file in memory: no daemon, no disk. What must hold is
that nothing grows faster than the file does, whatever is sent: a factor of about two from one
size to the next. Times are those of the processor, the best of a few.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from benchmarks.table import aligned
from mutations.sending import IN_TEXTS, PATH, Call, OneFile
from mutations.sending import Sent as Edit
from stet.wire.failures import Refused
from stetd.editing.dialects import DIALECTS

#: More than this from one size to twice that is not linear.
WORST = 3.0
_REPEATS = 5
#: A call is not repeated once it has taken this long.
_ENOUGH_S = 2.0


@dataclass(frozen=True, slots=True)
class Task:
    """A file, and the edits of one call; ``refused``: whether the call must be."""

    text: str
    edits: tuple[Edit, ...]
    refused: bool = False


@dataclass(frozen=True, slots=True)
class Growth:
    """Processor seconds of a call at two sizes, the second twice the first."""

    name: str
    dialect: str
    small: float
    large: float

    @property
    def ratio(self) -> float:
        """How much longer it takes."""
        return self.large / self.small


# -- the calls, by dialect


def _apply_patch(edits: tuple[Edit, ...]) -> Call:
    hunks = "".join(f"@@\n{_signed('-', e.old)}{_signed('+', e.new)}" for e in edits)
    return {"input": f"*** Begin Patch\n*** Update File: {PATH}\n{hunks}*** End Patch\n"}


def _signed(sign: str, text: str) -> str:
    return "".join(f"{sign}{line}\n" for line in text.removesuffix("\n").split("\n"))


def _call(dialect: str, edits: tuple[Edit, ...]) -> Call:
    return IN_TEXTS[dialect](edits, "\n") if dialect in IN_TEXTS else _apply_patch(edits)


# -- the tasks, by the number of lines


def _lines(count: int) -> list[str]:
    return [
        f"    value_{number} = compute(number={number}, other={number % 97})\n"
        for number in range(count)
    ]


def a_miss(count: int) -> Task:
    """A text that stands nowhere, though its words do."""
    old = "    value_7 = compute(number=8, other=9)\n    value_8 = compute(number=7, other=1)\n"
    return Task("".join(_lines(count)), (Edit(old, "pass\n"),), refused=True)


def identical_lines(count: int) -> Task:
    """Fifty lines that stand everywhere."""
    return Task("    pass\n" * count, (Edit("    pass\n" * 50, "pass\n"),), refused=True)


def identical_lines_otherwise_indented(count: int) -> Task:
    """The same, with tolerance."""
    return Task("    pass\n" * count, (Edit("pass\n" * 50, "go()\n"),), refused=True)


def nearly_identical_lines(count: int) -> Task:
    """Fifty lines that nearly stand everywhere: only the last one is another."""
    old = "    pass\n" * 49 + "    stop\n"
    return Task("    pass\n" * count, (Edit(old, "pass\n"),), refused=True)


def many_hunks(count: int) -> Task:
    """A thousand edits, all over the file."""
    lines = _lines(count)
    edits = (Edit(lines[at], lines[at].upper()) for at in _spread(count, 1_000))
    return Task("".join(lines), tuple(edits))


def tolerant_hunks(count: int) -> Task:
    """A hundred with other indentation."""
    lines = _lines(count)
    edits = (
        Edit("".join(line[2:] for line in lines[at : at + 2]), lines[at][2:].upper())
        for at in _spread(count, 100)
    )
    return Task("".join(lines), tuple(edits))


def _spread(count: int, edits: int) -> range:
    """The first lines of so many edits in so many lines."""
    return range(0, count - 1, max(2, count // edits))[:edits]


def large_file(count: int) -> Task:
    """One line in the middle; 10 MB at 100,000 lines."""
    lines = [f"{line[:-1]}  # {'x' * (102 - len(line))}\n" for line in _lines(count)]
    middle = lines[count // 2]
    return Task("".join(lines), (Edit(middle, middle.upper()),))


def large_file_with_crlf(count: int) -> Task:
    """The same, where all lines end otherwise than in the text."""
    task = large_file(count)
    return Task(task.text.replace("\n", "\r\n"), task.edits)


TASKS: Mapping[str, Callable[[int], Task]] = {
    "a miss": a_miss,
    "50 lines against identical ones": identical_lines,
    "the same, otherwise indented": identical_lines_otherwise_indented,
    "50 lines that nearly stand everywhere": nearly_identical_lines,
    "1,000 edits": many_hunks,
    "100 edits, otherwise indented": tolerant_hunks,
    "an edit in a large file": large_file,
    "the same, with CRLF": large_file_with_crlf,
}


def measure(lines: int, told: Callable[[str], object]) -> Iterator[Growth]:
    """Every task in every dialect, at half as many lines and at ``lines``."""
    for name, make in TASKS.items():
        for dialect in (*IN_TEXTS, "apply_patch"):
            told(f"{name}, {dialect}")
            small, large = (_seconds(make(count), dialect) for count in (lines // 2, lines))
            yield Growth(name, dialect, small, large)


def _seconds(task: Task, dialect: str) -> float:
    """The shortest of a few times that planning the call takes."""
    params, world = _call(dialect, task.edits), OneFile(task.text.encode())
    taken: list[float] = []
    while len(taken) < _REPEATS and sum(taken) < _ENOUGH_S:
        begun = time.process_time()
        try:
            DIALECTS[dialect](params, world)
            refused = False
        except Refused:
            refused = True
        taken.append(time.process_time() - begun)
        assert refused == task.refused, f"BUG: {dialect} did not answer as it should"
    return min(taken)


def as_text(lines: int, growths: list[Growth]) -> str:
    """A table for people."""
    table = [("", "", f"{lines // 2:,} lines", f"{lines:,} lines", "ratio")]
    table += [
        (
            growth.name,
            growth.dialect,
            f"{growth.small * 1000:.1f} ms",
            f"{growth.large * 1000:.1f} ms",
            f"{growth.ratio:.1f}{' !' if growth.ratio > WORST else ''}",
        )
        for growth in growths
    ]
    return "\n".join(aligned(table))


def as_values(lines: int, growths: list[Growth]) -> dict[str, object]:
    """The same for programs."""
    return {
        "lines": lines,
        "editing": [
            {
                "name": growth.name,
                "dialect": growth.dialect,
                "half_ms": round(growth.small * 1000, 3),
                "full_ms": round(growth.large * 1000, 3),
                "ratio": round(growth.ratio, 2),
            }
            for growth in growths
        ],
    }
