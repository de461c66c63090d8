"""The entries for stet in a client's configuration: made for this installation, and recognised.

An entry has no mark, because clients refuse or drop unknown keys. It is recognised by its command:
the absolute path of a ``stet`` (or an interpreter with ``-m stet.cli``), then ``mcp`` or ``hook``.
A person's additions to an entry (a timeout, variables, options of the command) stay when it is
written again.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from stet.agents.jsonc import CannotSplice, Path, has, lookup

#: Variables with the daemon's directories, if not the default ones; a client passes them on.
LOCATIONS = ("STET_RUNTIME_DIR", "STET_STATE_DIR", "STET_CONFIG")
#: Variables that a client must pass on for these directories if it starts servers with few.
FORWARDED = ("XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME")

#: The name of the entry in every client; tools are then called ``mcp__stet__patch`` and the like.
NAME = "stet"
_MODULE = ("-P", "-m", "stet.cli")
_OWN_KEYS = ("type", "source", "command", "args", "env", "environment", "env_vars")
_OWN_OPTIONS = ("--workspace", "--tools")
#: A word of a shell command, with its quotes.
_WORD = re.compile(r"""(?:[^\s'"\\]|'[^']*'|"(?:[^"\\]|\\.)*"|\\.)+""", re.DOTALL)


#: The entries wanted in a file, or found there, by their paths in its value: a server, the groups
#: of handlers of each event, the words of a list, and members that a file with hooks must have.
#: In a file that is stet's alone its text is the one entry.
Entries = Mapping[Path, Any]


def is_server(path: Path) -> bool:
    """Whether it is the path of a server's entry."""
    return path[1:] == (NAME,)


def defaults(shape: Entries) -> dict[Path, Any]:
    """The members that a file with hooks must have, for one without them."""
    return {path: value for path, value in shape.items() if len(path) == 1}


def server_in(root: Any, shape: Entries) -> dict[Path, Any]:
    """The server in a file's value, if stet wrote it."""
    paths = [path for path in shape if is_server(path) and has(root, path)]
    return {path: lookup(root, path) for path in paths if own_server(lookup(root, path))}


def hook_command(program: Sequence[str], client: str, variables: Mapping[str, str]) -> str:
    """The command of a hook, for a shell."""
    given = [f"{name}={value}" for name, value in variables.items()]
    return shlex.join([*_env(given), *program, "hook", client])


def _env(variables: Sequence[str]) -> list[str]:
    return ["env", *variables] if variables else []


class Command(NamedTuple):
    """A command that stet wrote: ``[env NAME=VALUE ..] PROGRAM VERB ARGUMENT ..``"""

    variables: tuple[str, ...]
    program: tuple[str, ...]
    verb: str
    arguments: tuple[str, ...]


def own_command(argv: Sequence[str], verb: str) -> Command | None:
    """The parts of a command that stet wrote; None for all others."""
    argv = tuple(argv)
    start = 0
    if argv[:1] == ("env",):
        start = next((at for at, each in enumerate(argv) if at and "=" not in each), len(argv))
    variables, argv = argv[1:start], argv[start:]
    if not argv or not os.path.isabs(argv[0]):
        return None
    if os.path.basename(argv[0]) == "stet" and argv[1:2] == (verb,):
        return Command(variables, argv[:1], verb, argv[2:])
    if argv[1:5] == (*_MODULE, verb):
        return Command(variables, argv[:4], verb, argv[5:])
    return None


def _is_location(variable: str) -> bool:
    return variable.partition("=")[0] in LOCATIONS


def own_options(arguments: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Split a server's arguments into stet's options with their values, and other words."""
    options: dict[str, str] = {}
    others = []
    words = iter(arguments)
    for word in words:
        name, equals, value = word.partition("=")
        if name in _OWN_OPTIONS:
            options[name] = value if equals else next(words, "")
        else:
            others.append(word)
    return options, others


def own_server(value: Any) -> Command | None:
    """The command of a server's entry that stet wrote; None for all others."""
    if not isinstance(value, dict) or not isinstance(value.get("args", []), list):
        return None
    command = value.get("command")  # a word beside ``args``, or the whole list
    words: list[Any] = [*(command if isinstance(command, list) else [command])]
    words += value.get("args", [])
    return own_command(words, "mcp") if all(isinstance(each, str) for each in words) else None


def own_handler(value: Any) -> Command | None:
    """The command of a hook that stet wrote; None for all others."""
    command = value.get("command") if isinstance(value, dict) else None
    with suppress(ValueError):  # quotes that are not closed
        return own_command(shlex.split(command), "hook") if isinstance(command, str) else None
    return None


def handlers(group: Any) -> list[Any]:
    """The handlers in an element of an event's array; the element may be a handler itself."""
    inner = group.get("hooks") if isinstance(group, dict) else None
    return inner if isinstance(inner, list) else [group]


def commands(found: Entries) -> list[Command]:
    """The commands that entries start."""
    own: list[Command | None] = []
    for path, value in found.items():
        if not path:  # in a file of stet's own each is a list at the end of a line
            for line in re.findall(r" = (\[.*\])$", value, re.MULTILINE):
                with suppress(ValueError):
                    own.append(own_command([str(word) for word in json.loads(line)], "hook"))
        elif path[0] == "hooks":
            own += [own_handler(each) for group in value for each in handlers(group)]
        else:
            own.append(own_server(value))
    return [command for command in own if command is not None]


def rewritten(found: Any, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The wanted entry of a server, with a person's additions to the one that was found.

    Raises CannotSplice if stet did not write that one.
    """
    old = own_server(found)
    if old is None:
        raise CannotSplice(f"there is a server {NAME!r} that was not written by stet connect")
    value = dict(wanted)
    new = own_server(wanted)
    assert new is not None, "BUG: it is written here"
    (before, others), (now, _) = own_options(old.arguments), own_options(new.arguments)
    arguments = old.arguments if before == now else (*new.arguments, *others)
    variables = [each for each in old.variables if not _is_location(each)]
    command = [*_env(variables), *new.program, "mcp", *arguments]
    if "args" in wanted:
        value["command"], value["args"] = command[0], command[1:]
    else:
        value["command"] = command
    for key in ("env", "environment"):
        kept = found.get(key)
        if isinstance(kept, dict):
            added = {name: each for name, each in kept.items() if name not in LOCATIONS}
            if added:
                value[key] = {**wanted.get(key, {}), **added}
    names = found.get("env_vars")
    if isinstance(names, list):
        passed = wanted.get("env_vars", [])
        staying = [each for each in names if each in passed or each not in FORWARDED]
        if staying:
            value["env_vars"] = staying + [each for each in passed if each not in staying]
    return value | {key: each for key, each in found.items() if key not in _OWN_KEYS}


def merged_hook(found: str, wanted: str) -> str:
    """The wanted command of a hook, with the variables that were found and everything after
    ``hook``, where a person may have used the shell.
    """
    old, new = (own_command(shlex.split(each), "hook") for each in (found, wanted))
    assert old is not None, "BUG: it was written here"
    assert new is not None, "BUG: it is written here"
    words = list(_WORD.finditer(found))
    pairs = zip(words[1:], old.variables, strict=False)
    kept = [word[0] for word, variable in pairs if not _is_location(variable)]
    verb = words[len(words) - len(old.arguments) - 1]
    variables = [*map(shlex.quote, new.variables), *kept]
    return " ".join([*_env(variables), shlex.join(new.program), "hook"]) + found[verb.end() :]
