"""The text to write at a place: the new text with the place's indentation and terminators.

Lines that old and new text share (by their longest common subsequence) keep the file's bytes. All
other lines get the indentation and the terminators of the place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import msgspec
from rapidfuzz.distance import LCSseq

from stetd.editing.text import (
    INDENTATION,
    Document,
    common_ends,
    indentation_of,
    is_blank,
    joined,
    split_lines,
)

_LIKELY_UNITS = range(2, 5)
_LARGEST_UNIT = 8
#: A step with a smaller share of all steps is alignment, not the unit of indentation.
_COMMON_SHARE = 0.25


class IndentChange(msgspec.Struct, frozen=True):
    """The change from the text's indentation to the place's, in the non-blank lines."""

    text: tuple[str, ...]
    place: tuple[str, ...]

    @property
    def verbatim(self) -> tuple[str, str] | None:
        """The prefix removed from and the prefix added to every line (one is ""); None if mixed."""
        first, target = self.text[0], self.place[0]
        deeper = len(target) - len(first)
        take, put = first[: max(0, -deeper)], target[: max(0, deeper)]
        pairs = zip(self.text, self.place, strict=True)
        return (take, put) if all(put + a == take + b for a, b in pairs) else None

    @property
    def uniform(self) -> bool:
        """Whether all lines change in the same way, verbatim or converted."""
        if self.verbatim is not None:
            return True
        kinds = {_pure_kind(self.text), _pure_kind(self.place)}
        return kinds == {" ", "\t"} and self.spaces_per_tab != 0

    @property
    def even(self) -> bool:
        """Whether all lines move by as many columns, which is all that a reader sees."""
        pairs = zip(self.text, self.place, strict=True)
        return len({len(a.expandtabs()) - len(b.expandtabs()) for a, b in pairs}) == 1

    @property
    def spaces_per_tab(self) -> int | None:
        """Spaces per tab, if one side has tabs. None: all equally deep; 0: contradictory."""
        spaces, tabs = self.text, self.place
        if _pure_kind(self.text) == "\t":
            spaces, tabs = tabs, spaces
        ratio: int | None = None
        for wide, deep in zip(spaces, tabs, strict=True):
            width, depth = len(wide) - len(spaces[0]), len(deep) - len(tabs[0])
            if not width and not depth:
                continue
            if not depth or width % depth or width // depth != (ratio or width // depth):
                return 0
            ratio = width // depth
        if ratio is not None and not 1 < ratio <= _LARGEST_UNIT:
            return 0
        return ratio

    def apply(self, new: Sequence[str], around: Sequence[str]) -> list[str] | None:
        """The indentations of new lines at the place; None if they are not certain.

        ``new``, ``around``: indentations of the added non-blank lines, and of the file's lines.
        """
        if self.verbatim == ("", ""):
            return list(new)
        if self.verbatim is not None:
            take, put = self.verbatim
            if not all(line.startswith(take) for line in new):
                return None
            kept = [line[len(take) :] for line in new]
            if self._in_another_unit(new, around) or self._flat_lines_may_lack_indentation(new):
                return None
            if not self._foreign(kept, around):
                return [put + line for line in kept]
        given, there = _pure_kind([*self.text, *new]), _pure_kind(self.place)
        if not given or there is None or given == there:
            return None
        steps = [len(line) - len(self.text[0]) for line in new]
        if not any(steps):
            return [self.place[0]] * len(new)
        to_tabs = given == " "
        unit = self._unit_of_text(new) if to_tabs else self._unit_of_place(around)
        if not unit:
            return None
        moved = (step // unit if to_tabs else step * unit for step in steps)
        counts = [len(self.place[0]) + step for step in moved]
        return [("\t" if to_tabs else " ") * n for n in counts] if min(counts) >= 0 else None

    def shift(self, lines: Sequence[str], around: Sequence[str]) -> list[str] | None:
        """The lines with this change, blank ones unchanged; None if it is not certain."""
        filled = [indentation_of(line) for line in lines if not is_blank(line)]
        shifted = self.apply(filled, around) if filled else []
        if shifted is None:
            return None
        following = iter(shifted)
        return [
            line if is_blank(line) else next(following) + line.lstrip(INDENTATION) for line in lines
        ]

    def already_in(self, new: Sequence[str]) -> bool:
        """Whether the new lines begin with the place's indentation, which the old ones lack."""
        first = next((indentation_of(line) for line in new if not is_blank(line)), None)
        return first == self.place[0] != self.text[0]

    def _flat_lines_may_lack_indentation(self, new: Sequence[str]) -> bool:
        """Whether the old lines are all as deep, and may just lack the place's indentation."""
        lacks = len(set(self.text)) == 1 and bool(self.verbatim and self.verbatim[1])
        return lacks and all(line.startswith(self.place[0]) for line in new)

    def _in_another_unit(self, new: Sequence[str], around: Sequence[str]) -> bool:
        """Whether the new lines use another unit, so that they end between the file's levels."""
        if _pure_kind([*self.text, *new]) != " ":
            return False
        unit = spaces_unit(around)
        off = len(self.place[0]) - len(self.text[0])
        if unit is not None and off % unit and any(len(line) % unit == 0 for line in new):
            return True  # only the old lines are off the file's levels
        steps = {len(b) - len(a) for a, b in pairwise([self.text[0], *new]) if len(b) > len(a)}
        if unit is not None and any(step < unit and unit % step == 0 for step in steps):
            return True
        varies = any(len(set(pair)) > 1 for pair in pairwise(map(len, around)))
        return any(self._explained_by(step, unit if varies else None) for step in steps)

    def _explained_by(self, step: int, unit: int | None) -> bool:
        """Whether text and place have the same depth, if a level of the text is ``step`` wide."""
        levels, odd = divmod(len(self.text[0]), step)
        if odd or not levels or len(self.place[0]) % levels:
            return False
        other = len(self.place[0]) // levels
        return other != step and (other in _LIKELY_UNITS if unit is None else other == unit)

    def _foreign(self, kept: Sequence[str], around: Sequence[str]) -> bool:
        """Whether the rest of the indentation is of another kind than the place's."""
        taken = bool(self.verbatim and self.verbatim[0])
        kinds = {line[0] for line in (self.place if taken else self.text) if line}
        kinds |= {_main_kind(self.place)} - {""}
        kinds = kinds or {_main_kind(around)} - {""}
        return bool(kinds) and any(line and line[0] not in kinds for line in kept)

    def _unit_of_text(self, new: Sequence[str]) -> int | None:
        """Spaces that become a tab; None if that is not certain."""
        unit = self.spaces_per_tab
        if unit is None:
            unit = self._smallest_step(new)
        uneven = unit and any(len(line) % unit for line in (*self.text, *new))
        return None if uneven else unit

    def _smallest_step(self, new: Sequence[str]) -> int | None:
        """The text's smallest step, if it explains the place's depth or is a common unit."""
        widths = sorted({0, *map(len, self.text), *map(len, new)})
        unit = min(b - a for a, b in pairwise(widths))
        width, depth = len(self.text[0]), len(self.place[0])
        if width and unit * depth == width:
            return unit
        if unit * depth < width and depth:
            return None
        before = [self.text[0], *new]
        leaps = any(len(b) - len(a) > unit for a, b in pairwise(before))
        return unit if unit in _LIKELY_UNITS and not leaps else None

    def _unit_of_place(self, around: Sequence[str]) -> int | None:
        """Spaces that a tab becomes; None if that is not certain."""
        unit, known = spaces_unit(around), self.spaces_per_tab
        if not unit or known not in (None, unit) or any(len(line) % unit for line in self.place):
            return None
        depth, width = len(self.text[0]), len(self.place[0])
        if known is None and unit * depth != width:
            explained = depth and width % depth == 0 and unit * depth < width
            if unit not in _LIKELY_UNITS or (explained and width // depth in _LIKELY_UNITS):
                return None
        return unit


def spaces_unit(around: Sequence[str]) -> int | None:
    """The smallest common step of lines indented with spaces; None if it may be alignment."""
    if _main_kind(around) != " ":
        return None
    widths = [len(line) for line in around if "\t" not in line]
    steps = Counter(b - a for a, b in pairwise(widths) if b - a > 1)
    if not steps:
        smallest = min((width for width in widths if width), default=0)
        return smallest if smallest in _LIKELY_UNITS else None
    common = (step for step in steps if steps[step] >= steps.total() * _COMMON_SHARE)
    smallest = min(common, default=1)  # no step is 1, so that is doubtful
    uneven = sum(1 for width in widths if width % smallest)
    doubtful = steps[smallest] < max(steps.values()) or uneven > len(widths) * _COMMON_SHARE
    return None if doubtful else smallest


def _pure_kind(lines: Sequence[str]) -> str | None:
    """Space or tab if all indentation has only that; "" without indentation."""
    chars = set("".join(lines))
    return None if len(chars) > 1 else "".join(chars)


def _main_kind(lines: Sequence[str]) -> str:
    """The first character of most indented lines; "" if none is indented."""
    first = Counter(line[0] for line in lines if line)
    if not first:
        return ""
    return "\t" if first["\t"] > first[" "] else " "


class Place(msgspec.Struct, frozen=True):
    """A place of a text: ``document.text[start:end]``."""

    start: int
    end: int
    #: The change of indentation.
    change: IndentChange | None = None


#: Comparisons above which only common beginnings and ends count as shared, to limit memory.
_COMPARISONS = 50_000_000


def shared_lines(old: Sequence[str], new: Sequence[str]) -> list[int | None]:
    """For each new line the index (ascending) of the equal old line, or None."""
    head, tail = common_ends(old, new)
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


def written_at(
    document: Document, place: Place, old: str, new: str, *, literal: bool = False
) -> str | None:
    """``new`` for ``old`` with the line ends and indentation of a place; None if not certain.

    ``literal``: ``\\r\\n`` and ``\\r`` of the new text stay.
    """
    text, change = document.text, place.change
    contents, given_ends = split_lines(new)
    old_lines = split_lines(old)[0]
    found, found_ends = split_lines(text[place.start : place.end])
    # A match that ends with a blank line whose terminator stays outside does not show that line.
    missing = [""] * (len(old_lines) - len(found))
    shared = shared_lines(old_lines, contents)
    if change is not None:
        added = [n for n, origin in enumerate(shared) if origin is None]
        first, last = document.line_at(place.start) - 1, document.line_at(place.end)
        around = document.indentations_around(first, last)
        shifted = change.shift([contents[n] for n in added], around)
        filled = [n for n, line in enumerate(contents) if not is_blank(line)]
        if filled and shared[filled[0]] is None and change.already_in(contents):
            kept = (contents[n] for n in filled if shared[n] is not None)
            if all(line.startswith(change.place[0]) for line in kept):
                return None
        if shifted is None or _only_first_may_lack_indentation(change, contents):
            return None
        for n, line in zip(added, shifted, strict=True):
            contents[n] = line
    terminator = document.terminator_near(place.end)
    ends = _terminators_of_place(found_ends + missing, given_ends, shared, terminator, literal)
    ends_line = text.endswith(("\n", "\r"), 0, place.end)
    if ends and old.endswith(("\n", "\r")) and not ends_line:
        ends[-1] = ""  # the file's last line lacks the newline, and goes on to do so
    found += missing
    lines = (
        (content if origin is None else found[origin]) + end
        for origin, content, end in zip(shared, contents, ends, strict=True)
    )
    written = joined(lines, text[max(0, place.start - 1) : place.start])
    if written.endswith("\r") and ends_line and text.startswith("\n", place.end):
        return written + "\n"  # the two would become one terminator
    return written


def _only_first_may_lack_indentation(change: IndentChange, contents: Sequence[str]) -> bool:
    """Whether only the first line of the text may lack the place's indentation."""
    if len(change.text) > 1 or change.verbatim is None or not change.verbatim[1]:
        return False
    later = (line for line in contents[1:] if not is_blank(line))
    return any(indentation_of(line).startswith(change.place[0]) for line in later)


def _terminators_of_place(
    found: Sequence[str],
    given: Sequence[str],
    shared: Sequence[int | None],
    terminator: str,
    literal: bool,
) -> list[str]:
    """The terminators of the new lines: of the matched lines (``found``) at or before them."""
    next_shared = [len(found)]
    for origin in reversed(shared):
        next_shared.append(next_shared[-1] if origin is None else origin)
    ends: list[str] = []
    place = -1
    for origin, end, following in zip(shared, given, next_shared[-2::-1], strict=True):
        place = origin if origin is not None else min(place + 1, following - 1)
        keeps = not end or (literal and end != "\n")
        ends.append(end if keeps else found[max(place, 0)] or terminator)
    return ends
