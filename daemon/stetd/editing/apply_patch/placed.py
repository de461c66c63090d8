"""What becomes of a hunk that is looked for: its place, or why it has none. Values only.

Lines of files count from 0 here.
"""

from __future__ import annotations

from enum import Enum, auto
from functools import cached_property

import msgspec

from stetd.editing.apply_patch.operations import ADDED, CONTEXT, REMOVED, Hunk, HunkLine
from stetd.editing.matching.rungs import Rung


class Reason(Enum):
    """Why a hunk has no place."""

    ABSENT = auto()
    SEVERAL = auto()
    #: It stands in several places, and the text after ``@@`` that might settle it in none.
    NO_ANCHOR = auto()
    #: The ``@@`` lines stand in the file, but not in this order.
    ANCHORS_APART = auto()
    NOT_UNDER_ANCHOR = auto()
    NOT_AT_END = auto()
    OVERLAP = auto()
    #: It only adds lines, and all that tells the place is Git's ``@@ -1,3 +1,3 @@``.
    RANGE_ALONE = auto()
    #: How its added lines are to be indented can't be told.
    SHIFT = auto()


class Problem(msgspec.Struct, frozen=True):
    """A hunk that has no place; ``places``: where it might have had one."""

    reason: Reason
    hunk: Hunk
    places: tuple[int, ...] = ()
    rung: Rung = Rung.EXACT
    anchor: str = ""
    other: Hunk | None = None
    identical: bool = False


class Group(msgspec.Struct, frozen=True):
    """Lines ``start`` to ``end`` (not included) give way to ``added``."""

    start: int
    end: int
    added: tuple[HunkLine, ...]


class Placed(msgspec.Struct, frozen=True, dict=True):
    """A hunk at its place: ``lines``, which are what is left of it, from line ``start`` on.

    ``size``: how many lines of the file it covers; for a hunk that only adds this is the line
    after which it does, if any. ``early``: it changes lines before those that a hunk above it
    changes. ``described``: a text after its ``@@`` stands nowhere.
    """

    hunk: Hunk
    lines: tuple[HunkLine, ...]
    start: int
    size: int
    rung: Rung
    early: bool = False
    described: bool = False

    @property
    def end(self) -> int:
        """The line after the last one that it covers."""
        return self.start + self.size

    @cached_property
    def groups(self) -> list[Group]:
        """Where lines change, in order."""
        groups: list[Group] = []
        only_adds = all(line.sign == ADDED for line in self.lines)
        at = begins = self.end if only_adds else self.start
        added: list[HunkLine] = []
        for line in (*self.lines, HunkLine(CONTEXT, "", 0)):
            if line.sign == ADDED:
                added.append(line)
            elif line.sign == REMOVED:
                at += 1
            else:
                if added or at > begins:
                    groups.append(Group(begins, at, tuple(added)))
                at += 1
                begins, added = at, []
        return groups

    def disturbs(self, other: Placed) -> bool:
        """Whether the two share more than context."""
        low, high = max(self.start, other.start), min(self.end, other.end)
        if low >= high:
            return False
        mine, theirs = ({(each.start, each.end) for each in one.groups} for one in (self, other))
        if any(start < high and end > low for start, end in mine | theirs):
            return True
        both_only_add = not self.hunk.old and not other.hunk.old
        return bool(mine & theirs) and not both_only_add
