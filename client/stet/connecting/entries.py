"""The entries for stet in a client's configuration: made for this installation, known again.

There is no mark in an entry, because clients refuse or drop keys that they do not know. What was
written here is known by its command: the absolute path of a ``stet`` (or an interpreter with
``-m stet.cli``), and then ``mcp`` or ``hook``. What a person has added to such an entry (a
timeout, variables) stays when it is written again. Pure but for the look at this process's own
interpreter.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stet.installed_program import program_beside

#: Where the daemon's things are, if not where they usually are; a client passes them on.
LOCATIONS = ("STET_RUNTIME_DIR", "STET_STATE_DIR", "STET_CONFIG")
#: What a client that starts servers with few variables has to pass on to find the same places.
FORWARDED = ("XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME")

#: The name of the entry in every client; tools are then called ``mcp__stet__patch`` and the like.
NAME = "stet"
_MODULE = ("-P", "-m", "stet.cli")
_OWN_KEYS = ("type", "source", "command", "args", "env", "env_vars")


@dataclass(frozen=True)
class Group:
    """What is to be among the hooks of an event: one element of its array."""

    event: str
    value: Mapping[str, Any]


@dataclass(frozen=True)
class Entries:
    """What is to be in a file, or was found there: a server under ``servers``, and hooks.

    ``defaults`` are members that a file with hooks must have, for a file that has none.
    """

    servers: str | None = None
    server: Mapping[str, Any] | None = None
    groups: Sequence[Group] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return self.server is not None or bool(self.groups)


def this_stet(python: str = sys.executable) -> tuple[str, ...]:
    """The ``stet`` of this very installation, absolute: a virtual environment's, pipx's, uv's."""
    return program_beside(python, "stet", "stet.cli")


def locations(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables that say where the daemon's things are, absolute."""
    return {name: os.path.abspath(environ[name]) for name in LOCATIONS if environ.get(name)}


def server_command(
    program: Sequence[str], workspace: str | None = None, tools: str | None = None
) -> list[str]:
    """The command of the MCP server."""
    command = [*program, "mcp"]
    command += ["--workspace", workspace] if workspace else []
    return command + (["--tools", tools] if tools else [])


def hook_command(program: Sequence[str], client: str, environ: Mapping[str, str]) -> str:
    """The command of a hook, for a shell."""
    variables = [f"{name}={value}" for name, value in environ.items()]
    return shlex.join([*(["env", *variables] if variables else []), *program, "hook", client])


def own_command(argv: Sequence[str], verb: str) -> tuple[str, ...] | None:
    """The program and its arguments, if this is a command that was written here; else None."""
    argv = tuple(argv)
    if argv[:1] == ("env",):
        argv = argv[1:]
        while argv and "=" in argv[0]:
            argv = argv[1:]
    if not argv or not os.path.isabs(argv[0]):
        return None
    beside = os.path.basename(argv[0]) == "stet" and argv[1:2] == (verb,)
    return argv if beside or argv[1:5] == (*_MODULE, verb) else None


def own_server(value: Any) -> tuple[str, ...] | None:
    """The command of a server's entry that was written here; None for all others."""
    if not isinstance(value, dict):
        return None
    command, arguments = value.get("command"), value.get("args", [])
    if not isinstance(command, str) or not isinstance(arguments, list):
        return None
    if not all(isinstance(each, str) for each in arguments):
        return None
    return own_command([command, *arguments], "mcp")


def own_handler(value: Any) -> tuple[str, ...] | None:
    """The command of a hook that was written here; None for all others."""
    command = value.get("command") if isinstance(value, dict) else None
    if not isinstance(command, str):
        return None
    try:
        return own_command(shlex.split(command), "hook")
    except ValueError:  # quotes that are not closed
        return None


def merged(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """An entry as it is wanted, with what a person has added to the one that was found."""
    value = dict(wanted)
    kept = found.get("env")
    if isinstance(kept, dict):
        added = {name: each for name, each in kept.items() if name not in LOCATIONS}
        if added:
            value["env"] = {**wanted.get("env", {}), **added}
    value.update((key, each) for key, each in found.items() if key not in _OWN_KEYS)
    return value
