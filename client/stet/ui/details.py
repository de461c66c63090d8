"""The right side: the diff of a commit, one below the other or side by side, or a file's blame."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from rich.text import Text
from textual.containers import VerticalScroll
from textual.widgets import Static

from stet.terminal import blame_lines, diff_colours
from stet.terminal.diff_lines import Hunk, files_of
from stet.terminal.log_lines import subject_and_why
from stet.terminal.spans import Line, Span, ago, fitted, line_columns, name_style, short, who
from stet.ui.timeline import text_of
from stet.wire.results import BlameResult, ShowResult

#: Columns from which the old and the new text stand side by side.
SIDE_BY_SIDE = 90
#: Lines of a diff that are shown.
_MOST_LINES = 4000


class Details(VerticalScroll, can_focus=True):
    """What is to be seen of the commit under the cursor."""

    def __init__(self) -> None:
        super().__init__(id="details")
        self._text = Static(id="text")

    def compose(self) -> Iterator[Static]:
        """One text, scrolled as a whole."""
        yield self._text

    def show_commit(self, commit: ShowResult | None, *, dark: bool) -> None:
        """A commit: who, when, why, and its diff."""
        lines = list(facts(commit)) if commit is not None else [(Span("No edits.", "dim"),)]
        if commit is not None:
            lines += list(diff_lines(commit.diff, self._width(), dark=dark))
        self.show_lines(lines)

    def show_blame(self, blame: BlameResult) -> None:
        """Who wrote each line of a file."""
        now = datetime.datetime.now(datetime.UTC)
        tokens = diff_colours.lexed_lines
        self.show_lines(list(blame_lines.blame(blame, now, self._width(), tokens)))

    def show_lines(self, lines: Sequence[Line]) -> None:
        """Any lines."""
        shown = lines[:_MOST_LINES]
        dark = self.app.current_theme.dark
        text = Text("\n").join(text_of(line, dark=dark) for line in shown)
        if len(lines) > len(shown):
            text.append(f"\n{len(lines) - len(shown)} more lines: stet show", "dim")
        self._text.update(text)
        self.scroll_home(animate=False)

    def _width(self) -> int:
        return max(20, self.size.width - 2)


def facts(commit: ShowResult) -> Iterator[Line]:
    """What a commit says of itself."""
    now = datetime.datetime.now(datetime.UTC)
    subject, why = subject_and_why(commit.message)
    yield (
        Span(short(commit.commit), "yellow"),
        Span("  "),
        Span(who(commit), name_style(commit.agent, commit.session)),
        Span(f"  {ago(commit.time, now)}  {commit.method or commit.kind}", "dim"),
    )
    yield (Span(subject, "bold"),)
    for line in why:
        yield (Span(line, "italic"),)
    if commit.reverted_by:
        yield (Span(f"undone by {short(commit.reverted_by)}", "magenta"),)
    if commit.reverts:
        ids = ", ".join(map(short, commit.reverts[:8]))
        yield (Span(f"takes back {ids}{' ..' if len(commit.reverts) > 8 else ''}", "magenta"),)
    yield ()


def diff_lines(text: str, width: int, *, dark: bool) -> Iterator[Line]:
    """A diff in so many columns; side by side where there is room."""
    grounds = diff_colours.DARK if dark else diff_colours.LIGHT
    if width < SIDE_BY_SIDE:
        yield from diff_colours.coloured(text, width, grounds)
        return
    half = (width - 3) // 2
    coloured = diff_colours.coloured(text, half, grounds, titles=False)
    for file in files_of(text):
        yield from diff_colours.title(file, width)
        for hunk in file.hunks:
            yield next(coloured)  # its header
            for left, right in _pairs(hunk, [next(coloured) for _ in hunk.lines]):
                yield (*_cut(left, half), Span(" │ ", "dim"), *_cut(right, half))


def _pairs(hunk: Hunk, lines: Sequence[Line]) -> Iterator[tuple[Line, Line]]:
    """Old beside new: context beside itself, a run of removed lines beside the added ones."""
    removed: list[Line] = []
    added: list[Line] = []
    for raw, line in zip(hunk.lines, lines, strict=True):
        if raw[:1] == "+":
            added.append(line)
            continue
        if raw[:1] != "-" or added:
            yield from zip_longest(removed, added, fillvalue=())
            removed, added = [], []
        if raw[:1] == "-":
            removed.append(line)
        else:
            yield line, line
    yield from zip_longest(removed, added, fillvalue=())


def _cut(line: Line, width: int) -> Line:
    kept = fitted(line, width)
    return (*kept, Span(" " * (width - line_columns(kept))))
