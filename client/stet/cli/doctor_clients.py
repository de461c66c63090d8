"""The part of ``stet doctor`` that looks at the agents' clients: do they start what is there?

Only what ``stet connect`` has written is looked at, in the files of the user and of the directory
at hand. Codex is asked whether it runs the hooks. A client that is not connected, or a file that
can't be read, is nothing wrong with stet.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from stet.cli import codex_hooks
from stet.cli.connecting import command_line
from stet.cli.finding import Finding

if TYPE_CHECKING:
    from stet.agents.carrying_out import Request


def findings(directory: str) -> Iterator[Finding]:
    """A finding for each file of a client that stet is in."""
    from stet.agents.carrying_out import Request, connected
    from stet.agents.clients import CLIENTS, SCOPES
    from stet.agents.entries import this_stet

    here = os.path.abspath(directory)
    for client in CLIENTS.values():
        for scope in SCOPES:
            request = Request(client, scope, here, this_stet(), os.environ)
            found = dict(connected(request))
            every = [argv for commands in found.values() for argv in commands]
            for path, commands in found.items():
                missing = [argv[0] for argv in commands if not os.access(argv[0], os.X_OK)]
                if missing:
                    detail = f"{path} starts {missing[0]}, which is not there"
                    mend = command_line("connect", _as_written(request, every))
                    yield Finding(client.name, False, detail, mend)
                elif client.name == "codex" and "hook" in commands[0]:
                    yield codex_hooks.finding(path, commands[0][0], here)
                else:
                    yield Finding(client.name, True, f"{path} starts {commands[0][0]}")


def _as_written(request: Request, commands: Sequence[Sequence[str]]) -> Request:
    """What was asked for when the entries with these commands were written."""
    from stet.agents.entries import own_options

    servers = [argv for argv in commands if "mcp" in argv]
    options: dict[str, str] = {}
    for argv in servers:
        options |= own_options(argv[argv.index("mcp") + 1 :])[0]
    workspace = options.get("--workspace")
    anyway = request.project if request.scope == "project" else None
    if workspace is not None and (workspace.startswith("$") or workspace == anyway):
        workspace = None
    return replace(
        request,
        workspace=workspace,
        tools=options.get("--tools"),
        hooks=len(servers) < len(commands),
    )
