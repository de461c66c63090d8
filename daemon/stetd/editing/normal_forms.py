"""The normal forms of a document's lines, and the search for a run of lines in one of them.

A form maps every line to a key; two lines are the same to a rung when their keys are equal.
Keys of all lines are joined with ``\\n`` (no key holds one) and a run of lines is looked for
with ``str.find``, whose worst case is linear: a 50-line pattern against 100,000 equal lines
costs what one pass over the text costs. Forms are derived on first use and kept with the
document, since many patches of a call look at the same one.

What is relaxed where, and which form belongs to which rung, is decided in rungs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from stetd.editing.text import WHITE_SPACE, Document, is_blank
from stetd.editing.typography import Folded, fold, folded_text

INDENTATION = " \t"


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


@dataclass(frozen=True, slots=True)
class KeyedLines:
    """The keys of a document's lines, joined so that ``str.find`` finds a run of them."""

    joined: str
    starts: list[int]

    @classmethod
    def of(cls, keys: Sequence[str]) -> KeyedLines:
        """Join keys, none of which holds a newline."""
        starts = list(accumulate((len(key) + 1 for key in keys[:-1]), initial=0)) if keys else []
        return cls("\n".join(["", *keys, ""]), starts)

    def find(self, keys: Sequence[str], limit: int) -> Iterator[int]:
        """The index (from 0) of each line where this run of keys begins, ``limit`` at most.

        Runs may overlap: two equal lines stand twice among three.
        """
        wanted = "\n".join(["", *keys, ""])
        at = self.joined.find(wanted)
        while at >= 0 and limit > 0:
            yield bisect_right(self.starts, at) - 1
            limit -= 1
            at = self.joined.find(wanted, at + 1)


@dataclass(frozen=True)
class NormalForms:
    """Every form of one document, each derived when a rung first asks for it."""

    document: Document

    @classmethod
    def of(cls, document: Document) -> NormalForms:
        """The document's forms, kept with it."""
        forms = document.derived.get(cls)
        if forms is None:
            forms = document.derived[cls] = cls(document)
        assert isinstance(forms, cls), "BUG: another class's derived form"
        return forms

    def _keyed(self, key: Callable[[str], str], lines: Sequence[str]) -> KeyedLines:
        return KeyedLines.of([key(line) for line in lines])

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
    def whole(self) -> KeyedLines:
        """Lines as they are."""
        return KeyedLines.of(self.document.lines)

    @cached_property
    def without_trailing_space(self) -> KeyedLines:
        """Lines without white space at their ends."""
        return self._keyed(without_trailing_space, self.document.lines)

    @cached_property
    def without_indentation(self) -> KeyedLines:
        """Lines without indentation, blank ones empty."""
        return self._keyed(without_indentation, self.document.lines)

    @cached_property
    def typographic(self) -> KeyedLines:
        """Folded lines."""
        return KeyedLines.of(self.folded_lines)

    @cached_property
    def bare(self) -> KeyedLines:
        """Folded lines without indentation and trailing space: what every rung agrees on.

        A run of lines that does not stand here stands in no other form either.
        """
        return self._keyed(bare, self.folded_lines)


def fold_line(line: str) -> str:
    """One line (of a request) with its typography folded."""
    return folded_text(line)
