"""The person's commands that revert edits: ``stet undo``, ``redo``, ``rollback``, ``restore``,
``oops``; and ``stet`` alone, which prints an overview with the last burst.

oops undoes the last burst: the newest edits of one session, back to the first pause of more than
five minutes. The session is that of the newest edit that is not undone. Edits that are undone or
forgotten are left out. Other edits in between stay; who else has since changed the same files is
reported.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import msgspec

import stet
from stet import calls
from stet.calls import Call
from stet.cli import asking
from stet.cli.output import Output
from stet.cli.usage import Arguments, UsageError
from stet.terminal import log_lines, render
from stet.terminal.spans import Line, Span, pause_between, plural, until, visible, when, who
from stet.wire.results import CommitInfo, EditResult

#: The most reverted commits that are listed; further ones are only counted.
_LISTED = 50
#: Titles of the reverted commits, by method: after a call, and after its preview.
_TITLES = {
    "undo": ("Undone:", "Would undo:"),
    "redo": ("Redone:", "Would redo:"),
    "rollback": ("Rolled back:", "Would roll back:"),
}
#: Commits of a page in the search for the last burst.
_PAGE = 200
#: The most commits that one call accepts.
_MOST = 10_000


def undo(arguments: Arguments, output: Output) -> None:
    """Undo edits, or with --preview print the edits and the changes.

    If no edits are chosen, a person on a terminal first sees the preview and is asked.
    """
    if arguments.commits and arguments.last is not None:
        raise UsageError("undo takes commits or --last N, not both")
    with asking.person(arguments) as session:
        commits = [asking.commit_named(session, each) for each in arguments.commits]
        which = arguments.given("last", "request", "session", "agent", "paths", "message")
        chosen = commits or arguments.last or arguments.request or arguments.yes
        if not (chosen or arguments.preview or output.as_json) and asking.can_ask():
            commits, edits = _revert(session, calls.undo(**which, preview=True), output)
            if not asking.confirm(f"Undo {_summary(edits)}?"):
                return
            which = arguments.given("message")  # and these, even if there is a newer edit by now
        _revert(session, calls.undo(commits or None, **which, preview=arguments.preview), output)


def redo(arguments: Arguments, output: Output) -> None:
    """Revert undos, so that the edits that they reverted apply again."""
    with asking.person(arguments) as session:
        commits = [asking.commit_named(session, each) for each in arguments.commits]
        call = calls.redo(commits or None, **arguments.given("message", "preview"))
        _revert(session, call, output)


def rollback(arguments: Arguments, output: Output) -> None:
    """Revert everything after a commit."""
    with asking.person(arguments) as session:
        which = arguments.given("session", "agent", "paths", "include_outside")
        writing = arguments.given("message", "preview")
        call = calls.rollback(asking.commit_named(session, arguments.to), **which, **writing)
        _revert(session, call, output)


def restore(arguments: Arguments, output: Output) -> None:
    """Give a file the content that it had right after a commit."""
    session = asking.person(arguments)
    at = asking.commit_named(session, arguments.at)
    call = calls.restore(arguments.path, at, **arguments.given("message", "preview"))
    lines = partial(render.edited, preview=arguments.preview, show_diff=output.diff)
    asking.show(session, call, output, lines, long=True)


def _revert(
    session: stet.Session, call: Call[EditResult], output: Output
) -> tuple[list[str], list[CommitInfo]]:
    """Perform a call that reverts commits, and print them as in the log, and what it changed.

    Returns the ids of the reverted commits, and those commits that are listed; with --json none.
    """
    result = asking.ask(session, call, output)
    if result is None:
        return [], []
    ids = result.undone if isinstance(result.undone, list) else []
    found = session.perform_all([calls.show(commit) for commit in ids[:_LISTED]])
    edits: list[CommitInfo] = [
        # The reverting commit is named below.
        msgspec.structs.replace(commit, reverted_by=None)
        for commit in found
        if not isinstance(commit, stet.StetError)
    ]
    preview = call.params.get("preview", False)
    title = _TITLES[call.method][preview]
    changes = _change_lines(result, output, preview=preview)
    listed = _listed(title, edits, len(ids), output)
    output.lines(itertools.chain(listed, changes), long=True)
    return ids, edits


def _listed(title: str, commits: Sequence[CommitInfo], count: int, output: Output) -> list[Line]:
    """Commits below a title; ``count``: how many there are with those that are not listed."""
    lines = [(Span(title, "bold"),), *log_lines.log(commits, output.now, output.width)]
    return lines if count <= len(commits) else [*lines, (Span(f"and {count - len(commits)} more"),)]


def _summary(edits: Sequence[CommitInfo]) -> str:
    names = sorted({who(edit) for edit in edits})
    by = " and ".join(names) if len(names) <= 2 else plural(len(names), "session")
    files = {change.path for edit in edits for change in edit.files}
    return f"{plural(len(edits), 'edit')} by {by} in {plural(len(files), 'file')}"


def _paths_of(commit: CommitInfo) -> set[str]:
    """The paths of a commit's files; for a moved file both paths."""
    return {path for change in commit.files for path in (change.path, change.old_path) if path}


def _change_lines(result: EditResult, output: Output, *, preview: bool) -> Iterator[Line]:
    yield (Span("Which would change:" if preview else "By:", "bold"),)
    # The message would repeat the lines above, with fewer details.
    result = msgspec.structs.replace(result, message="")
    yield from render.edited(result, preview=preview, show_diff=output.diff)


# -- the last burst


