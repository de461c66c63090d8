"""Whether a line still stands in the block that a line above it opens.

Told by indentation alone, for any language: a line opens a block when the next line that is
not blank is indented deeper; the block ends at the first line that is indented no deeper than
the one that opens it. Lines that begin with a bracket end no block, since ``) {`` and ``):``
go on with the line that opens it, nor do preprocessor lines and comments in the first column.
"""

from __future__ import annotations

from collections.abc import Sequence

from stetd.editing.normal_forms import indentation_of
from stetd.editing.text import is_blank

_TAB = 8
_GO_ON = tuple("()[]{}#/*")


def leaves_block(lines: Sequence[str], opening: int, line: int) -> bool:
    """Whether the block that line ``opening`` opens ends before ``line`` (from 0, below it).

    False where it opens none: what such a line is about can't be told.
    """
    depth = _depth(lines[opening])
    following = (each for each in lines[opening + 1 : line + 1] if not is_blank(each))
    first = next(following, None)
    if first is None or (_depth(first) <= depth and not first.lstrip().startswith(_GO_ON)):
        return False
    return any(_depth(each) <= depth and not each.lstrip().startswith(_GO_ON) for each in following)


def _depth(line: str) -> int:
    return len(indentation_of(line).expandtabs(_TAB))
