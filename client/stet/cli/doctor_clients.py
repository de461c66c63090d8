"""The part of ``stet doctor`` that looks at the agents' clients: do they start what is there?

Only what ``stet connect`` has written is looked at, in the files of the user and of the directory
at hand. A client that is not connected, or a file that can't be read, is nothing wrong with stet.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence

from stet.cli.finding import Finding


def findings(directory: str) -> Iterator[Finding]:
    """A finding for each file of a client that stet is in."""
    from stet.connecting.carrying_out import Request, connected
    from stet.connecting.clients import CLIENTS, SCOPES
    from stet.connecting.entries import this_stet

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
                    yield Finding(
                        client.name, False, detail, _again(client.name, scope, here, every)
                    )
                else:
                    yield Finding(client.name, True, f"{path} starts {commands[0][0]}")


def _again(client: str, scope: str, here: str, commands: Sequence[Sequence[str]]) -> str:
    """The command that writes the entries as they are, with the program that is there now."""
    words = ["stet", "connect", client, "--write", "--scope", scope]
    words += ["-C", here] if scope == "project" else []
    servers = [argv for argv in commands if "mcp" in argv]
    words += ["--hooks"] if len(servers) < len(commands) else []
    for argv in servers:
        arguments = list(argv[argv.index("mcp") + 1 :])
        words += _kept(arguments, here if scope == "project" else None)
    return shlex.join(words)


def _kept(arguments: list[str], here: str | None) -> Iterator[str]:
    """The options of the server that are not what they are anyway."""
    from stet.connecting.entries import own_options

    options, _ = own_options(arguments)
    for name, value in options.items():
        if name != "--workspace" or not (value == here or value.startswith("$")):
            yield from (name, value)
