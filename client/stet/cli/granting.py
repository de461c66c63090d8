"""``stet mode``, ``requests``, ``approve`` and ``deny``: who may write.

Requests are those of all workspaces: an id is enough to decide about one, wherever one is.
"""

from __future__ import annotations

import argparse

from stet import calls
from stet.cli import asking
from stet.cli.output import Output
from stet.cli.usage import UsageError
from stet.terminal import render
from stet.terminal.render import Span
from stet.terminal.request_lines import decided
from stet.terminal.request_lines import requests as request_lines
from stet.wire.results import UpgradeInfo


def mode(arguments: argparse.Namespace, output: Output) -> None:
    """Print or set the mode of the workspace, or of one session."""
    if arguments.for_ is not None and arguments.mode != "unrestricted":
        raise UsageError("--for is how long a grant lasts: stet mode unrestricted --for 30m")
    with asking.person(arguments, session=arguments.session) as session:
        if arguments.mode is None:
            call = calls.mode_get()
        else:
            call = calls.mode_set(
                arguments.mode,
                session=arguments.session,
                scope=None if arguments.session else "workspace",
                for_=arguments.for_,
            )
        result = asking.ask(session, call, output)
    if result is not None:
        output.lines(render.mode(result, output.now))


def requests(arguments: argparse.Namespace, output: Output) -> None:
    """Print the requests that wait; with --all the decided ones, too."""
    call = calls.upgrade_list(status=None if arguments.all else "pending")
    with asking.person(arguments, workspace=False) as session:
        result = asking.ask(session, call, output)
    if result is not None:
        output.lines(request_lines(result.requests, output.now, output.width))
        if not result.requests:
            nothing = "No request." if arguments.all else "No request waits for you."
            output.lines([(Span(nothing, "dim"),)])


def approve(arguments: argparse.Namespace, output: Output) -> None:
    """Give a session write access."""
    _decide(
        arguments,
        output,
        calls.upgrade_decide(arguments.request, True, note=arguments.note, for_=arguments.for_),
    )


def deny(arguments: argparse.Namespace, output: Output) -> None:
    """Leave a session as it is, and tell it so."""
    _decide(arguments, output, calls.upgrade_decide(arguments.request, False, note=arguments.note))


def _decide(arguments: argparse.Namespace, output: Output, call: calls.Call[UpgradeInfo]) -> None:
    with asking.person(arguments, workspace=False) as session:
        result = asking.ask(session, call, output)
    if result is not None:
        output.lines(decided(result, output.now))
