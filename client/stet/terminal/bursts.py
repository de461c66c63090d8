"""Edits of one session that follow each other, and a page of ``log`` that has them together.

my-agent/conv-1  2 edits  3 min ago
4f3c2a1b  src/a.py  + return "hello, " + name  +3 -1
9c2d11e0  undone by 77aa01f2  src/a.py  - import os  -1
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from stet.terminal.diff_lines import files_of
from stet.terminal.log_lines import counts, details, stat_line, subject_and_why
from stet.terminal.spans import (
    PAUSE_S,
    Line,
    Span,
    ago,
    columns,
    line_columns,
    name_style,
    plural,
    short,
    shortened,
    visible,
    who,
)
from stet.wire.results import CommitInfo


class Burst:
    """Commits of one session, newest first, without a long pause between them."""

    def __init__(self, commits: Iterable[CommitInfo] = ()) -> None:
        self.commits = list(commits)

    def takes(self, commit: CommitInfo) -> bool:
        """Whether an older commit belongs to it."""
        last = self.commits[-1]
        if (last.agent, last.session, last.kind) != (commit.agent, commit.session, commit.kind):
            return False
        return (_time(last) - _time(commit)).total_seconds() <= PAUSE_S

    def heading(self, now: datetime.datetime) -> Line:
        """Who, how many, when."""
        newest = self.commits[0]
        count = plural(len(self.commits), "edit" if newest.session else "change")
        return (self.name(), Span(f"  {count}  {ago(newest.time, now)}", "dim"))

    def name(self) -> Span:
        """Who."""
        newest = self.commits[0]
        style = name_style(newest.agent, newest.session)
        return Span(who(newest), style if "bold" in style else f"bold {style}")


def _time(commit: CommitInfo) -> datetime.datetime:
    return datetime.datetime.fromisoformat(commit.time)


def is_first_seen(commit: CommitInfo) -> bool:
    """Whether it only records what was there before the first edit of a file."""
    return commit.kind == "outside" and commit.message.startswith("first seen")


def bursts(commits: Iterable[CommitInfo]) -> list[Burst]:
    """The commits, newest first, as bursts."""
    found: list[Burst] = []
    for commit in commits:
        if not (found and found[-1].takes(commit)):
            found.append(Burst())
        found[-1].commits.append(commit)
    return found


def page(
    commits: Sequence[CommitInfo],
    diffs: Mapping[str, str],
    now: datetime.datetime,
    width: int,
    *,
    stat: bool = False,
) -> Iterator[Line]:
    """A page of the log for a terminal; ``diffs`` by commit; ``stat``: with each file's lines."""
    for number, burst in enumerate(bursts(commits)):
        yield from [()] if number else []
        yield burst.heading(now)
        for commit in burst.commits:
            yield from edit_lines(commit, diffs.get(commit.commit, ""), width, stat=stat)


def edit_lines(commit: CommitInfo, diff: str, width: int, *, stat: bool = False) -> Iterator[Line]:
    """One commit below its burst's heading: a line, and why and its files if there is more."""
    yield edit_line(commit, diff, width)
    _, why = subject_and_why(commit.message)
    if why:
        yield (Span("            "), Span(shortened(why[0], width - 12), "italic"))
    if stat:
        for change in commit.files:
            yield (Span("            "), *stat_line(change, width - 12))
    elif len(commit.files) > 1:
        said = msgspec.structs.replace(commit, reverted_by=None)
        for line in list(details(said, width - 12, said=0))[bool(why) :]:
            yield (Span("            "), *line)


def edit_line(commit: CommitInfo, diff: str, width: int) -> Line:
    """One commit in one line: what it did to which file, with the first line that it changed."""
    head: list[Span] = [Span(f"  {short(commit.commit)}  ", "yellow")]
    if commit.reverted_by:
        head.append(Span(f"undone by {short(commit.reverted_by)}  ", "magenta"))
    changed = counts(commit.files)
    tail = (Span("  "), *changed) if changed else ()
    room = max(8, width - line_columns((*head, *tail)))
    if commit.kind != "edit" or not diff:
        subject = shortened(subject_and_why(commit.message)[0], room)
        return (*head, Span(subject, "dim" if commit.kind == "outside" else ""), *tail)
    count = plural(len(commit.files), "file")
    where = visible(commit.files[0].path) if len(commit.files) == 1 else count
    where = shortened(where, max(8, room // 2))
    line = shortened(first_changed(diff), max(0, room - columns(where) - 2))
    style = "dim strike" if commit.reverted_by else ""
    return (*head, Span(where, style or "bold"), Span(f"  {line}" if line else "", style), *tail)


def first_changed(diff: str) -> str:
    """The first line that a diff adds, or else removes, with its sign."""
    lines = [line for file in files_of(diff) for hunk in file.hunks for line in hunk.lines]
    for sign in "+-":
        for line in lines:
            if line[:1] == sign and line[1:].strip():
                return f"{sign} {visible(line[1:].strip())}"
    return ""
