"""``stet log --graph``: which commit took back which, as lines at the left of a page of the log.

    ╭─ 77aa01f2  person            undo 9c2d11e0: patch src/a.py
    │  4f3c2a1b  my-agent/conv-1   patch src/b.py
    ╰─ 9c2d11e0  my-agent/conv-1   patch src/a.py

A line begins at the commit that takes back and ends at the one that was taken back, if that is on
the same page.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stet.terminal.log_lines import subject_line
from stet.terminal.spans import (
    Line,
    Span,
    columns,
    line_columns,
    name_style,
    padded,
    short,
    shortened,
    who,
)
from stet.wire.results import CommitInfo

#: Lines beside each other at most; what is further taken back is in the subjects.
_MOST = 12
_WIDEST_NAME = 24


def page(commits: Sequence[CommitInfo], width: int | None) -> Iterator[Line]:
    """A page of the log, newest first, one line a commit."""
    rows = list(_rows(commits))
    lines = max(map(len, rows), default=0)
    names = [shortened(who(commit), _WIDEST_NAME) for commit in commits]
    longest = max(map(columns, names), default=0)
    for commit, row, name in zip(commits, rows, names, strict=True):
        head = (
            *([Span(row.ljust(lines + 1, _filling(row)) + " ", "magenta")] if lines else []),
            Span(f"{short(commit.commit)}  ", "yellow"),
            Span(padded(name, longest), name_style(commit.agent, commit.session)),
            Span("  "),
        )
        yield (*head, *subject_line(commit, (width or 10_000) - line_columns(head)))


def _rows(commits: Sequence[CommitInfo]) -> Iterator[str]:
    """What stands before each commit."""
    below = {commit.commit: number for number, commit in enumerate(commits)}
    open_: list[str | None] = []  # by column: the commit at which its line ends
    for number, commit in enumerate(commits):
        here = ["│" if end else " " for end in open_]
        ends = [at for at, end in enumerate(open_) if end == commit.commit]
        for at in ends:
            here[at], open_[at] = "╰", None
        for target in commit.reverts:
            if below.get(target, -1) <= number or target in open_:
                continue
            free = (at for at, end in enumerate(open_) if end is None and at not in ends)
            at = next(free, len(open_))
            if at == _MOST:
                break
            open_[at:] = [target, *open_[at + 1 :]]
            here[at:] = ["╭", *here[at + 1 :]]
        yield _joined(here)


def _joined(here: Sequence[str]) -> str:
    """The columns of one commit, with a line from each end or beginning to the commit."""
    marks = [at for at, mark in enumerate(here) if mark in "╭╰"]
    row = list(here)
    for at in range(marks[0] + 1, len(here)) if marks else ():
        row[at] = {"╭": "┬", "╰": "┴", "│": "┼"}.get(here[at], "─")
    return "".join(row)


def _filling(row: str) -> str:
    """What goes on from a row to its commit."""
    return "─" if any(mark in row for mark in "╭╰┬┴") else " "
