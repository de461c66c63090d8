"""Threads whose work can wait."""

from __future__ import annotations

import os
import threading
from contextlib import suppress

#: As nice(1): for what edits are not to wait for, but questions may; and for what nobody waits for.
BEHIND_EDITS, BEHIND_ALL = 5, 10


def give_way(niceness: int) -> None:
    """Let others go first on this thread's processor. On Linux each thread has its own niceness."""
    with suppress(OSError):  # a hardened unit may forbid it
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), niceness)
