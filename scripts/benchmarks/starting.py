"""How long the interpreter takes alone, and ``import stet``."""

from __future__ import annotations

import subprocess
import sys

from benchmarks.measuring import Row, timed

NOTHING = "python -c pass"


def starting(repeats: int) -> list[Row]:
    """Rows for both."""
    return [
        Row(NOTHING, _python("pass", repeats)),
        Row("python -c 'import stet'", _python("import stet", repeats), NOTHING),
    ]


def _python(code: str, repeats: int) -> tuple[float, ...]:
    command = [sys.executable, "-c", code]
    return tuple(timed(repeats, lambda _: subprocess.run(command, check=True)))
