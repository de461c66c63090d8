"""The daemon as a service: from ``systemctl --user start`` to the first reply, and idle memory.

Under a ``systemd --user`` manager of its own (``tests/service/private_manager.sh``), which takes
root; elsewhere it is told why there are no numbers. Home and history are in memory there, so no
disk is in them.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass

from benchmarks.measuring import Row

_SCRIPTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_TESTS = os.path.join(os.path.dirname(_SCRIPTS), "tests")
#: Seconds that all starts together may take.
_PATIENCE_S = 300.0


@dataclass(frozen=True, slots=True)
class Served:
    """``memory_mib``: what is resident a few seconds after a start; ``why_not``: no numbers."""

    rows: tuple[Row, ...]
    memory_mib: float | None
    why_not: str | None


def serving(repeats: int, floor: str) -> Served:
    """Start the service so often; ``floor`` names the row that it is compared with."""
    sys.path.append(_TESTS)
    from service import private_manager

    why_not = private_manager.why_not()
    if why_not is not None:
        return Served((), None, why_not)
    told = json.loads(
        private_manager.python(
            *("-m", "benchmarks.service_starts", str(repeats)),
            seconds=_PATIENCE_S,
            PYTHONPATH=f"{_TESTS}:{_SCRIPTS}",
        )
    )
    name = "systemctl --user start, until the first reply"
    return Served((Row(name, tuple(told["seconds"]), floor),), told["memory_kib"] / 1024, None)
