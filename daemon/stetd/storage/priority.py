"""Threads and processes whose work can wait.

The scheduler's lowest class (SCHED_IDLE) would do more, but such a thread may hold the
interpreter's lock when other programs take both processors, and all questions would wait for it.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import threading
from contextlib import suppress

#: As nice(1): for what edits are not to wait for, but questions may; and for what nobody waits for.
BEHIND_EDITS, BEHIND_ALL = 5, 10
_SLICE_S = 0.02
#: Numbers of the system call, which glibc before 2.41 has no function for.
_SCHED_SETATTR = {"x86_64": 314, "aarch64": 274, "riscv64": 274}
#: ``struct sched_attr``: size, policy, flags, niceness, realtime priority, runtime (ns), and more.
_SCHED_ATTR = struct.Struct("=IIQiIQQQ")


def give_way(niceness: int) -> None:
    """Let others go first on this thread's processor. On Linux each thread has its own niceness."""
    with suppress(OSError):  # a hardened unit may forbid it
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), niceness)


def work_in_long_slices() -> None:
    """Let whoever is woken have this processor at once; of this thread and those it begins.

    An edit's client or the engine may be that. It goes first if its slice is shorter than that of
    the thread that runs (Linux 6.12 and newer; for older ones niceness is enough). Else it waits
    until that slice is over, 3 ms as a rule.
    """
    number = _SCHED_SETATTR.get(platform.machine())
    if number is None:
        return
    niceness = os.getpriority(os.PRIO_PROCESS, 0)
    slice_ns = int(_SLICE_S * 1e9)
    attributes = _SCHED_ATTR.pack(_SCHED_ATTR.size, os.SCHED_OTHER, 0, niceness, 0, slice_ns, 0, 0)
    ctypes.CDLL(None).syscall(number, 0, attributes, 0)  # where it is forbidden nothing is lost
