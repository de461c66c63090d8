"""``stet undo``, ``redo``, ``rollback`` and ``restore``: taking edits back, as the person."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterator, Sequence

import msgspec

import stet
from stet import calls
from stet.calls import Call
from stet.cli import asking
from stet.cli.commits import all_named, named
from stet.cli.output import Output
from stet.cli.usage import UsageError
from stet.terminal import render
from stet.terminal.render import Line, Span
from stet.wire.results import CommitInfo, EditResult

#: Commits taken back that are listed; more are only counted.
LISTED = 50


def undo(arguments: argparse.Namespace, output: Output) -> None:
    """Take back edits, or with --preview show which and how.

    Without a commit a person on a terminal is shown what it would be, and asked.
    """
    if arguments.commits and arguments.last is not None:
        raise UsageError("undo takes commits or --last N, not both")
    with asking.person(arguments) as session:
        commits = _commits(session, arguments.commits)

        def call(*, preview: bool) -> Call[EditResult]:
            return calls.undo(
                commits or None,
                last=arguments.last,
                request=arguments.request,
                session=arguments.session,
                agent=arguments.agent,
                paths=arguments.paths or None,
                message=arguments.message,
                preview=preview,
            )

        said = commits or arguments.last or arguments.request or arguments.yes
        if not (said or arguments.preview or output.as_json) and sys.stdin.isatty():
            would = session.perform(call(preview=True))
            edits = commits_taken_back(session, would)
            output.lines(report(would, edits, output, title="Would undo:", preview=True), long=True)
            if not asking.agreed(f"Undo {summary(edits)}?"):
                return
        result = asking.ask(session, call(preview=arguments.preview), output)
        if result is not None:
            title = "Would undo:" if arguments.preview else "Undone:"
            _report(session, result, output, title, arguments.preview)


def redo(arguments: argparse.Namespace, output: Output) -> None:
    """Take undos back, so that what they took back stands again."""
    with asking.person(arguments) as session:
        commits = _commits(session, arguments.commits)
        call = calls.redo(commits or None, message=arguments.message, preview=arguments.preview)
        result = asking.ask(session, call, output)
        if result is not None:
            title = "Would redo:" if arguments.preview else "Redone:"
            _report(session, result, output, title, arguments.preview)


def rollback(arguments: argparse.Namespace, output: Output) -> None:
    """Take back everything after a commit."""
    with asking.person(arguments) as session:
        call = calls.rollback(
            named(session, arguments.to),
            session=arguments.session,
            agent=arguments.agent,
            paths=arguments.paths or None,
            include_outside=arguments.include_outside,
            message=arguments.message,
            preview=arguments.preview,
        )
        result = asking.ask(session, call, output)
        if result is not None:
            title = "Would roll back:" if arguments.preview else "Rolled back:"
            _report(session, result, output, title, arguments.preview)


def restore(arguments: argparse.Namespace, output: Output) -> None:
    """Make a file what it was right after a commit."""
    with asking.person(arguments) as session:
        call = calls.restore(
            arguments.path,
            named(session, arguments.at),
            message=arguments.message,
            preview=arguments.preview,
        )
        result = asking.ask(session, call, output)
    if result is not None:
        output.lines(
            render.edited(result, preview=arguments.preview, show_diff=output.diff), long=True
        )


def _commits(session: stet.Session, words: Sequence[str]) -> list[str]:
    """The commits that were named; a file that was named instead is said to be one."""
    for word in words:
        if os.path.exists(word) and not re.fullmatch("[0-9a-f]{4,40}", word):
            raise UsageError(
                f"{word} is a file. To undo the newest edit of it: stet undo --last 1 --path {word}"
                f"; to make it what it was: stet restore {word} --at COMMIT; its edits: stet log "
                f"{word}"
            )
    return all_named(session, words)


def _report(
    session: stet.Session, result: EditResult, output: Output, title: str, preview: bool
) -> None:
    lines = report(
        result, commits_taken_back(session, result), output, title=title, preview=preview
    )
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


def summary(edits: Sequence[CommitInfo]) -> str:
    """How many edits, by whom, in how many files."""
    names = sorted({render.who(edit) for edit in edits})
    by = " and ".join(names) if len(names) <= 2 else render.plural(len(names), "session")
    files = {path for edit in edits for path in paths_of(edit)}
    return f"{render.plural(len(edits), 'edit')} by {by} in {render.plural(len(files), 'file')}"


def paths_of(commit: CommitInfo) -> Iterator[str]:
    """The files of a commit, by both names if it moved one."""
    for change in commit.files:
        yield change.path
        if change.old_path is not None:
            yield change.old_path


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
