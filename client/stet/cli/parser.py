"""The parser of the commands, and help for people, out of the table."""

from __future__ import annotations

import argparse
from typing import Any, NoReturn

from stet.cli.arguments import (
    AT,
    EXAMPLES,
    GROUPS,
    HAVE_COMMANDS,
    WHAT,
    defaults,
    described,
    lines_of,
    prog,
    usage_of,
)
from stet.cli.usage import columns
from stet.version import __version__


class Parser(argparse.ArgumentParser):
    """The parser of all commands, or of ``only`` one: to make all takes as long as most commands.

    ``parsers``: those of the commands, by name.
    """

    def __init__(self, only: str | None = None) -> None:
        super().__init__(prog="stet", allow_abbrev=False, formatter_class=_Formatter)
        self.add_argument("--version", action="version", version=f"stet {__version__}")
        self.parsers: dict[str, argparse.ArgumentParser] = {}
        self.known = [name for name in AT if " " not in name]
        inside = {"": _subparsers(self)}
        for name, what in WHAT.items():
            group, _, own = name.rpartition(" ")
            if only is None or only == name.split()[0]:
                made = _command(inside[group], own, name, what)
                if name in HAVE_COMMANDS:
                    inside[name] = _subparsers(made)
                self.parsers[name] = made

    def format_help(self) -> str:
        """All commands in their groups."""
        lines = ["See what agents did to your files, and take any of it back.", ""]
        for title, names in GROUPS.items():
            lines += [title, *(f"  {name:<13}{WHAT[name]}" for name in names), ""]
        lines += [
            "stet alone says where you are. stet help COMMAND explains a command.",
            "Every command takes -C DIR (act as if in DIR), --json, --no-pager and --dates.",
        ]
        return "\n".join(lines) + "\n"


class _CommandParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        super().error(f"{message}\nTry: {self.prog} --help")


class _Formatter(argparse.RawDescriptionHelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=columns() - 2)


def _subparsers(above: argparse.ArgumentParser) -> Any:
    return above.add_subparsers(metavar="COMMAND", required=True, parser_class=_CommandParser)


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
    made.prog = prog(name)
    made.set_defaults(prog=made.prog, **defaults(name))
    made.usage = usage_of(name)
    for line in lines_of(name):
        names, more = described(line)
        if more.get("action") == "boolean":
            more["action"] = argparse.BooleanOptionalAction
        made.add_argument(*names, **more)
    return made
