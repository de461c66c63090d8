"""From the lines of an update to its hunks, one line after the other.

What ends a hunk and what may follow it is the grammar's affair (``grammar``); here lines are
put together. A lone ``\\r`` inside a line ends a line of a file, so such a line becomes two.

Bare lines stay in the hunk, for where it is looked for decides about those at its edges. But
where it has no other old line they are dropped here, and one *between* its added lines is
refused: it is a ``+`` that was forgotten, and to look for the one blank line of a file would
be a guess.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec.structs import replace

from stetd.editing.apply_patch.envelope import Malformed, PatchLine, unexpected
from stetd.editing.apply_patch.operations import ADDED, CONTEXT, Hunk, HunkLine
from stetd.editing.refusals import visible
from stetd.editing.text import WHITE_SPACE, is_blank

END_OF_FILE = "*** End of File"
#: Git's line numbers. Groups: old start, old length, what stands after them.
RANGE = re.compile(r"@@+ -(\d{1,9})(?:,(\d{1,9}))?(?: [-+]\d+(?:,\d+)?)+ @@+(?: ?(.*))?")


class HunkReader:
    """Puts the lines of an update together to hunks."""

    def __init__(self, first_index: int) -> None:
        self.hunks: list[Hunk] = []
        #: ``*** End of File`` has been read, and no hunk begun since.
        self.ended = False
        self._first_index = first_index
        self._places: list[PatchLine] = []
        self._anchors: list[str] = []
        self._range: tuple[int, int] | None = None
        self._lines: list[HunkLine] = []

    def place(self, line: PatchLine) -> None:
        """``@@``, with or without a text."""
        if any(not each.bare for each in self._lines):
            self.close(line)
        self._lines.clear()
        self.ended = False
        self._places.append(line)
        found = RANGE.fullmatch(line.text.rstrip(WHITE_SPACE))
        if found:
            self._range = int(found[1]), int(found[2] or 1)
        anchor = found[3] or "" if found else line.text[2:].removeprefix(" ")
        if not is_blank(anchor):
            self._anchors.append(anchor)

    def line(self, line: PatchLine) -> None:
        """A line with a sign."""
        self._refuse_after_end(line)
        *inner, last = line.text[1:].split("\r")
        sign = line.text[0]
        self._lines += (HunkLine(sign, text, line.number, "\r") for text in inner)
        self._lines.append(HunkLine(sign, last, line.number, line.end))

    def blank(self, line: PatchLine) -> None:
        """A line without anything."""
        if not self.ended:
            self._lines.append(HunkLine(CONTEXT, "", line.number, bare=True))

    def unended(self, line: PatchLine) -> None:
        """Git's remark on the line before."""
        self._refuse_after_end(line)
        if not self._lines:
            raise unexpected(line, "a line of a hunk before it")
        self._lines[-1] = replace(self._lines[-1], unended=True)

    def end_of_file(self, line: PatchLine | None = None) -> None:
        """``*** End of File``: the last hunk stands at the end."""
        if line is not None and not self.hunks:
            raise unexpected(line, f"a hunk before {visible(END_OF_FILE)}")
        self.ended = True
        if self.hunks:
            self.hunks[-1] = replace(self.hunks[-1], end_of_file=True)

    def close(self, following: PatchLine) -> None:
        """End the hunk that is being read, if there is one."""
        lines = self._lines
        if all(line.bare for line in lines):
            if self._places:
                place = self._places[-1]
                raise unexpected(
                    following, f"a line of the hunk {visible(place.text)} in line {place.number}"
                )
            lines.clear()
            return
        start = self._places[0].number if self._places else lines[0].number
        number = len(self.hunks)
        hunk = Hunk(
            start,
            self._first_index + number,
            number + 1,
            tuple(self._anchors),
            _normalized(lines),
            range=self._range,
        )
        self.hunks.append(hunk)
        self._places, self._anchors, self._lines, self._range = [], [], [], None

    def _refuse_after_end(self, line: PatchLine) -> None:
        if self.ended:
            raise unexpected(line, f'a line "@@" before another hunk, after "{END_OF_FILE}"')


def _normalized(lines: Sequence[HunkLine]) -> tuple[HunkLine, ...]:
    """The lines of a hunk, without bare ones that can't be meant, terminators settled."""
    if all(line.end == "\r\n" or line.bare for line in lines):
        lines = [replace(line, end="\n") for line in lines]
    if any(line.sign != ADDED and not line.bare for line in lines):
        return tuple(lines)
    first = next(index for index, line in enumerate(lines) if not line.bare)
    last = next(index for index in range(len(lines) - 1, -1, -1) if not lines[index].bare)
    inner = lines[first : last + 1]
    forgotten = next((line for line in inner if line.bare), None)
    if forgotten is not None:
        raise Malformed(
            forgotten.number,
            'received "" among added lines; expected "+" also before a blank line that is added.',
        )
    return tuple(inner)
