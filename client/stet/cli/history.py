"""``stet log``, ``show``, ``diff`` and ``undo``: what was done, and taking it back."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

import msgspec

import stet
from stet import calls, render
from stet.cli import asking
from stet.cli.output import Output
from stet.cli.usage import UsageError
from stet.render import Line
from stet.wire.results import CommitInfo, EditResult

#: Undone commits that are listed by a preview; more are only counted.
_LISTED = 50

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def log(arguments: argparse.Namespace, output: Output) -> None:
    """Print history, newest first."""
    call = calls.log(
        arguments.path,
        session=arguments.session,
        agent=arguments.agent,
        method=arguments.method,
        since=_moment(arguments.since),
        until=_moment(arguments.until),
        text=arguments.text,
        limit=arguments.limit,
        cursor=arguments.cursor,
    )
    with asking.person(arguments) as session:
        page = asking.ask(session, call, output)
    if page is None:
        return
    lines = list(render.log(page.commits, output.now))
    if page.cursor is not None and output.terminal:
        more = f"older commits: stet log --cursor {page.cursor}"
        lines.append((render.Span(more, "dim"),))
    output.lines(lines, long=True)


def show(arguments: argparse.Namespace, output: Output) -> None:
    """Print one commit with its diff."""
    with asking.person(arguments) as session:
        commit = asking.ask(session, calls.show(arguments.commit), output)
    if commit is not None:
        output.lines(render.show(commit, output.now), long=True)


def diff(arguments: argparse.Namespace, output: Output) -> None:
    """Print what differs between two commits, or a commit and the workspace."""
    if len(arguments.commits) > 2:
        raise UsageError("at most two commits; paths stand after --: stet diff A B -- PATH")
    first, second = [*arguments.commits, None, None][:2]
    call = calls.diff(first, second, paths=arguments.paths or None)
    with asking.person(arguments) as session:
        result = asking.ask(session, call, output)
    if result is not None:
        output.lines(render.diff(result.diff), long=True)


def undo(arguments: argparse.Namespace, output: Output) -> None:
    """Take back edits, or with --preview show which and how."""
    if arguments.commits and arguments.last is not None:
        raise UsageError("undo takes commits or --last N, not both")
    call = calls.undo(
        arguments.commits or None,
        last=arguments.last,
        request=arguments.request,
        session=arguments.session,
        agent=arguments.agent,
        paths=arguments.paths or None,
        message=arguments.message,
        preview=arguments.preview,
    )
    with asking.person(arguments) as session:
        result = asking.ask(session, call, output)
        if result is None:
            return
        undone = _undone(session, result)
    output.lines(_undo_lines(result, undone, output, preview=arguments.preview), long=True)


def _undone(session: stet.Session, result: EditResult) -> list[CommitInfo]:
    """The commits that an undo takes back, to be shown as log shows them."""
    ids = result.undone if isinstance(result.undone, list) else []
    found = session.perform_all([calls.show(commit) for commit in ids[:_LISTED]])
    return [
        # What undoes them is said below.
        msgspec.structs.replace(commit, reverted_by=None)
        for commit in found
        if not isinstance(commit, stet.StetError)
    ]


def _undo_lines(
    result: EditResult, undone: list[CommitInfo], output: Output, *, preview: bool
) -> Iterator[Line]:
    yield (render.Span("Would undo:" if preview else "Undone:", "bold"),)
    yield from render.log(undone, output.now)
    more = len(result.undone) - len(undone) if isinstance(result.undone, list) else 0
    if more > 0:
        yield (render.Span(f"and {more} more"),)
    yield (render.Span("Which would change:" if preview else "By:", "bold"),)
    # The message says the same as the lines above, with less about who and when.
    yield from render.edited(msgspec.structs.replace(result, message=""), preview=preview)


def _moment(text: str | None) -> str | float | None:
    """``30m``, ``2h``, ``3d``: that long ago, as seconds since 1970; else as it stands."""
    if text is None:
        return None
    if text[-1:] in _UNITS and text[:-1].isascii() and text[:-1].isdigit():
        return time.time() - int(text[:-1]) * _UNITS[text[-1]]
    try:
        return float(text)
    except ValueError:
        return text
