"""Commits as lines for people: a page of ``log``.

Where there is no terminal (``width`` None), whole, and always the same:

    4f3c2a1b  2026-11-21T12:00:00Z  my-agent/conv-1  patch src/a.py: 2 edits
              why it was done
              M src/a.py  +3 -1

On a terminal a commit of one file that its subject names takes one line, and what does not
fit is cut off; under NARROW columns who and when get a line of their own:

    4f3c2a1b  3 min ago  my-agent/conv-1   patch src/a.py: 2 edits  +3 -1
    9c2d11e0  5 min ago  person            undo 4f3c2a1b: patch src/a.py: 2 edits  +1 -3

Commits that were undone are dim and struck through, and say by what; those that take back
more than their subject names, say which.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence

from stet.terminal.spans import (
    SHORT,
    Line,
    Span,
    columns,
    line_columns,
    name_style,
    padded,
    plural,
    short,
    shortened,
    visible,
    when,
    who,
)
from stet.wire.results import CommitInfo, FileChange

#: Below so many columns there is no room for a table.
NARROW = 64
#: Files and commits that are listed on a terminal; further ones are counted.
_LISTED = 6
_WIDEST_NAME = 32

_STATUS_STYLE = {"A": "green", "M": "yellow", "D": "red", "R": "cyan"}


def _name(commit: CommitInfo) -> str:
    """Who it was, and which of the session's agents."""
    return who(commit) + (f" ({visible(commit.subagent)})" if commit.subagent else "")


def log(
    commits: Sequence[CommitInfo], now: datetime.datetime | None, width: int | None = None
) -> Iterator[Line]:
    """A page of history, newest first; ``width`` in columns, None: no terminal."""
    if width is None:
        yield from _plain(commits, now)
    elif width < NARROW:
        yield from _stacked(commits, now, width)
    else:
        yield from _table(commits, now, width)


def subject_and_why(message: str) -> tuple[str, list[str]]:
    """A commit's subject, and the lines of the rest without blank ones before it."""
    subject, *body = message.strip("\n").split("\n")
    why = [visible(line) for line in body]
    while why and not why[0].strip():
        del why[0]
    return visible(subject), why


def file_line(change: FileChange) -> Line:
    """Status, path, lines added and removed."""
    path = visible(change.path)
    if change.old_path is not None:
        path = f"{visible(change.old_path)} -> {path}"
    status = Span(change.status, _STATUS_STYLE.get(change.status, ""))
    if change.excluded:
        return (status, Span(f" {path}  "), Span("excluded", "yellow"))
    return (
        status,
        Span(f" {path}  "),
        Span(f"+{change.added}", "green"),
        Span(" "),
        Span(f"-{change.removed}", "red"),
    )


def counts(files: Sequence[FileChange]) -> Line:
    """Lines added and removed in all of these, without zeros."""
    if files and all(change.excluded for change in files):
        return (Span("excluded", "yellow"),)  # the history does not know
    added, removed = sum(f.added for f in files), sum(f.removed for f in files)
    spans = []
    if added:
        spans.append(Span(f"+{added}", "green"))
    if removed:
        spans.append(Span(f"-{removed}", "red"))
    return (spans[0], Span(" "), spans[1]) if len(spans) == 2 else tuple(spans)


def _plain(commits: Sequence[CommitInfo], now: datetime.datetime | None) -> Iterator[Line]:
    times = [when(commit.time, now) for commit in commits]
    names = [_name(commit) for commit in commits]
    time_width = max(map(columns, times), default=0)
    name_width = min(max(map(columns, names), default=0), _WIDEST_NAME)
    indent = " " * (SHORT + 2)
    for commit, time, name in zip(commits, times, names, strict=True):
        subject, why = subject_and_why(commit.message)
        head = [
            Span(short(commit.commit), "yellow"),
            Span(f"  {padded(time, time_width)}", "dim"),
            Span(f"  {padded(name, name_width)}", name_style(commit.agent, commit.session)),
            Span(f"  {subject}", _subject_style(commit)),
        ]
        if commit.reverted_by:
            head.append(Span(f"  (undone by {short(commit.reverted_by)})", "magenta"))
        yield tuple(head)
        if why:
            yield (Span(indent + why[0], "italic"),)
        for change in commit.files:
            yield (Span(indent), *file_line(change))


