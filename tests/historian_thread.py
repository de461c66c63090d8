"""A historian in a thread of this process: on a test's disk, and killed with it."""

from __future__ import annotations

import socket
import threading

from stetd.historian.process import Historian
from stetd.storage.disk import Disk


class InThread:
    """A running historian."""

    def __init__(self, disk: Disk, connected: socket.socket) -> None:
        self._socket = connected
        self._thread = threading.Thread(
            target=Historian(self._socket, disk).serve, name="stet-historian", daemon=True
        )
        self._thread.start()

    def kill(self) -> None:
        """Nothing: the thread ends with its channel."""

    def wait(self) -> int:
        """Wait until it has ended."""
        self._thread.join(20)
        return 0


def start_thread(disk: Disk) -> tuple[socket.socket, InThread]:
    """One, and the socket to it."""
    near, far = socket.socketpair()
    return near, InThread(disk, far)
