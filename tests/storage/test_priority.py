"""Background work asks the scheduler for long slices, so that who is woken goes first."""

from __future__ import annotations

import os
import subprocess
import sys

from scheduling import slice_ns

_BEGIN_A_THREAD = """
import threading
from stetd.storage.priority import give_way, work_in_long_slices
work_in_long_slices()
def work():
    give_way(5)
    print(threading.get_native_id(), flush=True)
    input()
threading.Thread(target=work).start()
"""


def test_threads_that_are_begun_later_have_long_slices_too() -> None:
    command = [sys.executable, "-c", _BEGIN_A_THREAD]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as begun:
        assert begun.stdout is not None
        thread = int(begun.stdout.readline())
        assert slice_ns(thread) in (20_000_000, None)
        assert os.getpriority(os.PRIO_PROCESS, thread) >= 5
        own = os.getpriority(os.PRIO_PROCESS, 0)
        assert os.getpriority(os.PRIO_PROCESS, begun.pid) == own
        begun.communicate(b"\n")
