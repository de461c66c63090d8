"""A unified diff by words: what changed within lines, as ``git diff --word-diff`` shows it.

    @@ -1,2 +1,2 @@
    def greet([-name-]{+name: str+}):

With colours the marks are left out: what was removed is red, what was added green.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from stet.terminal.diff_lines import files_of
from stet.terminal.spans import Line, Span

_WORD = re.compile(r"\n|[^\S\n]+|\w+|.")
#: Words of a run of changed lines that are compared at most; longer ones are replaced whole.
_MOST_WORDS = 4_000
_REMOVED, _ADDED = ("[-", "-]", "red"), ("{+", "+}", "green")


def word_diff(text: str, *, marks: bool) -> Iterator[Line]:
    """A unified diff by words; ``marks``: around what changed, for where there is no colour."""
    for file in files_of(text):
        for line in file.header:
            yield (Span(line, "bold"),)
        for hunk in file.hunks:
            yield (Span(hunk.header, "cyan"),)
            yield from _by_words(hunk.lines, marks=marks)


def _by_words(lines: Sequence[str], *, marks: bool) -> Iterator[Line]:
    removed: list[str] = []
    added: list[str] = []
    for line in lines:
        if line[:1] in ("-", "+"):
            (removed if line[:1] == "-" else added).append(line[1:])
        elif not line.startswith("\\"):
            yield from _run(removed, added, marks=marks)
            removed, added = [], []
            yield (Span(line[1:]),)
    yield from _run(removed, added, marks=marks)


def _run(removed: Sequence[str], added: Sequence[str], *, marks: bool) -> Iterator[Line]:
    """Lines that took the place of others."""
    if not removed and not added:
        return
    before, after = (_WORD.findall("\n".join(each)) for each in (removed, added))
    line: list[Span] = []
    for text, how in _pieces(before, after):
        first, *rest = text.split("\n")
        line += _marked(first, how, marks=marks)
        for piece in rest:
            yield tuple(line)
            line = _marked(piece, how, marks=marks)
    yield tuple(line)


def _pieces(
    before: list[str], after: list[str]
) -> Iterator[tuple[str, tuple[str, str, str] | None]]:
    """What stays (None), is removed and is added, in the order of the new text."""
    if not before or not after or len(before) + len(after) > _MOST_WORDS:
        opcodes: Sequence[tuple[str, int, int, int, int]]
        opcodes = [("replace", 0, len(before), 0, len(after))]
    else:
        opcodes = SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    for kind, old_from, old_to, new_from, new_to in opcodes:
        if kind == "equal":
            yield "".join(after[new_from:new_to]), None
            continue
        gone, come = "".join(before[old_from:old_to]), "".join(after[new_from:new_to])
        if gone:
            yield gone, _REMOVED
        if come:
            yield come, _ADDED


def _marked(text: str, how: tuple[str, str, str] | None, *, marks: bool) -> list[Span]:
    if not text:
        return []
    if how is None:
        return [Span(text)]
    begin, end, style = how
    return [Span(begin + text + end if marks else text, style)]
