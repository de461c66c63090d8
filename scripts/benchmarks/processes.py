"""What /proc says of processes; and a bare socket echo in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from benchmarks.lines import JsonLines, request

_ECHO = """
import socket, sys
listening = socket.socket(socket.AF_UNIX)
listening.bind(sys.argv[1])
listening.listen()
print(flush=True)
asking, reply = listening.accept()[0], sys.argv[2].encode()
while asking.recv(65536):
    asking.sendall(reply)
"""
#: So much of a processor is as good as nothing, for so long; and how long it is waited for.
_IDLE_SHARE, _QUIET_S, _PATIENCE_S = 0.05, 2, 300
#: The cheapest request there is: before hello, ``status`` is a constant.
NO_OP = request("status", {})


class Echo:
    """A Python process that answers each message with what the daemon answers to NO_OP."""

    def __init__(self, path: str, daemon: str) -> None:
        with JsonLines(daemon, None, None, greet=False) as connection:
            reply = connection.ask(NO_OP).decode()
        self._process = subprocess.Popen(
            [sys.executable, "-S", "-c", _ECHO, path, reply], stdout=subprocess.PIPE
        )
        assert self._process.stdout is not None, "BUG: its output is a pipe"
        self._process.stdout.readline()
        self._connection = JsonLines(path, None, None, greet=False)

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    def ask(self) -> None:
        """One message there and back."""
        self._connection.ask(NO_OP)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()
        self._process.communicate()


@contextmanager
def on_one_processor(*pids: int) -> Iterator[None]:
    """Let this process and the main threads of these share a processor while the context lasts.

    Two processes that wake each other take 10 or 70 us for a round trip, as the scheduler places
    them: what each of them computes for it would be lost in that.
    """
    before = {pid: os.sched_getaffinity(pid) for pid in (0, *pids)}
    try:
        for pid in before:
            os.sched_setaffinity(pid, {min(before[0])})
        yield
    finally:
        for pid, processors in before.items():
            os.sched_setaffinity(pid, processors)


def family(pid: int) -> list[int]:
    """The process and all that came of it."""
    found = [pid]
    for each in found:
        for task in os.listdir(f"/proc/{each}/task"):
            with open(f"/proc/{each}/task/{task}/children", encoding="ascii") as file:
                found += map(int, file.read().split())
    return found


def pss_mib(pid: int, *, alone: bool = False) -> float:
    """The memory of the process and its children, shared pages by their share; or it alone."""
    kib = 0
    for each in [pid] if alone else family(pid):
        with open(f"/proc/{each}/smaps_rollup", encoding="ascii") as file:
            kib += next(int(row.split()[1]) for row in file if row.startswith("Pss:"))
    return kib / 1024


def settle(pid: int) -> None:
    """Wait until the process and its children have done what was left to do: hardly compute."""
    quiet = 0
    for _ in range(_PATIENCE_S):
        before = _computed_s(pid)
        time.sleep(1.0)
        quiet = quiet + 1 if _computed_s(pid) - before < _IDLE_SHARE else 0
        if quiet == _QUIET_S:
            return


def _computed_s(pid: int) -> float:
    ticks = 0
    for each in family(pid):
        with open(f"/proc/{each}/stat", encoding="utf-8") as file:
            ticks += sum(map(int, file.read().rpartition(") ")[2].split()[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def threads(pid: int) -> list[str]:
    """The names of its threads, oldest first."""
    names = []
    for task in sorted(os.listdir(f"/proc/{pid}/task"), key=int):
        with open(f"/proc/{pid}/task/{task}/comm", encoding="utf-8") as file:
            names.append(file.read().strip())
    return names
