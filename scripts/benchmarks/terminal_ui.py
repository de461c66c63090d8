"""``stet ui`` as a person meets it: seconds to the first screen, and to the answer to a key.

The real program, in a terminal of 160 columns and 50 lines.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping

FIRST_SCREEN, KEY = "stet ui, first screen", "stet ui, a key"
_LINES, _COLUMNS = 50, 160
_PATIENCE_S, _QUIET_S = 30.0, 0.4
_KEYS = 5


def measure_ui(environ: Mapping[str, str], root: str, repeats: int) -> dict[str, tuple[float, ...]]:
    """Both, by their names; nothing where textual is not installed."""
    if importlib.util.find_spec("textual") is None:
        return {}
    seconds: dict[str, list[float]] = {FIRST_SCREEN: [], KEY: []}
    for _ in range(repeats):
        _once(environ, root, seconds)
    return {name: tuple(taken) for name, taken in seconds.items()}


def _once(environ: Mapping[str, str], root: str, seconds: dict[str, list[float]]) -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", _LINES, _COLUMNS, 0, 0))
    begun = time.perf_counter()
    program = subprocess.Popen(
        [sys.executable, "-m", "stet.cli", "ui", "-C", root],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"},
        start_new_session=True,
    )
    os.close(theirs)
    try:
        shown = b""
        while shown.count(b".txt") < _LINES // 5:  # the commits' paths
            shown += _read(ours, _PATIENCE_S)
        seconds[FIRST_SCREEN].append(time.perf_counter() - begun)
        for _ in range(_KEYS):
            while _read(ours, _QUIET_S):
                continue
            begun = time.perf_counter()
            os.write(ours, b"j")
            _read(ours, _PATIENCE_S)
            seconds[KEY].append(time.perf_counter() - begun)
        os.write(ours, b"q")
        program.wait(_PATIENCE_S)
    finally:
        program.kill()
        program.wait()
        os.close(ours)


def _read(terminal: int, patience_s: float) -> bytes:
    readable, _, _ = select.select([terminal], [], [], patience_s)
    return os.read(terminal, 65536) if readable else b""
