"""Where a run of lines stands in a file, by rung: the passes of DIALECTS.md 4.

Runs of blank lines alone stand where they stand exactly: white space would fit anywhere. Where
indentation may differ, a run needs a word. Candidates are found in the lines as one text, which
is linear at worst.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import NamedTuple

from stetd.editing import patience
from stetd.editing.matching.line_replacement import Change
from stetd.editing.matching.normal_forms import (
    INDENTATION,
    NormalForms,
    bare,
    find_runs,
    folded_text,
    indentation_of,
    without_trailing_space,
)
from stetd.editing.matching.rungs import PLACES, Rung
from stetd.editing.text import Document, is_blank

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
class FileLines:
    """The lines of a document, ready to be searched."""

    document: Document

    @property
    def lines(self) -> list[str]:
        """Their contents."""
        return self.document.lines

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.document.lines)

    @cached_property
    def _joined(self) -> str:
        """The lines as one text, each after and before a ``\\n``."""
        text = self.document.lf_text
        return f"\n{text}" if text.endswith("\n") else f"\n{text}\n"

    def climb(self, run: Run, first: int = 0) -> Iterator[Found]:
        """The places of ``run`` from line ``first`` on, by each rung that finds any, in order.

        ``indent`` comes twice if it finds more places than those of one uniform change.
        """
        patience.go_on()
        starts = self.document.lf_starts
        exact = list(islice(find_runs(self._joined, starts, run.lines, first), PLACES))
        if exact:
            yield Found(Rung.EXACT, exact, len(exact) < PLACES)
        if run.blank:
            return
        bare_places = self.document.form(NormalForms).find_bare(run.bare, first)
        candidates = list(islice(bare_places, _CANDIDATES + 1))
        for rung, accepts in self._rungs(run) if candidates else ():
            patience.go_on()
            found = [place for place in candidates if accepts(place)]
            if found:
                sure = len(candidates) <= _CANDIDATES and len(found) < PLACES
                yield Found(rung, found[:PLACES], sure)

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
        folded = self.document.form(NormalForms).folded_lines
        yield Rung.TYPOGRAPHY, alike(without_trailing_space, run.folded, folded)
        if run.telling:
            yield Rung.INDENT_TYPOGRAPHY, lambda at: self._uniform(run, at)

    def _uniform(self, run: Run, place: int) -> bool:
        """Whether one change of indentation explains the difference."""
        here = self.lines[place : place + len(run.lines)]
        pairs = [
            (indentation_of(line), indentation_of(found))
            for line, found in zip(run.lines, here, strict=True)
            if not is_blank(line)
        ]
        return Change(*zip(*pairs, strict=True)).uniform
