"""``stet undo``, ``redo``, ``rollback`` and ``restore``: taking edits back, as the person."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

import msgspec

import stet
from stet import calls
from stet.calls import Call
from stet.cli import asking
from stet.cli.output import Output
from stet.cli.usage import UsageError
from stet.terminal import render
from stet.terminal.render import Line, Span
from stet.wire.results import CommitInfo, EditResult

#: Commits taken back that are listed; more are only counted.
LISTED = 50


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
    _take_back(call, arguments, output, ("Would undo:", "Undone:"))


def redo(arguments: argparse.Namespace, output: Output) -> None:
    """Take undos back, so that what they took back stands again."""
    call = calls.redo(
        arguments.commits or None, message=arguments.message, preview=arguments.preview
    )
    _take_back(call, arguments, output, ("Would redo:", "Redone:"))


def rollback(arguments: argparse.Namespace, output: Output) -> None:
    """Take back everything after a commit."""
    call = calls.rollback(
        arguments.to,
        session=arguments.session,
        agent=arguments.agent,
        paths=arguments.paths or None,
        include_outside=arguments.include_outside,
        message=arguments.message,
        preview=arguments.preview,
    )
    _take_back(call, arguments, output, ("Would roll back:", "Rolled back:"))


def restore(arguments: argparse.Namespace, output: Output) -> None:
    """Make a file what it was right after a commit."""
    call = calls.restore(
        arguments.path, arguments.at, message=arguments.message, preview=arguments.preview
    )
    with asking.person(arguments) as session:
        result = asking.ask(session, call, output)
    if result is not None:
        output.lines(
            render.edited(result, preview=arguments.preview, show_diff=output.diff), long=True
        )


def _take_back(
    call: Call[EditResult], arguments: argparse.Namespace, output: Output, titles: tuple[str, str]
) -> None:
    with asking.person(arguments) as session:
        result = asking.ask(session, call, output)
        if result is None:
            return
        taken_back = commits_taken_back(session, result)
    title = titles[0] if arguments.preview else titles[1]
    lines = report(result, taken_back, output, title=title, preview=arguments.preview)
    output.lines(lines, long=True)


def commits_taken_back(session: stet.Session, result: EditResult) -> list[CommitInfo]:
    """The commits that a call takes back, to be shown as log shows them."""
    ids = result.undone if isinstance(result.undone, list) else []
    found = session.perform_all([calls.show(commit) for commit in ids[:LISTED]])
    return [
        # What takes them back is said below.
        msgspec.structs.replace(commit, reverted_by=None)
        for commit in found
        if not isinstance(commit, stet.StetError)
    ]


def report(
    result: EditResult,
    taken_back: Sequence[CommitInfo],
    output: Output,
    *,
    title: str,
    preview: bool,
) -> Iterator[Line]:
    """What was taken back, and what that changed, or would."""
    yield (Span(title, "bold"),)
    yield from render.log(taken_back, output.now, output.width)
    more = len(result.undone) - len(taken_back) if isinstance(result.undone, list) else 0
    if more > 0:
        yield (Span(f"and {more} more"),)
    yield (Span("Which would change:" if preview else "By:", "bold"),)
    # The message says the same as the lines above, with less about who and when.
    yield from render.edited(
        msgspec.structs.replace(result, message=""), preview=preview, show_diff=output.diff
    )
