"""``stet blame``: who wrote each line of a file."""

from __future__ import annotations

import argparse

from stet import calls
from stet.cli import asking
from stet.cli.output import Output
from stet.terminal import blame_lines


def blame(arguments: argparse.Namespace, output: Output) -> None:
    """Print a file with the author of each line."""
    call = calls.blame(arguments.path, at=arguments.at)
    with asking.person(arguments) as session:
        result = asking.ask(session, call, output)
    if result is not None:
        lines = blame_lines.blame(result, output.now, output.width, output.tokens)
        output.lines(lines, long=True)
