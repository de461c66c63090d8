"""The right side: a commit's diff, unified or side by side, or a file's blame."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, islice, zip_longest

from rich.text import Text
from textual.containers import VerticalScroll
from textual.widgets import Static

from stet.terminal import blame_lines, diff_colours
from stet.terminal.diff_lines import Hunk, files_of
from stet.terminal.log_lines import subject_and_why
from stet.terminal.spans import Line, Span, ago, columns, name_style, short, shortened, who
from stet.ui.timeline import text_of
from stet.wire.results import BlameResult, ShowResult

#: Columns from which old and new text are side by side.
SIDE_BY_SIDE = 90
#: Lines that are shown, lines of a diff, and characters of a line; the command line shows more.
_MOST_LINES, _MOST_DIFF_LINES, _LONGEST = 1000, 950, 1000


class Details(VerticalScroll, can_focus=True):
    """Shows the commit under the cursor."""

    DEFAULT_CSS = "Details { scrollbar-gutter: stable; }"

    def __init__(self) -> None:
        super().__init__(id="details")
        self._text = Static(id="text")
        #: Makes the lines for so many columns.
        self._lines: Callable[[int], Iterable[Line]] = lambda _: ()

    def compose(self) -> Iterator[Static]:
        yield self._text

    def show_commit(self, commit: ShowResult) -> None:
        dark = self.app.current_theme.dark
        self._show(lambda width: (*facts(commit), *diff_lines(commit.diff, width, dark=dark)))

    def show_blame(self, blame: BlameResult) -> None:
        now = datetime.datetime.now(datetime.UTC)
        tokens = diff_colours.lexed_lines
        self._show(lambda width: blame_lines.blame(blame, now, width, tokens))

    def show_lines(self, lines: Sequence[Line]) -> None:
        self._show(lambda _: lines)

    def on_resize(self) -> None:
        self._draw()

    def _show(self, lines: Callable[[int], Iterable[Line]]) -> None:
        self._lines = lines
        self._draw()
        self.scroll_home(animate=False)

    def _draw(self) -> None:
        lines = self._lines(self.scrollable_content_region.width)
        self._text.update(text_of_all(lines, dark=self.app.current_theme.dark))


def text_of_all(lines: Iterable[Line], *, dark: bool) -> Text:
    """The first lines, for textual."""
    shown = list(islice(lines, _MOST_LINES + 1))
    if len(shown) > _MOST_LINES:
        shown[-1] = (Span("..", "dim"),)
    return Text("\n").join(text_of(line, dark=dark) for line in shown)


def facts(commit: ShowResult) -> Iterator[Line]:
    """The lines of a commit's metadata."""
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
        yield (Span(f"undoes {ids}{' ..' if len(commit.reverts) > 8 else ''}", "magenta"),)
    yield ()


def diff_lines(text: str, width: int, *, dark: bool) -> Iterator[Line]:
    """A diff in so many columns, up to the limits; side by side if there is room."""
    lines = text.removesuffix("\n").split("\n")
    if len(lines) > _MOST_DIFF_LINES:
        lines[_MOST_DIFF_LINES:] = [f"\\ {len(lines) - _MOST_DIFF_LINES:,} more lines"]
    text = "\n".join(line if len(line) <= _LONGEST else line[:_LONGEST] + "…" for line in lines)
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
    """Pairs of old and new lines: equal lines, and runs of removed beside added lines."""
    removed: list[Line] = []
    signed = zip(hunk.lines, lines, strict=True)
    for sign, pairs in groupby(signed, lambda pair: pair[0][:1]):
        run = [line for _, line in pairs]
        if sign != "-":
            yield from zip_longest(removed, run if sign == "+" else (), fillvalue=())
        if sign not in ("-", "+"):
            yield from zip(run, run, strict=True)
        removed = run if sign == "-" else []
    yield from zip_longest(removed, (), fillvalue=())


def _cut(line: Line, width: int) -> Line:
    """A line of so many columns: cut, or with spaces at its end."""
    kept: list[Span] = []
    for span in line:
        text = shortened(span.text, width)
        kept.append(Span(text, span.style))
        width -= columns(text)
    return (*kept, Span(" " * width))
