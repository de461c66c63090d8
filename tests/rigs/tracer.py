"""strace, attached to a running daemon: counting its system calls, or tampering with them.

strace counts ``when=N`` for every thread on its own. So a sweep attaches to one thread at a
time: then N = 1, 2, .. until it is not reached tries every call of that thread. A system call
must be in ``trace=`` as well, or nothing is injected, silently.

Threads are named by their place in the order of their creation, which is the same in every
life of the daemon: 0 the engine, 1 the writer of Git objects.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import Self

#: Every system call by which the daemon changes something, or might; and its answers.
CALLS = [
    *("openat", "openat2", "write", "pwrite64", "fallocate", "ftruncate", "fchmod"),
    *("fsync", "fdatasync", "mkdir", "mkdirat", "rename", "renameat", "renameat2"),
    *("link", "linkat", "symlinkat", "unlink", "unlinkat", "rmdir", "sendto"),
]
_LINE = re.compile(r"(\d+) +(\w+)\(")


def why_not() -> str | None:
    """Why strace can't be used here; None if it can."""
    if shutil.which("strace") is None:
        return "strace is not installed"
    try:
        with subprocess.Popen(["sleep", "20"]) as sleeper:
            try:
                Tracer(sleeper.pid).detach()
            finally:
                sleeper.kill()
    except TracerError as error:
        return f"strace may not attach here: {error}"
    return None


class TracerError(Exception):
    """strace could not be attached."""


def threads(pid: int) -> list[int]:
    """The threads of a process, oldest first."""
    return sorted(int(name) for name in os.listdir(f"/proc/{pid}/task"))


def thread(pid: int, place: int) -> int:
    """The thread at this place among them, else the last: a second helper is begun only where the
    first is busy, which a run may have met and the next not.
    """
    found = threads(pid)
    return found[min(place, len(found) - 1)]


class Tracer:
    """strace on one thread, or (``follow``) on all threads of a process, present and to come.

    ``inject``: ``name:what`` as strace takes it, without ``inject=``. Use as a context manager,
    or :meth:`detach`.
    """

    def __init__(
        self,
        thread: int,
        *injections: str,
        follow: bool = False,
        output: Path | None = None,
    ) -> None:
        arguments = ["strace", "-p", str(thread), "-o", str(output or os.devnull)]
        arguments += ["-f"] if follow else []
        arguments += ["-e", "trace=" + ",".join(CALLS), "-e", "signal=none"]
        for injection in injections:
            arguments += ["-e", f"inject={injection}"]
        self._process = subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True)
        assert self._process.stderr is not None
        said = self._process.stderr.readline()
        if " attached" not in said:
            said += self._process.stderr.read()
            self.detach()
            raise TracerError(said.strip())

    def detach(self) -> None:
        """Let go of the traced threads, which go on."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stderr is not None
        self._process.stderr.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.detach()


def count_calls(output: Path, known_threads: list[int]) -> Counter[tuple[int, str]]:
    """How often each thread (by its place) made each call, from the output of a trace."""
    places = {thread: place for place, thread in enumerate(known_threads)}
    counts: Counter[tuple[int, str]] = Counter()
    for line in output.read_text(errors="replace").splitlines():
        found = _LINE.match(line)
        if found and int(found[1]) in places:
            counts[places[int(found[1])], found[2]] += 1
    return counts


def spread(points: list[tuple[int, str, int]], most: int) -> list[tuple[int, str, int]]:
    """At most so many of the points, evenly over all."""
    step = max(1.0, len(points) / most)
    return [points[int(i * step)] for i in range(min(most, len(points)))]
