"""The checks of ``stet doctor`` on agents' clients: do the programs that they start exist?

Only entries that ``stet connect`` has written are checked, in the user's files and in those of this
directory. A client that is not connected, or a file that can't be read, is no fault of stet.

Codex silently ignores a hook until a person has trusted its present text. Only Codex knows which
hooks are trusted, so it is asked (``codex app-server``, in JSON lines).
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from stet.agents.carrying_out import Request, connected
from stet.agents.clients import CLIENTS, SCOPES
from stet.agents.entries import Command, own_handler, own_options
from stet.cli.connecting import command_line
from stet.cli.doctor_places import Finding, fine, wrong

#: Timeout of Codex's answer, in seconds; it takes about a third of a second.
_WITHIN_S = 5.0
_TRUST = "start codex, run /hooks there, and trust the hooks of stet"


def findings(directory: str) -> Iterator[Finding]:
    """One finding for each file of a client that has entries of stet."""
    here = os.path.abspath(directory)
    for client in CLIENTS.values():
        for scope in SCOPES:
            request = Request(client, scope, here, hooks=True)
            found = dict(connected(request))
            every = [command for commands in found.values() for command in commands]
            for path, commands in found.items():
                programs = [command.program[0] for command in commands]
                missing = [program for program in programs if not os.access(program, os.X_OK)]
                if missing:
                    detail = f"{path} starts {missing[0]}, which is not there"
                    mend = command_line("connect", _as_written(request, every))
                    yield wrong(client.name, detail, mend)
                elif client.name == "codex" and commands[0].verb == "hook":
                    yield _trusted(path, programs[0], here)
                else:
                    yield fine(client.name, f"{path} starts {programs[0]}")


def _as_written(request: Request, commands: Sequence[Command]) -> Request:
    """The request that wrote the entries with these commands."""
    servers = [command for command in commands if command.verb == "mcp"]
    options, _ = own_options([word for server in servers for word in server.arguments])
    workspace = options.get("--workspace")
    default = request.project if request.scope == "project" else None
    if workspace is not None and (workspace.startswith("$") or workspace == default):
        workspace = None
    return replace(
        request,
        workspace=workspace,
        tools=options.get("--tools"),
        hooks=len(servers) < len(commands),
    )


def _trusted(path: str, program: str, directory: str) -> Finding:
    """Whether Codex runs the hooks in a file of its configuration; they start ``program``."""
    starts = f"{path} starts {program}"
    if shutil.which("codex") is None:
        return fine("codex", f"{starts}; no codex is on PATH to ask whether it is trusted")
    listed = _list_hooks(directory)
    if listed is None:
        return fine("codex", f"{starts}; codex did not say whether it is trusted")
    same = os.path.realpath(path)
    own = [
        each
        for each in listed
        if own_handler(each) and os.path.realpath(str(each.get("sourcePath"))) == same
    ]
    if not own:
        trust = f"start codex in {directory}, and say that you trust the directory"
        return wrong("codex", f"Codex does not read {path}", trust)
    states = [str(each.get("trustStatus")) if each.get("enabled") else "disabled" for each in own]
    reasons = [state for state in dict.fromkeys(states) if state not in ("trusted", "managed")]
    if reasons:
        detail = f"Codex does not run the hooks in {path}: {', '.join(reasons)}"
        return wrong("codex", detail, _TRUST)
    return fine("codex", f"{starts}, which Codex trusts")


def _list_hooks(directory: str) -> list[dict[str, Any]] | None:
    """Ask Codex for its hooks in a directory; None if it does not answer."""
    messages: list[dict[str, Any]] = [
        {
            "id": 1,
            "method": "initialize",
            "params": {"clientInfo": {"name": "stet", "version": "1"}},
        },
        {"method": "initialized"},
        {"id": 2, "method": "hooks/list", "params": {"cwds": [directory]}},
    ]
    # Its own process group, so that all of it can be killed: npm's codex is a script that starts
    # the program.
    with suppress(OSError, ValueError, LookupError, TypeError), subprocess.Popen(
        ["codex", "app-server"], cwd=directory, start_new_session=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    ) as codex:  # fmt: skip
        timer = threading.Timer(_WITHIN_S, _kill, [codex])
        timer.start()
        try:
            assert codex.stdin is not None
            assert codex.stdout is not None
            codex.stdin.write(b"".join(json.dumps(each).encode() + b"\n" for each in messages))
            codex.stdin.flush()
            for line in codex.stdout:
                answer = json.loads(line)
                if answer.get("id") == 2:
                    return [dict(each) for each in answer["result"]["data"][0]["hooks"]]
        finally:
            timer.cancel()
            _kill(codex)
    return None


def _kill(codex: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(codex.pid, signal.SIGKILL)
