"""What the disk alone takes for the steps that a durable edit can't do without.

(a)  append a record to a file that grows, fdatasync
(b)  write a temporary file, rename it over another
(c)  both: a call that answers only when it is durable, and replaces the file whole, can't
     take less on this disk

The sizes are those of the calls that are measured beside them.
"""

from __future__ import annotations

import os

from benchmarks.measuring import timed

#: Bytes of a file of 300 lines, and about those of the journal record of one call on it.
SIZE = 11 * 1024

APPEND = "append 11 KB + fdatasync"
RENAME = "write temporary file + rename"
BOTH = "append + fdatasync, then temporary file + rename"


class Floors:
    """The floors in one directory, measured in turns with what they are compared with."""

    def __init__(self, directory: str, size: int = SIZE) -> None:
        self._target = os.path.join(directory, "floor.txt")
        self._temporary = os.path.join(directory, ".floor.tmp")
        self._journal = os.open(
            os.path.join(directory, "floor.journal"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600
        )
        self._bytes = b"x" * size
        self.samples: dict[str, list[float]] = {APPEND: [], RENAME: [], BOTH: []}

    def measure(self, repeats: int) -> None:
        """Add ``repeats`` samples of each."""
        for name, run in (
            (APPEND, self._append),
            (RENAME, self._replace),
            (BOTH, self._append_and_replace),
        ):
            self.samples[name] += timed(repeats, run)

    def both(self, repeats: int) -> list[float]:
        """The seconds of so many of the third."""
        return timed(repeats, self._append_and_replace)

    def close(self) -> None:
        """Let the file go."""
        os.close(self._journal)

    def _append(self, _: int) -> None:
        os.write(self._journal, self._bytes)
        os.fdatasync(self._journal)

    def _replace(self, _: int) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        temporary = os.open(self._temporary, flags, 0o600)
        os.write(temporary, self._bytes)
        os.close(temporary)
        os.rename(self._temporary, self._target)

    def _append_and_replace(self, number: int) -> None:
        self._append(number)
        self._replace(number)
