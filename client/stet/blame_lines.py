"""Who wrote each line of a file, as lines for people.

    4f3c2a1b  my-agent/conv-1   3 minutes ago   1  def greet(name):
                                                2      print("hello " + name)
    8d5e6f70  outside           2 days ago      3
              not recorded yet                  4  # typed by hand, just now

The first line of a run says who; everyone has a colour. Spans and styles are those of
:mod:`stet.render`.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator

from stet.render import SHORT, Line, Span, ago, short, visible
from stet.wire.results import BlameLines, BlameResult

_COLOURS = ("cyan", "green", "magenta", "blue", "bright_cyan", "bright_green", "bright_magenta")
_NOT_RECORDED = "not recorded yet"
_WIDEST_NAME = 32


def blame(result: BlameResult, now: datetime.datetime | None) -> Iterator[Line]:
    """Every line of the file; times are relative to ``now``, if that is given."""
    names = [_who(run) for run in result.lines]
    times = ["" if run.time is None else _when(run.time, now) for run in result.lines]
    name_width = min(max(map(len, names), default=0), _WIDEST_NAME)
    time_width = max(map(len, times), default=0)
    last = max((run.line + run.count - 1 for run in result.lines), default=0)
    colours: dict[str, str] = {}
    for run, name, time in zip(result.lines, names, times, strict=True):
        style = _style(run, colours)
        commit = short(run.commit) if run.commit else ""
        head = (
            Span(f"{commit:<{SHORT}}  ", "yellow"),
            Span(f"{name[:name_width]:<{name_width}}  ", style),
            Span(f"{time:<{time_width}}  ", "dim"),
        )
        blank = (Span(" " * sum(len(span.text) for span in head)),)
        for offset, text in enumerate(_texts(run)):
            number = Span(f"{run.line + offset:>{len(str(last))}}  ", "dim")
            yield (*(blank if offset else head), number, Span(text))


def _who(run: BlameLines) -> str:
    names = [visible(name) for name in (run.agent, run.session) if name]
    return "/".join(names) or (run.kind if run.commit else _NOT_RECORDED)


def _when(time: str, now: datetime.datetime | None) -> str:
    return visible(time) if now is None else ago(time, now)


def _style(run: BlameLines, colours: dict[str, str]) -> str:
    if run.commit is None:
        return "bold red"
    if run.agent is None and run.session is None:
        return "dim"
    # The agent alone: its sessions are of one colour.
    return colours.setdefault(
        run.agent or run.session or "", _COLOURS[len(colours) % len(_COLOURS)]
    )


def _texts(run: BlameLines) -> list[str]:
    """The lines of a run without what ends them."""
    texts = run.text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return (texts + [""] * run.count)[: run.count]
