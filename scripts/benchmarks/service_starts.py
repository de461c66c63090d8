"""Inside the private manager: ``python -m benchmarks.service_starts REPEATS``, printing JSON."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path

from service import person
from stet.cli.service import version_of_daemon
from stet.spawn import Endpoint

#: Seconds until what a start leaves to be done is done: a checkpoint comes after two.
_IDLE_S = 4.0


def main(repeats: int) -> None:
    """Start it so often, with one workspace; then see how much memory it takes."""
    person.installed()
    endpoint = Endpoint(str(person.RUNTIME), str(person.STATE), control=False)
    seconds = []
    for _ in range(repeats):
        person.systemctl("stop", "stetd.service")
        begun = time.perf_counter()
        start = subprocess.Popen(["systemctl", "--user", "start", "stetd.service"])
        version_of_daemon(endpoint)
        seconds.append(time.perf_counter() - begun)
        assert start.wait() == 0
    time.sleep(_IDLE_S)
    status = Path(f"/proc/{person.main_pid()}/status").read_text()
    (resident,) = re.findall(r"^VmRSS:\s+(\d+) kB$", status, re.MULTILINE)
    print(json.dumps({"seconds": seconds, "memory_kib": int(resident)}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
