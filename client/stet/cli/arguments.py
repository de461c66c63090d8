"""The command line as ``stet.cli.commands`` has it in a table, parsed.

A command that is typed alone needs no argparse, which takes as long to load as a call takes; what
does is in :mod:`stet.cli.parser`. Nothing here talks to the daemon.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from stet.cli.commands import SHARED, TABLE
from stet.cli.usage import CLIENTS, SHELLS, Arguments, duration
from stet.version import __version__

if TYPE_CHECKING:
    from stet.cli.output import Output

_LINES = TABLE.splitlines()
#: What one wants to do, and the commands for it.
GROUPS: dict[str, list[str]] = {}
#: What each command does, and the number of its line; also of ``clip list`` and the like.
WHAT: dict[str, str] = {"overview": "say where you are"}
AT: dict[str, int] = {}
#: Two for each command; without "stet".
EXAMPLES: dict[str, list[str]] = {}
for _number, _line in enumerate(_LINES):
    if _line.startswith("# "):
        GROUPS[_line[2:]] = []
    elif _line.startswith("e.g. "):
        EXAMPLES[[*AT][-1]] = _line[5:].split(" / ")
    elif _line and not _line.startswith((" ", "usage: ")):
        _name, _, _what = _line.partition(": ")
        _name = _name.partition(" (")[0]
        AT[_name], WHAT[_name] = _number, _what
        if " " not in _name:
            [*GROUPS.values()][-1].append(_name)
#: Commands that have commands of their own.
HAVE_COMMANDS = tuple(dict.fromkeys(name.split()[0] for name in AT if " " in name))

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
_ARGUMENT = re.compile(r"(\[?)(?:([a-z]+):)?(.*?)(\.\.)?\]?")


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
        _check_command(only, [*WHAT])
    arguments = typed_alone(own)
    if arguments is None:
        from stet.cli.parser import Parser

        whole, arguments = Parser(only), Arguments()
        _, unknown = whole.parse_known_args(own, arguments)
        if unknown:
            whole.parsers[arguments.prog.removeprefix("stet").strip() or "overview"].error(
                f"unrecognized arguments: {' '.join(unknown)}"
            )
    if paths:
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
        _check_command(name, [*AT, *HAVE_COMMANDS])
    whole = Parser(name.partition(" ")[0] or None)
    output.content((whole.parsers[name] if name else whole).format_help())


def typed_alone(words: Sequence[str]) -> Arguments | None:
    """The arguments of a command with no word behind it but these two; None where argparse has to
    look.
    """
    name, *flags = words
    if name not in WHAT or name in HAVE_COMMANDS or not {"--json", "--no-pager"}.issuperset(flags):
        return None
    found: dict[str, Any] = {"prog": prog(name), **defaults(name)}
    for line in lines_of(name):
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


def prog(name: str) -> str:
    """How a command is typed."""
    return "stet" if name == "overview" else f"stet {name}"


def defaults(name: str) -> dict[str, Any]:
    """What carries a command out, and what of its arguments nobody types."""
    if name == "overview":
        return {"run": "taking_back.overview"}
    run = _LINES[AT[name]].partition(" (")[2].partition(")")[0]
    return {"run": run, "paths": []} if name == "diff" else {"run": run}


def lines_of(name: str) -> Iterator[str]:
    """The lines of the table below a command's, those of SHARED put in; first what all have."""
    yield from SHARED["common"].split("\n")
    for line in _LINES[AT[name] + 1 :] if name in AT else ():
        if line.startswith("  *"):
            yield from SHARED[line[3:]].split("\n")
        elif line.startswith("  "):
            yield line
        elif not line.startswith(("usage: ", "e.g. ")):
            return


def usage_of(name: str) -> str | None:
    """How a command is used, where the table says it."""
    below = _LINES[AT[name] + 2] if name in AT else ""
    return below.removeprefix("usage: ") if below.startswith("usage: ") else None


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
    return names, more | SPECIAL.get(head, {})
