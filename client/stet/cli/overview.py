"""``stet`` alone, ``stet help`` and ``stet stop``."""

from __future__ import annotations

import argparse
import datetime
import os
from collections.abc import Iterator

import stet
from stet import calls
from stet.cli import asking
from stet.cli.help import help_of
from stet.cli.output import Output
from stet.terminal import render
from stet.terminal.render import Line, Span
from stet.terminal.spans import ago, plural, who
from stet.wire.results import CommitInfo

#: Commits in which the last burst is looked for.
_LOOKED_AT = 50


def overview(arguments: argparse.Namespace, output: Output) -> None:
    """Say where one is: workspace, mode, last burst, requests, what to do next."""
    try:
        with asking.person(arguments) as session:
            mode = session.mode_get()
            commits = session.log(limit=_LOOKED_AT).commits
            pending = [
                each
                for each in session.upgrade_list(workspace=session.workspace).requests
                if each.status == "pending"
            ]
    except stet.WorkspaceNotAllowed:
        directory = os.path.abspath(arguments.directory)
        if output.as_json:
            output.value({"workspace": None, "directory": directory})
            return
        output.lines(
            [
                (Span(f"Agents may not edit in {render.visible(directory)}."),),
                (Span("To let them: stet init.  All commands: stet help"),),
            ]
        )
        return
    burst = _burst(commits)
    if output.as_json:
        output.value(
            {
                "workspace": session.workspace,
                "mode": mode.mode,
                "burst": [each.commit for each in burst],
                "requests": [each.request for each in pending],
            }
        )
        return
    output.lines(_lines(session.workspace or "", mode.mode, burst, len(pending)))


def _burst(commits: list[CommitInfo]) -> list[CommitInfo]:
    from stet.cli.oops import last_burst

    newest = next((each for each in last_burst(commits)), None)
    if newest is None:
        return []
    return list(last_burst([each for each in commits if each.session == newest.session]))


def _lines(root: str, mode: str, burst: list[CommitInfo], pending: int) -> Iterator[Line]:
    style = "green" if mode == "unrestricted" else "yellow"
    yield (Span("workspace  ", "dim"), Span(render.visible(root), "bold"))
    yield (Span("mode       ", "dim"), Span(mode, style))
    if burst:
        now = datetime.datetime.now(datetime.UTC)
        files = {change.path for each in burst for change in each.files}
        said = f"{plural(len(burst), 'edit')} by {who(burst[0])} in {plural(len(files), 'file')}"
        yield (Span("last burst ", "dim"), Span(f"{said}, {ago(burst[0].time, now)}"))
    else:
        yield (Span("last burst ", "dim"), Span("no edit of an agent to take back"))
    waiting = f"{plural(pending, 'request')} for write access: stet requests" if pending else "none"
    yield (Span("requests   ", "dim"), Span(waiting, "yellow" if pending else ""))
    next_ = "stet log, stet ui, stet oops" if burst else "stet connect CLIENT, stet log"
    yield (Span("next       ", "dim"), Span(f"{next_}; all commands: stet help"))


def help_(arguments: argparse.Namespace, output: Output) -> None:
    """Print what a command does, or which there are."""
    from stet.cli.arguments import parser

    whole = parser()
    output.content(help_of(whole.commands.parsers, whole.format_help(), arguments.command))


def stop(_arguments: argparse.Namespace, output: Output) -> None:
    """Let the daemon end; calls in work are finished first."""
    with stet.connect(None, control=True, start=False) as session:
        result = asking.ask(session, calls.shutdown(), output)
    if result is not None:
        output.content("stetd stops. The next command starts it again.\n")
