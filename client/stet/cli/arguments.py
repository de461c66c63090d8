"""The command line as ``stet.cli.commands`` has it in a table, parsed.

A command that is typed alone needs no argparse, which takes as long to load as a call takes; what
does is in :mod:`stet.cli.parser`. Nothing here talks to the daemon.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from stet.cli.commands import SHARED, TABLE
from stet.cli.usage import CLIENTS, SHELLS, Arguments, duration
from stet.version import __version__

if TYPE_CHECKING:
    from stet.cli.output import Output


class Command:
    """A command as the table has it: what it does, what carries it out, its arguments' lines.

    ``examples`` are without "stet"; ``usage`` is None where argparse can say it.
    """

    def __init__(self, name: str, what: str, run: str) -> None:
        self.prog = f"stet {name}" if name != "overview" else "stet"
        self.what, self.run = what, run
        self.lines = SHARED["common"].split("\n")
        self.examples: list[str] = []
        self.usage: str | None = None


#: By their names, also ``clip list`` and the like.
COMMANDS = {"overview": Command("overview", "say where you are", "taking_back.overview")}
#: What one wants to do, and the commands for it.
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
#: Commands that have commands of their own.
HAVE_COMMANDS = tuple(dict.fromkeys(name.split()[0] for name in COMMANDS if " " in name))

#: What the table's language has no words for, as argparse has it, by the words before the help.
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
#: What may stand in front of the command, and whether a value follows it.
_EVERYWHERE = {"-C": True, "--json": False, "--no-pager": False, "--dates": True}
#: Compiled when the first argument is met: most commands have options alone.
_ARGUMENT = r"(\[?)(?:([a-z]+):)?(.*?)(\.\.)?\]?"


def parse(argv: Sequence[str]) -> Arguments:
    """The arguments, with ``run`` in them: a module of this package and its function that carries
    the command out. Ends the process with 2 on wrong usage.
    """
    own, paths = list(argv), list[str]()
    if "--" in own and "diff" in own[: own.index("--")]:  # argparse would merge the two
        at = own.index("--")
        own, paths = own[:at], own[at + 1 :]
    if {"--version", "--json"} <= {*own}:
        print(f'{{"stet": "{__version__}"}}')
        raise SystemExit(0)
    own = _ordered(own)
    only = None if own[0] in ("-h", "--help", "--version") else own[0]
    if only is not None:
        _check_command(only, [*COMMANDS])
    arguments = typed_alone(own)
    if arguments is None:
        from stet.cli.parser import Parser

        whole, arguments = Parser(only), Arguments()
        _, unknown = whole.parse_known_args(own, arguments)
        if unknown:
            whole.parsers[arguments.prog.removeprefix("stet").strip() or "overview"].error(
                f"unrecognized arguments: {' '.join(unknown)}"
            )
    if paths or arguments.run == "history.diff":
        arguments.paths = paths
    return arguments


def _ordered(argv: Sequence[str]) -> list[str]:
    """The words, with options in front of the command moved behind it, as argparse wants it."""
    words, front = list(argv), list[str]()
    while words and words[0].partition("=")[0] in _EVERYWHERE:
        front.append(words.pop(0))
        if _EVERYWHERE[front[-1].partition("=")[0]] and "=" not in front[-1] and words:
            front.append(words.pop(0))
    if not words:
        words = ["overview"]  # stet alone
    at = 2 if words[0] in HAVE_COMMANDS and len(words) > 1 else 1
    return [*words[:at], *front, *words[at:]]


def _check_command(word: str, known: Sequence[str]) -> None:
    """End the process with 2 if there is no such command, and say which is meant."""
    if word in known:
        return
    import difflib

    near = difflib.get_close_matches(word, known, 1)
    hint = f" Did you mean: stet {near[0]}?" if near else ""
    if word.startswith("-"):
        hint = " A command's options stand behind it: stet log --oneline."
    print(f"stet: there is no command {word!r}.{hint} stet help lists them.", file=sys.stderr)
    raise SystemExit(2)


def help_(arguments: Arguments, output: Output) -> None:
    """Print what a command does, or which there are."""
    from stet.cli.parser import Parser

    name = " ".join(arguments.command)
    if name:
        _check_command(name, [each for each in COMMANDS if each != "overview"])
    whole = Parser(name.partition(" ")[0] or None)
    output.content((whole.parsers[name] if name else whole).format_help())


def typed_alone(words: Sequence[str]) -> Arguments | None:
    """The arguments of a command with no word behind it but these two; None where argparse has to
    look.
    """
    name, *flags = words
    command = COMMANDS.get(name)
    if command is None or name in HAVE_COMMANDS or {*flags} - {"--json", "--no-pager"}:
        return None
    found: dict[str, Any] = {"prog": command.prog, "run": command.run}
    for line in command.lines:
        names, more = described(line)
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


def described(line: str) -> tuple[list[str], dict[str, Any]]:
    """An argument or option as a line of the table has it: names, and the rest for argparse."""
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
