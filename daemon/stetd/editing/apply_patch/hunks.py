"""Finds the place of each hunk of an update (docs/dialects.md).

Hunks are placed in the order of the patch, each after the *cursor*: the last line that the one
before changes, as hunks share context. The first rung of ``climb`` with a place there decides. A
tolerant place is refused if a stricter rung has a free one elsewhere, because neither is certain.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache, cached_property, partial
from itertools import chain, groupby, islice
from operator import attrgetter

import msgspec
from msgspec.structs import replace

from stet.wire.failures import Failure, Kind, Refused
from stetd.editing import refusals
from stetd.editing.apply_patch.grammar import ADDED, CONTEXT, REMOVED, Hunk, HunkLine, subject_of
from stetd.editing.edits import SourceFile
from stetd.editing.matching import rungs
from stetd.editing.matching.ladder import is_distinctive
from stetd.editing.matching.rungs import MOST_PLACES, Found, Run, Rung
from stetd.editing.refusals import spelled_lines, visible
from stetd.editing.text import INDENTATION, indentation_of, is_blank

_TAB = 8
_GO_ON = tuple("()[]{}#/*")
_start = attrgetter("start")


def block_end(lines: Sequence[str], opening: int) -> int | None:
    """The line after the block that line ``opening`` (from 0) opens; None if it opens none."""
    depth = _depth(lines[opening])
    following = range(opening + 1, len(lines))
    end = next((at for at in following if not _goes_on(lines[at], depth)), len(lines))
    return end if any(not is_blank(lines[at]) for at in range(opening + 1, end)) else None


def _goes_on(line: str, depth: int) -> bool:
    """Whether a line does not end a block whose first line is so deep."""
    return is_blank(line) or line.lstrip().startswith(_GO_ON) or _depth(line) > depth


def _depth(line: str) -> int:
    return len(indentation_of(line).expandtabs(_TAB))


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
    """A hunk, or a variant of one, at a possible place from line ``start`` on."""

    hunk: Hunk
    start: int
    rung: Rung = Rung.EXACT
    #: Whether all other places are known.
    sure: bool = True
    #: It only adds lines, below line ``start``.
    below: bool = False
    #: It changes lines before those of an earlier hunk.
    early: bool = False
    #: A text after its ``@@`` is not in the file.
    described: bool = False

    @property
    def core(self) -> int:
        """The first line of the part of the hunk that all variants have."""
        return self.start + self.hunk.lead

    @property
    def end(self) -> int:
        """The line after the last covered line."""
        return self.start + len(self.hunk.old) + self.below

    @cached_property
    def groups(self) -> list[Group]:
        """The groups of changed lines, in order."""
        groups: list[Group] = []
        at = self.start if self.hunk.old else self.end
        for kept, run in groupby(self.hunk.lines, lambda line: line.sign == CONTEXT):
            lines = tuple(run)
            added = tuple(line for line in lines if line.sign == ADDED)
            end = at + len(lines) - len(added)
            if not kept:
                groups.append(Group(self.hunk, at, end, added))
            at = end
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


class Placer:
    """Places the hunks of one update in order; ``first``: takes the first of several places."""

    def __init__(self, file: SourceFile, hunks: Sequence[Hunk], *, first: bool) -> None:
        self.placed: list[Placed] = []
        #: The placed hunks by their first lines; no hunk has more lines of the file than this.
        self._by_start: list[Placed] = []
        self._largest = max((len(hunk.old) for hunk in hunks), default=0) + 1
        self._document = file.document
        self._path = file.path
        self._first = first
        self._cursor = 0
        #: The end of the placed hunks, their last context lines included.
        self._covered = 0
        self._known = {
            hunk.index: [text for text in hunk.anchors if self._standing(text, 0)] for hunk in hunks
        }
        #: By index, a key that is equal for identical hunks.
        self._kinds = {
            hunk.index: (hunk.old, tuple(self._known[hunk.index]), hunk.end_of_file)
            for hunk in hunks
        }
        #: By kind, the number of hunks after the present one, and the number of placed ones.
        self._later = Counter(self._kinds.values())
        self._done: Counter[object] = Counter()

    def place(self, hunk: Hunk) -> Placed | None:
        """Place the next hunk; None if its old lines are absent. Raises Refused.

        Without a place the cursor stays.
        """
        kind = self._kinds[hunk.index]
        self._later[kind] -= 1
        placed = self._sought(hunk) if hunk.old else self._addition(hunk)
        if placed is None or (placed.rung is not Rung.EXACT and self._is_applied(placed)):
            return None
        groups = placed.groups
        placed = replace(placed, early=bool(groups) and groups[0].start < self._cursor)
        if placed.end > placed.start:
            whole = self._first or not groups
            self._cursor = max(self._cursor, placed.end if whole else groups[-1].end)
            self._covered = max(self._covered, placed.end)
        self._done[kind] += 1
        insort(self._by_start, placed, key=_start)
        self.placed.append(placed)
        return placed

    def _is_applied(self, placed: Placed) -> bool:
        """Whether the file already has the new lines, so that a tolerant place is not meant."""
        lines = placed.hunk.lines
        new = tuple(line.text for line in lines if line.sign != REMOVED)
        adds = any(line.sign == ADDED and not is_blank(line.text) for line in lines)
        if not adds or new == placed.hunk.old or not is_distinctive(new):
            return False
        last = placed.end - len(new)  # further in are blocks without the lines around them
        return any(
            last == placed.start or any(not placed.start <= at <= last for at in found.places)
            for found in rungs.climb(self._document, Run(new))
        )

    def _sought(self, hunk: Hunk) -> Placed | None:
        texts = self._known[hunk.index]
        placed = self._under_anchors(hunk, texts) if texts else self._without_anchors(hunk)
        if placed is None:
            self._refuse_elsewhere(hunk, texts)
        return placed

    def _options(
        self, hunk: Hunk, first: int, anchors: Sequence[int] = (), *, free: bool = False
    ) -> list[Placed]:
        """The places from line ``first`` on with the fewest dropped lines, by the strictest rung.

        ``anchors``: lines that match the hunk's ``@@``; only the places nearest to them are given,
        or with ``free`` the nearest that overlap no placed hunk.
        """
        for cost in range(3):
            options: list[Placed] = []
            for dropped, variant in hunk.variants:
                if dropped != cost:
                    continue
                at_least = max(first, anchors[0] + 1 - len(variant.old)) if anchors else first
                for found in self._climb(variant, at_least):
                    chosen: Sequence[int] = found.places
                    if anchors:
                        chosen = self._nearest(variant, found, anchors, free=free)
                    if chosen:
                        # Places further on don't matter, because the nearest are chosen.
                        sure = found.all or bool(anchors)
                        options += (Placed(variant, at, found.rung, sure) for at in chosen)
                        break
            if options:
                strictest = min(options, key=lambda option: ORDER[option.rung]).rung
                return [option for option in options if option.rung is strictest]
        return []

    def _climb(self, variant: Hunk, first: int) -> Iterator[Found]:
        """A variant's places from line ``first`` on; with ``*** End of File`` only at the end."""
        if variant.end_of_file:
            first = max(first, self._end - len(variant.old))
        return rungs.climb(self._document, variant.run, first)

    @cached_property
    def _end(self) -> int:
        """The line after the last one that is not blank."""
        lines = self._document.lines
        return next((at for at in range(len(lines), 0, -1) if not is_blank(lines[at - 1])), 0)

    def _disturbed(self, placed: Placed) -> Placed | None:
        """A placed hunk that this one would overlap."""
        low = bisect_left(self._by_start, placed.start - self._largest, key=_start)
        high = bisect_left(self._by_start, placed.end, key=_start)
        return next((other for other in self._by_start[low:high] if placed.disturbs(other)), None)

    def _settled(self, options: Sequence[Placed]) -> Placed:
        """The only place, or the first of those for several identical hunks. Raises Refused."""
        if self._first:
            return min(options, key=lambda option: option.core)
        identical = 1 + self._later[self._kinds[options[0].hunk.index]]
        if options[0].sure and (len(options) == identical or len({o.core for o in options}) == 1):
            return options[0]
        raise self._several(options)

    def _refuse_rivals(self, hunk: Hunk, chosen: Placed) -> None:
        """Refuse a tolerant place if a rung at least as strict has another free place anywhere."""
        last = Rung.TYPOGRAPHY if chosen.rung is Rung.INDENT else chosen.rung
        for _, variant in hunk.variants:
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

    def _without_anchors(self, hunk: Hunk) -> Placed | None:
        """The only place after the cursor, else before it, apart from those of identical hunks."""
        options = self._options(hunk, self._cursor)
        if options:
            chosen = self._settled(options)
            if not self._first and chosen.rung is not Rung.EXACT:
                self._refuse_rivals(hunk, chosen)
            return chosen
        options = self._options(hunk, 0)
        if not options:
            return None
        if len({option.core for option in options}) > 1 + self._done[self._kinds[hunk.index]]:
            raise self._several(options)
        free = [option for option in options if self._disturbed(option) is None]
        if not free:
            self._refuse_overlap(options[0])
        if not options[0].sure or len({option.core for option in free}) > 1:
            raise self._several(options)
        return free[0]

    # -- under @@

    def _under_anchors(self, hunk: Hunk, texts: Sequence[str]) -> Placed | None:
        """The nearest place after the ``@@`` lines: after the cursor, else in the whole file."""
        anchors = self._chain(texts, self._cursor)
        options = self._options(hunk, self._cursor, anchors) if anchors else []
        if options:
            chosen = self._settled(options)
            if self._first:
                return chosen
            # Two hunks of one function may both name it: in the rest of the block in which the
            # cursor is, another function of this name after the cursor is not meant.
            end = self._end_of_block_above(self._chain(texts, 0), self._cursor)
            if end is not None:
                chosen = self._unless_among(chosen, self._cursor, end)
            return self._checked(hunk, anchors, chosen)
        anchors = self._anchors(hunk, texts)
        options = self._options(hunk, 0, anchors, free=True)
        if not options:  # other hunks may have the places under the anchors
            for option in self._options(hunk, 0, anchors):
                self._refuse_overlap(option)
            return None
        if len({option.core for option in options}) == 1:
            return options[0] if self._first else self._checked(hunk, anchors, options[0])
        following = [option for option in options if option.start >= self._cursor]
        if self._first and following:
            return following[0]
        raise self._several(options)

    def _checked(self, hunk: Hunk, anchors: Sequence[int], chosen: Placed) -> Placed:
        """The place under an ``@@`` line, unless there are signs for another. Raises Refused.

        For a tolerant place there must be no stricter one, and no other in its block. Every place
        must be in the block of its ``@@`` line, or the only one of its rung.
        """
        end = self._end_of_block_above(anchors, chosen.start)
        if chosen.rung is not Rung.EXACT:
            self._refuse_rivals(hunk, chosen)
            if end is not None:
                chosen = self._unless_among(chosen, chosen.start, end)
        if end is None or chosen.start < end:
            return chosen
        climbed = rungs.climb(self._document, chosen.hunk.run)
        everywhere = next((found.places for found in climbed if found.rung is chosen.rung), None)
        places = everywhere or [chosen.start]
        alone = everywhere is not None and len(everywhere) == 1
        kind = self._kinds[chosen.hunk.index]
        identical = 1 + self._later[kind] + self._done[kind]
        if alone or len(places) == identical:
            return chosen
        raise self._several([Placed(chosen.hunk, at, chosen.rung) for at in places])

    def _unless_among(self, chosen: Placed, first: int, end: int) -> Placed:
        """The place, unless lines ``first`` to ``end`` have an equally good or better one."""
        for found in self._climb(chosen.hunk, first):
            places = [at for at in found.places if at < end and at != chosen.start]
            if places:
                places = sorted((*places, chosen.start))
                return self._settled([Placed(chosen.hunk, at, found.rung) for at in places])
            if found.rung is chosen.rung:
                break
        return chosen

    def _end_of_block_above(self, anchors: Sequence[int], line: int) -> int | None:
        """The end of the block of the ``@@`` line above a line; None if there is none."""
        above = bisect_left(anchors, line) - 1
        return self._block_end(anchors[above]) if above >= 0 else None

    @cached_property
    def _block_end(self) -> Callable[[int], int | None]:
        """The end of the block of a line; cached, because hunks are often in the same blocks."""
        return cache(partial(block_end, self._document.lines))

    def _nearest(
        self, variant: Hunk, found: Found, anchors: Sequence[int], *, free: bool
    ) -> Sequence[int]:
        """A variant's places that are nearest after an anchor, or contain it.

        ``free``: only the nearest on either side of the placed hunks' end that overlap no hunk.
        """
        places, covered = found.places, self._covered if free else 0
        if not found.all and (len(anchors) > 1 or places[-1] < covered):
            return places
        chosen: set[int] = set()
        for anchor in anchors:
            holding = bisect_left(places, anchor - len(variant.old) + 1)
            beyond = bisect_left(places, max(covered, anchor + 1))
            if not free:
                chosen.update(places[holding : beyond + 1])
                continue
            for candidates in (places[holding:beyond], places[beyond:]):
                placed = (Placed(variant, at, found.rung) for at in candidates)
                starts = (each.start for each in placed if self._disturbed(each) is None)
                chosen.update(islice(starts, 1))
        return sorted(chosen)

    def _anchors(self, hunk: Hunk, texts: Sequence[str]) -> list[int]:
        """The places of the last ``@@`` text in the whole file. Raises Refused without any."""
        anchors = self._chain(texts, 0)
        if not anchors:
            sentence = (
                f"the lines of its @@ all stand in {self._path}, but not in this order: no "
                f"{visible(texts[-1])} comes after the one before it. Send them outermost first."
            )
            raise self._refused(hunk, Kind.CONTEXT_NOT_FOUND, sentence)
        return anchors

    def _chain(self, texts: Sequence[str], first: int) -> list[int]:
        """The lines of the last ``@@`` text: nearest after the one before, or in its block."""
        places = self._standing(texts[0], first)
        for text in texts[1:]:
            here = self._standing(text, first)
            chosen: set[int] = set()
            for place in places:
                nearest = bisect_right(here, place)
                beyond = bisect_left(here, self._block_end(place) or 0)
                chosen.update(here[nearest : max(nearest + 1, beyond)])
            places = sorted(chosen)
        return places

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
            sentence = (
                "the hunk only adds lines, and line numbers alone don't say where: they may have "
                "changed. Give unchanged lines around those you add; to add them at the end of "
                f"{self._path}, send @@ without numbers."
            )
            raise self._refused(hunk, Kind.CONTEXT_NOT_FOUND, sentence)
        for text in () if hunk.end_of_file else hunk.anchors:
            spelled = text.removesuffix("@@").strip(INDENTATION)
            if text not in texts and spelled in self._document.text:
                raise self._no_anchor(hunk, text, "only adds lines")
        if not texts or hunk.end_of_file or hunk.range:
            described = len(texts) < len(hunk.anchors) and not hunk.range
            return Placed(hunk, count, described=described)
        anchors = self._chain(texts, self._cursor)
        early = not anchors
        anchors = anchors or self._anchors(hunk, texts)
        shared_out = len(anchors) == 1 + self._later[self._kinds[hunk.index]]
        if len(anchors) > 1 and (early or not (shared_out or self._first)):
            lines = [at + 1 for at in anchors[:MOST_PLACES]]
            sentence = (
                f"the line {visible(texts[-1])} of its @@ stands "
                f"{refusals.repeated(lines, self._path)}, so after which one to add can't be told. "
                "Give unchanged lines around those you add."
            )
            raise self._refused(hunk, Kind.OLD_TEXT_NOT_UNIQUE, sentence, lines)
        placed = Placed(hunk, anchors[0], below=True)
        self._refuse_overlap(placed, placed.end + 1)
        return placed

    # -- refusals

    def _refuse_elsewhere(self, hunk: Hunk, texts: Sequence[str]) -> None:
        """Refuse a hunk that stands only where its ``@@`` or ``*** End of File`` rules it out."""
        climbs = (rungs.climb(self._document, variant.run) for _, variant in hunk.variants)
        found = next(chain.from_iterable(climbs), None)
        if found is None:
            return
        lines = [at + 1 for at in found.places]
        if texts:
            wanted = (
                f"after the line {visible(texts[-1])} of its @@. After @@ send a line that stands "
                "above the place, or nothing."
            )
        else:
            wanted = (
                "at its end, as *** End of File says. Leave that out, or send the lines that the "
                "file ends with."
            )
        failure = subject_of(hunk, self._path).failure(
            Kind.OLD_TEXT_NOT_FOUND,
            f"the hunk stands {spelled_lines(lines)} of {self._path}, but not {wanted}",
            line=lines[0],
            candidates=lines,
        )
        raise Refused(failure)

    def _refused(self, hunk: Hunk, kind: Kind, sentence: str, lines: Sequence[int] = ()) -> Refused:
        return Refused(
            subject_of(hunk, self._path).failure(kind, sentence, candidates=lines or None)
        )

    def _several(self, options: Sequence[Placed]) -> Refused:
        lines = sorted({option.core + 1 for option in options})
        hunk = options[0].hunk
        if hunk.anchors and not self._known[hunk.index]:
            itself = f"stands {len(lines)} times, {spelled_lines(lines)}"
            return self._no_anchor(hunk, hunk.anchors[-1], itself, lines)
        sentence = (
            f"the hunk stands {refusals.repeated(lines, self._path, options[0].rung)}; it must "
            "stand there once. Add unchanged lines around it until it does, or put the line of the "
            "function or class above the place after @@."
        )
        return self._refused(hunk, Kind.OLD_TEXT_NOT_UNIQUE, sentence, lines)

    def _no_anchor(self, hunk: Hunk, text: str, itself: str, lines: Sequence[int] = ()) -> Refused:
        sentence = (
            f"no line of {self._path} reads {visible(text)}, and the hunk itself {itself}. "
            "After @@ send a whole line that stands above the place, or more of the unchanged "
            "lines around it."
        )
        return self._refused(hunk, Kind.CONTEXT_NOT_FOUND, sentence, lines)

    def _refuse_overlap(self, option: Placed, line: int | None = None) -> None:
        other = self._disturbed(option)
        if other is not None:
            line = line or option.core + 1
            raise Refused(overlap(option.hunk, other.hunk, self._path, line))


def overlap(hunk: Hunk, other: Hunk, path: str, line: int, *, repeated: bool = False) -> Failure:
    """The failure of a hunk that changes the lines of ``other``, or adds the same ones there."""
    name = f"hunk {other.number} (line {other.line} of the patch)"
    what = (
        f"adds the same lines as {name} at the same place, line {line} of {path}"
        if repeated
        else f"changes the same lines as {name}, at line {line} of {path}"
    )
    sentence = f"{what}. Leave one of them out, or join the two into one hunk."
    return subject_of(hunk, path).failure(Kind.OVERLAPPING_EDITS, sentence, line=line)
