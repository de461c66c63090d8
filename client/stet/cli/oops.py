"""``stet oops``: the last burst of an agent's edits, shown, and undone if the person says so.

A burst is the newest edits of one session, up to the first pause of more than five minutes.
The session is that of the newest edit that stands. What is undone already is left out; what
else happened between the edits is not touched. Who else has changed the same files since, is said.
"""

from __future__ import annotations

import argparse
import collections
import itertools
import sys
from collections.abc import Container, Iterable, Iterator
from datetime import datetime

import stet
from stet import calls
from stet.cli import asking
from stet.cli.output import Output
from stet.cli.taking_back import LISTED, paths_of, report, summary
from stet.cli.usage import UsageError
from stet.terminal import render
from stet.terminal.render import Line, Span
from stet.wire.results import CommitInfo

#: Seconds without an edit that end a burst.
PAUSE_S = 300
_PAGE = 200
#: As many commits as one call takes.
_MOST = 10_000


def oops(arguments: argparse.Namespace, output: Output) -> None:
    """Show the last burst of edits, ask, and undo it."""
    if output.as_json and not (arguments.yes or arguments.preview):
        raise UsageError("with --json nobody is asked: add --yes, or --preview to see what it is")
    with asking.person(arguments) as session:
        edits = _last_burst(session, arguments.session)
        ids = [edit.commit for edit in edits]
        also = _others(session, edits)
        if not output.as_json:
            output.lines(_shown(edits, also, output))
            preview = session.undo(ids, preview=True)  # a conflict is told before asking
            if arguments.preview:
                output.lines(render.edited(preview, preview=True, show_diff=output.diff))
                return
            if not (arguments.yes or _agreed(edits)):
                return
        call = calls.undo(ids, message=arguments.message, preview=arguments.preview)
        result = asking.ask(session, call, output, also_changed=also)
    if result is not None:
        output.lines(report(result, [], output, title=f"Undone: {_edits(len(ids))}", preview=False))


def _last_burst(session: stet.Session, name: str | None) -> list[CommitInfo]:
    newest = next(
        (each for each in session.history(session=name, limit=_PAGE) if _stands(each)), None
    )
    if newest is None:
        raise stet.NothingToUndo(
            "there is no edit of an agent left to undo"
            + (f" in session {name!r}." if name is not None else ".")
        )
    own = session.history(session=newest.session, limit=_PAGE)
    return list(last_burst(own))[:_MOST]


def last_burst(newest_first: Iterable[CommitInfo]) -> Iterator[CommitInfo]:
    """Of the commits of one session the standing edits of its last burst, newest first.

    Edits that were undone are passed over, but fill pauses, once an edit that stands was met.
    """
    last: datetime | None = None
    for commit in newest_first:
        if not _is_edit(commit) or (last is None and not _stands(commit)):
            continue
        time = datetime.fromisoformat(commit.time)
        if last is not None and (last - time).total_seconds() > PAUSE_S:
            return
        last = time
        if _stands(commit):
            yield commit


def _others(session: stet.Session, burst: list[CommitInfo]) -> dict[str, int]:
    first = burst[-1]
    since = session.history(since=first.time, limit=_PAGE)
    later = list(itertools.takewhile(lambda each: each.commit != first.commit, since))
    return others([first, *reversed(later)], {each.commit for each in burst})


def others(oldest_first: Iterable[CommitInfo], burst: Container[str]) -> dict[str, int]:
    """Who else has changed files after a burst changed them, and how many times.

    What was recorded of a file before its first edit stood there before.
    """
    touched: set[str] = set()
    found = collections.Counter[str]()
    for each in oldest_first:
        if each.commit in burst:
            touched.update(paths_of(each))
        elif (_stands(each) or each.kind == "outside") and not touched.isdisjoint(paths_of(each)):
            found[render.who(each)] += 1
    return dict(found)


def _is_edit(commit: CommitInfo) -> bool:
    # As undo counts them: recovery restores files too.
    restored = commit.kind == "restore" and commit.method == "restore"
    return commit.session is not None and (commit.kind in ("edit", "observed") or restored)


def _stands(commit: CommitInfo) -> bool:
    return _is_edit(commit) and commit.reverted_by is None


def _shown(edits: list[CommitInfo], also: dict[str, int], output: Output) -> Iterator[Line]:
    yield (Span(f"The last burst, {_edits(len(edits))} by {render.who(edits[0])}:", "bold"),)
    yield from render.log(edits[:LISTED], output.now, output.width)
    if len(edits) > LISTED:
        yield (Span(f"and {len(edits) - LISTED} more"),)
    if also:
        names = [
            f"{who} ({times if who == 'outside' else _edits(times)})" for who, times in also.items()
        ]
        yield (Span(f"also changed these files since: {', '.join(names)}", "yellow"),)


def _agreed(edits: list[CommitInfo]) -> bool:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            "nothing was undone: there is no terminal to ask on. Without asking: stet oops --yes"
        )
    return asking.agreed(f"Undo {summary(edits)}?")


def _edits(count: int) -> str:
    return "1 edit" if count == 1 else f"{count} edits"
