"""Child processes of the engine: starting one, and the child's first steps.

A child ends with the engine: however the engine ends, the kernel then kills the child.
"""

from __future__ import annotations

import ctypes
import gc
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress

_PR_SET_PDEATHSIG = 1  # prctl(2)
_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8  # malloc.h
#: Of a child: the trees of large directories, which it reads by the hundred, are smaller.
_LARGE_BYTES = 4 << 20


def start(
    module: str, *arguments: str, keep: Sequence[int] = ()
) -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """Run a module in a process of its own; returns the socket to it. Raises OSError.

    ``keep``: descriptors that the child inherits.
    """
    near, far = socket.socketpair()
    with far:
        descriptor = far.fileno()
        # -P: do not search the current directory for modules.
        command = [sys.executable, "-P", "-m", module, str(descriptor), *arguments]
        try:
            return near, subprocess.Popen(
                command, stdin=subprocess.DEVNULL, pass_fds=(descriptor, *keep), cwd="/"
            )
        except OSError:
            near.close()
            raise


def configure_allocator(large: int) -> None:
    """Make the GNU allocator return free blocks of so many bytes to the system and use few heaps
    (mallopt(3)). Other allocators have no such function, or ignore it.
    """
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_THRESHOLD, large)
        mallopt(_M_ARENA_MAX, 2)


def attach_to_engine(descriptor: str) -> socket.socket:
    """In the child: end with the engine, not by signals; give memory back; returns the socket."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        # These are for the daemon, which ends its children. A terminal sends them to all processes.
        signal.signal(number, signal.SIG_IGN)
    configure_allocator(_LARGE_BYTES)
    gc.freeze()  # loaded modules stay: the collector need not traverse them
    # If the engine has ended before this call, reading the socket says so.
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    return socket.socket(fileno=int(descriptor))
