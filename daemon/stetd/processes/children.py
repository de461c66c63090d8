"""The engine's child processes: how one is started, and how it begins.

A child ends with the engine: when the engine is gone, however it went, the kernel kills it,
whatever it is doing.
"""

from __future__ import annotations

import ctypes
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress

_PR_SET_PDEATHSIG = 1  # prctl(2)


def start(
    module: str, *arguments: str, keep: Sequence[int] = ()
) -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """A module as a process of its own, and the socket to it. Raises OSError.

    ``keep``: descriptors that it holds as long as it lives.
    """
    near, far = socket.socketpair()
    with far:
        descriptor = far.fileno()
        # -P: the directory that the daemon was started in is not searched.
        command = [sys.executable, "-P", "-m", module, str(descriptor), *arguments]
        try:
            return near, subprocess.Popen(
                command, stdin=subprocess.DEVNULL, pass_fds=(descriptor, *keep), cwd="/"
            )
        except OSError:
            near.close()
            raise


def begin(descriptor: str) -> socket.socket:
    """In the child: the socket, once it is ready to end with the engine, and with nothing else."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        # Meant for the daemon, which says when it is over; who stops it sends them to all.
        signal.signal(number, signal.SIG_IGN)
    # If the engine was gone before, the socket says so.
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    return socket.socket(fileno=int(descriptor))
