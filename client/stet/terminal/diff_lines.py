r"""A unified diff as lines: split into files and hunks, and coloured as by git.

Only ``\n`` ends a line. The counts in a hunk's header say where it ends, because a removed line may
begin with ``-- `` like a file header. The text is not changed, so output without a terminal applies
as a patch. :mod:`stet.terminal.diff_colours` is for terminals with many colours.

A diff by words shows changes within lines, as ``git diff --word-diff``. With colours there are no
marks: removed words are red, added words green.

    @@ -1,2 +1,2 @@
    def greet([-name-]{+name: str+}):
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise

import msgspec

from stet.terminal.spans import Line, Span

_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_STYLES = {"+": "green", "-": "red"}


class Hunk(msgspec.Struct):
    """A hunk: its header and its lines."""

    header: str
    lines: list[str] = []


class FileDiff(msgspec.Struct):
    """A file of a diff: the lines before its first hunk, and its hunks."""

    header: list[str] = []
    hunks: list[Hunk] = []


def files_of(text: str) -> list[FileDiff]:
    """Split a unified diff into files."""
    files: list[FileDiff] = []
    old = new = 0
    for line in text.removesuffix("\n").split("\n") if text else ():
        hunk = files[-1].hunks[-1] if files and files[-1].hunks else None
        if hunk is not None and (old > 0 or new > 0 or line.startswith("\\")):
            old -= line[:1] in ("-", " ", "")
            new -= line[:1] in ("+", " ", "")
            hunk.lines.append(line)
        elif found := _HUNK.match(line):
            old, new = (int(count or 1) for count in found.groups())
            if not files:
                files.append(FileDiff())
            files[-1].hunks.append(Hunk(line))
        else:
            if not files or files[-1].hunks or line.startswith("diff --git "):
                files.append(FileDiff())
            files[-1].header.append(line)
    return files


def diff(
    text: str, *, titles: bool = True, words: bool = False, marks: bool = False
) -> Iterator[Line]:
    """The lines of a unified diff; ``titles``: with the header of each file. ``words``: by words,
    with ``marks`` around changes for output without colours.
    """
    for file in files_of(text):
        for line in file.header if titles else ():
            yield (Span(line, "bold"),)
        for hunk in file.hunks:
            yield (Span(hunk.header, "cyan"),)
            if words:
                yield from _by_words(hunk.lines, marks=marks)
                continue
            for line in hunk.lines:
                style = "dim" if line.startswith("\\") else _STYLES.get(line[:1], "")
                yield (Span(line, style),)


# -- by words

_WORD = re.compile(r"\n|[^\S\n]+|\w+|.")
#: Pairs of equal words of a run of changed lines up to which its words are compared: difflib's time
#: grows with them. A run with more is shown as replaced whole.
_MOST_PAIRS = 250_000


def _by_words(lines: Sequence[str], *, marks: bool) -> Iterator[Line]:
    told = [line for line in lines if not line.startswith("\\")]
    for is_changed, run in groupby(told, lambda line: line[:1] in ("-", "+")):
        if is_changed:
            yield from _changed(list(run), marks=marks)
        else:
            yield from ((Span(line[1:]),) for line in run)
    ends = [above[:1] + line for above, line in pairwise(lines) if line.startswith("\\")]
    if ends and ends[0][0] != " ":
        yield from _changed(ends, marks=marks)


def _changed(lines: Sequence[str], *, marks: bool) -> Iterator[Line]:
    """A run of removed and added lines."""
    before, after = (
        _WORD.findall("\n".join(line[1:] for line in lines if line[0] == sign)) for sign in "-+"
    )
    line: list[Span] = []
    for text, begin, end, style in _pieces(before, after):
        for number, piece in enumerate(text.split("\n")):
            if number:
                yield tuple(line)
                line = []
            if piece:
                line.append(Span(begin + piece + end if marks else piece, style))
    yield tuple(line)


def _pieces(before: list[str], after: list[str]) -> Iterator[tuple[str, str, str, str]]:
    """Equal, removed and added pieces in the order of the new text, with marks and style."""
    opcodes: Sequence[tuple[str, int, int, int, int]]
    opcodes = [("replace", 0, len(before), 0, len(after))]
    counts = Counter(before)
    if sum(counts[word] for word in after) <= _MOST_PAIRS:
        from difflib import SequenceMatcher

        opcodes = SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    for kind, old_from, old_to, new_from, new_to in opcodes:
        come = "".join(after[new_from:new_to])
        if kind == "equal":
            yield come, "", "", ""
        else:
            yield "".join(before[old_from:old_to]), "[-", "-]", "red"
            yield come, "{+", "+}", "green"
