"""The commands that print the history: ``stet log``, ``show``, ``diff`` and ``blame``."""

from __future__ import annotations

import datetime
import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial
from operator import attrgetter, itemgetter
from typing import Any

import msgspec

import stet
from stet import calls
from stet.cli import asking
from stet.cli.output import Output
from stet.cli.usage import UNITS, Arguments, UsageError
from stet.terminal import blame_lines, log_lines, render
from stet.terminal.spans import Line, Span, plural, short, typed, visible
from stet.wire.results import CommitInfo, LogResult

#: Commits that are printed without --limit; also how many diffs are read at once.
_DEFAULT_LIMIT = 50
#: The most commits in one answer of the daemon.
_MOST = 1000
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
#: Arguments of log that are no options in the command for the next page.
_NOT_PAGED = ("directory", "path", "root", "prog", "run", "json", "no_pager")
#: ``A..B``, where one may be left out; not a path.
RANGE = re.compile(r"(?!\.\.$)([^/]*?)\.\.([^/]*)")
_AGO = re.compile(
    r"(\d{1,12}) ?(s(?:ec(?:ond)?s?)?|m(?:in(?:ute)?s?)?|h(?:ours?)?|d(?:ays?)?|w(?:eeks?)?)( ago)?"
)


def log(arguments: Arguments, output: Output) -> None:
    """Print history, newest first."""
    which = filters(arguments, "method", "kind", "text")
    # As JSON the pages are not decoded: a newer daemon's have more fields.
    kind, get = (object, itemgetter) if output.as_json else (LogResult, attrgetter)
    with asking.person(arguments) as session:
        wanted = _DEFAULT_LIMIT if arguments.limit is None else arguments.limit
        page: Any = None
        commits, cursor = list[Any](), arguments.cursor
        # A search that can't use the index returns short pages, even empty ones.
        while page is None or (cursor is not None and len(commits) < wanted):
            limit = min(wanted - len(commits), _MOST)
            call: Any = calls.log(arguments.path, **which, limit=limit, cursor=cursor)
            page = session.perform(msgspec.structs.replace(call, result=kind))
            commits += get("commits")(page)
            cursor = get("cursor")(page)
        if output.as_json:
            output.value(page | {"commits": commits})
            return
        page = LogResult(commits, cursor, page.dropped)
        if arguments.path is not None and not commits:
            report_no_commits(arguments, [arguments.path])
        output.lines(_log_lines(session, page, arguments, output), long=True)


def _next_page_command(arguments: Arguments, cursor: str) -> str:
    words = ["stet", "log"]
    if arguments.directory != ".":
        words += ["-C", arguments.directory]
    for name, value in (vars(arguments) | {"cursor": cursor}).items():
        if value and name not in _NOT_PAGED:
            words.append(f"--{name}" if value is True else f"--{name}={value}")
    return " ".join(map(typed, [*words, "--", arguments.path] if arguments.path else words))


def _log_lines(
    session: stet.Session, page: LogResult, arguments: Arguments, output: Output
) -> Iterator[Line]:
    if not page.commits and output.terminal:
        yield (Span("No commit; stet without a command says what is next.", "dim"),)
    yield from _commit_lines(session, page.commits, arguments, output)
    if page.cursor is not None and output.terminal:
        older = f"older commits: {_next_page_command(arguments, page.cursor)}"
        yield (Span(visible(older), "dim"),)
    if page.dropped is not None:
        gone = page.dropped
        text = f"{gone.commits:,} older commits were dropped on {gone.time}: {gone.why}"
        yield (Span(visible(text), "dim"),)


def _diffs(session: stet.Session, commits: Sequence[CommitInfo]) -> Iterator[str]:
    """The diff of each commit, read as it is wanted; empty if the commit no longer exists."""
    for at in range(0, len(commits), _DEFAULT_LIMIT):
        batch = [calls.show(commit.commit) for commit in commits[at : at + _DEFAULT_LIMIT]]
        for found in session.perform_all(batch):
            yield "" if isinstance(found, stet.StetError) else found.diff


def _commit_lines(
    session: stet.Session, commits: Sequence[CommitInfo], arguments: Arguments, output: Output
) -> Iterator[Line]:
    now, width = output.now, output.width
    in_a_line = arguments.oneline or arguments.graph
    if in_a_line or arguments.patch:
        graph, diffs = log_lines.graph_page(commits, width), _diffs(session, commits)
        heads = graph if arguments.graph else map(_one_line, commits)
        for commit, head in zip(commits, heads, strict=True):
            yield from [head] if in_a_line else log_lines.log([commit], now, width)
            if in_a_line and arguments.stat:
                yield from ((Span(" "), *log_lines.file_line(change)) for change in commit.files)
            if arguments.patch:
                yield from output.diff(next(diffs))
                yield ()
    elif now is None or width is None or width < log_lines.NARROW:
        yield from log_lines.log(commits, now, width)
    else:
        shown = [each for each in commits if arguments.all or not log_lines.is_first_seen(each)]
        diffs = _diffs(session, [each for each in shown if each.kind == "edit"])
        yield from log_lines.burst_page(shown, diffs, now, width, stat=arguments.stat)
        if hidden := len(commits) - len(shown):
            count = plural(hidden, "file")
            yield (Span(f"{count} seen for the first time: stet log --all", "dim"),)


