"""Commits as lines for people: a page of ``log``.

Without a terminal (``width`` None), nothing is cut, and the form is always the same:

    4f3c2a1b  2026-11-21T12:00:00Z  my-agent/conv-1  patch src/a.py: 2 edits
              why it was done
              M src/a.py  +3 -1

On a terminal a commit of one file that its subject names takes one line, and long text is cut off;
under NARROW columns name and time get a line of their own:

    4f3c2a1b  3 min ago  my-agent/conv-1   patch src/a.py: 2 edits  +3 -1
    9c2d11e0  5 min ago  person            undo 4f3c2a1b: patch src/a.py: 2 edits  +1 -3

Undone commits are dim and struck through, and name the commit that undid them. A commit lists those
that it undoes and does not name in its subject. Consecutive edits of a session (a burst) have
one heading:

    my-agent/conv-1  2 edits  3 min ago
      4f3c2a1b  src/a.py  + return "hello, " + name  +3 -1
      9c2d11e0  undone by 77aa01f2  src/a.py  - import os  -1

With a graph, a line begins at a commit that takes another back and ends at that one, if it is on
the same page:

    ╭─ 77aa01f2  person            undo 9c2d11e0: patch src/a.py
    │  4f3c2a1b  my-agent/conv-1   patch src/b.py
    ╰─ 9c2d11e0  my-agent/conv-1   patch src/a.py
"""

from __future__ import annotations

import datetime
import sys
from collections.abc import Iterable, Iterator, Sequence

from stet.terminal.spans import (
    SHORT,
    Line,
    Span,
    ago,
    aligned,
    columns,
    line_columns,
    name_style,
    pause_between,
    plural,
    short,
    shortened,
    visible,
    when,
    who,
)
from stet.wire.results import CommitInfo, FileChange

#: Columns below which there is no room for a table.
NARROW = 64
#: Files and commits that are listed on a terminal; more are counted.
_LISTED = 6
_WIDEST_NAME = 32
#: Lines of the graph beside each other; further ones are not drawn.
_MOST_BESIDE = 12
_WIDEST_GRAPH_NAME = 24
_STATUS_STYLE = {"A": "green", "M": "yellow", "D": "red", "R": "cyan"}


# -- parts of a commit


def subject_and_why(message: str) -> tuple[str, list[str]]:
    """A commit's subject, and the other lines of the message without leading blank ones."""
    subject, *body = message.strip("\n").split("\n")
    why = [visible(line) for line in body]
    while why and not why[0].strip():
        del why[0]
    return visible(subject), why


def is_first_seen(commit: CommitInfo) -> bool:
    """Whether a commit only records files as they were before their first edit."""
    return commit.kind == "outside" and commit.message.startswith("first seen")


def file_line(change: FileChange) -> Line:
    """Status, path, lines added and removed."""
    path = visible(change.path)
    if change.old_path is not None:
        path = f"{visible(change.old_path)} -> {path}"
    head = (Span(change.status, _STATUS_STYLE.get(change.status, "")), Span(f" {path}  "))
    if change.excluded:
        return (*head, Span("excluded", "yellow"))
    return (*head, Span(f"+{change.added}", "green"), Span(" "), Span(f"-{change.removed}", "red"))


def _stat_line(change: FileChange, width: int) -> Line:
    """A line for a file in so many columns, without zero counts."""
    status, path, *_ = file_line(change)
    changed = counts([change])
    text = shortened(path.text.strip(), max(width - 4 - line_columns(changed), 8))
    return (status, Span(f" {text}  "), *changed)


def counts(files: Sequence[FileChange]) -> Line:
    """The sums of added and removed lines, without zeros."""
    if files and all(change.excluded for change in files):
        return (Span("excluded", "yellow"),)  # the history has no counts
    added, removed = sum(f.added for f in files), sum(f.removed for f in files)
    plus = (Span(f"+{added}", "green"),) if added else ()
    minus = (Span(f"-{removed}", "red"),) if removed else ()
    return (*plus, Span(" "), *minus) if plus and minus else plus or minus


def _undone(commit: CommitInfo) -> Line:
    by = commit.reverted_by
    return (Span(f"undone by {short(by)}", "magenta"),) if by else ()


def _names_its_files(commit: CommitInfo) -> bool:
    """Whether the subject says everything that a list of the files would."""
    subject, _ = subject_and_why(commit.message)
    return all(
        change.status in "AM" and visible(change.path) in subject and not change.excluded
        for change in commit.files
    )


def _subject_style(commit: CommitInfo) -> str:
    if commit.reverted_by:
        return "dim strike"
    return "dim" if commit.kind == "outside" else ""


def _subject_line(commit: CommitInfo, room: int) -> Line:
    """The subject in so many columns with its line counts; if it fits, also what undid it."""
    subject, _ = subject_and_why(commit.message)
    changed = counts(commit.files) if _names_its_files(commit) else ()
    tail = (Span("  "), *changed) if changed else ()
    undone = _undone(commit)
    if undone and columns(subject) + line_columns((*tail, Span("  "), *undone)) <= room:
        tail = (*tail, Span("  "), *undone)
    text = shortened(subject, max(room - line_columns(tail), 1))
    return (Span(text, _subject_style(commit)), *tail)


