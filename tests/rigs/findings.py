"""What a rig found, in the words that all rigs share, shown at the end of a test run.

A rig is judged by three numbers, which must be 0: calls that stand in part (torn), what was
acknowledged or written by others and is gone (lost), what was applied twice (duplicated).
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Findings:
    """The tally of one rig. ``points``: crashes, faults or calls that were tried."""

    rig: str
    points: int = 0
    torn: int = 0
    lost: int = 0
    duplicated: int = 0
    notes: list[str] = field(default_factory=list)

    def line(self) -> str:
        """One line of the summary."""
        numbers = (
            f"{self.points} points tried, {self.torn} torn, {self.lost} lost, "
            f"{self.duplicated} duplicated"
        )
        return "; ".join([f"{self.rig}: {numbers}", *self.notes])


#: The tallies of this run, in the order in which the rigs began.
ALL: list[Findings] = []


def begin(rig: str) -> Findings:
    """A new tally, which the end of the run shows whatever becomes of the rig."""
    findings = Findings(rig)
    ALL.append(findings)
    return findings
