"""The argparse parser of the commands, and their help, built from the table."""

from __future__ import annotations

import argparse
from typing import Any, NoReturn

from stet.cli.arguments import COMMANDS, GROUPS, WITH_SUBCOMMANDS, Command, parse_line
from stet.cli.usage import columns
from stet.terminal.spans import visible_lines
from stet.version import __version__


class Parser(argparse.ArgumentParser):
    """The parser of all commands, or of ``only`` one: building all takes as long as most calls."""

    def __init__(self, only: str | None = None) -> None:
        super().__init__(prog="stet", allow_abbrev=False, formatter_class=_Formatter)
        self.add_argument("--version", action="version", version=f"stet {__version__}")
        self.parsers: dict[str, argparse.ArgumentParser] = {}
        inside = {"": _subparsers(self)}
        for name, command in COMMANDS.items():
            group, _, own = name.rpartition(" ")
            if name.split()[0] == only or (only is None and name != "overview"):
                self.parsers[name] = _parser(inside[group], own, command)
                if name in WITH_SUBCOMMANDS:
                    inside[name] = _subparsers(self.parsers[name])
                else:
                    _add_arguments(self.parsers[name], command)

    def format_help(self) -> str:
        """The list of all commands, by group."""
        lines = ["See what agents did to your files, and take any of it back.", ""]
        for title, names in GROUPS.items():
            lines += [title, *(f"  {name:<13}{COMMANDS[name].what}" for name in names), ""]
        lines += [
            "stet without a command says where you are. stet help COMMAND explains a command.",
            "Every command takes -C DIR (act as if in DIR), --json, --no-pager and --dates.",
        ]
        return "\n".join(lines) + "\n"


class _CommandParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        super().error(f"{visible_lines(message)}\nTry: {self.prog} --help")


class _Formatter(argparse.RawDescriptionHelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=columns() - 2)


def _subparsers(above: argparse.ArgumentParser) -> Any:
    return above.add_subparsers(metavar="COMMAND", required=True, parser_class=_CommandParser)


def _parser(inside: Any, own: str, command: Command) -> argparse.ArgumentParser:
    examples = "".join(f"  stet {each}\n" for each in command.examples)
    made: argparse.ArgumentParser = inside.add_parser(
        own,
        help=command.what,
        description=f"{command.what[:1].upper()}{command.what[1:]}.",
        epilog=f"examples:\n{examples}" if examples else None,
        formatter_class=_Formatter,
        allow_abbrev=False,  # else a script's --pre would change its meaning once --prefix exists
    )
    return made


def _add_arguments(made: argparse.ArgumentParser, command: Command) -> None:
    made.prog, made.usage = command.prog, command.usage
    made.set_defaults(prog=command.prog, run=command.run)
    for line in command.lines:
        names, more = parse_line(line)
        if more.get("action") == "boolean":
            more["action"] = argparse.BooleanOptionalAction
        made.add_argument(*names, **more)
