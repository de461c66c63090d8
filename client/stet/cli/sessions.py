"""``stet sessions``: which there are, and ending one."""

from __future__ import annotations

import argparse

from stet import calls
from stet.cli import asking
from stet.cli.output import Output
from stet.cli.usage import UsageError
from stet.terminal.render import Span
from stet.terminal.session_lines import ended
from stet.terminal.session_lines import sessions as session_lines


def sessions(arguments: argparse.Namespace, output: Output) -> None:
    """Print the sessions of the workspace, with --all of all workspaces; or end one."""
    if arguments.all and arguments.end is not None:
        raise UsageError("--end is about a session of this workspace; leave out --all")
    with asking.person(arguments, workspace=not arguments.all) as session:
        if arguments.end is not None:
            gone = asking.ask(session, calls.session_end(arguments.end), output)
            if gone is not None:
                output.lines(ended(gone))
            return
        call = calls.session_list(workspace=session.workspace)
        result = asking.ask(session, call, output)
    if result is not None:
        output.lines(session_lines(result.sessions, output.now, where=arguments.all))
        if not result.sessions:
            output.lines([(Span("No session.", "dim"),)])
