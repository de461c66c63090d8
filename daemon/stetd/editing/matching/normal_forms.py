"""The normal forms of a document's lines, and where a run of lines may stand at all.

A rung takes two lines for the same when their *keys* are equal: the line without its
trailing space, without its indentation, folded, or all of that (*bare*). Bare is the form
that forgives most: a run of lines that does not stand there stands by no rung.

So one search serves every rung. The bare keys of all lines are joined with ``\\n`` (no key
holds one) and a run is looked for with ``str.find``, whose worst case is linear: a 50-line
pattern against 100,000 equal lines costs what one pass over the text costs. What is found
are candidates; rungs look at each with keys of their own. Forms are derived on first use and
kept with the document, since many patches of a call look at the same one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from stetd.editing.matching.typography import Folded, fold
from stetd.editing.text import WHITE_SPACE, Document, is_blank, starts_of_lines

INDENTATION = " \t"
#: How many keys are looked for one by one before the bare form is derived at all.
_TRIED_ALONE = 16


def indentation_of(line: str) -> str:
    """The leading spaces and tabs of a line; a blank line is exempt and has none."""
    content = line.lstrip(INDENTATION)
    return "" if is_blank(content) else line[: len(line) - len(content)]


def without_indentation(line: str) -> str:
    """The line after its indentation, trailing space kept; "" for a blank line."""
    content = line.lstrip(INDENTATION)
    return "" if is_blank(content) else content


def without_trailing_space(line: str) -> str:
    """The line without white space at its end."""
    return line.rstrip(WHITE_SPACE)


def bare(folded_line: str) -> str:
    """A folded line without indentation and trailing space."""
    return folded_line.rstrip(WHITE_SPACE).lstrip(INDENTATION)


@dataclass(frozen=True)
class NormalForms:
    """Every form of one document, each derived when it is first asked for."""

    document: Document

    @classmethod
    def of(cls, document: Document) -> NormalForms:
        """The document's forms, kept with it."""
        forms = document.derived.get(cls)
        if forms is None:
            forms = document.derived[cls] = cls(document)
        assert isinstance(forms, cls), "BUG: another class's derived form"
        return forms

    @cached_property
    def folded(self) -> Folded:
        """``document.lf_text`` with its typography folded."""
        return fold(self.document.lf_text)

    @cached_property
    def folded_lines(self) -> list[str]:
        """The lines with their typography folded; one for each line of the document."""
        if self.folded.text is self.document.lf_text:
            return self.document.lines
        return self.folded.text.split("\n")[: self.document.line_count]

    @cached_property
    def folded_starts(self) -> list[int]:
        """The offset in ``folded.text`` at which each line begins."""
        return starts_of_lines(self.folded_lines)

    @cached_property
    def bare_lines(self) -> list[str]:
        """The lines folded, without indentation and trailing space."""
        return [line.rstrip(WHITE_SPACE).lstrip(INDENTATION) for line in self.folded_lines]

    @cached_property
    def bare_joined(self) -> str:
        """The bare lines as one text, each after and before a ``\n``."""
        return "\n".join(["", *self.bare_lines, ""])

    @cached_property
    def bare_starts(self) -> list[int]:
        """The offset in ``bare_joined`` of the ``\n`` before each line."""
        return starts_of_lines(self.bare_lines)

    def may_hold(self, keys: Sequence[str]) -> bool:
        """Whether the longest of these bare keys stand anywhere; derives no lines."""
        longest = sorted(set(keys), key=len, reverse=True)[:_TRIED_ALONE]
        return all(key in self.folded.text for key in longest)

    def find_bare(self, keys: Sequence[str]) -> Iterator[int]:
        """The index (from 0) of each line where this run of bare keys begins.

        Runs may overlap: two equal lines stand twice among three.
        """
        if not self.may_hold(keys):
            return
        wanted = "\n".join(["", *keys, ""])
        at = self.bare_joined.find(wanted)
        while at >= 0:
            yield bisect_right(self.bare_starts, at) - 1
            at = self.bare_joined.find(wanted, at + 1)
