"""Old and new text without some lines at their edges: what the rung ``trim_edges`` looks for.

Models add blank lines around a text, or misremember its first or last line. At each edge may
be dropped

* all blank lines of the old text, with as many of the new text's at that edge; and then
* one line that is not blank and the same in old and new text: both copies.

Nothing is dropped repeatedly. What is left must match whole lines; that is matching's affair,
as is the place. Here it is only decided which remainders are worth looking for:

* the remainder holds a line that is not blank. Where a shared line was dropped it holds a word
  (``}`` is no evidence) and is changed by the edit;
* both remainders end alike, with a terminator or without one: else the edit would join lines
  that neither text shows.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from stetd.editing.text import is_blank, split_lines

_NOTHING, _BLANK_LINES, _SHARED_LINE = range(3)


class Trimmed(msgspec.Struct, frozen=True):
    """What is left of old and new text.

    ``cost``: how much was dropped. ``dropped_first`` and ``dropped_last``: the line dropped at
    that edge because both texts have it, or "". ``core``: the old text without any blank lines
    at its edges, by which it must be told apart from other places. ``grows_up`` and
    ``grows_down``: lines are added between the remainder and blank lines that were dropped there.
    """

    old: str
    new: str
    core: str
    cost: int
    dropped_first: str
    dropped_last: str
    grows_up: bool
    grows_down: bool


def trimmings(old: str, new: str) -> Iterator[Trimmed]:
    """Every way to trim that leaves something worth looking for."""
    old_lines, new_lines = _lines(old), _lines(new)
    for at_head in (_NOTHING, _BLANK_LINES, _SHARED_LINE):
        for at_tail in (_NOTHING, _BLANK_LINES, _SHARED_LINE):
            trimmed = _trimmed(old_lines, new_lines, at_head, at_tail)
            if trimmed is not None and trimmed.cost:
                yield trimmed


def _trimmed(old: list[str], new: list[str], at_head: int, at_tail: int) -> Trimmed | None:
    head = _without_first(old, new, at_head)
    if head is None:
        return None
    old, new, first = head
    tail = _without_first(old[::-1], new[::-1], at_tail)
    if tail is None:
        return None
    old, new, last = tail[0][::-1], tail[1][::-1], tail[2]
    blank = _leading_blanks(old)
    if blank == len(old) or ((first or last) and not _telling(old, new)):
        return None
    if at_tail and new and _terminated(old[-1]) != _terminated(new[-1]):
        return None
    core = old[blank : len(old) - _leading_blanks(old[::-1])]
    return Trimmed(
        "".join(old),
        "".join(new),
        "".join(core),
        at_head + at_tail,
        first,
        last,
        grows_up=at_head == _BLANK_LINES and _grows(old, new),
        grows_down=at_tail == _BLANK_LINES and _grows(old[::-1], new[::-1]),
    )


def _without_first(
    old: list[str], new: list[str], amount: int
) -> tuple[list[str], list[str], str] | None:
    """Trim one edge, and what was shared there; None when there is nothing of that kind."""
    if amount == _NOTHING:
        return old, new, ""
    blank = _leading_blanks(old)
    if amount == _BLANK_LINES and not blank:
        return None
    old, new = old[blank:], new[min(blank, _leading_blanks(new)) :]
    if amount == _BLANK_LINES:
        return old, new, ""
    if not old or not new or old[0] != new[0]:
        return None
    return old[1:], new[1:], old[0]


def _lines(text: str) -> list[str]:
    """The lines with their terminators."""
    return [content + end for content, end in zip(*split_lines(text), strict=True)]


def _leading_blanks(lines: list[str]) -> int:
    for index, line in enumerate(lines):
        if not is_blank(line.rstrip("\r\n")):
            return index
    return len(lines)


def _telling(old: list[str], new: list[str]) -> bool:
    return old != new and any(map(str.isalnum, "".join(old)))


def _grows(old: list[str], new: list[str]) -> bool:
    """Whether the first old line stays and new ones are put before it."""
    return bool(new) and new[0] != old[0] and old[0] in new


def _terminated(line: str) -> bool:
    return line.endswith(("\n", "\r"))
