"""Moving text to another indentation: the ``reindent`` of the ``patch`` dialect.

From each line that is not blank the prefix ``strip`` is taken, then ``add`` is put before it.
Lines of white space only stay as they are. Lines end with ``\\n``, ``\\r\\n`` or a lone ``\\r``.
"""

from __future__ import annotations

import msgspec

from stetd.editing.text import is_blank, split_lines


class StripFailed(msgspec.Struct, frozen=True):
    """Line ``number`` (from 1) of the text does not begin with the prefix to strip."""

    number: int
    line: str


def reindent(text: str, strip: str, add: str) -> str | StripFailed:
    """``text`` with ``strip`` taken from and ``add`` put before every line that is not blank."""
    if not strip and not add:
        return text
    moved: list[str] = []
    for number, (line, terminator) in enumerate(zip(*split_lines(text), strict=True), start=1):
        if is_blank(line):
            moved += (line, terminator)
        elif line.startswith(strip):
            moved += (add, line[len(strip) :], terminator)
        else:
            return StripFailed(number, line)
    return "".join(moved)
