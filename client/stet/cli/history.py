"""``stet log``, ``show`` and ``diff``: what was done."""

from __future__ import annotations

import argparse
import time

from stet import calls
from stet.cli import asking
from stet.cli.output import Output
from stet.cli.usage import UsageError
from stet.terminal import render
from stet.wire.results import LogResult

#: Commits of a page, if --limit does not say.
_PAGE = 50
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def log(arguments: argparse.Namespace, output: Output) -> None:
    """Print history, newest first."""
    with asking.person(arguments) as session:
        page = asking.ask(session, _log(arguments, arguments.limit, arguments.cursor), output)
        if page is None:
            return
        # A search that the index can't help with gives short pages, even empty ones.
        wanted = arguments.limit or _PAGE
        while page.cursor is not None and len(page.commits) < wanted:
            call = _log(arguments, wanted - len(page.commits), page.cursor)
            more = session.perform(call)
            page = LogResult([*page.commits, *more.commits], more.cursor, more.dropped)
    lines = list(render.log(page.commits, output.now, output.width))
    if page.cursor is not None and output.terminal:
        older = f"older commits: stet log --cursor {page.cursor}"
        lines.append((render.Span(older, "dim"),))
    if page.dropped is not None:
        gone = page.dropped
        text = f"{gone.commits:,} older commits were dropped on {gone.time}: {gone.why}"
        lines.append((render.Span(render.visible(text), "dim"),))
    output.lines(lines, long=True)


def _log(
    arguments: argparse.Namespace, limit: int | None, cursor: str | None
) -> calls.Call[LogResult]:
    return calls.log(
        arguments.path,
        session=arguments.session,
        agent=arguments.agent,
        method=arguments.method,
        kind=arguments.kind,
        since=moment(arguments.since),
        until=moment(arguments.until),
        text=arguments.text,
        limit=limit,
        cursor=cursor,
    )


def show(arguments: argparse.Namespace, output: Output) -> None:
    """Print one commit with its diff."""
    with asking.person(arguments) as session:
        commit = asking.ask(session, calls.show(arguments.commit), output)
    if commit is not None:
        output.lines(render.show(commit, output.now, output.diff), long=True)


def diff(arguments: argparse.Namespace, output: Output) -> None:
    """Print what differs between two commits, or a commit and the workspace."""
    if len(arguments.commits) > 2:
        raise UsageError("at most two commits; paths stand after --: stet diff A B -- PATH")
    first, second = [*arguments.commits, None, None][:2]
    call = calls.diff(first, second, paths=arguments.paths or None)
    with asking.person(arguments) as session:
        result = asking.ask(session, call, output)
    if result is not None:
        output.lines(output.diff(result.diff), long=True)


def moment(text: str | None) -> str | float | None:
    """``30m``, ``2h``, ``3d``: that long ago, as seconds since 1970; else as it stands."""
    if text is None:
        return None
    if text[-1:] in _UNITS and text[:-1].isascii() and text[:-1].isdigit():
        return time.time() - int(text[:-1]) * _UNITS[text[-1]]
    try:
        return float(text)
    except ValueError:
        return text
