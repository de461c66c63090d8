"""Child processes of the engine: how one is started, its first steps, and how messages pass.

A child ends with the engine: however the engine ends, the kernel then kills the child. Messages are
MessagePack, each after its length.
"""

from __future__ import annotations

import ctypes
import gc
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec

from stet.wire.failures import Failure, Refused

LENGTH = struct.Struct("!I")
_PR_SET_PDEATHSIG = 1  # prctl(2)
_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8  # malloc.h
#: Of a child: the trees of large directories, which it reads by the hundred, are smaller.
_LARGE_BYTES = 4 << 20
_encoder = msgspec.msgpack.Encoder()


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


# -- messages


class Message(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """Base class of all messages."""


class Declined(Message, frozen=True):
    """A refusal."""

    failures: tuple[Failure, ...]
    extra: dict[str, Any]

    @classmethod
    def of(cls, refusal: Refused) -> Declined:
        """The message for a refusal."""
        return cls(failures=refusal.failures, extra=refusal.extra)

    @property
    def refusal(self) -> Refused:
        """The refusal that was sent."""
        return Refused(*self.failures, extra=self.extra)


class Failed(Message, frozen=True):
    """A defect of stetd made the call fail."""

    reason: str
    traceback: str


def encoded(message: Message) -> bytes:
    """A message as it is sent."""
    content = _encoder.encode(message)
    return LENGTH.pack(len(content)) + content


def receive(connected: socket.socket) -> bytearray | None:
    """The next message, in a child; None at the end."""
    head = _exactly(connected, LENGTH.size)
    return _exactly(connected, *LENGTH.unpack(head)) if head is not None else None


def _exactly(connected: socket.socket, size: int) -> bytearray | None:
    content = bytearray(size)
    missing = memoryview(content)
    while missing:
        try:
            count = connected.recv_into(missing)
        except OSError:
            return None
        if not count:
            return None
        missing = missing[count:]
    return content
