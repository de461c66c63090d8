"""A hunk as it may be looked for, and the places that are found.

Bare lines at the edges of a hunk are dropped if it stands nowhere with them: all at an edge,
and no more edges than need be. With ``*** End of File`` blank context lines at the end may be
dropped as well: the file may end before them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import msgspec

from stetd.editing.apply_patch.operations import ADDED, Hunk, HunkLine
from stetd.editing.apply_patch.seeking import Found, Run
from stetd.editing.matching.rungs import Rung

#: The rungs from the strictest on.
ORDER = {rung: number for number, rung in enumerate(Rung)}


@dataclass(frozen=True)
class Form:
    """A hunk without some lines at its edges.

    ``kept``: bare lines left at the beginning; ``cost``: at how many edges lines were dropped.
    """

    lines: tuple[HunkLine, ...]
    kept: int
    cost: int

    @cached_property
    def run(self) -> Run:
        """The old lines."""
        return Run(tuple(line.text for line in self.lines if line.sign != ADDED))

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
        lines = hunk.without_edges(head, foot)
        known = any(lines == form.lines for form in forms)
        if not known and any(line.sign != ADDED for line in lines):
            forms.append(Form(lines, lead - head, bool(head) + bool(foot)))
    return forms


def options_of(
    forms: Sequence[Form], search: Search, counting: Filter, *, nearest: bool = False
) -> list[Option]:
    """The places with the least dropped, by the strictest rung.

    ``nearest``: ``counting`` chooses among the places itself, so that it does not matter
    whether there are more of them further on.
    """
    for cost in sorted({form.cost for form in forms}):
        options: list[Option] = []
        for form in forms:
            if form.cost == cost:
                options += _strictest(form, search, counting, nearest=nearest)
        if options:
            order = min(ORDER[option.rung] for option in options)
            return [option for option in options if ORDER[option.rung] == order]
    return []


def _strictest(form: Form, search: Search, counting: Filter, *, nearest: bool) -> list[Option]:
    for found in search(form):
        places = counting(form, found)
        if places:
            sure = found.all or nearest
            return [Option(form, place, found.rung, sure) for place in places]
    return []
