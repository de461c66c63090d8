"""One uniform change of indentation between a text and the place where it stands.

Two kinds of change count as uniform (DIALECTS.md 0, ``indent``):

* *verbatim*: the same characters are put before every non-blank line, or taken away;
* *converted*: the text is indented with spaces and the place with tabs, or the other way
  round, and both descend by the same number of levels.

The new lines must then get the same change. Verbatim it is simple. When the new lines are
indented in another way than the place (spaces in a file of tabs), they are converted by the
units of both, and only where every count is whole and the unit of the text beyond doubt;
otherwise the rung does not apply, because a wrong depth can be a wrong program.

Everything here works on indentation strings (runs of spaces and tabs); blank lines have been
left out by the caller.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import msgspec

_LIKELY_UNITS = range(2, 5)
_LARGEST_UNIT = 8
#: A step that makes up less than this share of all steps is alignment, not the unit.
_COMMON_SHARE = 0.25


class Change(msgspec.Struct, frozen=True):
    """How the indentation of the text became that of the place, line by line.

    ``text`` and ``place`` are the indentations of the non-blank lines of the old text and
    of the lines it matched: equally many, at least one.
    """

    text: tuple[str, ...]
    place: tuple[str, ...]

    @property
    def verbatim(self) -> tuple[str, str] | None:
        """What is taken from and what is put before every line (one is ""), or None."""
        first, target = self.text[0], self.place[0]
        if target.endswith(first):
            put = target[: len(target) - len(first)]
            same = all(put + a == b for a, b in zip(self.text, self.place, strict=True))
            return ("", put) if same else None
        if first.endswith(target):
            take = first[: len(first) - len(target)]
            same = all(a == take + b for a, b in zip(self.text, self.place, strict=True))
            return (take, "") if same else None
        return None

    @property
    def uniform(self) -> bool:
        """Whether this is one uniform change, verbatim or converted."""
        return self.verbatim is not None or self._descends_alike()

    def _descends_alike(self) -> bool:
        """Whether spaces on one side and tabs on the other descend by the same levels."""
        kinds = {_pure_kind(self.text), _pure_kind(self.place)}
        return kinds == {" ", "\t"} and self.spaces_per_tab != 0

    @property
    def spaces_per_tab(self) -> int | None:
        """How many spaces stand for one tab, by lines that differ in depth.

        None when all lines are equally deep and say nothing; 0 when they contradict
        each other. Only meaningful when one side is tabs and the other spaces.
        """
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
        """The new lines' indentations at the place, or None when they can't be told.

        ``new`` are those of the non-blank lines that are added, in order; ``around`` those
        of the non-blank lines of the file around the place, which tell the file's unit.
        """
        if self.verbatim == ("", ""):
            return list(new)
        if self.verbatim is not None:
            take, put = self.verbatim
            if not all(line.startswith(take) for line in new):
                return None
            kept = [line[len(take) :] for line in new]
            if self._in_another_unit(new, around):
                return None
            if not self._foreign(kept, around):
                return [put + line for line in kept]
        if self._tabs_for_spaces(new):
            return self._to_tabs(new)
        if self._spaces_for_tabs(new):
            return self._to_spaces(new, around)
        return None

    def _in_another_unit(self, new: Sequence[str], around: Sequence[str]) -> bool:
        """Whether the new lines seem to descend in steps of spaces that are not the file's.

        Steps that are a whole part of the file's unit; or steps by which the text is as many
        levels deep as the place is by another usual unit. Shifted as they are, such lines would
        stand between the file's levels.
        """
        if _pure_kind([*self.text, *new]) != " ":
            return False
        unit = spaces_unit(around)
        steps = {len(b) - len(a) for a, b in pairwise([self.text[0], *new]) if len(b) > len(a)}
        if unit is not None and any(step < unit and unit % step == 0 for step in steps):
            return True
        told = any(len(set(pair)) > 1 for pair in pairwise(map(len, around)))
        return any(self._explained_by(step, unit if told else None) for step in steps)

    def _explained_by(self, step: int, unit: int | None) -> bool:
        """Whether text and place are equally many levels deep, if one of the text has ``step``."""
        levels, odd = divmod(len(self.text[0]), step)
        if odd or not levels or len(self.place[0]) % levels:
            return False
        other = len(self.place[0]) // levels
        return other != step and (other in _LIKELY_UNITS if unit is None else other == unit)

    def _foreign(self, kept: Sequence[str], around: Sequence[str]) -> bool:
        """Whether what the change leaves alone is indentation of another kind than the place's.

        The place's kind is what its lines begin with, and what the old lines have in common
        with them beyond the change: alignment with spaces behind a tab is copied.
        """
        taken = bool(self.verbatim and self.verbatim[0])
        kinds = {line[0] for line in (self.place if taken else self.text) if line}
        kinds |= {_main_kind(self.place)} - {""}
        kinds = kinds or {_main_kind(around)} - {""}
        return bool(kinds) and any(line and line[0] not in kinds for line in kept)

    def _tabs_for_spaces(self, new: Sequence[str]) -> bool:
        return _pure_kind([*self.text, *new]) == " " and _pure_kind(self.place) in ("\t", "")

    def _spaces_for_tabs(self, new: Sequence[str]) -> bool:
        return _pure_kind([*self.text, *new]) == "\t" and _pure_kind(self.place) in (" ", "")

    def _to_tabs(self, new: Sequence[str]) -> list[str] | None:
        width, depth = len(self.text[0]), len(self.place[0])
        if all(len(line) == width for line in new):
            return [self.place[0]] * len(new)
        unit = self.spaces_per_tab if _pure_kind(self.place) else None
        if unit is None:
            unit = self._guessed_text_unit(new)
        if not unit or any(len(line) % unit for line in (*self.text, *new)):
            return None
        return _levels("\t", [depth + (len(line) - width) // unit for line in new])

    def _guessed_text_unit(self, new: Sequence[str]) -> int | None:
        """The text's unit by its smallest step, or None when it is not beyond doubt.

        Beyond doubt: the step explains the depth that the place already has; or it is a
        usual one, not smaller than what would explain the depth, and the new lines never
        descend by several steps at once, as they would if the step were mere alignment.
        """
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

    def _to_spaces(self, new: Sequence[str], around: Sequence[str]) -> list[str] | None:
        depth, width = len(self.text[0]), len(self.place[0])
        if all(len(line) == depth for line in new):
            return [self.place[0]] * len(new)
        unit = spaces_unit(around)
        told = self.spaces_per_tab if _pure_kind(self.text) and _pure_kind(self.place) else None
        if not unit or told not in (None, unit) or any(len(line) % unit for line in self.place):
            return None
        if told is None and unit * depth != width:
            explained = depth and width % depth == 0 and unit * depth < width
            if unit not in _LIKELY_UNITS or (explained and width // depth in _LIKELY_UNITS):
                return None
        return _levels(" ", [width + (len(line) - depth) * unit for line in new])


def spaces_unit(around: Sequence[str]) -> int | None:
    """The unit of lines indented with spaces: their smallest step that is no rarity.

    A step is how much deeper a line is than the one before it; where all lines are equally
    deep, their depth is the step if it is a usual one. None when there is none, when most
    lines are indented with tabs, or when it can't be told from alignment: a larger step is
    more common, or many lines are indented by no whole number of such steps.
    """
    if _main_kind(around) != " ":
        return None
    widths = [len(line) for line in around if "\t" not in line]
    steps = Counter(b - a for a, b in pairwise(widths) if b - a > 1)
    if not steps:
        smallest = min((width for width in widths if width), default=0)
        return smallest if smallest in _LIKELY_UNITS else None
    total = steps.total()
    smallest = min(step for step, count in steps.items() if count >= total * _COMMON_SHARE)
    uneven = sum(1 for width in widths if width % smallest)
    doubtful = steps[smallest] < max(steps.values()) or uneven > len(widths) * _COMMON_SHARE
    return None if doubtful else smallest


def _levels(char: str, counts: Sequence[int]) -> list[str] | None:
    return [char * count for count in counts] if min(counts) >= 0 else None


def _pure_kind(lines: Sequence[str]) -> str | None:
    """Space or tab when no line is indented with anything else; "" for no indentation."""
    chars = set("".join(lines))
    return None if len(chars) > 1 else "".join(chars)


def _main_kind(lines: Sequence[str]) -> str:
    """What most indented lines begin with; "" when none is indented."""
    first = Counter(line[0] for line in lines if line)
    if not first:
        return ""
    return "\t" if first["\t"] > first[" "] else " "
