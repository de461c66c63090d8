"""A second process that changes names under an editor's hands, as fast as it can.

    directory    ``ws/d`` and ``ws/e``, a link to ``outside``, exchange their names
    file         ``ws/f`` and ``ws/g``, a link to ``outside/f``, do
    moved        ``ws/d`` goes to ``outside/d`` and comes back after a few operations

What lives here: arranging that world, starting the process and ending it, and, for ``moved``,
what it saw of the directory while that was outside. Nothing about who edits.

Editor and swapper share three numbers: operations begun and ended (odd while one is under way),
swaps, and whether to stop. ``python -m rigs.swapping KIND BASE`` is the process.
"""

from __future__ import annotations

import json
import mmap
import os
import random
import stat
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from stetd.storage.disk import Disk

KINDS = ("directory", "file", "moved")
PRECIOUS = b"precious\n"
TESTS = Path(__file__).parents[1]
_PATIENCE_S = 60.0
#: Operations that pass while the directory is outside and must not be touched.
_AWAY_FOR = 3

#: Turns of an empty loop between two exchanges, at most. Putting a file back takes until nobody
#: interferes, so that race is given a pause.
_SPIN = {("d", "e"): 400, ("f", "g"): 8000}

Contents = dict[str, str]


class Shared:
    """The numbers that both processes see."""

    _OPERATIONS, _SWAPS, _STOP = 0, 8, 16

    def __init__(self, base: Path) -> None:
        with (base / "shared").open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 24)

    def _get(self, at: int) -> int:
        return int(struct.unpack_from("q", self._map, at)[0])

    def _put(self, at: int, value: int) -> None:
        struct.pack_into("q", self._map, at, value)

    @property
    def operations(self) -> int:
        """Twice the number of the operation; odd while it is under way."""
        return self._get(self._OPERATIONS)

    def next_phase(self) -> None:
        """An operation begins, or ends."""
        self._put(self._OPERATIONS, self.operations + 1)

    @property
    def swaps(self) -> int:
        """How often names were changed."""
        return self._get(self._SWAPS)

    def swapped(self) -> None:
        """Names were changed once more."""
        self._put(self._SWAPS, self.swaps + 1)

    @property
    def stopped(self) -> bool:
        """Whether the swapper has to put everything in its place and end."""
        return bool(self._get(self._STOP))

    def stop(self) -> None:
        """Tell it to."""
        self._put(self._STOP, 1)


@dataclass(frozen=True)
class Away:
    """One time outside: ``operations`` at the move, what was there at once, and once that one
    operation was over; ``touched`` by a later one: a defect whatever it did.
    """

    operations: int
    at_once: Contents
    settled: Contents
    touched: bool


def arrange(base: Path, kind: str) -> Path:
    """Make the world of a race below ``base``; gives the workspace."""
    workspace, outside = base / "ws", base / "outside"
    (outside / "sub").mkdir(parents=True)
    for path in ("f", "sub/f", "new"):
        (outside / path).write_bytes(PRECIOUS)
    (workspace / "d" / "sub").mkdir(parents=True)
    for path in ("f", "d/f", "d/sub/f"):
        (workspace / path).write_bytes(b"0\n")
    if kind == "directory":
        (workspace / "e").symlink_to(outside)
    elif kind == "file":
        (workspace / "g").symlink_to(outside / "f")
    (base / "shared").write_bytes(b"\0" * 24)
    return workspace


def picture(directory: Path) -> dict[str, tuple[int, int, int, bytes]]:
    """Everything below: inode, mode, time of the last change and content. A directory's time
    tells of a name that was there for a moment only.
    """
    found = {}
    for path in [directory, *sorted(directory.rglob("*"))]:
        info = path.lstat()
        content = path.read_bytes() if stat.S_ISREG(info.st_mode) else b""
        found[str(path)] = (info.st_ino, info.st_mode, info.st_mtime_ns, content)
    return found


def contents(directory: Path) -> Contents:
    """The files below: path to content."""
    found = {}
    for folder, _, names in os.walk(directory):
        for name in names:
            try:
                text = Path(folder, name).read_text()
            except FileNotFoundError:
                continue
            found[str(Path(folder, name).relative_to(directory))] = text
    return found


@contextmanager
def swapping(base: Path, kind: str) -> Iterator[Shared]:
    """The process, at work; in the end all names are where they were."""
    shared = Shared(base)
    process = subprocess.Popen(
        [sys.executable, "-m", "rigs.swapping", kind, str(base)],
        cwd=TESTS,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        stdin=subprocess.DEVNULL,
    )
    try:
        _wait_until(lambda: shared.swaps > 0)
        yield shared
        shared.stop()
        assert process.wait(_PATIENCE_S) == 0
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def times_away(base: Path) -> list[Away]:
    """What the process saw (``moved``)."""
    lines = (base / "away").read_text().split("\n")[:-1]
    return [Away(**json.loads(line)) for line in lines]


def _wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "the other process does not go on"
        time.sleep(0.00005)


# -- the process


def _exchange(base: Path, names: tuple[str, str], shared: Shared) -> None:
    workspace = os.open(base / "ws", os.O_RDONLY | os.O_DIRECTORY)
    disk, dice = Disk(), random.Random(1)
    turned = False
    while not shared.stopped or turned:
        try:
            disk.exchange(*names, workspace)
        except FileNotFoundError:  # the editor has put something else there for a moment
            continue
        turned = not turned
        shared.swapped()
        for _ in range(dice.randrange(_SPIN[names])):
            pass


def _move(base: Path, shared: Shared) -> None:
    inside, outside = base / "ws" / "d", base / "outside" / "d"
    dice = random.Random(1)
    with (base / "away").open("w") as log:
        while not shared.stopped:
            os.rename(inside, outside)
            began = shared.operations
            at_once = contents(outside)
            shared.swapped()
            _reached(shared, began + 1 if began % 2 else began)
            settled, untouched = contents(outside), picture(outside)
            _reached(shared, began + 2 * _AWAY_FOR)
            touched = picture(outside) != untouched
            away = {"operations": began, "at_once": at_once, "settled": settled, "touched": touched}
            log.write(json.dumps(away) + "\n")
            log.flush()
            os.rename(outside, inside)
            _reached(shared, shared.operations + dice.randrange(3))
            for _ in range(dice.randrange(4000)):
                pass


def _reached(shared: Shared, operations: int) -> None:
    _wait_until(lambda: shared.operations >= operations or shared.stopped)


def main(kind: str, base: Path) -> None:
    """Swap until told to stop."""
    shared = Shared(base)
    if kind == "moved":
        _move(base, shared)
    else:
        _exchange(base, ("d", "e") if kind == "directory" else ("f", "g"), shared)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
