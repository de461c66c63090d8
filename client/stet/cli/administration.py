"""``stet init``, ``status``, ``workspaces`` and ``tools``."""

from __future__ import annotations

import argparse
import os
import sys

import msgspec

from stet import calls
from stet.calls import Call
from stet.cli import asking
from stet.cli.output import Output
from stet.cli.usage import UsageError
from stet.terminal import render
from stet.terminal.render import Span
from stet.wire.results import Tools


def init(arguments: argparse.Namespace, output: Output) -> None:
    """Allow edits below a directory."""
    root = os.path.abspath(os.path.join(arguments.directory, arguments.root))
    if not os.path.isdir(root):
        raise UsageError(f"{root} is not a directory")
    with asking.person(arguments, workspace=False) as session:
        workspace = asking.ask(session, calls.workspace_allow(root), output)
    if workspace is not None:
        allowed = (Span("Agents may edit below "), Span(render.visible(workspace.root), "bold"))
        output.lines([allowed, *list(render.workspaces([workspace]))[1:]])


def status(arguments: argparse.Namespace, output: Output) -> None:
    """Print the daemon's health and counts; starts one if none answers."""
    with asking.person(arguments, workspace=False) as session:
        result = asking.ask(session, calls.status(), output)
    if result is not None:
        output.lines(render.status(result))


def workspaces(arguments: argparse.Namespace, output: Output) -> None:
    """Print the allowed workspaces and where their histories are; or allow one no more."""
    with asking.person(arguments, workspace=False) as session:
        if arguments.forget is not None:
            root = os.path.abspath(os.path.join(arguments.directory, arguments.forget))
            gone = asking.ask(session, calls.workspace_forget(root), output)
            if gone is not None:
                kept = Span(render.visible(gone.shadow), "dim")
                named = Span(render.visible(gone.root), "bold")
                output.lines(
                    [(named, Span(" is no workspace any more; its history is kept: "), kept)]
                )
            return
        result = asking.ask(session, calls.workspace_list(), output)
    if result is not None:
        output.lines(render.workspaces(result.workspaces))


def _tools(arguments: argparse.Namespace) -> Call[Tools]:
    return calls.tools(arguments.style, api=arguments.api, custom=arguments.custom)


def tools(arguments: argparse.Namespace, output: Output) -> None:
    """Print the tool definitions for a model, as JSON."""
    with asking.person(arguments, workspace=False) as session:
        result = asking.ask(session, _tools(arguments), output)
    if result is not None:
        encoded = msgspec.json.format(msgspec.json.encode(result.tools), indent=2)
        sys.stdout.write(encoded.decode() + "\n")
