"""The command line as ``stet.cli.commands`` has it in a table, parsed; and help for people.

Nothing here talks to the daemon.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from stet.cli.commands import SHARED, TABLE
from stet.cli.usage import CLIENTS, SHELLS, columns, duration
from stet.version import __version__

if TYPE_CHECKING:
    from stet.cli.output import Output

_LINES = TABLE.splitlines()
#: What one wants to do, and the commands for it.
GROUPS: dict[str, list[str]] = {}
#: What each command does, and the number of its line; also of ``clip list`` and its like.
WHAT: dict[str, str] = {"overview": "say where you are"}
_AT: dict[str, int] = {}
#: Two for each command; without "stet".
EXAMPLES: dict[str, list[str]] = {}
for _number, _line in enumerate(_LINES):
    if _line.startswith("# "):
        GROUPS[_line[2:]] = []
    elif _line.startswith("e.g. "):
        EXAMPLES[[*_AT][-1]] = _line[5:].split(" / ")
    elif _line and not _line.startswith((" ", "usage: ")):
        _name, _, _what = _line.partition(": ")
        _name = _name.partition(" (")[0]
        _AT[_name], WHAT[_name] = _number, _what
        if " " not in _name:
            [*GROUPS.values()][-1].append(_name)
#: Commands that have commands of their own.
HAVE_COMMANDS = tuple(dict.fromkeys(name.split()[0] for name in _AT if " " in name))

#: How argparse has what the table's language has no words for, by the words before the help.
SPECIAL: dict[str, dict[str, Any]] = {
    "-C DIR =.": {"dest": "directory"},
    "--path P": {"dest": "paths", "action": "append"},
    "--for TIME": {"dest": "for_", "type": duration},
    "--no-outside": {"dest": "outside", "action": "store_false"},
    "--structured": {"action": argparse.BooleanOptionalAction, "default": False},
    "--hardened": {"action": argparse.BooleanOptionalAction},
    "client:CLIENT !": {"choices": CLIENTS},
    "shell:SHELL !": {"choices": SHELLS},
}
#: What may stand in front of the command, and whether a value follows it.
_EVERYWHERE = {"-C": True, "--json": False, "--no-pager": False, "--dates": True}
_ARGUMENT = re.compile(r"(\[?)(?:([a-z]+):)?(.*?)(\.\.)?\]?")


def parse(argv: Sequence[str]) -> argparse.Namespace:
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
    only = None if own[0].startswith("-") else own[0]
    if only is not None:
        _check_command(only, [*WHAT])
    arguments = Parser(only).parse_args(own)
    if paths:
        arguments.paths = paths
    return arguments


def _ordered(argv: Sequence[str]) -> list[str]:
    """The words with what stands in front of the command behind it, where argparse wants it."""
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
    print(f"stet: there is no command {word!r}.{hint} stet help lists them.", file=sys.stderr)
    raise SystemExit(2)


def help_(arguments: argparse.Namespace, output: Output) -> None:
    """Print what a command does, or which there are."""
    name = arguments.command
    if name is not None:
        _check_command(name, Parser().known)
    whole = Parser(name)
    output.content((whole.parsers[name] if name else whole).format_help())


class Parser(argparse.ArgumentParser):
    """The parser of all commands, or of ``only`` one: to make all takes as long as most commands.

    ``parsers``: those of the commands, by name.
    """

    def __init__(self, only: str | None = None) -> None:
        super().__init__(prog="stet", allow_abbrev=False, formatter_class=_Formatter)
        self.add_argument("--version", action="version", version=f"stet {__version__}")
        self.parsers: dict[str, argparse.ArgumentParser] = {}
        self.known = [name for name in _AT if " " not in name]
        inside = {"": _subparsers(self)}
        for name, what in WHAT.items():
            group, _, own = name.rpartition(" ")
            if only is None or only == name.split()[0]:
                made = _command(inside[group], own, name, what)
                if name in HAVE_COMMANDS:
                    inside[name] = _subparsers(made)
                if not group:
                    self.parsers[name] = made

    def format_help(self) -> str:
        """All commands in their groups."""
        lines = ["See what agents did to your files, and take any of it back.", ""]
        for title, names in GROUPS.items():
            lines += [title, *(f"  {name:<13}{WHAT[name]}" for name in names), ""]
        lines += [
            "stet alone says where you are. stet help COMMAND tells more about a command.",
            "Every command takes -C DIR (act as if started there), --json, --no-pager and --dates.",
        ]
        return "\n".join(lines) + "\n"


class _Formatter(argparse.RawDescriptionHelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=columns() - 2)


def _subparsers(above: argparse.ArgumentParser) -> Any:
    return above.add_subparsers(
        metavar="COMMAND", required=True, parser_class=argparse.ArgumentParser
    )


def _command(inside: Any, own: str, name: str, what: str) -> argparse.ArgumentParser:
    examples = "".join(f"  stet {each}\n" for each in EXAMPLES.get(name, ()))
    made: argparse.ArgumentParser = inside.add_parser(
        own,
        help=what,
        description=f"{what[:1].upper()}{what[1:]}.",
        epilog=f"examples:\n{examples}" if examples else None,
        formatter_class=_Formatter,
        allow_abbrev=False,  # a script's --pre would mean something else once --prefix exists
    )
    if name in HAVE_COMMANDS:
        return made
    at = _AT.get(name)
    run = "taking_back.overview" if at is None else _LINES[at].partition(" (")[2].partition(")")[0]
    made.set_defaults(run=run, prog=made.prog, **({"paths": []} if name == "diff" else {}))
    for line in ["  *common", *(_lines_below(at) if at is not None else ())]:
        if line.startswith("usage: "):
            made.usage = line.removeprefix("usage: ")
        elif line.startswith("  *"):
            for shared in SHARED[line[3:]].split("\n"):
                _add(made, shared)
        elif line.startswith("  "):
            _add(made, line)
    return made


def _lines_below(at: int) -> Iterator[str]:
    for line in _LINES[at + 1 :]:
        if not line.startswith((" ", "usage: ", "e.g. ")):
            return
        yield line


def _add(command: argparse.ArgumentParser, line: str) -> None:
    """Add an argument or option as a line of the table has it."""
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
        found = _ARGUMENT.fullmatch(words)
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
    command.add_argument(*names, **(more | SPECIAL.get(head, {})))
