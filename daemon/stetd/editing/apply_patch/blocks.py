"""Where the block ends that a line opens.

Told by indentation alone, for any language: a line opens a block when the next line that is
not blank is indented deeper; the block ends at the first line that is indented no deeper than
the one that opens it. Lines that begin with a bracket end no block, since ``) {`` and ``):``
go on with the line that opens it, nor do preprocessor lines and comments in the first column.
"""

from __future__ import annotations

from collections.abc import Sequence

from stetd.editing.matching.normal_forms import indentation_of
from stetd.editing.text import is_blank

_TAB = 8
_GO_ON = tuple("()[]{}#/*")


def block_end(lines: Sequence[str], opening: int) -> int | None:
    """The line after the block that line ``opening`` opens, from 0; None where it opens none.

    Then what the line is about can't be told.
    """
    depth = _depth(lines[opening])
    opens = False
    for number in range(opening + 1, len(lines)):
        if is_blank(lines[number]) or lines[number].lstrip().startswith(_GO_ON):
            opens = opens or not is_blank(lines[number])
        elif _depth(lines[number]) > depth:
            opens = True
        else:
            return number if opens else None
    return len(lines) if opens else None


def _depth(line: str) -> int:
    return len(indentation_of(line).expandtabs(_TAB))