def oops(arguments: Arguments, output: Output) -> None:
    """Show the last burst of edits, ask, and undo it."""
    if output.as_json and not (arguments.yes or arguments.preview):
        raise UsageError("with --json nobody is asked: add --yes, or --preview to see what it is")
    with asking.person(arguments) as session:
        edits = _newest_burst(session, arguments.session)
        ids = [edit.commit for edit in edits]
        also = _later_changes(session, edits)
        if not output.as_json:
            output.lines(_burst_lines(edits, also, output))
            preview = session.undo(ids, preview=True)  # a conflict is reported before asking
            if arguments.preview:
                output.lines(_change_lines(preview, output, preview=True))
                return
            if not (arguments.yes or asking.confirm(f"Undo {_summary(edits)}?")):
                return
        call = calls.undo(ids, **arguments.given("message", "preview"))
        result = asking.ask(session, call, output, also_changed=also)
    if result is not None:
        title = Span(f"Undone: {plural(len(ids), 'edit')}", "bold")
        output.lines([(title,), *_change_lines(result, output, preview=False)])


def _newest_burst(session: stet.Session, name: str | None) -> list[CommitInfo]:
    while newest := next(last_burst(session.history(session=name, limit=_PAGE)), None):
        own = session.history(session=newest.session, limit=_PAGE)
        # Another terminal may have undone it meanwhile.
        if burst := list(itertools.islice(last_burst(own), _MOST)):
            return burst
    raise stet.NothingToUndo(
        "there is no edit of an agent left to undo"
        + (f" in session {name!r}." if name is not None else ".")
    )


def last_burst(newest_first: Iterable[CommitInfo]) -> Iterator[CommitInfo]:
    """The edits of a session's last burst that are not undone, newest first.

    ``newest_first``: the session's commits. Undone edits are left out, but one that is older than
    the first result still bridges a pause.
    """
    last: CommitInfo | None = None
    for commit in newest_first:
        if not _is_edit(commit) or (last is None and commit.reverted_by is not None):
            continue
        if last is not None and pause_between(last, commit):
            return
        last = commit
        if commit.reverted_by is None:
            yield commit


def _later_changes(session: stet.Session, burst: list[CommitInfo]) -> dict[str, int]:
    """How often others have changed files after a burst changed them, by author.

    An outside change that was recorded just before the burst's first edit of a file is older, so
    it does not count.
    """
    first, ids = burst[-1], {each.commit for each in burst}
    newest_first = session.history(limit=_PAGE)
    later = list(itertools.takewhile(lambda each: each.commit != first.commit, newest_first))
    touched: set[str] = set()
    found = collections.Counter[str]()
    for each in [first, *reversed(later)]:
        counts = each.kind == "outside" or (_is_edit(each) and each.reverted_by is None)
        if each.commit in ids:
            touched.update(_paths_of(each))
        elif counts and not touched.isdisjoint(_paths_of(each)):
            found[who(each)] += 1
    return dict(found)


def _is_edit(commit: CommitInfo) -> bool:
    # The rule of undo: recovery makes restore commits, too, and forgotten contents are lost.
    if commit.forgotten:
        return False
    restored = commit.kind == "restore" and commit.method == "restore"
    return commit.session is not None and (commit.kind in ("edit", "observed") or restored)


def _burst_lines(edits: list[CommitInfo], also: dict[str, int], output: Output) -> Iterator[Line]:
    title = f"The last burst, {plural(len(edits), 'edit')} by {who(edits[0])}:"
    yield from _listed(title, edits[:_LISTED], len(edits), output)
    if also:
        names = [
            f"{name} ({times if name == 'outside' else plural(times, 'edit')})"
            for name, times in also.items()
        ]
        yield (Span(f"also changed these files since: {', '.join(names)}", "yellow"),)


# -- stet alone


def overview(arguments: Arguments, output: Output) -> None:
    """Print an overview: workspace, mode, last burst, requests, and the next commands."""
    try:
        with asking.person(arguments) as session:
            mode = session.mode_get()
            end = until(mode.until, output.now)
            burst: list[CommitInfo] = []
            with contextlib.suppress(stet.NothingToUndo):
                burst = _newest_burst(session, None)
            asked = session.upgrade_list(workspace=session.workspace, status="pending").requests
    except stet.WorkspaceNotAllowed:
        directory = os.path.abspath(arguments.directory)
        said = f"Agents may not edit in {visible(directory)}."
        next_ = "To let them: stet init, in a project's directory.  All commands: stet help"
        told = {"workspace": None, "directory": directory}
        output.tell(told, [(Span(said),), (Span(next_),)])
        return
    told = {
        "workspace": session.workspace,
        "mode": mode.mode,
        "burst": [each.commit for each in burst],
        "requests": [each.request for each in asked],
    }
    said = "no edit of an agent to take back"
    if burst:
        said = f"{_summary(burst)}, {when(burst[0].time, output.now)}"
    waiting = f"{plural(len(asked), 'request')} for write access: stet requests"
    next_ = "stet log, stet ui, stet oops" if burst else "stet connect CLIENT, stet log"
    facts = {
        "workspace": Span(visible(session.workspace or ""), "bold"),
        "mode": Span(f"{mode.mode}{end}", "yellow" if mode.mode == "restricted" else "green"),
        "last burst": Span(said),
        "requests": Span(waiting, "yellow") if asked else Span("none"),
        "next": Span(f"{next_}; all commands: stet help"),
    }
    output.tell(told, [(Span(f"{label:<11}", "dim"), fact) for label, fact in facts.items()])
