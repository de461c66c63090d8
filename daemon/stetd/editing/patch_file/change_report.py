"""What a model is told of changes that were made: each in a line, with its surroundings.

      1. Line 42: "DEBUG = True" became "DEBUG = False"
           41| import os
         > 42| DEBUG = False
           43|

Numbers are those of the final text; ``>`` marks the lines that the change has written. What
changed is told by the lines in which old and new text differ, shortened.
"""

from __future__ import annotations

from collections.abc import Iterator

from stet.wire.results import EditReport
from stetd.editing.matching.near_miss import quoted
from stetd.editing.patch_file.sequential import Landed
from stetd.editing.text import WHITE_SPACE, Document, is_blank, presentable, split_lines

#: A line is quoted up to so many characters, and shown up to so many.
_QUOTED = 60
_SHOWN_LINE = 200
#: Of a long change so many of its first and of its last lines are shown.
_SHOWN_ENDS = 10


def told(number: int, landed: Landed, report: EditReport, changed_line: int) -> str:
    """``  1. Line 42: <what changed>``, with what is to be known about the match.

    The line is that of the text that was found; where that begins with lines that stay, the
    line of the first that does not is told as well.
    """
    notes = []
    if report.score is not None:
        notes.append(f"fuzzy match, score {report.score:.2f}")
    if landed.changed_by is not None:
        notes.append(f"changed again by change {landed.changed_by + 1}")
    note = f" ({'; '.join(notes)})" if notes else ""
    at = "" if landed.idle or changed_line == report.line else f" at line {changed_line}"
    return f"  {number}. Line {report.line}: {described(landed)}{at}{note}"


def described(landed: Landed) -> str:
    """What a change did, drawn from the lines in which its old and new text differ."""
    old, new = _differing(split_lines(landed.removed)[0], split_lines(landed.step.replacement)[0])
    if not old and not new:
        return "changed line endings" if not landed.idle else "changed nothing"
    if not old:
        return f"added {_told_lines(new)}"
    if not new:
        return f"removed {_told_lines(old)}"
    if len(old) == len(new) == 1:
        shared = _shared_indentation(old[0], new[0])
        return f"{_short(old[0][shared:])} became {_short(new[0][shared:])}"
    return f"replaced {_told_lines(old)} with {_told_lines(new)}"


def surroundings(document: Document, report: EditReport, around: int) -> Iterator[str]:
    """The lines of a change in the final text, and so many ``around`` it."""
    first = max(1, report.line - around)
    last = min(document.line_count, report.end_line + around)
    width = len(str(last))
    hidden = range(report.line + _SHOWN_ENDS, report.end_line + 1 - _SHOWN_ENDS)
    for number in range(first, last + 1):
        if number in hidden:
            if number == hidden.start:
                yield f"       {'':>{width}}| ... {len(hidden)} more lines"
            continue
        line = presentable(document.lines[number - 1])
        shown = line[:_SHOWN_LINE] + ("..." if len(line) > _SHOWN_LINE else "")
        mark = ">" if report.line <= number <= report.end_line else " "
        yield f"     {mark} {number:>{width}}| {shown}".rstrip(" ")


def _differing(old: list[str], new: list[str]) -> tuple[list[str], list[str]]:
    """The lines without those that both have at the beginning and at the end."""
    shorter = min(len(old), len(new))
    head = next((n for n in range(shorter) if old[n] != new[n]), shorter)
    room = shorter - head
    tail = next((n for n in range(room) if old[-1 - n] != new[-1 - n]), room)
    return old[head : len(old) - tail], new[head : len(new) - tail]


def _told_lines(lines: list[str]) -> str:
    """The text of one line; of several, their number and the first that is not blank."""
    if len(lines) == 1:
        return "a blank line" if is_blank(lines[0]) else _short(lines[0].strip(WHITE_SPACE))
    telling = next((line for line in lines if not is_blank(line)), None)
    if telling is None:
        return f"{len(lines)} blank lines"
    return f"{len(lines)} lines ({_short(telling.strip(WHITE_SPACE))} ...)"


def _short(text: str) -> str:
    return quoted(text if len(text) <= _QUOTED else f"{text[:_QUOTED]}...")


def _shared_indentation(old: str, new: str) -> int:
    """How many characters of indentation both lines begin with."""
    count = 0
    for one, other in zip(old, new, strict=False):
        if one != other or one not in " \t":
            break
        count += 1
    return count