def _table(
    commits: Sequence[CommitInfo], now: datetime.datetime | None, width: int
) -> Iterator[Line]:
    times = [when(commit.time, now) for commit in commits]
    most = max(12, min(_WIDEST_NAME, width // 5))
    names = [shortened(_name(commit), most) for commit in commits]
    time_width = max(map(columns, times), default=0)
    name_width = max(map(columns, names), default=0)
    indent = " " * (SHORT + 2)
    for commit, time, name in zip(commits, times, names, strict=True):
        head = (
            Span(short(commit.commit), "yellow"),
            Span(f"  {padded(time, time_width)}", "dim"),
            Span(f"  {padded(name, name_width)}", name_style(commit.agent, commit.session)),
            Span("  "),
        )
        room = width - line_columns(head)
        yield (*head, *subject_line(commit, room))
        for line in details(commit, width - len(indent), said=room):
            yield (Span(indent), *line)


def _stacked(
    commits: Sequence[CommitInfo], now: datetime.datetime | None, width: int
) -> Iterator[Line]:
    for commit in commits:
        time = when(commit.time, now)
        name = shortened(_name(commit), max(1, width - SHORT - columns(time) - 4))
        yield (
            Span(short(commit.commit), "yellow"),
            Span(f"  {name}", name_style(commit.agent, commit.session)),
            Span(f"  {time}", "dim"),
        )
        yield (Span("  "), *subject_line(commit, width - 2))
        for line in details(commit, width - 2, said=width - 2):
            yield (Span("  "), *line)


def subject_line(commit: CommitInfo, room: int) -> Line:
    """The subject in so many columns, with what of it all was undone and changed, if it fits."""
    subject, _ = subject_and_why(commit.message)
    changed = counts(commit.files) if _names_its_files(commit) else ()
    tail = (Span("  "), *changed) if changed else ()
    undone = _undone(commit)
    if undone and columns(subject) + line_columns((*tail, Span("  "), *undone)) <= room:
        tail = (*tail, Span("  "), *undone)
    text = shortened(subject, max(room - line_columns(tail), 1))
    return (Span(text, _subject_style(commit)), *tail)


def details(commit: CommitInfo, width: int, *, said: int) -> Iterator[Line]:
    """What stands below the subject, which was given ``said`` columns: why, and what changed."""
    subject, why = subject_and_why(commit.message)
    if why:
        yield (Span(shortened(why[0], width), "italic"),)
    undone = _undone(commit)
    if undone and undone[0] not in subject_line(commit, said):
        yield undone
    unnamed = [short(each) for each in commit.reverts if short(each) not in subject]
    if unnamed:
        more = f" and {len(unnamed) - _LISTED} more" if len(unnamed) > _LISTED else ""
        text = f"takes back {', '.join(unnamed[:_LISTED])}{more}"
        yield (Span(shortened(text, width), "magenta"),)
    if not _names_its_files(commit):
        yield from _files(commit.files, width)


def _files(files: Sequence[FileChange], width: int) -> Iterator[Line]:
    listed = files if len(files) <= _LISTED + 1 else files[:_LISTED]
    for change in listed:
        yield stat_line(change, width)
    if len(listed) < len(files):
        rest = files[len(listed) :]
        yield (Span(f"and {plural(len(rest), 'file')} more  ", "dim"), *counts(rest))


def stat_line(change: FileChange, width: int) -> Line:
    """Status, path, lines added and removed, in so many columns."""
    status, path, *_ = file_line(change)
    changed = counts([change])
    text = shortened(path.text.strip(), max(width - 4 - line_columns(changed), 8))
    return (status, Span(f" {text}  "), *changed)


def _undone(commit: CommitInfo) -> Line:
    return (
        (Span(f"undone by {short(commit.reverted_by)}", "magenta"),) if commit.reverted_by else ()
    )


def _names_its_files(commit: CommitInfo) -> bool:
    """Whether the subject says all of what a list of the files would."""
    subject, _ = subject_and_why(commit.message)
    return all(
        change.status in "AM" and visible(change.path) in subject and not change.excluded
        for change in commit.files
    )


def _subject_style(commit: CommitInfo) -> str:
    if commit.reverted_by:
        return "dim strike"
    return "dim" if commit.kind == "outside" else ""