def _one_line(commit: CommitInfo) -> Line:
    subject, _ = log_lines.subject_and_why(commit.message)
    return (Span(short(commit.commit), "yellow"), Span(f" {subject}"))


def report_no_commits(arguments: Arguments, paths: Sequence[str]) -> None:
    """Report files without a commit; perhaps the other filters excluded their commits."""
    for path in paths:
        here = os.path.abspath(arguments.directory)
        is_there = os.path.lexists(os.path.join(here, path))
        there = "" if is_there else f"; there is no such file in {visible(here)}, either"
        print(f"stet: no commit was found that changed {path!r}{there}", file=sys.stderr)


def filters(arguments: Arguments, *names: str) -> dict[str, Any]:
    """A call's parameters from the options for session, agent and time, and from ``names``."""
    when = {name: parse_time(value) for name, value in arguments.given("since", "until").items()}
    return arguments.given("session", "agent") | when | arguments.given(*names)


def show(arguments: Arguments, output: Output) -> None:
    """Print one commit with its diff."""
    with asking.person(arguments) as session:
        call = calls.show(asking.commit_named(session, arguments.commit))
        commit = asking.ask(session, call, output)
    if commit is not None:
        if arguments.stat:
            commit = msgspec.structs.replace(commit, diff="")
        shown = partial(output.diff, words=arguments.word)
        output.lines(render.show(commit, output.now, shown), long=True)


def diff(arguments: Arguments, output: Output) -> None:
    """Print what differs between two commits, or a commit and the workspace."""
    words: list[str] = arguments.commits
    if len(words) == 1 and (ends := RANGE.fullmatch(words[0])):
        words = [end or "HEAD" for end in ends.groups()]
    if len(words) > 2:
        raise UsageError("at most two commits; paths stand after --: stet diff A B -- PATH")
    with asking.person(arguments) as session:
        commits = [asking.commit_named(session, each) for each in words]
        call = calls.diff(*commits, paths=arguments.paths or None)
        result = asking.ask(session, call, output)
    if result is not None:
        output.lines(output.diff(result.diff, words=arguments.word), long=True)


def blame(arguments: Arguments, output: Output) -> None:
    """Print a file with the author of each line."""
    session = asking.person(arguments)
    at = arguments.at and asking.commit_named(session, arguments.at)
    lines = partial(blame_lines.blame, now=output.now, width=output.width)
    if output.colours.on:
        from stet.terminal.diff_colours import lexed_lines

        lines = partial(lines, tokens=lexed_lines)
    asking.show(session, calls.blame(arguments.path, at=at), output, lines, long=True)


def parse_time(text: str | None) -> str | float | None:
    """Parse a time as people write it, for ``since`` and ``until``. Raises UsageError.

    ``30m``, ``2h``, ``3d``, ``2 days ago``: that long ago, as seconds since 1970. ``today``,
    ``yesterday``, ``monday``: the start of that day in local time. A date and time without an
    offset is local time; one with an offset is returned unchanged.
    """
    if text is None:
        return None
    word = text.strip().lower()
    if ago := _AGO.fullmatch(word):
        return time.time() - int(ago[1]) * UNITS[ago[2][0]]
    if word == "now":
        return time.time()
    now = time.localtime()
    days = {day: (now.tm_wday - number - 1) % 7 + 1 for number, day in enumerate(_DAYS)}
    days |= {"today": 0, "yesterday": 1}
    back = days.get(word.removeprefix("last "))
    if back is not None:
        return time.mktime((now.tm_year, now.tm_mon, now.tm_mday - back, 0, 0, 0, 0, 0, -1))
    try:
        if re.fullmatch(r"(?!\d{8}$)\d{1,12}(\.\d*)?", word):
            return float(word)
        given = datetime.datetime.fromisoformat(text.strip())
        return text.strip() if given.tzinfo else given.timestamp()
    except (ValueError, OverflowError) as error:
        raise UsageError(
            f"{text!r} is no time; write 30m, 2 hours ago, yesterday, monday, 2026-11-21, "
            "2026-11-21 14:30, or seconds since 1970"
        ) from error
