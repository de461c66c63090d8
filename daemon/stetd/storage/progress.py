"""The progress of long work."""

from __future__ import annotations

import msgspec

from stetd.storage.priority import yield_processor


class Progress(msgspec.Struct):
    """``done`` of ``total`` (None: not known yet) in a phase."""

    phase: str = ""
    done: int = 0
    total: int | None = None

    def begin(self, phase: str, total: int | None = None) -> None:
        """Begin the next phase."""
        self.phase, self.done, self.total = phase, 0, total

    def copy_from(self, other: Progress) -> None:
        """Take the values of another."""
        self.phase, self.done, self.total = other.phase, other.done, other.total

    def step(self, count: int = 1) -> None:
        """Count work of the phase as done, and let edits go first."""
        self.done += count
        yield_processor()
