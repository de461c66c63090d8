"""``stet connect`` and ``disconnect``: add stet to the configuration of an agent's client, or
remove it.

Without ``--write``, connect only prints the files and their text. No daemon is contacted.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from typing import Literal

from stet.agents import carrying_out
from stet.agents.carrying_out import Request
from stet.agents.clients import CLIENTS
from stet.cli.output import Output
from stet.cli.usage import Arguments, UsageError
from stet.mcp.catalogue import named_dialects
from stet.terminal.spans import Line, Span, visible


def connect(arguments: Arguments, output: Output) -> None:
    """Print the configuration for a client, or write it."""
    request = _request(arguments)
    if arguments.hooks and not request.client.has_hooks:
        raise UsageError(f"{request.client.title} has no hooks; leave out --hooks")
    if not arguments.write:
        _print(request, output)
        return
    changes = carrying_out.connect(request)
    hints = list(_hints(request))
    lines: list[Line] = []
    for change in changes:
        verb = {"created": "made", "changed": "wrote"}.get(change.action)
        path = visible(change.path)
        lines.append((Span(f"{verb} {path}" if verb else f"{path} was as it should be"),))
        if change.backup is not None:
            lines.append((Span(f"  before: {visible(change.backup)}", "dim"),))
    undo = f"To undo this: {visible(command_line('disconnect', request))}"
    lines += [(Span(hint, "dim"),) for hint in [*hints, undo]]
    output.tell({"client": request.client.name, "files": changes, "hints": hints}, lines)


def disconnect(arguments: Arguments, output: Output) -> None:
    """Remove stet from a client's configuration."""
    request = _request(arguments)
    changes = carrying_out.disconnect(request)
    became = {
        "restored": "is again as it was before stet was connected",
        "removed": "is gone; it was made for stet",
        "changed": "has no stet in it any more; the rest stays",
        "unread": "does not parse; nothing of stet is in it, so it was passed over",
    }
    lines = [f"{visible(change.path)} {became[change.action]}" for change in changes]
    if all(change.action == "unread" for change in changes):
        places = ", ".join(target.path for target in carrying_out.targets(request))
        lines.append(f"stet was not connected: nothing of it in {visible(places)}")
    told = {"client": request.client.name, "files": changes}
    output.tell(told, [(Span(line),) for line in lines])


def _request(arguments: Arguments) -> Request:
    here = os.path.abspath(arguments.directory)
    workspace, tools = getattr(arguments, "workspace", None), getattr(arguments, "tools", None)
    if workspace is not None:
        workspace = os.path.abspath(os.path.join(here, workspace))
        if not os.path.isdir(workspace):
            raise UsageError(f"--workspace: {workspace} is not a directory")
    return Request(
        client=CLIENTS[arguments.client],
        scope=arguments.scope,
        project=workspace or here,
        workspace=workspace,
        tools=None if tools is None else ",".join(named_dialects(tools)),
        hooks=getattr(arguments, "hooks", True),  # disconnect has no option, and removes them
        edits=getattr(arguments, "allow_edits", False),
    )


def _print(request: Request, output: Output) -> None:
    files: list[dict[str, str]] = []
    lines: list[Line] = []
    for target in carrying_out.targets(request):
        text = target.kind.written("", target.wanted)
        files.append({"path": target.path, "format": target.kind.name, "text": text})
        lines.append((Span(f"{visible(target.path)}:", "bold"),))
        lines += [(Span(visible(line)),) for line in text.splitlines()]
        lines.append(())
    hints = list(_hints(request))
    lines += [(Span(hint, "dim"),) for hint in hints]
    again = visible(command_line("connect", request))
    lines.append((Span("To write it there: ", "dim"), Span(again, "bold")))
    output.tell({"client": request.client.name, "files": files, "hints": hints}, lines)


def _hints(request: Request) -> Iterator[str]:
    client = request.client
    yield client.boundary or f"{client.title} asks before stet edits, as its settings say."
    yield "stet edits only in directories that you allow (stet init DIR), and as stet mode says."
    if request.scope == "project" and client.asks:
        yield client.asks
    if request.hooks and client.name == "codex":
        yield "Codex passes the hooks over in silence until you trust them: in Codex, /hooks."
    yield from client.hints


def command_line(verb: Literal["connect", "disconnect"], request: Request) -> str:
    """The shell command that carries out or reverts a request, for the current directory."""
    connecting = verb == "connect"
    workspace = request.workspace if connecting else None
    words = ["stet", verb, request.client.name, *(["--write"] if connecting else [])]
    if request.scope == "project":
        words += ["--scope", "project"]
        words += ["-C", request.project] if request.project not in (os.getcwd(), workspace) else []
    if connecting:
        words += ["--workspace", workspace] if workspace is not None else []
        words += ["--tools", request.tools] if request.tools is not None else []
        words += ["--hooks"] if request.hooks else []
        words += ["--allow-edits"] if request.edits else []
    return shlex.join(words)
