"""``stet completion SHELL``: a script that lets bash, zsh or fish complete ``stet``.

    eval "$(stet completion bash)"        in ~/.bashrc; zsh: in ~/.zshrc after compinit
    stet completion fish | source         in ~/.config/fish/config.fish

The script is argcomplete's: at each TAB it runs ``stet`` with _ARGCOMPLETE in the environment
(:mod:`stet.cli`). A running daemon is asked on control.sock and has _TIMEOUT_S to answer; none is
started. Words with characters that could harm a terminal are not offered.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from argcomplete.completers import DirectoriesCompleter, FilesCompleter, SuppressCompleter
from argcomplete.finders import CompletionFinder
from argcomplete.shell_integration import shellcode

import stet
from stet.cli.arguments import COMMANDS
from stet.cli.output import Output
from stet.cli.parser import Parser
from stet.cli.usage import Arguments
from stet.terminal.spans import SHORT, named, short, visible, who
from stet.wire.results import CommitInfo

_TIMEOUT_S = 0.5
#: Newest commits of the log that are searched for candidates.
_COMMITS = 200
_MADE = ("undo", "redo", "rollback", "restore", "snapshot", "observed", "forget", "retention")
_KINDS = ("edit", "outside", *_MADE)
_METHODS = ("patch", "patch_file", "patch_block", "apply_patch", "transaction", *_MADE)

#: Candidates, each with its description.
Candidates = Mapping[str, str]


def completion(arguments: Arguments, output: Output) -> None:
    """Print the script for a shell."""
    options = ["-o", "nospace", "-o", "nosort"]
    code = shellcode(["stet"], shell=arguments.shell, complete_arguments=options)
    output.content(code + "\n")


def complete() -> None:
    """Print the candidates for the shell's script, and exit."""
    whole = Parser()
    # This option may precede the command, too (stet.cli.arguments).
    whole.add_argument("-C", dest="front", metavar="DIR")
    _add_completers(whole)
    _Finder()(
        whole,
        always_complete_options=False,
        validator=lambda word, prefix: word.startswith(prefix) and word == visible(word),
        default_completer=SuppressCompleter(),
    )


class _Finder(CompletionFinder):
    def quote_completions(
        self, completions: list[str], cword_prequote: str, last_wordbreak_pos: int | None
    ) -> list[str]:
        """Quote as argcomplete does. Bash shows words alone, so if there are several, each gets its
        description appended. Bash inserts only their common prefix, which ends before that.
        """
        descriptions = self.get_display_completions()
        described = [descriptions.get(each, "")[:60] for each in completions]
        quoted: list[str] = super().quote_completions(
            completions, cword_prequote, last_wordbreak_pos
        )
        if os.environ.get("_ARGCOMPLETE_SHELL") != "bash" or len(quoted) < 2:
            return quoted
        width = max(map(len, quoted))
        pairs = zip(quoted, described, strict=True)
        return [f"{word:<{width}}  ({text})" if text else word for word, text in pairs]


def _add_completers(parser: argparse.ArgumentParser) -> None:
    for action in parser._actions:  # argparse has no public way to list them
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                _add_completers(inner)
            continue
        known = _BY_METAVAR.get(str(action.metavar)) or _BY_METAVAR.get(action.dest)
        if action.metavar == "NAME" and parser.prog == "stet pin":
            known = _pins
        if known is not None and action.choices is None:
            action.completer = known  # type: ignore[attr-defined]
        if not action.option_strings:
            action.help = None  # argcomplete would say it of each of the choices


def _from_daemon(
    find: Callable[[stet.Session, str], Mapping[str | None, str]],
) -> Callable[..., Candidates]:
    def completer(*, prefix: str, parsed_args: argparse.Namespace, **_: Any) -> Candidates:
        front = os.path.expanduser(getattr(parsed_args, "front", None) or ".")
        directory = os.path.expanduser(getattr(parsed_args, "directory", None) or ".")
        try:
            with stet.connect(
                os.path.abspath(os.path.join(front, directory)),
                agent="completion",
                control=True,
                start=False,
                timeout=_TIMEOUT_S,
            ) as session:
                found = find(session, prefix)
        except (stet.StetError, OSError):  # a TAB must print no error
            return {}
        return {word: visible(text.split("\n")[0]) for word, text in found.items() if word}

    return completer


def _log(session: stet.Session) -> Sequence[CommitInfo]:
    return session.log(limit=_COMMITS).commits


@_from_daemon
def _commits(session: stet.Session, prefix: str) -> dict[str | None, str]:
    found: dict[str | None, str] = dict(_find_pins(session, prefix))
    for commit in _log(session):
        undone = ", undone" if commit.reverted_by else ""
        word = short(commit.commit) if len(prefix) <= SHORT else commit.commit
        found[word] = f"{who(commit)}{undone}: {commit.message}"
    return found


def _find_pins(session: stet.Session, _prefix: str) -> dict[str | None, str]:
    return {pin.name: f"pin of {short(pin.commit or '')}" for pin in session.pin_list().pins}


@_from_daemon
def _deleted_paths(session: stet.Session, prefix: str) -> dict[str | None, str]:
    """The recorded files that no longer exist; the others are found without the daemon."""
    paths = {file.path for commit in _log(session) for file in commit.files}
    absolute = (os.path.join(str(session.workspace), path) for path in sorted(paths))
    deleted = [path for path in absolute if not os.path.lexists(path)]
    return {path if prefix.startswith("/") else os.path.relpath(path): "gone" for path in deleted}


_pins = _from_daemon(_find_pins)


def _paths(prefix: str, **more: Any) -> Candidates:
    existing = dict.fromkeys(FilesCompleter()(prefix), "")
    return {**existing, **_deleted_paths(prefix=prefix, **more)}


def _commits_or_paths(prefix: str, **more: Any) -> Candidates:
    after_dashes = " -- " in os.environ["COMP_LINE"]  # stet diff COMMIT -- PATH
    return (_paths if after_dashes else _commits)(prefix=prefix, **more)


def _commands(parsed_args: argparse.Namespace, **_: Any) -> Candidates:
    above = "".join(f"{word} " for word in parsed_args.command or ())
    listed = [name for name in COMMANDS if name.startswith(above) and name != "overview"]
    inside = {name.removeprefix(above): COMMANDS[name].what for name in listed}
    return {name: what for name, what in inside.items() if " " not in name}


#: The completers for values of options and arguments, by metavar, else by name.
_BY_METAVAR: Mapping[str, Callable[..., Any]] = {
    "COMMAND": _commands,
    "COMMIT": _commits_or_paths,
    "PATH": _paths,
    "P": _paths,
    "what": _paths,
    "S": _from_daemon(lambda s, _: dict.fromkeys((each.session for each in _log(s)), "")),
    "A": _from_daemon(lambda s, _: dict.fromkeys((each.agent for each in _log(s)), "")),
    "SESSION": _from_daemon(
        lambda s, _: {
            each.session: each.agent or ""
            for each in s.session_list(workspace=s.workspace).sessions
        }
    ),
    "REQUEST": _from_daemon(
        lambda s, _: {
            each.request: f"{named(each.agent, each.session)}: {each.reason}"
            for each in s.upgrade_list(status="pending").requests
        }
    ),
    "DIR": DirectoriesCompleter(),
    "FILE": FilesCompleter(),
    "file": FilesCompleter(),
    "K": lambda **_: dict.fromkeys(_KINDS, ""),
    "M": lambda **_: dict.fromkeys(_METHODS, ""),
}
