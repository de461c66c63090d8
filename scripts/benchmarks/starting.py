"""How long it takes until something answers: the daemon from nothing, and ``import stet``."""

from __future__ import annotations

import os
import subprocess
import sys

from benchmarks.measuring import Row, timed
from private_daemon import PrivateDaemon

NOTHING = "python -c pass"


def starting(directory: str, runtime: str, repeats: int) -> list[Row]:
    """Rows for the interpreter alone, the import, and a start of the daemon."""
    rows = [
        Row(NOTHING, tuple(timed(repeats, lambda _: _python("pass")))),
        Row(
            "python -c 'import stet'",
            tuple(timed(repeats, lambda _: _python("import stet"))),
            NOTHING,
        ),
    ]
    taken = []
    for number in range(repeats):
        own = os.path.join(directory, f"start-{number}")
        os.mkdir(own)
        with PrivateDaemon(own, os.path.join(runtime, str(number))) as daemon:
            taken.append(daemon.start())
    rows.append(Row("stetd, until its first reply", tuple(taken), NOTHING))
    return rows


def _python(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], check=True)
