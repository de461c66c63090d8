r"""A unified diff as lines: cut into files and hunks, and coloured as git does it.

Only ``\n`` ends a line. The counts of a hunk's header tell where it ends: a removed line that
begins with ``-- `` is no file header. The text of the diff stays as it is, so what is printed
where there is no terminal applies as a patch. :mod:`stet.terminal.diff_colours` is for terminals
that can do more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

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
