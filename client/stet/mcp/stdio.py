"""MCP's transport: one JSON message per line, on two file descriptors.

:func:`claim` takes the descriptors 0 and 1 at the start. After that, all prints in this process go
to standard error, and no child can read the client's messages. The part of a line beyond
LONGEST_LINE is discarded while it is read, so it needs no memory. A last line without a newline
counts as a line.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from typing import BinaryIO

#: Several times the daemon's limit for a message (``max_frame``), so that a request above that
#: limit can still be parsed, and be refused in an answer with its id.
LONGEST_LINE = 64 * 1024 * 1024

_BUFFER_BYTES = 256 * 1024


def next_line(file: BinaryIO) -> bytes | None:
    """The next line that is not blank; waits for it. For one thread at a time.
    None stands for a line that is too long, an empty line for the end.
    """
    with contextlib.suppress(OSError):
        while line := file.readline(LONGEST_LINE + 1):
            if len(line) > LONGEST_LINE and line[-1:] != b"\n":
                while (rest := file.readline(_BUFFER_BYTES)) and rest[-1:] != b"\n":
                    pass
                return None
            if line.strip():
                return line
    return b""


def write_line(file: BinaryIO, line: bytes) -> bool:
    """Write a line and wait until the pipe has taken it; False if the reader has closed it."""
    with contextlib.suppress(OSError):
        file.write(line + b"\n")
        file.flush()
        return True
    return False


def claim() -> tuple[BinaryIO, BinaryIO]:
    """Take standard input and output for the protocol alone."""
    null = fcntl.fcntl(os.open(os.devnull, os.O_RDWR), fcntl.F_DUPFD_CLOEXEC, 3)
    incoming, outgoing = (_private(fd, instead=null) for fd in (0, 1))
    os.dup2(null, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # started without a standard error
        os.dup2(null, 1)
    return open(incoming, "rb", _BUFFER_BYTES), open(outgoing, "wb", _BUFFER_BYTES)


def _private(descriptor: int, *, instead: int) -> int:
    """Duplicate a descriptor to one that no child inherits; ``instead`` if it is closed."""
    try:
        fresh = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)
    except OSError:  # closed by the parent process
        return instead
    os.set_blocking(fresh, True)
    return fresh
