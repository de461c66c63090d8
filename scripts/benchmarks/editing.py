"""The calls that are measured, on a file of 300 lines, one caller at a time.

Every edit changes the file: one line in its middle has a number that counts up.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable

import stet
from benchmarks.floors import SIZE
from benchmarks.lines import JsonLines, request

LINES = 300
#: Calls through connections of different kinds edit files of their own.
PYTHON, PLAIN = "python.txt", "plain.txt"


def content(number: int, count: int = LINES) -> str:
    """The file of 300 lines, 11 KB, or of ``count``, with ``number`` in its middle line."""
    lines = [f"line {n:03}: {'x' * (SIZE // LINES - 11)}\n" for n in range(count)]
    lines[count // 2] = line(number)
    return "".join(lines)


def line(number: int) -> str:
    """The line that changes."""
    return f"counter = {number}\n"


class Calls:
    """Two connections to a daemon, and one function per thing that is measured."""

    def __init__(self, agent: stet.Session, plain: JsonLines, workspace: str) -> None:
        self._agent = agent
        self._plain = plain
        self._numbers = {PYTHON: itertools.count(), PLAIN: itertools.count()}
        for name in (PYTHON, PLAIN):
            with open(os.path.join(workspace, name), "w", encoding="utf-8") as file:
                file.write(content(next(self._numbers[name])))
        self._now = {PYTHON: 0, PLAIN: 0}

    def measured(self) -> dict[str, Callable[[int], object]]:
        """What is measured, by its name in the table. Those that edit do so each time."""
        return {
            "patch, Python client": self.patch,
            "patch, JSON lines": self.patch_plain,
            "patch, preview": self.preview,
            "patch, refused with nearest passage": self.refused,
            "undo of the newest edit": self.undo,
            "read": self.read,
        }

    def _next(self, name: str) -> stet.Patch:
        old, new = self._now[name], next(self._numbers[name])
        self._now[name] = new
        return stet.replace(line(old), line(new))

    def patch(self, _: int) -> object:
        return self._agent.patch(PYTHON, [self._next(PYTHON)])

    def patch_plain(self, _: int) -> object:
        return self._plain.ask(request("patch", {"path": PLAIN, "patches": [self._next(PLAIN)]}))

    def preview(self, _: int) -> object:
        new = stet.replace(line(self._now[PYTHON]), line(-1))
        return self._agent.patch(PYTHON, [new], preview=True)

    def refused(self, _: int) -> object:
        with contextlib.suppress(stet.OldTextNotFound):
            self._agent.patch(PYTHON, [stet.replace("counter = none\n", "")])
            raise AssertionError("BUG: this text does not stand there")
        return None

    def undo(self, _: int) -> object:
        """The edit that is taken back was made by :meth:`before_undo`."""
        return self._agent.undo(last=1)

    def before_undo(self) -> None:
        """Edit, so that there is something to take back to the present content."""
        self._agent.patch(PYTHON, [stet.replace(line(self._now[PYTHON]), line(-1))])

    def read(self, _: int) -> object:
        return self._agent.read(PYTHON)
