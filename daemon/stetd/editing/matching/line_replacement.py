"""What is written where a text was found: the new text, in the terms of the place.

Lines that old and new text share keep the bytes that stand in the file (their trailing
space, their typography, their indentation); all other lines are new and are written as
given, with the indentation and the terminators of the place. Which lines are shared is told
by the longest common subsequence of the *given* texts, so that a line counts as unchanged
exactly when whoever sent it left it unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from rapidfuzz.distance import LCSseq

from stetd.editing.matching.indentation import Change
from stetd.editing.matching.normal_forms import INDENTATION, indentation_of
from stetd.editing.text import is_blank, split_lines

#: Beyond this many comparisons of changed old with changed new lines, only common
#: beginnings and ends count as shared: the table of the comparison would grow too large.
_COMPARISONS = 50_000_000


class Given(msgspec.Struct, frozen=True):
    """One text as lines: contents and terminators, equally many."""

    contents: list[str]
    terminators: list[str]

    @classmethod
    def of(cls, text: str, count: int = 0) -> Given:
        """Split a text; only the last line may lack a terminator.

        ``count`` lines at least: a match that ends with a blank line whose terminator stays
        outside does not show that line.
        """
        contents, terminators = split_lines(text)
        missing = [""] * (count - len(contents))
        return cls(contents + missing, terminators + missing)


def shared_lines(old: Sequence[str], new: Sequence[str]) -> list[int | None]:
    """For each new line the index of the old line that it leaves unchanged, or None.

    Indexes ascend. Common lines at both ends are taken first.
    """
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    shared: list[int | None] = [*range(head), *[None] * (len(new) - head)]
    for back in range(1, tail + 1):
        shared[-back] = len(old) - back
    rest_old, rest_new = old[head : len(old) - tail], new[head : len(new) - tail]
    if len(rest_old) * len(rest_new) <= _COMPARISONS:
        for block in LCSseq.opcodes(rest_old, rest_new):
            if block.tag == "equal":
                for step in range(block.dest_end - block.dest_start):
                    source, target = block.src_start + step, block.dest_start + step
                    # rapidfuzz compares hashes, and takes "" and "\\0" for the same.
                    if rest_old[source] == rest_new[target]:
                        shared[head + target] = head + source
    return shared


def replacement(
    old: str, new: str, matched: str, terminator: str, *, literal: bool, forgiven: bool
) -> str:
    """The text to write over ``matched``, which has as many lines as ``old``.

    ``terminator`` is that of the file's line in which the match ends. ``literal`` (the exact
    rung) leaves ``\\r\\n`` and ``\\r`` of the new text alone. ``forgiven``: the old text ends
    with a terminator that the file's last line lacks, so the new text's falls away too.
    """
    given, sent = Given.of(old), Given.of(new)
    found = Given.of(matched, len(given.contents))
    shared = shared_lines(given.contents, sent.contents)
    return _written(found, sent, shared, sent.contents, terminator, literal, forgiven)


def reindented_replacement(
    old: str,
    new: str,
    matched: str,
    terminator: str,
    change: Change,
    around: Sequence[str],
    *,
    forgiven: bool,
) -> str | None:
    """As :func:`replacement`, with the change of indentation applied to every line added.

    None when such a line can't get that change; blank lines are exempt and gain nothing.
    """
    given, sent = Given.of(old), Given.of(new)
    found = Given.of(matched, len(given.contents))
    shared = shared_lines(given.contents, sent.contents)
    contents = list(sent.contents)
    filled = [
        index for index, line in enumerate(contents) if shared[index] is None and not is_blank(line)
    ]
    changed = change.apply([indentation_of(contents[index]) for index in filled], around)
    if (filled and changed is None) or _only_first_lacks_indentation(change, contents):
        return None
    for index, indentation in zip(filled, changed or [], strict=True):
        contents[index] = indentation + contents[index].lstrip(INDENTATION)
    return _written(found, sent, shared, contents, terminator, False, forgiven)


def _only_first_lacks_indentation(change: Change, contents: Sequence[str]) -> bool:
    """Whether the text may begin with the first character that can be seen.

    Then its first line lacks the indentation of the place, and the others don't. One old line
    can't tell that from a text that lacks it everywhere.
    """
    if len(change.text) > 1 or change.verbatim is None or not change.verbatim[1]:
        return False
    later = (line for line in contents[1:] if not is_blank(line))
    return any(indentation_of(line).startswith(change.place[0]) for line in later)


def _written(
    found: Given,
    sent: Given,
    shared: Sequence[int | None],
    contents: Sequence[str],
    terminator: str,
    literal: bool,
    forgiven: bool,
) -> str:
    ends = _terminators_of_place(found, sent, shared, terminator, literal)
    if forgiven and ends:
        ends[-1] = ""
    pieces: list[str] = []
    for origin, content, end in zip(shared, contents, ends, strict=True):
        pieces += (content if origin is None else found.contents[origin]), end
    return "".join(pieces)


def _terminators_of_place(
    found: Given, sent: Given, shared: Sequence[int | None], terminator: str, literal: bool
) -> list[str]:
    """A terminator for each new line that has one.

    That of the matched line which it leaves or replaces; for a line that is put between
    two, that of the line before it. ``terminator`` stands for the last matched line's when
    that lies outside the match.
    """
    ends: list[str] = []
    place = -1
    gap_end = _next_shared(shared, len(found.contents))
    for index, (origin, given) in enumerate(zip(shared, sent.terminators, strict=True)):
        place = origin if origin is not None else min(place + 1, gap_end[index] - 1)
        if not given or (literal and given != "\n"):
            ends.append(given)
        else:
            ends.append(found.terminators[max(place, 0)] or terminator)
    return ends


def _next_shared(shared: Sequence[int | None], count: int) -> list[int]:
    """For each new line the index of the old line that the next shared one comes from."""
    following = count
    answer = [0] * len(shared)
    for index in range(len(shared) - 1, -1, -1):
        answer[index] = following
        origin = shared[index]
        following = following if origin is None else origin
    return answer
