"""Finds the place of each hunk of an update (docs/dialects.md).

Hunks are placed in the order of the patch, each after the *cursor*: the last line that the one
before changes, as hunks share context. The first rung of ``climb`` with a place there decides. A
tolerant place is refused if a stricter rung has a free one elsewhere, because neither is certain.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from enum import Enum, auto
from functools import cached_property
from itertools import islice

import msgspec
from msgspec.structs import replace

from stetd.editing.apply_patch.grammar import ADDED, CONTEXT, REMOVED, Hunk, HunkLine, Variant
from stetd.editing.matching import rungs
from stetd.editing.matching.ladder import is_distinctive
from stetd.editing.matching.normal_forms import INDENTATION, indentation_of
from stetd.editing.matching.rungs import MOST_PLACES, Found, Run, Rung
from stetd.editing.text import Document, is_blank

_TAB = 8
_GO_ON = tuple("()[]{}#/*")


def block_end(lines: Sequence[str], opening: int) -> int | None:
    """The line after the block that line ``opening`` (from 0) opens; None if it opens none."""
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


class Reason(Enum):
    """Why a hunk has no place."""

    ABSENT = auto()
    SEVERAL = auto()
    #: It occurs in several places or only adds lines, and the text after ``@@`` is no line.
    NO_ANCHOR = auto()
    #: The file has the ``@@`` lines, but not in this order.
    ANCHORS_APART = auto()
    NOT_UNDER_ANCHOR = auto()
    NOT_AT_END = auto()
    OVERLAP = auto()
    #: Another hunk adds the same lines at the same place.
    REPEATED = auto()
    #: It only adds lines, and its place is given only by Git's ``@@ -1,3 +1,3 @@``.
    RANGE_ALONE = auto()
    #: The indentation of its added lines is not certain.
    SHIFT = auto()


class Problem(Exception):
    """A hunk has no place; ``places``: the candidates."""

    def __init__(
        self,
        reason: Reason,
        hunk: Hunk,
        places: Sequence[int] = (),
        rung: Rung = Rung.EXACT,
        anchor: str = "",
        other: Hunk | None = None,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.hunk = hunk
        self.places = places
        self.rung = rung
        self.anchor = anchor
        self.other = other


class Group(msgspec.Struct, frozen=True):
    """Lines ``start`` to ``end`` (exclusive, from 0) are replaced by ``added``."""

    hunk: Hunk
    start: int
    end: int
    added: tuple[HunkLine, ...]

    @property
    def lines(self) -> tuple[str, ...]:
        """The added lines with their terminators."""
        return tuple(line.text + line.end for line in self.added)

    @property
    def unended(self) -> bool:
        """Whether the last line has no terminator if it ends the file."""
        return bool(self.added) and self.added[-1].unended


class Placed(msgspec.Struct, frozen=True, dict=True):
    """A hunk in one of its variants, at a possible place from line ``start`` on."""

    variant: Variant
    start: int
    rung: Rung
    #: Whether all other places are known.
    sure: bool = True
    #: It changes lines before those of an earlier hunk.
    early: bool = False
    #: A text after its ``@@`` is not in the file.
    described: bool = False

    @property
    def hunk(self) -> Hunk:
        """The whole hunk."""
        return self.variant.hunk

    @property
    def core(self) -> int:
        """The first line of the part of the hunk that all variants have."""
        return self.start + self.variant.kept

    @property
    def end(self) -> int:
        """The line after the last covered line."""
        return self.start + self.variant.size

    @cached_property
    def groups(self) -> list[Group]:
        """The groups of changed lines, in order."""
        groups: list[Group] = []
        only_adds = all(line.sign == ADDED for line in self.variant.lines)
        at = begins = self.end if only_adds else self.start
        added: list[HunkLine] = []
        for line in (*self.variant.lines, HunkLine(CONTEXT, "", 0)):
            if line.sign == ADDED:
                added.append(line)
            elif line.sign == REMOVED:
                at += 1
            else:
                if added or at > begins:
                    groups.append(Group(self.hunk, begins, at, tuple(added)))
                at += 1
                begins, added = at, []
        return groups

    def disturbs(self, other: Placed) -> bool:
        """Whether two hunks overlap in more than context."""
        low, high = max(self.start, other.start), min(self.end, other.end)
        if low >= high:
            return False
        mine, theirs = ({(each.start, each.end) for each in one.groups} for one in (self, other))
        if any(start < high and end > low for start, end in mine | theirs):
            return True
        both_only_add = not self.hunk.old and not other.hunk.old
        return bool(mine & theirs) and not both_only_add


#: The rungs, the strictest first.
ORDER = {rung: number for number, rung in enumerate(Rung)}
#: Chooses, of the places that a rung found for a variant, those that fit the ``@@`` line's places.
Choice = Callable[[Variant, Found, Sequence[int]], Sequence[int]]


class Placer:
    """Places the hunks of one update in order; ``first``: takes the first of several places."""

    def __init__(self, document: Document, hunks: Sequence[Hunk], *, first: bool = False) -> None:
        self.placed: list[Placed] = []
        #: The placed hunks' first lines with their numbers, ascending; the most lines of one hunk.
        self._starts: list[tuple[int, int]] = []
        self._largest = 0
        self._document = document
        self._first = first
        self._cursor = 0
        #: The end of the placed hunks, their last context lines included.
        self._covered = 0
        self._known = {
            hunk.index: [text for text in hunk.anchors if self._standing(text, 0)] for hunk in hunks
        }
        #: By kind, the number of hunks still to place, and the number of placed ones.
        self._left = Counter(map(self._kind, hunks))
        self._done: Counter[object] = Counter()
        #: Cached ends of blocks by their opening lines: hunks are often in the same blocks.
        self._blocks: dict[int, int | None] = {}

    def place(self, hunk: Hunk) -> Placed:
        """Place the next hunk. Raises Problem, and then leaves the cursor."""
        kind = self._kind(hunk)
        try:
            placed = self._sought(hunk) if hunk.old else self._addition(hunk)
        finally:
            self._left[kind] -= 1
        if placed.rung is not Rung.EXACT:
            self._refuse_applied(placed)
        groups = placed.groups
        placed = replace(placed, early=bool(groups) and groups[0].start < self._cursor)
        if placed.variant.size:
            whole = self._first or not groups
            self._cursor = max(self._cursor, placed.end if whole else groups[-1].end)
            self._covered = max(self._covered, placed.end)
        self._done[kind] += 1
        insort(self._starts, (placed.start, len(self.placed)))
        self._largest = max(self._largest, placed.variant.size)
        self.placed.append(placed)
        return placed

    def _refuse_applied(self, placed: Placed) -> None:
        """Refuse a tolerant place if the file already has the new lines, as the ladder does."""
        lines = placed.variant.lines
        old, new = placed.variant.run.lines, [line.text for line in lines if line.sign != REMOVED]
        adds = any(line.sign == ADDED and not is_blank(line.text) for line in lines)
        distinctive = adds and new != old and is_distinctive(new)
        last = placed.end - len(new)  # further in are blocks without the lines around them
        for found in rungs.climb(self._document, Run(new)) if distinctive else ():
            if last == placed.start or any(not placed.start <= at <= last for at in found.places):
                raise Problem(Reason.ABSENT, placed.hunk)

    def _kind(self, hunk: Hunk) -> object:
        """A key that is equal for identical hunks."""
        return hunk.old, tuple(self._known[hunk.index]), hunk.end_of_file

    def _sought(self, hunk: Hunk) -> Placed:
        texts = self._known[hunk.index]
        if texts:
            placed = self._under_anchors(hunk, texts)
        else:
            placed = self._after_cursor(hunk) or self._before_cursor(hunk)
        if placed is not None:
            return placed
        for variant in hunk.variants:
            found = next(rungs.climb(self._document, variant.run), None)
            if found is not None:
                reason = Reason.NOT_UNDER_ANCHOR if texts else Reason.NOT_AT_END
                raise Problem(reason, hunk, found.places, found.rung, texts[-1] if texts else "")
        raise Problem(Reason.ABSENT, hunk)

    def _options(
        self, hunk: Hunk, first: int, anchors: Sequence[int] = (), choose: Choice | None = None
    ) -> list[Placed]:
        """The places from line ``first`` on with the fewest dropped lines, by the strictest rung.

        ``anchors``: lines that match the hunk's ``@@``; a place contains one or comes after it.
        """
        for cost in sorted({variant.cost for variant in hunk.variants}):
            options: list[Placed] = []
            for variant in hunk.variants:
                if variant.cost != cost:
                    continue
                at_least = max(first, anchors[0] + 1 - variant.size) if anchors else first
                for found in self._climb(variant, at_least):
                    chosen = choose(variant, found, anchors) if choose else found.places
                    if chosen:
                        # Places further on don't matter, because the nearest are chosen.
                        sure = found.all or choose is not None
                        options += (Placed(variant, at, found.rung, sure) for at in chosen)
                        break
            if options:
                strictest = min(options, key=lambda option: ORDER[option.rung]).rung
                return [option for option in options if option.rung is strictest]
        return []

    def _climb(self, variant: Variant, first: int) -> Iterator[Found]:
        """A variant's places from line ``first`` on; with ``*** End of File`` only at the end."""
        if variant.hunk.end_of_file:
            first = max(first, self._end - variant.size)
        return rungs.climb(self._document, variant.run, first)

    @cached_property
    def _end(self) -> int:
        """The line after the last one that is not blank."""
        lines = self._document.lines
        return next((at for at in range(len(lines), 0, -1) if not is_blank(lines[at - 1])), 0)

    def _disturbed(self, placed: Placed) -> Placed | None:
        """A placed hunk that this one would overlap."""
        low = bisect_left(self._starts, (placed.start - self._largest, 0))
        high = bisect_left(self._starts, (placed.end, 0))
        near = (self.placed[number] for _, number in self._starts[low:high])
        return next((other for other in near if placed.disturbs(other)), None)

    def _settled(self, options: Sequence[Placed]) -> Placed:
        """The only place, or the first of those for several identical hunks. Raises Problem."""
        if self._first:
            return min(options, key=lambda option: option.core)
        alone = len({option.core for option in options}) == 1
        if options[0].sure and (alone or len(options) == self._left[self._kind(options[0].hunk)]):
            return options[0]
        raise self._several(options)

    def _several(self, options: Sequence[Placed]) -> Problem:
        places = sorted({option.core for option in options})
        hunk, rung = options[0].hunk, options[0].rung
        if hunk.anchors and not self._known[hunk.index]:
            return Problem(Reason.NO_ANCHOR, hunk, places, rung, hunk.anchors[-1])
        return Problem(Reason.SEVERAL, hunk, places, rung)

    def _refuse_rivals(self, chosen: Placed) -> None:
        """Refuse a tolerant place if a rung at least as strict has another free place anywhere."""
        if chosen.rung is Rung.EXACT:
            return
        last = Rung.TYPOGRAPHY if chosen.rung is Rung.INDENT else chosen.rung
        for variant in chosen.hunk.variants:
            for found in self._climb(variant, 0):
                if ORDER[found.rung] > ORDER[last]:
                    break
                if found.rung is chosen.rung:
                    continue
                for at in found.places:
                    rival = Placed(variant, at, found.rung)
                    if rival.core != chosen.core and self._disturbed(rival) is None:
                        raise self._several([chosen, rival])

    # -- without @@

    def _after_cursor(self, hunk: Hunk) -> Placed | None:
        options = self._options(hunk, self._cursor)
        if not options:
            return None
        chosen = self._settled(options)
        if not self._first:
            self._refuse_rivals(chosen)
        return chosen

    def _before_cursor(self, hunk: Hunk) -> Placed | None:
        """The only place before the cursor, apart from those of identical hunks."""
        options = self._options(hunk, 0)
        if not options:
            return None
        if len({option.core for option in options}) > 1 + self._done[self._kind(hunk)]:
            raise self._several(options)
        disturbed = [(option, self._disturbed(option)) for option in options]
        free = [option for option, other in disturbed if other is None]
        others = [other.hunk for _, other in disturbed if other is not None]
        if not free:
            raise _overlap(options[0], others[0])
        if not options[0].sure or len({option.core for option in free}) > 1:
            raise self._several(options)
        return free[0]

    # -- under @@

    def _under_anchors(self, hunk: Hunk, texts: Sequence[str]) -> Placed | None:
        """The nearest place after the ``@@`` lines: after the cursor, else in the whole file."""
        anchors = self._chain(texts, self._cursor)
        options = self._options(hunk, self._cursor, anchors, self._nearest) if anchors else []
        if options:
            chosen = self._settled(options)
            if self._first:
                return chosen
            return self._checked(anchors, self._unless_open(texts, chosen))
        anchors = self._chain(texts, 0)
        if not anchors:
            raise Problem(Reason.ANCHORS_APART, hunk, anchor=texts[-1])
        options = self._options(hunk, 0, anchors, self._nearest_free)
        if not options:  # other hunks may have the places under the anchors
            for option in self._options(hunk, 0, anchors, self._nearest):
                other = self._disturbed(option)
                if other is not None:
                    raise _overlap(option, other.hunk)
            return None
        if len({option.core for option in options}) == 1:
            return options[0] if self._first else self._checked(anchors, options[0])
        following = [option for option in options if option.start >= self._cursor]
        if self._first and following:
            return following[0]
        raise self._several(options)

    def _unless_open(self, texts: Sequence[str], chosen: Placed) -> Placed:
        """The chosen place, or the one in the rest of the block in which the cursor is.

        That is for two hunks of one function which both name it: another function of this name,
        after the cursor, is not meant.
        """
        before = [at for at in self._chain(texts, 0) if at < self._cursor][-1:]
        end = self._end_of_block_above(before, self._cursor)
        return chosen if end is None else self._unless_among(chosen, self._cursor, end)

    def _checked(self, anchors: Sequence[int], chosen: Placed) -> Placed:
        """The place under an ``@@`` line, unless there are signs for another. Raises Problem.

        For a tolerant place there must be no stricter one, and no other in its block. Every place
        must be in the block of its ``@@`` line, or the only one of its rung.
        """
        end = self._end_of_block_above(anchors, chosen.start)
        if chosen.rung is not Rung.EXACT:
            self._refuse_rivals(chosen)
            if end is not None:
                chosen = self._unless_among(chosen, chosen.start, end)
                end = self._end_of_block_above(anchors, chosen.start)
        if end is None or chosen.start < end:
            return chosen
        climbed = rungs.climb(self._document, chosen.variant.run)
        everywhere = next((found for found in climbed if found.rung is chosen.rung), None)
        places = everywhere.places if everywhere else [chosen.start]
        kind = self._kind(chosen.hunk)
        alone = len(places) == 1 and everywhere is not None
        if alone or len(places) == self._left[kind] + self._done[kind]:
            return chosen
        options = [Placed(chosen.variant, at, chosen.rung) for at in places]
        raise self._several(options)

    def _unless_among(self, chosen: Placed, first: int, end: int) -> Placed:
        """The place, unless lines ``first`` to ``end`` have an equally good or better one."""
        for found in self._climb(chosen.variant, first):
            places = [at for at in found.places if at < end and at != chosen.start]
            if places:
                places = sorted((*places, chosen.start))
                return self._settled([Placed(chosen.variant, at, found.rung) for at in places])
            if found.rung is chosen.rung:
                break
        return chosen

    def _end_of_block_above(self, anchors: Sequence[int], line: int) -> int | None:
        """The end of the block of the ``@@`` line above a line; None if there is none."""
        above = bisect_left(anchors, line) - 1
        return self._end_of_block(anchors[above]) if above >= 0 else None

    def _end_of_block(self, opening: int) -> int | None:
        if opening not in self._blocks:
            self._blocks[opening] = block_end(self._document.lines, opening)
        return self._blocks[opening]

    def _nearest(self, variant: Variant, found: Found, anchors: Sequence[int]) -> Sequence[int]:
        """A variant's places that are nearest after an anchor, or contain it."""
        places = found.places
        if not found.all and len(anchors) > 1:
            return places
        chosen: set[int] = set()
        for anchor in anchors:
            holding = bisect_left(places, anchor - variant.size + 1)
            after = bisect_right(places, anchor)
            chosen.update(places[holding : after + 1])
        return sorted(chosen)

    def _nearest_free(
        self, variant: Variant, found: Found, anchors: Sequence[int]
    ) -> Sequence[int]:
        """The nearest places on either side of the placed hunks' end that overlap no hunk."""
        places = found.places
        if not found.all and (len(anchors) > 1 or places[-1:] < [self._covered]):
            return places
        chosen: set[int] = set()
        for anchor in anchors:
            holding = bisect_left(places, anchor - variant.size + 1)
            beyond = bisect_left(places, max(self._covered, anchor + 1))
            for candidates in (places[holding:beyond], places[beyond:]):
                placed = (Placed(variant, at, found.rung) for at in candidates)
                free = (each.start for each in placed if self._disturbed(each) is None)
                chosen.update(islice(free, 1))
        return sorted(chosen)

    def _chain(self, texts: Sequence[str], first: int) -> list[int]:
        """The lines of the last ``@@`` text: nearest after the one before, or in its block."""
        places: list[int] | None = None
        for text in texts:
            here = self._standing(text, first)
            if places is None:
                places = here
                continue
            chosen: set[int] = set()
            for place in places:
                nearest = bisect_right(here, place)
                end = self._end_of_block(place)
                beyond = bisect_left(here, end) if end is not None else 0
                chosen.update(here[nearest : max(nearest + 1, beyond)])
            places = sorted(chosen)
        return places or []

    def _standing(self, text: str, first: int) -> list[int]:
        """The places of a line by the strictest rung that finds it from line ``first`` on."""
        for spelled in filter(None, (text, text.removesuffix("@@").rstrip(" "))):
            found = next(rungs.climb(self._document, Run([spelled]), first), None)
            if found is not None:
                return found.places
        return []

    # -- hunks that only add

    def _addition(self, hunk: Hunk) -> Placed:
        """The place of added lines: after the ``@@`` line, else at the end of the file."""
        texts, count = self._known[hunk.index], self._document.line_count
        if hunk.range not in (None, (count, 0)) and count and not hunk.end_of_file:
            raise Problem(Reason.RANGE_ALONE, hunk)
        for text in () if hunk.end_of_file else hunk.anchors:
            spelled = text.removesuffix("@@").strip(INDENTATION)
            if text not in texts and spelled in self._document.text:
                raise Problem(Reason.NO_ANCHOR, hunk, anchor=text)
        if not texts or hunk.end_of_file or hunk.range:
            described = len(texts) < len(hunk.anchors) and not hunk.range
            variant = Variant(hunk, hunk.lines, size=0)
            return Placed(variant, count, Rung.EXACT, described=described)
        anchors = self._chain(texts, self._cursor)
        early = not anchors
        anchors = anchors or self._chain(texts, 0)
        if not anchors:
            raise Problem(Reason.ANCHORS_APART, hunk, anchor=texts[-1])
        shared_out = len(anchors) == self._left[self._kind(hunk)]
        if len(anchors) > 1 and (early or not (shared_out or self._first)):
            raise Problem(Reason.SEVERAL, hunk, anchors[:MOST_PLACES], anchor=texts[-1])
        placed = Placed(Variant(hunk, hunk.lines, size=1), anchors[0], Rung.EXACT)
        other = self._disturbed(placed)
        if other is not None:
            raise Problem(Reason.OVERLAP, hunk, (placed.end,), other=other.hunk)
        return placed


def _overlap(option: Placed, other: Hunk) -> Problem:
    return Problem(Reason.OVERLAP, option.hunk, (option.core,), option.rung, other=other)
