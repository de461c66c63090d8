"""A process that forks a daemon per order: a crash test costs milliseconds, not a start of Python.

Reads orders from standard input, a JSON line each: ``{"run": name of a function of
recovery.scenarios, "base": directory, "arguments": [..], "environment": {..}}``. Each is
carried out in a child of its own; the answer is a line with the child's wait status.

Failpoints are read from the environment when the daemon is imported, which has happened
before the fork; so the child arms them itself, in every module that imported ``failpoint``.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from typing import Any

from recovery import scenarios
from stetd import failpoints
from stetd.editing.tokens import load_encoding


def arm_failpoints() -> None:
    """Do what importing the daemon under the present environment would have done."""
    armed = failpoints.from_environment()
    for module in list(sys.modules.values()):
        if module.__name__.startswith("stetd") and hasattr(module, "failpoint"):
            module.failpoint = armed  # type: ignore[attr-defined]


def carry_out(order: dict[str, Any]) -> None:
    """Run an order in this process and end it."""
    os.environ.update(order["environment"])
    log = os.open(os.path.join(order["base"], "log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 2)
    status = 1
    try:
        arm_failpoints()
        getattr(scenarios, order["run"])(order["base"], *order["arguments"])
        status = 0
    except BaseException:  # noqa: BLE001 - whatever it is, it belongs into the log
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def main() -> None:
    """Serve orders until the input ends."""
    load_encoding()  # once, so that no child has to load the vocabulary
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            carry_out(json.loads(line))
        _, status = os.waitpid(child, 0)
        print(status, flush=True)


if __name__ == "__main__":
    main()
