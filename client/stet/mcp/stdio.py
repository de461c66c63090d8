"""One JSON message a line, on two file descriptors: MCP's transport, without the protocol.

The descriptors 0 and 1 are taken at once (:func:`claim`): from then on whatever prints in this
process prints to standard error, and no child can read what the client sends.

A line may have LONGEST_LINE bytes. What is longer is passed over as it comes, so it costs no
memory, and reported as TOO_LONG in its place. A line that the end of the input cuts off is a line.
"""

from __future__ import annotations

import fcntl
import os
import select
from enum import Enum

#: Several times what the daemon takes as one message (``max_frame``), so that what is too large
#: for it is refused as an answer to its request.
LONGEST_LINE = 64 * 1024 * 1024

_RECEIVE_BYTES = 256 * 1024


class NoLine(Enum):
    """What there is in the place of a line."""

    TOO_LONG = "too long"
    END = "end"


class LineReader:
    """Lines from a descriptor; waits for them. For one thread at a time."""

    def __init__(self, descriptor: int, longest: int = LONGEST_LINE) -> None:
        self._descriptor = descriptor
        self._longest = longest
        self._pieces: list[bytes] = []
        self._length = 0
        self._rest = b""
        self._passing_over = False
        self._ended = False

    def next_line(self) -> bytes | NoLine:
        """The next line that is not blank, without its end."""
        while True:
            line = self._next()
            if isinstance(line, NoLine) or line.strip():
                return line

    def _next(self) -> bytes | NoLine:
        while True:
            line, newline, rest = self._rest.partition(b"\n")
            self._rest = rest
            if newline or self._ended:
                return self._finish(line, ended=not newline)
            self._keep(line)
            self._receive()

    def _finish(self, line: bytes, *, ended: bool) -> bytes | NoLine:
        self._keep(line)
        whole, too_long = b"".join(self._pieces), self._passing_over
        self._pieces, self._length, self._passing_over = [], 0, False
        if too_long:
            return NoLine.TOO_LONG
        return NoLine.END if ended and not whole else whole

    def _keep(self, piece: bytes) -> None:
        self._length += len(piece)
        if self._length > self._longest:
            self._passing_over = True
            self._pieces = []
        elif piece:
            self._pieces.append(piece)

    def _receive(self) -> None:
        try:
            self._rest = os.read(self._descriptor, _RECEIVE_BYTES)
            self._ended = not self._rest
        except BlockingIOError:  # somebody made it non-blocking for all who share it
            select.select([self._descriptor], [], [])
        except OSError:
            self._ended = True


class LineWriter:
    """Lines to a descriptor; waits until they are taken. For one thread at a time."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def write(self, line: bytes) -> bool:
        """Write a line, which has no line end; False when nobody reads any more."""
        left = memoryview(line + b"\n")
        while left:
            try:
                left = left[os.write(self._descriptor, left) :]
            except BlockingIOError:
                select.select([], [self._descriptor], [])
            except OSError:
                return False
        return True


def claim() -> tuple[LineReader, LineWriter]:
    """Take standard input and output for the protocol alone."""
    nothing = fcntl.fcntl(os.open(os.devnull, os.O_RDWR), fcntl.F_DUPFD_CLOEXEC, 3)
    incoming, outgoing = (_private(fd, instead=nothing) for fd in (0, 1))
    os.dup2(nothing, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # started without a standard error
        os.dup2(nothing, 1)
    return LineReader(incoming), LineWriter(outgoing)


def _private(descriptor: int, *, instead: int) -> int:
    """The same stream under a number that no child inherits."""
    try:
        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)
    except OSError:  # closed by whoever started this process
        return instead
