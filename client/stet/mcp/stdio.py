"""One JSON message a line, on two file descriptors: MCP's transport, without the protocol.

The descriptors 0 and 1 are taken at once (:func:`claim`): from then on whatever prints in this
process prints to standard error, and no child can read what the client sends. A line that is longer
than LONGEST_LINE is skipped as it comes, so it costs no memory. A line that the end of the input
cuts off is a line.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from enum import Enum
from typing import BinaryIO

#: Several times what the daemon takes as one message (``max_frame``), so that what is too large
#: for it is refused as an answer to its request.
LONGEST_LINE = 64 * 1024 * 1024

_BUFFER_BYTES = 256 * 1024


class NoLine(Enum):
    """What there is in the place of a line."""

    TOO_LONG = "too long"
    END = "end"


def next_line(file: BinaryIO) -> bytes | NoLine:
    """The next line that is not blank; waits for it. For one thread at a time."""
    with contextlib.suppress(OSError):
        while line := file.readline(LONGEST_LINE + 1):
            if len(line) > LONGEST_LINE and line[-1:] != b"\n":
                while (rest := file.readline(_BUFFER_BYTES)) and rest[-1:] != b"\n":
                    pass
                return NoLine.TOO_LONG
            if line.strip():
                return line
    return NoLine.END


def write_line(file: BinaryIO, line: bytes) -> bool:
    """Write a line and wait until it is taken; False when nobody reads any more."""
    try:
        file.write(line + b"\n")
        file.flush()
    except OSError:
        return False
    return True


def claim() -> tuple[BinaryIO, BinaryIO]:
    """Take standard input and output for the protocol alone."""
    nothing = fcntl.fcntl(os.open(os.devnull, os.O_RDWR), fcntl.F_DUPFD_CLOEXEC, 3)
    incoming, outgoing = (_private(fd, instead=nothing) for fd in (0, 1))
    os.dup2(nothing, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # started without a standard error
        os.dup2(nothing, 1)
    return open(incoming, "rb", _BUFFER_BYTES), open(outgoing, "wb", _BUFFER_BYTES)


def _private(descriptor: int, *, instead: int) -> int:
    """The same stream under a number that no child inherits."""
    try:
        fresh = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)
    except OSError:  # closed by whoever started this process
        return instead
    os.set_blocking(fresh, True)
    return fresh
