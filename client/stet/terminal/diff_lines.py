r"""A unified diff as lines: cut into files and hunks, and coloured as git does it.

Only ``\n`` ends a line. The counts of a hunk's header say where it ends: a removed line that
begins with ``-- `` is no file header. The text of the diff stays as it is, so what is printed
where there is no terminal applies as a patch. :mod:`stet.terminal.diff_colours` is for terminals
that can do more.

By words it says what changed within lines, as ``git diff --word-diff`` does. With colours the marks
are left out: what was removed is red, what was added green.

    @@ -1,2 +1,2 @@
    def greet([-name-]{+name: str+}):
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby

import msgspec

from stet.terminal.spans import Line, Span

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_STYLES = {"+": "green", "-": "red"}


class Hunk(msgspec.Struct):
    """A hunk's header, where it begins in the old and the new file, and its lines."""

    header: str
    old: int
    new: int
    lines: list[str] = []


class FileDiff(msgspec.Struct):
    """The lines before the first hunk of a file, and its hunks."""

    header: list[str] = []
    hunks: list[Hunk] = []


def files_of(text: str) -> list[FileDiff]:
    """A unified diff, cut up."""
    files: list[FileDiff] = []
    old = new = 0
    for line in text.removesuffix("\n").split("\n") if text else ():
        hunk = files[-1].hunks[-1] if files and files[-1].hunks else None
        if hunk is not None and (old > 0 or new > 0 or line.startswith("\\")):
            old -= line[:1] in ("-", " ", "")
            new -= line[:1] in ("+", " ", "")
            hunk.lines.append(line)
        elif found := _HUNK.match(line):
            old, new = (int(found[n] or 1) for n in (2, 4))
            if not files:
                files.append(FileDiff())
            files[-1].hunks.append(Hunk(line, int(found[1]), int(found[3])))
        else:
            if not files or files[-1].hunks or line.startswith("diff --git "):
                files.append(FileDiff())
            files[-1].header.append(line)
    return files


def diff(text: str, *, titles: bool = True) -> Iterator[Line]:
    """A unified diff, line for line; without ``titles`` the hunks alone."""
    for file in files_of(text):
        for line in file.header if titles else ():
            yield (Span(line, "bold"),)
        for hunk in file.hunks:
            yield (Span(hunk.header, "cyan"),)
            for line in hunk.lines:
                style = "dim" if line.startswith("\\") else _STYLES.get(line[:1], "")
                yield (Span(line, style),)


# -- by words

_WORD = re.compile(r"\n|[^\S\n]+|\w+|.")
#: Words of a run of changed lines that are compared at most; longer ones are replaced whole.
_MOST_WORDS = 4_000


def word_diff(text: str, *, marks: bool) -> Iterator[Line]:
    """A unified diff by words; ``marks``: around what changed, for where there is no colour."""
    for file in files_of(text):
        for line in file.header:
            yield (Span(line, "bold"),)
        for hunk in file.hunks:
            yield (Span(hunk.header, "cyan"),)
            yield from _by_words(hunk.lines, marks=marks)


def _by_words(lines: Sequence[str], *, marks: bool) -> Iterator[Line]:
    told = [line for line in lines if not line.startswith("\\")]
    for is_changed, run in groupby(told, lambda line: line[:1] in ("-", "+")):
        if is_changed:
            yield from _changed(list(run), marks=marks)
        else:
            yield from ((Span(line[1:]),) for line in run)


def _changed(lines: Sequence[str], *, marks: bool) -> Iterator[Line]:
    """Lines that took the place of others, with those."""
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
    """What stays, is removed and is added, in the order of the new text, with marks and style."""
    opcodes: Sequence[tuple[str, int, int, int, int]]
    opcodes = [("replace", 0, len(before), 0, len(after))]
    if before and after and len(before) + len(after) <= _MOST_WORDS:
        from difflib import SequenceMatcher

        opcodes = SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    for kind, old_from, old_to, new_from, new_to in opcodes:
        come = "".join(after[new_from:new_to])
        if kind == "equal":
            yield come, "", "", ""
        else:
            yield "".join(before[old_from:old_to]), "[-", "-]", "red"
            yield come, "{+", "+}", "green"
