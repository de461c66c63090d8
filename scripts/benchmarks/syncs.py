"""How many syncs of the journal calls take, counted by strace on the running daemon.

Calls that wait together are one batch, and a batch is one fdatasync. One caller makes batches
of one; the more callers wait, the fewer syncs a call. Where a sync is over at once, as on most
virtual disks, hardly anybody waits: so the same is counted with syncs that take as long as those
of a disk do. What else is counted: the syncs of the checkpoints that fell into the time, two or
three each.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

_SYNC = re.compile(rb"fdatasync\(\d+<[^>]*\.wal>")
_EXCHANGE = b"RENAME_EXCHANGE"


@dataclass(frozen=True, slots=True)
class Syncs:
    """``syncs`` of the journal and ``exchanges`` of files, during ``calls`` edits of one file."""

    name: str
    calls: int
    syncs: int
    exchanges: int


class Strace:
    """strace on all threads of a process while the context lasts.

    Its renames and syncs are written to ``output``; every sync takes ``sync_ms`` more.
    """

    def __init__(self, pid: int, output: str, sync_ms: int) -> None:
        arguments = ["strace", "-f", "-y", "-e", "trace=fdatasync,renameat2", "-e", "signal=none"]
        if sync_ms:
            arguments += ["-e", f"inject=fdatasync:delay_enter={sync_ms * 1000}"]
        self._process = subprocess.Popen(
            [*arguments, "-o", output, "-p", str(pid)], stderr=subprocess.PIPE
        )

    def __enter__(self) -> Self:
        assert self._process.stderr is not None
        said = self._process.stderr.readline()
        if b" attached" not in said:
            self._process.wait()
            raise OSError(f"strace can't attach: {said.decode().strip()}")
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.terminate()
        self._process.communicate()


def syncs_in(trace: bytes) -> int:
    """The begun syncs of the journal: where another thread comes between, one has two lines."""
    return len(_SYNC.findall(trace))


def count_syncs(
    pid: int, name: str, calls: int, run: Callable[[], object], sync_ms: int = 0
) -> Syncs | None:
    """The syncs of the daemon ``pid`` while ``run`` makes ``calls`` calls; None without strace.

    Every sync takes ``sync_ms`` milliseconds more than the disk does.
    """
    if shutil.which("strace") is None:
        return None
    with tempfile.TemporaryDirectory() as directory:
        output = os.path.join(directory, "trace")
        try:
            with Strace(pid, output, sync_ms):
                run()
        except OSError:
            return None
        with open(output, "rb") as file:
            trace = file.read()
    return Syncs(name, calls, syncs_in(trace), trace.count(_EXCHANGE))
