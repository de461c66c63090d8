"""What a patch says, as values: operations, hunks, lines. Nothing is looked for here."""

from __future__ import annotations

from functools import cached_property

import msgspec
from msgspec.structs import replace

from stetd.editing.text import is_blank

CONTEXT, REMOVED, ADDED = " ", "-", "+"
BOM = "\ufeff"


class HunkLine(msgspec.Struct, frozen=True):
    """A line of a hunk: its sign, its content.

    ``end``: ``\\n``, or another terminator that an added line is to have. ``bare``: nothing
    at all stood there, not even a sign. ``unended``: followed by Git's remark that the file
    has no newline after it. ``number``: its line in the request.
    """

    sign: str
    text: str
    number: int
    end: str = "\n"
    bare: bool = False
    unended: bool = False


class Hunk(msgspec.Struct, frozen=True, dict=True):
    """A hunk as it was sent.

    ``line``: where it begins in the request. ``index``: its place among the edits of the call,
    from 0; ``number``: among the hunks of its operation, from 1. ``anchors``: the texts after
    ``@@``, outermost first. ``range``: old start and old length of Git's ``@@ -1,3 +1,3 @@``.
    """

    line: int
    index: int
    number: int
    anchors: tuple[str, ...]
    lines: tuple[HunkLine, ...]
    end_of_file: bool = False
    range: tuple[int, int] | None = None

    @cached_property
    def old(self) -> tuple[str, ...]:
        """What must stand in the file."""
        return tuple(line.text for line in self.lines if line.sign != ADDED)

    @cached_property
    def changes(self) -> bool:
        """Whether there is anything but context."""
        return any(line.sign != CONTEXT for line in self.lines)

    def without_bom(self) -> Hunk:
        """The hunk without a byte order mark at the beginning of its lines."""
        if not any(line.text.startswith(BOM) for line in self.lines):
            return self
        lines = (replace(line, text=line.text.removeprefix(BOM)) for line in self.lines)
        return replace(self, lines=tuple(lines))

    def without_edges(self, lead: int, tail: int) -> tuple[HunkLine, ...]:
        """The lines without so many at the beginning and at the end."""
        return self.lines[lead : len(self.lines) - tail]

    @cached_property
    def bare_edges(self) -> tuple[int, int]:
        """How many bare lines stand at the beginning and at the end."""
        flags = [line.bare for line in self.lines]
        lead = flags.index(False) if False in flags else len(flags)
        tail = flags[::-1].index(False) if False in flags else 0
        return lead, tail

    @cached_property
    def blank_context_at_end(self) -> int:
        """How many blank context lines stand at the end."""
        count = 0
        for line in reversed(self.lines):
            if line.sign != CONTEXT or not is_blank(line.text):
                break
            count += 1
        return count


class Add(msgspec.Struct, frozen=True):
    """``*** Add File``; ``text`` is the content."""

    line: int
    index: int
    path: str
    text: str


class Delete(msgspec.Struct, frozen=True):
    """``*** Delete File``."""

    line: int
    index: int
    path: str


class Update(msgspec.Struct, frozen=True):
    """``*** Update File``; without hunks there is a ``move_to``. ``index``: of its first edit."""

    line: int
    index: int
    path: str
    hunks: tuple[Hunk, ...]
    move_to: str | None = None
    move_line: int = 0


Operation = Add | Delete | Update
