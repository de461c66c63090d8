"""Blame as lines for people.

    4f3c2a1b  my-agent/conv-1   3 min ago   1  def greet(name):
                                            2      print("hello " + name)
    8d5e6f70  outside           2 days ago  3
              not recorded yet              4  # typed by hand, just now

The first line of a run says who wrote it; each agent has a colour. A terminal that is not wide gets
the agent without its session and a short age, a narrow one the agent alone; text that does not fit
is continued below. Spans and styles are those of :mod:`stet.terminal.spans`.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Sequence

from stet.terminal.spans import (
    SHORT,
    Line,
    Span,
    aligned,
    columns,
    line_columns,
    name_style,
    named,
    short,
    shortened,
    visible,
    when,
)
from stet.wire.results import BlameLines, BlameResult

#: Columns from which there is room for everything, and for the commit.
_WIDE, _NARROW = 110, 64
_NOT_RECORDED = "not recorded yet"
#: Columns of the text at least; a narrower terminal wraps the lines itself.
_LEAST_TEXT = 16
_TAB = 4

#: Gives a file's lines as tokens, by its text and path.
Tokens = Callable[[str, str], Sequence[Sequence[Span]]]


def blame(
    result: BlameResult,
    now: datetime.datetime | None,
    width: int | None = None,
    tokens: Tokens | None = None,
) -> Iterator[Line]:
    """All lines of the file. ``now``: makes times relative. ``width``: the terminal's columns, None
    without a terminal. ``tokens``: colours the text.
    """
    digits = len(str(max((run.line + run.count - 1 for run in result.lines), default=0)))
    texts = [texts_of(run) for run in result.lines]
    if width is not None:  # a terminal would expand tabs from the left edge, not from the text's
        texts = [[text.expandtabs(_TAB) for text in lines] for lines in texts]
    every = [line for lines in texts for line in lines]
    coloured = iter(tokens("\n".join(every), result.path) if tokens else ([Span(t)] for t in every))
    heads = aligned([_head(run, now, width) for run in result.lines])
    for run, head, lines in zip(result.lines, heads, texts, strict=True):
        for offset in range(len(lines)):
            margin = (*head, Span(f"{run.line + offset:>{digits}}  ", "dim"))
            yield from _wrapped(margin, next(coloured), width)
            head = (Span(" " * line_columns(head)),)


def _head(run: BlameLines, now: datetime.datetime | None, width: int | None) -> Line:
    """The columns before the first line of a run."""
    wide = width is None or width >= _WIDE
    name = named(run.agent, run.session if wide or not run.agent else None)
    name = shortened(name or (run.kind if run.commit else _NOT_RECORDED), 32 if wide else 12)
    who = Span(name, name_style(run.agent, run.session) if run.commit else "bold red")
    if width is not None and width < _NARROW:
        return (who, Span("  "))
    time = "" if run.time is None else when(run.time, now)
    commit = Span(f"{short(run.commit or ''):<{SHORT}}  ", "yellow")
    shown = Span(f"  {time if wide else time.removesuffix(' ago')}", "dim")
    return (commit, who, shown, Span("  "))


def texts_of(run: BlameLines) -> list[str]:
    """The lines of a run without terminators."""
    texts = run.text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return (texts + [""] * run.count)[: run.count]


def _wrapped(margin: Line, text: Sequence[Span], width: int | None) -> Iterator[Line]:
    """A line of the file after its margin, in pieces that fit the terminal."""
    at = line_columns(margin)
    if width is None or at + sum(columns(visible(s.text)) for s in text) <= width:
        yield (*margin, *text)
        return
    room = left = max(width - at, _LEAST_TEXT)
    piece = list(margin)
    for span in text:
        begun = ""
        for character in visible(span.text):
            left -= columns(character)
            if left < 0:
                yield (*piece, Span(begun, span.style))
                piece, begun, left = [Span(" " * at)], "", room - columns(character)
            begun += character
        piece.append(Span(begun, span.style))
    yield tuple(piece)
