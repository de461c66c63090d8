"""Where a run of lines stands in a file, by rung: the passes of DIALECTS.md 4.

====================== =================================================================
rung                   two runs of lines are the same when they are alike
====================== =================================================================
exact                  but for terminators
trailing_space         but for white space at the ends of lines
indent                 but for white space on both sides; where the change of indentation
                       is one for the whole run, and, if there is no such place, anywhere
typography             but for typography and white space at the ends
indent+typography      but for all of these, with one change of indentation
====================== =================================================================

Runs of blank lines alone stand where they stand exactly: white space would fit anywhere. Where
indentation may differ, a run needs a word.

What a run could match at all is found in the lines as one text, which is linear at worst; after
some searches by its rarest line, in tables that are made once per document: a thousand runs in
a hundred thousand lines cost a thousand look-ups. Where even the rarest line is common the text
is searched.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from stetd.editing import patience
from stetd.editing.matching.indentation import Change
from stetd.editing.matching.normal_forms import (
    INDENTATION,
    NormalForms,
    bare,
    indentation_of,
    without_trailing_space,
)
from stetd.editing.matching.rungs import PLACES, Rung
from stetd.editing.matching.typography import folded_text
from stetd.editing.text import Document, is_blank

#: So many runs are searched for in the text before tables are made that take longer.
_SEARCHES = 12
#: A line that stands more often than this is not looked up, but searched for.
_COMMON = 500
#: More places than this are not compared by the tolerant rungs: what they find among the
#: first of more can't be called unique.
_CANDIDATES = 2_000

Accepts = Callable[[int], bool]


def without_white_space(line: str) -> str:
    """The line without white space on both sides, as the rung ``indent`` sees it."""
    return without_trailing_space(line).lstrip(INDENTATION)


@dataclass(frozen=True)
class Run:
    """Lines that are looked for, in the forms that the rungs compare. Not empty."""

    lines: tuple[str, ...]

    @cached_property
    def blank(self) -> bool:
        """Whether there is white space only."""
        return all(map(is_blank, self.lines))

    @property
    def telling(self) -> bool:
        """Whether there is a word: a lone bracket stands anywhere, with other indentation."""
        return any(map(str.isalnum, "".join(self.lines)))

    @cached_property
    def folded(self) -> list[str]:
        """The lines with typography folded."""
        return list(map(folded_text, self.lines))

    @cached_property
    def bare(self) -> list[str]:
        """What every rung compares at least."""
        return list(map(bare, self.folded))


class Found(NamedTuple):
    """What a rung finds: the first lines of places, from 0, ascending, 1,000 at most.

    ``all``: there are no other places from where the search began.
    """

    rung: Rung
    places: list[int]
    all: bool


@dataclass(frozen=True)
class Keyed:
    """The keys of all lines of a document, ready to be searched for runs.

    ``joined``: the keys as one text, each after and before a ``\\n``; ``starts``: the offset of
    the ``\\n`` before each.
    """

    keys: list[str]
    joined: str
    starts: list[int]
    #: How often the text has been searched.
    _searches: list[int] = field(default_factory=lambda: [0])

    @cached_property
    def _counts(self) -> Counter[str]:
        return Counter(self.keys)

    @cached_property
    def _last_numbers(self) -> dict[str, int]:
        return dict(zip(self.keys, range(len(self.keys)), strict=True))

    @cached_property
    def _numbers(self) -> dict[str, list[int]]:
        numbers: dict[str, list[int]] = {}
        for number, key in enumerate(self.keys):
            numbers.setdefault(key, []).append(number)
        return numbers

    def places(self, run: list[str], first: int, most: int) -> list[int]:
        """The first lines (from 0, not before ``first``) of the places of ``run``, ascending.

        At most ``most`` of them.
        """
        if self._searches[0] < _SEARCHES:
            return self._searched(run, first, most)
        rarest = min(range(len(run)), key=lambda offset: self._counts[run[offset]])
        count = self._counts[run[rarest]]
        if count == 0:
            return []
        if count == 1:
            at = self._last_numbers[run[rarest]] - rarest
            return [at] if at >= first and self.keys[at : at + len(run)] == run else []
        if count > _COMMON or self._searches[0] < 4 * _SEARCHES:
            return self._searched(run, first, most)
        numbers = self._numbers[run[rarest]]
        starts = (at - rarest for at in numbers[bisect_left(numbers, first + rarest) :])
        return [at for at in starts if self.keys[at : at + len(run)] == run][:most]

    def _searched(self, run: Sequence[str], first: int, most: int) -> list[int]:
        self._searches[0] += 1
        wanted = "\n".join(["", *run, ""])
        places: list[int] = []
        at = self.joined.find(wanted, self.starts[first]) if first < len(self.keys) else -1
        while at >= 0 and len(places) < most:
            places.append(bisect_right(self.starts, at) - 1)
            at = self.joined.find(wanted, at + 1)
        return places


@dataclass(frozen=True)
class FileLines:
    """The lines of a document, ready to be searched."""

    document: Document

    @classmethod
    def of(cls, document: Document) -> FileLines:
        """The document's lines, kept with it."""
        known = document.derived.get(cls)
        if known is None:
            known = document.derived[cls] = cls(document)
        assert isinstance(known, cls), "BUG: another class's derived form"
        return known

    @property
    def lines(self) -> list[str]:
        """Their contents."""
        return self.document.lines

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.document.lines)

    @cached_property
    def _folded(self) -> list[str]:
        return NormalForms.of(self.document).folded_lines

    @cached_property
    def _exact(self) -> Keyed:
        text = self.document.lf_text
        joined = f"\n{text}" if text.endswith("\n") else f"\n{text}\n"
        return Keyed(self.document.lines, joined, self.document.lf_starts)

    @cached_property
    def _bare(self) -> Keyed:
        forms = NormalForms.of(self.document)
        return Keyed(forms.bare_lines, forms.bare_joined, forms.bare_starts)

    @cached_property
    def _climbed(self) -> dict[tuple[tuple[str, ...], int], tuple[list[Found], Iterator[Found]]]:
        """What was found so far: the same run is often looked for again from the same line."""
        return {}

    def climb(self, run: Run, first: int = 0) -> Iterator[Found]:
        """The places of ``run`` from line ``first`` on, by each rung that finds any, in order.

        ``indent`` comes twice if it finds more places than those of one uniform change.
        """
        known, rest = self._climbed.setdefault((run.lines, first), ([], self._climb(run, first)))
        for number in range(len(Rung) + 1):
            if number == len(known):
                patience.go_on()
                found = next(rest, None)
                if found is None:
                    return
                known.append(found)
            yield known[number]

    def _climb(self, run: Run, first: int) -> Iterator[Found]:
        exact = self._exact.places(list(run.lines), first, PLACES)
        if exact:
            yield Found(Rung.EXACT, exact, len(exact) < PLACES)
        if run.blank or not self._may_hold(run):
            return
        candidates = self._bare.places(run.bare, first, _CANDIDATES + 1)
        for rung, accepts in self._rungs(run) if candidates else ():
            patience.go_on()
            found = [place for place in candidates if accepts(place)]
            if found:
                sure = len(candidates) <= _CANDIDATES and len(found) < PLACES
                yield Found(rung, found[:PLACES], sure)

    def _may_hold(self, run: Run) -> bool:
        """Whether it is worth while to derive the bare lines for a run."""
        derived = "_bare" in self.__dict__
        return derived or NormalForms.of(self.document).may_hold(run.bare)

    def stands(self, run: Run) -> bool:
        """Whether a run stands anywhere, by any rung."""
        return next(self.climb(run), None) is not None

    def indentations(self, run: Run, place: int) -> list[tuple[str, str]]:
        """For each line of ``run`` that is not blank its indentation, and that at ``place``."""
        size = len(run.lines)
        return [
            (indentation_of(line), indentation_of(here))
            for line, here in zip(run.lines, self.lines[place : place + size], strict=True)
            if not is_blank(line)
        ]

    def _rungs(self, run: Run) -> Iterator[tuple[Rung, Accepts]]:
        size = len(run.lines)

        def alike(key: Callable[[str], str], ours: Sequence[str], theirs: Sequence[str]) -> Accepts:
            keys = [key(line) for line in ours]
            return lambda at: all(
                key(line) == wanted
                for line, wanted in zip(theirs[at : at + size], keys, strict=True)
            )

        trimmed = alike(without_white_space, run.lines, self.lines)
        yield Rung.TRAILING_SPACE, alike(without_trailing_space, run.lines, self.lines)
        if run.telling:
            yield Rung.INDENT, lambda at: trimmed(at) and self._uniform(run, at)
            yield Rung.INDENT, trimmed
        yield Rung.TYPOGRAPHY, alike(without_trailing_space, run.folded, self._folded)
        if run.telling:
            yield Rung.INDENT_TYPOGRAPHY, lambda at: self._uniform(run, at)

    def _uniform(self, run: Run, place: int) -> bool:
        """Whether one change of indentation explains the difference."""
        text, here = zip(*self.indentations(run, place), strict=True)
        return Change(text, here).uniform
