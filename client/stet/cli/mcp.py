"""``stet mcp``: serve the tools over the Model Context Protocol on standard input and output."""

from __future__ import annotations

import argparse
import os

from stet.cli.output import Output
from stet.cli.usage import UsageError


def mcp(arguments: argparse.Namespace, _output: Output) -> None:
    """Serve one client until it is gone. Everything it asks for is done as an agent."""
    # Not at the top: no other command needs them.
    from stet.mcp import catalogue, server
    from stet.mcp.tool_calls import Options

    directory = os.path.join(arguments.directory, arguments.workspace)
    try:
        dialects = catalogue.named_dialects(arguments.tools or ",".join(catalogue.DIALECTS))
    except ValueError as error:
        raise UsageError(f"--tools: {error}") from error
    options = Options(
        workspace=os.path.abspath(directory),
        session=arguments.session or os.environ.get("STET_SESSION") or None,
        own_session=f"mcp-{os.urandom(6).hex()}",
        agent=arguments.agent or os.environ.get("STET_AGENT") or None,
        dialects=dialects,
        secret=os.environ.get("STET_SECRET") or None,
        structured=arguments.structured,
    )
    server.run(options)
