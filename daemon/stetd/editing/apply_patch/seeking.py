"""Where a run of lines stands in a file, by rung: the passes of DIALECTS.md 4.

Blank lines alone match exactly only; where indentation may differ, a run needs a word.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import NamedTuple

from stetd.editing import patience
from stetd.editing.matching.normal_forms import (
    NormalForms,
    bare,
    find_runs,
    without_trailing_space,
)
from stetd.editing.matching.rungs import PLACES, Run, Rung
from stetd.editing.text import Document

#: So many places are compared by the tolerant rungs; of more none is unique.
_CANDIDATES = 2_000

Accepts = Callable[[int], bool]


class Found(NamedTuple):
    """What a rung finds: the first lines of places, from 0, ascending, 1,000 at most."""

    rung: Rung
    places: list[int]
    #: Whether these are all the places from where the search began.
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
        def alike(key: Callable[[str], str], ours: Sequence[str], theirs: Sequence[str]) -> Accepts:
            keys = [key(line) for line in ours]
            return lambda at: all(
                key(line) == wanted
                for line, wanted in zip(theirs[at : at + len(keys)], keys, strict=True)
            )

        def uniform(place: int) -> bool:
            return run.change_at(place, run.lines, self.lines) is not None

        trimmed = alike(bare, run.lines, self.lines)
        yield Rung.TRAILING_SPACE, alike(without_trailing_space, run.lines, self.lines)
        if run.telling:
            yield Rung.INDENT, lambda at: trimmed(at) and uniform(at)
            yield Rung.INDENT, trimmed
        folded = self.document.form(NormalForms).folded_lines
        yield Rung.TYPOGRAPHY, alike(without_trailing_space, run.folded_lines, folded)
        if run.telling:
            yield Rung.INDENT_TYPOGRAPHY, uniform