def _why(commit: CommitInfo, width: int) -> list[Line]:
    _, why = subject_and_why(commit.message)
    return [(Span(shortened(why[0], width), "italic"),)] if why else []


def _taken_back(commit: CommitInfo, most: int, width: int) -> Iterator[Line]:
    """The reverted commits, if the subject does not name them; at most so many."""
    subject, _ = subject_and_why(commit.message)
    unnamed = [short(each) for each in commit.reverts if short(each) not in subject]
    if unnamed:
        more = f" and {len(unnamed) - most} more" if len(unnamed) > most else ""
        text = f"undoes {', '.join(unnamed[:most])}{more}"
        yield (Span(shortened(text, width), "magenta"),)


def _details(commit: CommitInfo, width: int) -> Iterator[Line]:
    """The reverted commits and the files, if the subject does not name them."""
    yield from _taken_back(commit, _LISTED, width)
    if not _names_its_files(commit):
        files = commit.files
        listed = files if len(files) <= _LISTED + 1 else files[:_LISTED]
        for change in listed:
            yield _stat_line(change, width)
        if len(listed) < len(files):
            rest = files[len(listed) :]
            yield (Span(f"and {plural(len(rest), 'file')} more  ", "dim"), *counts(rest))


# -- one after the other


def log(
    commits: Sequence[CommitInfo], now: datetime.datetime | None, width: int | None = None
) -> Iterator[Line]:
    """A page of the log, newest first; ``width`` in columns, None without a terminal."""
    narrow = width is not None and width < NARROW
    # A column is no wider than this, and a time may have 13 columns: "11 months ago".
    most = _WIDEST_NAME if width is None else max(13, min(_WIDEST_NAME, width // 5))
    heads: list[Line] = []
    for commit in commits:
        time = when(commit.time, now)
        name = who(commit) + (f" ({visible(commit.subagent)})" if commit.subagent else "")
        if width is not None:
            name = shortened(name, max(1, width - SHORT - columns(time) - 4) if narrow else most)
        id_, time_ = Span(short(commit.commit), "yellow"), Span(f"  {time}", "dim")
        name_ = Span(f"  {name}", name_style(commit.agent, commit.session))
        heads.append((id_, name_, time_) if narrow else (id_, time_, name_, Span("  ")))
    indent = "  " if narrow else " " * (SHORT + 2)
    table = heads if narrow else aligned(heads, most + 2)
    for commit, head in zip(commits, table, strict=True):
        if width is None:
            yield from _uncut(commit, head, indent)
        else:
            yield from entry(commit, head, indent, width, below=narrow)


def entry(
    commit: CommitInfo, head: Line, indent: str, width: int, *, below: bool = False
) -> Iterator[Line]:
    """A commit after its head, or ``below`` it; details that the subject lacks are indented."""
    room = width - (len(indent) if below else line_columns(head))
    subject = _subject_line(commit, room)
    yield from [head, (Span(indent), *subject)] if below else [(*head, *subject)]
    width -= len(indent)
    undone = [(span,) for span in _undone(commit) if span not in subject]
    for line in [*_why(commit, width), *undone, *_details(commit, width)]:
        yield (Span(indent), *line)


def _uncut(commit: CommitInfo, head: Line, indent: str) -> Iterator[Line]:
    subject, why = subject_and_why(commit.message)
    by = commit.reverted_by
    undone = (Span(f"  (undone by {short(by)})", "magenta"),) if by else ()
    yield (*head, Span(subject, _subject_style(commit)), *undone)
    if why:
        yield (Span(indent), Span(why[0], "italic"))
    for line in _taken_back(commit, len(commit.reverts), sys.maxsize):
        yield (Span(indent), *line)
    for change in commit.files:
        yield (Span(indent), *file_line(change))


# -- bursts

_BELOW = Span(" " * 12)


class Burst:
    """Commits of one session, newest first, without a long pause between them."""

    def __init__(self, commits: Iterable[CommitInfo] = ()) -> None:
        self.commits = list(commits)

    def takes(self, commit: CommitInfo) -> bool:
        """Whether an older commit belongs to the burst."""
        last = self.commits[-1]
        if (last.agent, last.session, last.kind) != (commit.agent, commit.session, commit.kind):
            return False
        return not pause_between(last, commit)

    def heading(self, now: datetime.datetime, width: int) -> Line:
        """The heading in so many columns: agent and session, number of edits or changes, time."""
        newest = self.commits[0]
        unit = "edit" if newest.kind in ("edit", "observed") else "change"
        count = plural(len(self.commits), unit)
        name, rest = self.name(), Span(f"  {count}  {ago(newest.time, now)}", "dim")
        return (Span(shortened(name.text, width - line_columns((rest,))), name.style), rest)

    def name(self) -> Span:
        """The agent and session."""
        newest = self.commits[0]
        style = name_style(newest.agent, newest.session)
        return Span(who(newest), style if "bold" in style else f"bold {style}")


def bursts(commits: Iterable[CommitInfo], newer: Iterable[Burst] = ()) -> list[Burst]:
    """Group commits, newest first, into bursts; the first of them may belong to ``newer`` ones."""
    found = list(newer)
    for commit in commits:
        if not (found and found[-1].takes(commit)):
            found.append(Burst())
        found[-1].commits.append(commit)
    return found


def burst_page(
    commits: Sequence[CommitInfo],
    diffs: Iterator[str],
    now: datetime.datetime,
    width: int,
    *,
    stat: bool = False,
) -> Iterator[Line]:
    """A page of the log for a terminal; ``diffs``: of those commits that are edits; ``stat``: with
    each file's lines.
    """
    for number, burst in enumerate(bursts(commits)):
        if number:
            yield ()
        yield burst.heading(now, width)
        for commit in burst.commits:
            diff = next(diffs) if commit.kind == "edit" else ""
            yield from edit_lines(commit, diff, width, stat=stat)


def edit_lines(commit: CommitInfo, diff: str, width: int, *, stat: bool = False) -> Iterator[Line]:
    """One commit below its burst's heading: a line, and details if it does not say everything."""
    yield edit_line(commit, first_changed(diff) if diff else None, width)
    width -= len(_BELOW.text)
    files = commit.files
    says_all = commit.kind == "edit" and len(files) == 1 and files[0].status in "AM"
    below: Iterable[Line] = () if says_all else _details(commit, width)
    if stat:
        below = (_stat_line(change, width) for change in files)
    for line in [*_why(commit, width), *below]:
        yield (_BELOW, *line)


def edit_line(commit: CommitInfo, changed: str | None, width: int) -> Line:
    """One commit in one line: its file, and the first ``changed`` line (None: unknown, the subject
    is shown).
    """
    head: list[Span] = [Span(f"  {short(commit.commit)}  ", "yellow")]
    if commit.reverted_by and width >= NARROW:  # else it is only struck through
        head.append(Span(f"undone by {short(commit.reverted_by)}  ", "magenta"))
    counted = counts(commit.files)
    tail = (Span("  "), *counted) if counted else ()
    room = max(8, width - line_columns((*head, *tail)))
    if commit.kind != "edit" or changed is None:
        subject = shortened(subject_and_why(commit.message)[0], room)
        return (*head, Span(subject, "dim" if commit.kind == "outside" else ""), *tail)
    count = plural(len(commit.files), "file")
    where = visible(commit.files[0].path) if len(commit.files) == 1 else count
    where = shortened(where, max(8, room // 2))
    line = shortened(changed, max(0, room - columns(where) - 2))
    style = "dim strike" if commit.reverted_by else ""
    return (*head, Span(where, style or "bold"), Span(f"  {line}" if line else "", style), *tail)


def first_changed(diff: str) -> str:
    """The first added line of a diff, or else the first removed one, with its sign."""
    from stet.terminal.diff_lines import files_of

    lines = [line for file in files_of(diff) for hunk in file.hunks for line in hunk.lines]
    found = [line for sign in "+-" for line in lines if line[:1] == sign and line[1:].strip()]
    return f"{found[0][:1]} {visible(found[0][1:].strip()).expandtabs(1)}" if found else ""


# -- the graph


def graph_page(commits: Sequence[CommitInfo], width: int | None) -> Iterator[Line]:
    """A page of the log, newest first, one line a commit."""
    rows = list(_graph_rows(commits))
    lines = max(map(len, rows), default=0)
    most = min(_WIDEST_GRAPH_NAME, (width or 10_000) // 4)
    heads: list[Line] = []
    for commit, row in zip(commits, rows, strict=True):
        # A line that begins or ends here leads to the commit.
        graph = row.ljust(lines + 1, "─" if {*row} & {*"╭╰┬┴"} else " ") + " "
        name = Span(shortened(who(commit), most), name_style(commit.agent, commit.session))
        id_ = Span(f"{short(commit.commit)}  ", "yellow")
        heads.append((Span(graph if lines else "", "magenta"), id_, name, Span("  ")))
    for commit, head in zip(commits, aligned(heads), strict=True):
        yield (*head, *_subject_line(commit, (width or 10_000) - line_columns(head)))


def _graph_rows(commits: Sequence[CommitInfo]) -> Iterator[str]:
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
            if at == _MOST_BESIDE:
                break
            open_[at:] = [target, *open_[at + 1 :]]
            here[at:] = ["╭", *here[at + 1 :]]
        # Where a line begins or ends, it is joined to the commit.
        marks = [at for at, mark in enumerate(here) if mark in "╭╰"]
        for at in range(marks[0] + 1, len(here)) if marks else ():
            here[at] = {"╭": "┬", "╰": "┴", "│": "┼"}.get(here[at], "─")
        yield "".join(here)
