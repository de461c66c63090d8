"""Parses the command line by the table in :mod:`stet.cli.commands`.

A command without arguments is parsed here. All others need argparse (:mod:`stet.cli.parser`), which
takes as long to load as a call takes. Nothing here talks to the daemon.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import Any

from stet.cli.commands import SHARED, TABLE
from stet.cli.output import Output
from stet.cli.usage import CLIENTS, SHELLS, Arguments, duration
from stet.version import __version__


class Command:
    """A command of the table: ``what`` it does, the function to ``run``, its arguments' ``lines``.

    ``examples`` omit the word "stet"; ``usage`` is None where argparse can generate it.
    """

    def __init__(self, name: str, what: str, run: str) -> None:
        self.prog = f"stet {name}" if name != "overview" else "stet"
        self.what, self.run = what, run
        self.lines = SHARED["common"].split("\n")
        self.examples: list[str] = []
        self.usage: str | None = None


#: All commands by name, including subcommands such as ``clip list``.
COMMANDS = {"overview": Command("overview", "say where you are", "taking_back.overview")}
#: The groups of the help: for each title the names of its commands.
GROUPS: dict[str, list[str]] = {}


def _read_table() -> None:
    group, command = list[str](), COMMANDS["overview"]
    for line in TABLE.splitlines():
        word, _, rest = line.partition(" ")
        if word == "#":
            group = GROUPS[rest] = []
        elif word == "e.g.":
            command.examples = rest.split(" / ")
        elif word == "usage:":
            command.usage = rest
        elif line.startswith("  *"):
            command.lines += SHARED[line[3:]].split("\n")
        elif line.startswith("  "):
            command.lines.append(line)
        elif line:
            head, _, what = line.partition(": ")
            name, _, run = head.removesuffix(")").partition(" (")
            command = COMMANDS[name] = Command(name, what, run)
            group += [] if " " in name else [name]


_read_table()
WITH_SUBCOMMANDS = tuple(dict.fromkeys(name.split()[0] for name in COMMANDS if " " in name))

#: argparse settings that the table can't express, by the text of its line before the help.
SPECIAL: dict[str, dict[str, Any]] = {
    "-C DIR =.": {"dest": "directory"},
    "--path P": {"dest": "paths", "action": "append"},
    "--for TIME": {"dest": "for_", "type": duration},
    "--no-outside": {"dest": "outside", "action": "store_false"},
    "--structured": {"action": "boolean", "default": False},
    "--hardened": {"action": "boolean"},
    "client:CLIENT !": {"choices": CLIENTS},
    "shell:SHELL !": {"choices": SHELLS},
}
#: Options that are allowed before the command, and whether each takes a value.
_FRONT_OPTIONS = {"-C": True, "--json": False, "--no-pager": False, "--dates": True}
#: A positional argument in the table. Compiled at first use: most commands have only options.
_ARGUMENT = r"(\[?)(?:([a-z]+):)?(.*?)(\.\.)?\]?"


def parse(argv: Sequence[str]) -> Arguments:
    """Parse the command line. ``run`` of the result names a module of this package and its function
    that runs the command. Exits with status 2 on wrong usage.
    """
    own, paths = _command_first(argv), list[str]()
    dashes = own.index("--") if "--" in own else len(own)
    if own[0] == "diff":  # argparse would merge commits and paths
        own, paths = own[:dashes], own[dashes + 1 :]
    elif own[0] == "log":  # git log -3
        own[:dashes] = [re.sub(r"^-(\d+)$", r"-n\1", word) for word in own[:dashes]]
    if {"--version", "--json"} <= {*own}:
        print(f'{{"stet": "{__version__}"}}')
        raise SystemExit(0)
    only = None if own[0] in ("-h", "--help", "--version") else own[0]
    if only is not None:
        _check_command(only, [*COMMANDS])
    arguments = parse_bare(own)
    if arguments is None:
        from stet.cli.parser import Parser

        whole, arguments = Parser(only), Arguments()
        _, unknown = whole.parse_known_args(own, arguments)
        if unknown:
            name = arguments.prog.removeprefix("stet").strip() or "overview"
            names = [each for line in COMMANDS[name].lines for each in parse_line(line)[0]]
            options = [each for each in names if each.startswith("-")]
            word = unknown[0].partition("=")[0]
            near = similar(word, options, ". Did you mean: {}?") if word.startswith("-") else ""
            whole.parsers[name].error(f"unrecognized arguments: {' '.join(unknown)}{near}")
    if own[0] == "diff":
        arguments.paths = paths
    return arguments


def _command_first(argv: Sequence[str]) -> list[str]:
    """Move options that precede the command behind it, where argparse expects them."""
    words, front = list(argv), list[str]()
    while words and words[0].partition("=")[0] in _FRONT_OPTIONS:
        front.append(words.pop(0))
        if _FRONT_OPTIONS[front[-1].partition("=")[0]] and "=" not in front[-1] and words:
            front.append(words.pop(0))
    if not words:
        words = ["overview"]  # stet alone
    at = 2 if words[0] in WITH_SUBCOMMANDS and len(words) > 1 else 1
    return [*words[:at], *front, *words[at:]]


def _check_command(word: str, known: Sequence[str]) -> None:
    """Exit with status 2 if there is no such command, and suggest a similar one."""
    if word in known:
        return
    hint = similar(word, [*known, "--version"], " Did you mean: stet {}?")
    if word.startswith("-"):
        hint = " A command's options stand behind it: stet log --oneline."
    print(f"stet: there is no command {word!r}.{hint} stet help lists them.", file=sys.stderr)
    raise SystemExit(2)


def similar(word: str, known: Sequence[str], said: str) -> str:
    """``said`` with the known word that is most similar; empty if none is."""
    import difflib

    return "".join(said.format(each) for each in difflib.get_close_matches(word, known, 1))


def help_(arguments: Arguments, output: Output) -> None:
    """Print the help of a command, or the list of all commands."""
    from stet.cli.parser import Parser

    name = " ".join(arguments.command)
    if name:
        _check_command(name, [each for each in COMMANDS if each != "overview"])
    whole = Parser(name.partition(" ")[0] or None)
    output.content((whole.parsers[name] if name else whole).format_help())


def parse_bare(words: Sequence[str]) -> Arguments | None:
    """Parse a command that has no arguments except --json and --no-pager; None if argparse is
    needed.
    """
    name, *flags = words
    command = COMMANDS.get(name)
    if command is None or name in WITH_SUBCOMMANDS or {*flags} - {"--json", "--no-pager"}:
        return None
    found: dict[str, Any] = {"prog": command.prog, "run": command.run}
    for line in command.lines:
        names, more = parse_line(line)
        if more.get("required") or not (names[0].startswith("-") or "nargs" in more):
            return None
        value = more.get("default", [] if more.get("nargs") == "*" else None)
        if "action" in more:
            value = {"store_true": False, "store_false": True}.get(more["action"], value)
        elif value is not None and "type" in more:
            value = more["type"](value)
        found[more.get("dest") or names[-1].lstrip("-").replace("-", "_")] = value
    found |= {"json": "--json" in flags, "no_pager": "--no-pager" in flags}
    return Arguments(**found)


def parse_line(line: str) -> tuple[list[str], dict[str, Any]]:
    """Parse an argument's line of the table: its names, and the keywords for add_argument()."""
    head, _, help_ = line.strip().partition("  ")
    words = head.partition(" =")[0].removesuffix(" !")
    more: dict[str, Any] = {"help": help_ or None}
    if " =" in head:
        more["default"] = head.partition(" =")[2]
    if words.startswith("-"):
        *names, value = words.replace(", ", " ").split(" ")
        if value.startswith("-"):
            names, more["action"] = [*names, value], "store_true"
        if head.endswith(" !"):
            more["required"] = True
    else:
        found = re.fullmatch(_ARGUMENT, words)
        assert found is not None, f"BUG: {line}"
        optional, dest, value, several = found.groups()
        names = [dest or value.lower()]
        if optional:
            more["nargs"] = "*" if several else "?"
    if value.startswith("{"):
        more["choices"] = value[1:-1].split(",")
    elif not value.startswith("-") and value.isupper():
        more["metavar"] = value
    if value in ("N", "LINE"):
        more["type"] = int
    return names, more | SPECIAL.get(head, {})
