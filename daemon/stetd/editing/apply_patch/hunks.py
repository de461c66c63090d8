"""Which place each hunk of an update takes (DIALECTS.md 4).

Hunks are placed in the order of the patch, each from a *cursor* on: the end of the hunk before.
The first rung of ``climb`` with a place after the cursor decides. A tolerant place is refused
while a stricter rung finds a free one elsewhere: which was meant can't be known.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import cached_property
from itertools import pairwise

import msgspec
from msgspec.structs import replace

from stetd.editing.apply_patch.grammar import ADDED, CONTEXT, REMOVED, Hunk, HunkLine
from stetd.editing.matching.ladder import is_distinctive
from stetd.editing.matching.normal_forms import indentation_of
from stetd.editing.matching.rungs import PLACES, FileLines, Found, Run, Rung
from stetd.editing.text import Document, is_blank

_TAB = 8
_GO_ON = tuple("()[]{}#/*")


def block_end(lines: Sequence[str], opening: int) -> int | None:
    """The line after the block that line ``opening`` opens, from 0; None where it opens none."""
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
    #: It occurs in several places, and the text after ``@@`` that might settle it in none.
    NO_ANCHOR = auto()
    #: The ``@@`` lines are in the file, but not in this order.
    ANCHORS_APART = auto()
    NOT_UNDER_ANCHOR = auto()
    NOT_AT_END = auto()
    OVERLAP = auto()
    #: It only adds lines, and only its place is given, by Git's ``@@ -1,3 +1,3 @@``.
    RANGE_ALONE = auto()
    #: How its added lines are to be indented can't be known.
    SHIFT = auto()


class Problem(msgspec.Struct, frozen=True):
    """A hunk that has no place; ``places``: where it might have had one."""

    reason: Reason
    hunk: Hunk
    places: tuple[int, ...] = ()
    rung: Rung = Rung.EXACT
    anchor: str = ""
    other: Hunk | None = None
    identical: bool = False


class Group(msgspec.Struct, frozen=True):
    """Lines ``start`` to ``end`` (not included) give way to ``added``."""

    start: int
    end: int
    added: tuple[HunkLine, ...]


class Placed(msgspec.Struct, frozen=True, dict=True):
    """A hunk at its place: ``lines``, which are what is left of it, from line ``start`` on."""

    hunk: Hunk
    lines: tuple[HunkLine, ...]
    start: int
    #: How many lines of the file it covers; if it only adds, the line after which it does, if any.
    size: int
    rung: Rung
    #: It changes lines before those that a hunk above it changes.
    early: bool = False
    #: A text after its ``@@`` is not found.
    described: bool = False

    @property
    def end(self) -> int:
        """The line after the last one that it covers."""
        return self.start + self.size

    @cached_property
    def groups(self) -> list[Group]:
        """Where lines change, in order."""
        groups: list[Group] = []
        only_adds = all(line.sign == ADDED for line in self.lines)
        at = begins = self.end if only_adds else self.start
        added: list[HunkLine] = []
        for line in (*self.lines, HunkLine(CONTEXT, "", 0)):
            if line.sign == ADDED:
                added.append(line)
            elif line.sign == REMOVED:
                at += 1
            else:
                if added or at > begins:
                    groups.append(Group(begins, at, tuple(added)))
                at += 1
                begins, added = at, []
        return groups

    def disturbs(self, other: Placed) -> bool:
        """Whether the two share more than context."""
        low, high = max(self.start, other.start), min(self.end, other.end)
        if low >= high:
            return False
        mine, theirs = ({(each.start, each.end) for each in one.groups} for one in (self, other))
        if any(start < high and end > low for start, end in mine | theirs):
            return True
        both_only_add = not self.hunk.old and not other.hunk.old
        return bool(mine & theirs) and not both_only_add


#: The rungs from the strictest on.
ORDER = {rung: number for number, rung in enumerate(Rung)}


@dataclass(frozen=True)
class Form:
    """A hunk without some lines at its edges."""

    lines: tuple[HunkLine, ...]
    #: How many bare lines are left at the beginning.
    kept: int
    #: At how many edges lines were dropped.
    cost: int

    @cached_property
    def run(self) -> Run:
        """The old lines."""
        return Run([line.text for line in self.lines if line.sign != ADDED])

    @property
    def size(self) -> int:
        """How many lines of the file it covers."""
        return len(self.run.lines)


class Option(msgspec.Struct, frozen=True):
    """A place for a form. ``sure``: all other places are known too."""

    form: Form
    place: int
    rung: Rung
    sure: bool = True

    @property
    def core(self) -> int:
        """The line at which that part of the hunk begins that every form has."""
        return self.place + self.form.kept


#: What the rungs find for a form.
Search = Callable[[Form], Iterator[Found]]
#: Which of the places that a rung found for a form count.
Filter = Callable[[Form, Found], list[int]]


def forms_of(hunk: Hunk) -> list[Form]:
    """The hunk as it is, and without what may be dropped, the least dropped first."""
    lead, tail = hunk.bare_edges
    edges = [(0, 0), (lead, 0), (0, tail), (lead, tail)]
    if hunk.end_of_file:
        edges.append((0, hunk.blank_context_at_end))
    forms: list[Form] = []
    for head, foot in edges:
        lines = hunk.lines[head : len(hunk.lines) - foot]
        known = any(lines == form.lines for form in forms)
        if not known and any(line.sign != ADDED for line in lines):
            forms.append(Form(lines, lead - head, bool(head) + bool(foot)))
    return forms


def options_of(
    forms: Sequence[Form], search: Search, counting: Filter, *, nearest: bool = False
) -> list[Option]:
    """The places with the least dropped, by the strictest rung.

    ``nearest``: ``counting`` chooses among the places, so more of them further on don't matter.
    """
    for cost in sorted({form.cost for form in forms}):
        options: list[Option] = []
        for form in forms:
            if form.cost != cost:
                continue
            counted = ((each, counting(form, each)) for each in search(form))
            found, places = next((each for each in counted if each[1]), (None, []))
            if found is not None:
                sure = found.all or nearest
                options += (Option(form, place, found.rung, sure) for place in places)
        if options:
            order = min(ORDER[option.rung] for option in options)
            return [option for option in options if ORDER[option.rung] == order]
    return []


class Placer:
    """Places the hunks of one update in turn; ``first``: each in the first of several places."""

    def __init__(self, document: Document, hunks: Sequence[Hunk], *, first: bool = False) -> None:
        self.placed: list[Placed] = []
        #: Where they begin, with their numbers, ascending; and the most lines that one covers.
        self._starts: list[tuple[int, int]] = []
        self._largest = 0
        self._document = document
        self._file = document.form(FileLines)
        self._first = first
        self._cursor = 0
        #: The line after the last one that has been changed, but for lines put at the end.
        self._changed = 0
        self._known = {
            hunk.index: [text for text in hunk.anchors if self._standing(text, 0)] for hunk in hunks
        }
        #: How many hunks of a kind are still to be placed, and how many are.
        self._left = Counter(map(self._signature, hunks))
        self._done: Counter[object] = Counter()
        #: Where blocks end, by the lines that open them: hunks often stand in the same ones.
        self._blocks: dict[int, int | None] = {}

    def place(self, hunk: Hunk) -> Placed | Problem:
        """The place of the next hunk. One that has none leaves the cursor where it is."""
        found = self._sought(hunk) if hunk.old else self._addition(hunk)
        self._left[self._signature(hunk)] -= 1
        if isinstance(found, Placed) and found.rung is not Rung.EXACT:
            found = self._unless_applied(found)
        if isinstance(found, Placed):
            groups = found.groups
            found = replace(found, early=bool(groups) and groups[0].start < self._changed)
            if groups and found.size:
                self._changed = max(self._changed, groups[-1].end)
            self._done[self._signature(hunk)] += 1
            insort(self._starts, (found.start, len(self.placed)))
            self._largest = max(self._largest, found.size)
            self.placed.append(found)
            if found.size:
                self._cursor = max(self._cursor, found.end)
        return found

    def _unless_applied(self, placed: Placed) -> Placed | Problem:
        """A place found with tolerance, unless the new lines are in the file (as the ladder)."""
        old = [line.text for line in placed.lines if line.sign != ADDED]
        new = [line.text for line in placed.lines if line.sign != REMOVED]
        adds = any(line.sign == ADDED and not is_blank(line.text) for line in placed.lines)
        telling = adds and is_distinctive(new)
        for found in self._file.climb(Run(new)) if new and new != old else ():
            around = (
                at <= placed.start and placed.end <= at + len(new) and len(new) > placed.size
                for at in found.places
            )
            if telling or any(around):
                return Problem(Reason.ABSENT, placed.hunk)
        return placed

    def _signature(self, hunk: Hunk) -> object:
        return hunk.old, tuple(self._known[hunk.index]), hunk.end_of_file

    def _sought(self, hunk: Hunk) -> Placed | Problem:
        forms, anchors = forms_of(hunk), self._known[hunk.index]
        described = len(anchors) < len(hunk.anchors)
        if anchors:
            chosen = self._under_anchors(hunk, forms, anchors)
        else:
            chosen = self._after_cursor(hunk, forms) or self._before_cursor(hunk, forms)
        if isinstance(chosen, Option):
            return self._at(hunk, chosen, described=described)
        if chosen is None:
            for form in forms:
                found = next(self._file.climb(form.run), None)
                if found is not None:
                    reason = Reason.NOT_UNDER_ANCHOR if anchors else Reason.NOT_AT_END
                    anchor = anchors[-1] if anchors else ""
                    return Problem(reason, hunk, tuple(found.places), found.rung, anchor)
            return Problem(Reason.ABSENT, hunk)
        if chosen.reason is Reason.SEVERAL and described and not anchors:
            text = hunk.anchors[-1]
            return Problem(Reason.NO_ANCHOR, hunk, chosen.places, chosen.rung, text)
        return chosen

    def _at(self, hunk: Hunk, option: Option, *, described: bool = False) -> Placed:
        form = option.form
        return Placed(hunk, form.lines, option.place, form.size, option.rung, described=described)

    def _disturbed(self, placed: Placed) -> Placed | None:
        """The hunk that this one would get in the way of."""
        low = bisect_left(self._starts, (placed.start - self._largest, 0))
        high = bisect_left(self._starts, (placed.end, 0))
        near = (self.placed[number] for _, number in self._starts[low:high])
        return next((other for other in near if placed.disturbs(other)), None)

    # -- without @@

    def _after_cursor(self, hunk: Hunk, forms: Sequence[Form]) -> Option | Problem | None:
        options = options_of(forms, self._from(hunk, self._cursor), self._ending(hunk))
        if not options:
            return None
        chosen = self._settled(hunk, options)
        if isinstance(chosen, Problem) or chosen.rung is Rung.EXACT or self._first:
            return chosen
        rival = self._rival(hunk, forms, chosen)
        return _several(hunk, [chosen, rival]) if rival else chosen

    def _rival(self, hunk: Hunk, forms: Sequence[Form], than: Option) -> Option | None:
        """Another free place, anywhere, by a stricter rung than ``than``, or one as strict."""
        ending = self._ending(hunk)
        last = Rung.TYPOGRAPHY if than.rung is Rung.INDENT else than.rung
        for form in forms:
            for found in self._from(hunk, 0)(form):
                if ORDER[found.rung] > ORDER[last]:
                    break
                if found.rung is than.rung:
                    continue
                for place in ending(form, found):
                    option = Option(form, place, found.rung)
                    if option.core != than.core and self._disturbed(self._at(hunk, option)) is None:
                        return option
        return None

    def _before_cursor(self, hunk: Hunk, forms: Sequence[Form]) -> Option | Problem | None:
        """The only place there is, but for those that identical hunks have taken."""
        options = options_of(forms, self._from(hunk, 0), self._ending(hunk))
        cores = {option.core for option in options}
        if not options or len(cores) > 1 + self._done[self._signature(hunk)]:
            return _several(hunk, options) if options else None
        disturbed = [(option, self._disturbed(self._at(hunk, option))) for option in options]
        free = [option for option, other in disturbed if other is None]
        others = [other.hunk for _, other in disturbed if other is not None]
        if not free:
            place = options[0].core
            return Problem(Reason.OVERLAP, hunk, (place,), options[0].rung, other=others[0])
        strangers = any(self._signature(other) != self._signature(hunk) for other in others)
        alone = options[0].sure and not strangers and len({each.core for each in free}) == 1
        return free[0] if alone else _several(hunk, options)

    def _ending(self, hunk: Hunk) -> Filter:
        """All places; with ``*** End of File`` those at the end."""
        if not hunk.end_of_file:
            return lambda _, found: found.places
        return lambda form, found: [at for at in found.places if at + form.size >= self._end]

    def _from(self, hunk: Hunk, line: int) -> Search:
        """The search for forms that may match from ``line`` on."""
        if hunk.end_of_file:
            return lambda form: self._file.climb(form.run, max(line, self._end - form.size))
        return lambda form: self._file.climb(form.run, line)

    @cached_property
    def _end(self) -> int:
        """The line after the last one that is not blank."""
        lines = self._document.lines
        return next((at for at in range(len(lines), 0, -1) if not is_blank(lines[at - 1])), 0)

    def _settled(self, hunk: Hunk, options: Sequence[Option]) -> Option | Problem:
        """The one place, or the first of those that several hunks share out."""
        if self._first:
            return min(options, key=lambda option: option.core)
        if not options[0].sure:
            return _several(hunk, options)
        if len({option.core for option in options}) == 1:
            return options[0]
        apart = all(b.place - a.place >= a.form.size for a, b in pairwise(options))
        if apart and len(options) == self._left[self._signature(hunk)]:
            return options[0]
        return _several(hunk, options)

    # -- under @@

    def _under_anchors(
        self, hunk: Hunk, forms: Sequence[Form], texts: Sequence[str]
    ) -> Option | Problem | None:
        """The place nearest after the ``@@`` lines: from the cursor, else in the whole file."""
        anchors = self._chain(texts, self._cursor)
        if anchors:
            search = self._from_anchors(hunk, anchors, self._cursor)
            counting = self._nearest(hunk, anchors)
            options = options_of(forms, search, counting, nearest=True)
            if options:
                chosen = self._settled(hunk, options)
                chosen = self._unless_open(hunk, texts, chosen)
                chosen = self._unless_tolerant(hunk, forms, anchors, chosen)
                return self._within_block(hunk, anchors, chosen)
        anchors = self._chain(texts, 0)
        if not anchors:
            return Problem(Reason.ANCHORS_APART, hunk, anchor=texts[-1])
        search = self._from_anchors(hunk, anchors, 0)
        counting = self._nearest_free(hunk, anchors)
        options = options_of(forms, search, counting, nearest=True)
        if not options:  # are other hunks where it is under the anchors?
            counting = self._nearest(hunk, anchors)
            for option in options_of(forms, search, counting, nearest=True):
                other = self._disturbed(self._at(hunk, option))
                if other is not None:
                    place = (option.core,)
                    return Problem(Reason.OVERLAP, hunk, place, option.rung, other=other.hunk)
            return None
        if len({option.core for option in options}) == 1:
            chosen = self._unless_tolerant(hunk, forms, anchors, options[0])
            return self._within_block(hunk, anchors, chosen)
        following = [option for option in options if option.place >= self._cursor]
        return following[0] if self._first and following else _several(hunk, options)

    def _unless_open(
        self, hunk: Hunk, texts: Sequence[str], chosen: Option | Problem
    ) -> Option | Problem:
        """The place under an ``@@`` line after the cursor, unless the cursor is in such a block.

        Two hunks in a function often name it both; one like it after the cursor is not meant.
        """
        if isinstance(chosen, Problem) or self._first:
            return chosen
        before = [at for at in self._chain(texts, 0) if at < self._cursor][-1:]
        end = self._end_of_block_above(before, self._cursor)
        return chosen if end is None else self._unless_among(hunk, chosen, self._cursor, end)

    def _unless_tolerant(
        self, hunk: Hunk, forms: Sequence[Form], anchors: Sequence[int], chosen: Option | Problem
    ) -> Option | Problem:
        """The place, unless it is tolerant and there are others: stricter, or in its block."""
        if isinstance(chosen, Problem) or self._first or chosen.rung is Rung.EXACT:
            return chosen
        rival = self._rival(hunk, forms, chosen)
        if rival:
            return _several(hunk, [chosen, rival])
        end = self._end_of_block_above(anchors, chosen.place)
        return chosen if end is None else self._unless_among(hunk, chosen, chosen.place, end)

    def _unless_among(self, hunk: Hunk, chosen: Option, first: int, end: int) -> Option | Problem:
        """The place, unless the text matches as well, or better, in lines ``first`` to ``end``."""
        for found in self._from(hunk, first)(chosen.form):
            places = [at for at in found.places if at < end and at != chosen.place]
            if places:
                options = [Option(chosen.form, at, found.rung) for at in (*places, chosen.place)]
                return self._settled(hunk, sorted(options, key=lambda option: option.place))
            if found.rung is chosen.rung:
                break
        return chosen

    def _within_block(
        self, hunk: Hunk, anchors: Sequence[int], chosen: Option | Problem
    ) -> Option | Problem:
        """The place, unless it is one of several and not in the block of its ``@@`` line."""
        if isinstance(chosen, Problem) or self._first:
            return chosen
        end = self._end_of_block_above(anchors, chosen.place)
        if end is None or chosen.place < end:
            return chosen
        climbed = self._file.climb(chosen.form.run)
        everywhere = next((found for found in climbed if found.rung is chosen.rung), None)
        places = everywhere.places if everywhere else [chosen.place]
        if len(places) == 1 and everywhere:
            return chosen
        options = [Option(chosen.form, place, chosen.rung) for place in places]
        kind = self._signature(hunk)
        shared_out = len(options) == self._left[kind] + self._done[kind]
        return chosen if shared_out else _several(hunk, options)

    def _end_of_block_above(self, anchors: Sequence[int], line: int) -> int | None:
        """Where the block of the ``@@`` line above a line ends; None without such, or a block."""
        above = bisect_left(anchors, line) - 1
        return self._end_of_block(anchors[above]) if above >= 0 else None

    def _end_of_block(self, opening: int) -> int | None:
        if opening not in self._blocks:
            self._blocks[opening] = block_end(self._document.lines, opening)
        return self._blocks[opening]

    def _from_anchors(self, hunk: Hunk, anchors: Sequence[int], line: int) -> Search:
        """The search for forms from ``line`` on that hold the first anchor, or come after it."""
        return lambda form: self._from(hunk, max(line, anchors[0] + 1 - form.size))(form)

    def _nearest(self, hunk: Hunk, anchors: Sequence[int]) -> Filter:
        """Of a form's places those that lie nearest after an anchor, or hold it."""
        ending = self._ending(hunk)

        def nearest(form: Form, found: Found) -> list[int]:
            places = ending(form, found)
            if not found.all and len(anchors) > 1:
                return places
            chosen: set[int] = set()
            for anchor in anchors:
                holding = bisect_left(places, anchor - form.size + 1)
                after = bisect_right(places, anchor)
                chosen.update(places[holding : after + 1])
            return sorted(chosen)

        return nearest

    def _nearest_free(self, hunk: Hunk, anchors: Sequence[int]) -> Filter:
        """The same on either side of the cursor, among places that disturb no other hunk."""
        ending = self._ending(hunk)

        def nearest(form: Form, found: Found) -> list[int]:
            places = ending(form, found)
            if not found.all and (len(anchors) > 1 or places[-1:] < [self._cursor]):
                return places

            def first_free(candidates: Iterable[int]) -> list[int]:
                for place in candidates:
                    option = Option(form, place, found.rung)
                    if self._disturbed(self._at(hunk, option)) is None:
                        return [place]
                return []

            chosen: set[int] = set()
            for anchor in anchors:
                holding = bisect_left(places, anchor - form.size + 1)
                beyond = bisect_left(places, max(self._cursor, anchor + 1))
                chosen.update(first_free(places[holding:beyond]), first_free(places[beyond:]))
            return sorted(chosen)

        return nearest

    def _chain(self, texts: Sequence[str], first: int) -> list[int]:
        """The places of the last text: after each of the one before the nearest, or its block's."""
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
        """Where a line is, by the strictest rung that finds it from line ``first`` on."""
        for spelled in (text, text.removesuffix("@@").rstrip(" ")):
            found = next(self._file.climb(Run([spelled]), first), None) if spelled else None
            if found is not None:
                return found.places
        return []

    # -- hunks that only add

    def _addition(self, hunk: Hunk) -> Placed | Problem:
        """After the ``@@`` line, else at the end of the file."""
        texts, count = self._known[hunk.index], self._document.line_count
        if hunk.range not in (None, (count, 0)) and count and not hunk.end_of_file:
            return Problem(Reason.RANGE_ALONE, hunk)
        if not texts or hunk.end_of_file or hunk.range:
            described = len(texts) < len(hunk.anchors) and not hunk.range
            return Placed(hunk, hunk.lines, count, 0, Rung.EXACT, described=described)
        anchors = self._chain(texts, self._cursor)
        early = not anchors
        anchors = anchors or self._chain(texts, 0)
        if not anchors:
            return Problem(Reason.ANCHORS_APART, hunk, anchor=texts[-1])
        shared_out = len(anchors) == self._left[self._signature(hunk)]
        if len(anchors) > 1 and (early or not (shared_out or self._first)):
            return Problem(Reason.SEVERAL, hunk, tuple(anchors[:PLACES]), anchor=texts[-1])
        placed = Placed(hunk, hunk.lines, anchors[0], 1, Rung.EXACT)
        other = self._disturbed(placed)
        if other is not None:
            return Problem(Reason.OVERLAP, hunk, (anchors[0] + 1,), other=other.hunk)
        return placed


def _several(hunk: Hunk, options: Sequence[Option]) -> Problem:
    places = sorted({option.core for option in options})
    return Problem(Reason.SEVERAL, hunk, tuple(places), options[0].rung)
