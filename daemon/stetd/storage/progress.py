"""How far a long piece of work has come."""

from __future__ import annotations

import msgspec

from stetd.storage.priority import let_others_run


class Progress(msgspec.Struct):
    """``done`` of ``total`` (None: not known yet) in a phase."""

    phase: str = ""
    done: int = 0
    total: int | None = None

    def begin(self, phase: str, total: int | None = None) -> None:
        """Go over to the next phase."""
        self.phase, self.done, self.total = phase, 0, total

    def take_over(self, other: Progress) -> None:
        """Be as far as another."""
        self.phase, self.done, self.total = other.phase, other.done, other.total

    def step(self, count: int = 1) -> None:
        """So many more of the phase are done; edits go before what is left."""
        self.done += count
        let_others_run()
