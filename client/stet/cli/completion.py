"""``stet completion SHELL``: a script that lets bash, zsh or fish complete ``stet``.

    eval "$(stet completion bash)"        in ~/.bashrc; zsh: in ~/.zshrc after compinit
    stet completion fish | source         in ~/.config/fish/config.fish

The script is argcomplete's: at each TAB it runs ``stet``, whose environment says that it is to
complete (:mod:`stet.cli`). The daemon is asked on control.sock, if one runs; none is started, and
it has _DEADLINE_S. What could harm a terminal is not offered.
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
from stet.cli.output import Output
from stet.cli.parser import Parser
from stet.cli.usage import Arguments
from stet.terminal.spans import named, short, visible
from stet.wire.results import CommitInfo

#: Seconds that the daemon has for its answers.
_DEADLINE_S = 0.5
#: Commits of the log that are scanned.
_COMMITS = 200
_KINDS = ("edit", "outside", "undo", "redo", "rollback", "restore", "snapshot", "observed")
_METHODS = ("patch", "patch_file", "patch_block", "apply_patch", "transaction", "restore")

#: Candidates, and what each is.
Found = Mapping[str, str]


def completion(arguments: Arguments, output: Output) -> None:
    """Print the script for a shell."""
    options = ["-o", "nospace", "-o", "nosort"]
    code = shellcode(["stet"], shell=arguments.shell, complete_arguments=options)
    output.content(code + "\n")


def complete() -> None:
    """Answer the shell's script, and end the process."""
    whole = Parser()
    # It may precede a command, too (stet.cli.arguments).
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
        """As argcomplete does it. Bash shows words alone, so where there are several each gets what
        it is behind it. What bash inserts is what they have in common, which ends before that.
        """
        what = self.get_display_completions()
        described = [what.get(each, "")[:60] for each in completions]
        quoted: list[str] = super().quote_completions(
            completions, cword_prequote, last_wordbreak_pos
        )
        if os.environ.get("_ARGCOMPLETE_SHELL") != "bash" or len(quoted) < 2:
            return quoted
        width = max(map(len, quoted))
        pairs = zip(quoted, described, strict=True)
        return [f"{word:<{width}}  ({text})" if text else word for word, text in pairs]


def _add_completers(parser: argparse.ArgumentParser) -> None:
    for action in parser._actions:  # there is no other way to ask argparse
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                _add_completers(inner)
            continue
        known = _BY_METAVAR.get(str(action.metavar)) or _BY_METAVAR.get(action.dest)
        if action.metavar == "NAME" and parser.prog == "stet pin":
            known = _pins
        if known is not None and action.choices is None:
            action.completer = known  # type: ignore[attr-defined]


def _asks(
    what: Callable[[stet.Session, str], Mapping[str | None, str]],
) -> Callable[..., Found]:
    def completer(*, prefix: str, parsed_args: argparse.Namespace, **_: Any) -> Found:
        front = os.path.expanduser(getattr(parsed_args, "front", None) or ".")
        directory = os.path.expanduser(getattr(parsed_args, "directory", None) or ".")
        try:
            with stet.connect(
                os.path.abspath(os.path.join(front, directory)),
                agent="completion",
                control=True,
                start=False,
                timeout=_DEADLINE_S,
            ) as session:
                found = what(session, prefix)
        except (stet.StetError, OSError):  # a TAB must not make a mess
            return {}
        return {word: visible(text.split("\n")[0]) for word, text in found.items() if word}

    return completer


def _log(session: stet.Session) -> Sequence[CommitInfo]:
    return session.log(limit=_COMMITS).commits


def _commits_found(session: stet.Session, prefix: str) -> dict[str | None, str]:
    found: dict[str | None, str] = dict(_pins_found(session, prefix))
    for commit in _log(session):
        undone = ", undone" if commit.reverted_by else ""
        who = named(commit.agent, commit.session) or commit.kind
        short_id = short(str(commit.commit))
        word = short_id if len(prefix) <= len(short_id) else commit.commit
        found[word] = f"{who}{undone}: {commit.message}"
    return found


def _pins_found(session: stet.Session, _prefix: str) -> dict[str | None, str]:
    return {pin.name: f"pin of {short(pin.commit or '')}" for pin in session.pin_list().pins}


def _paths_found(session: stet.Session, prefix: str) -> dict[str | None, str]:
    """Files that are gone; the others are found without the daemon."""
    paths = {file.path for commit in _log(session) for file in commit.files}
    wholes = (os.path.join(str(session.workspace), path) for path in sorted(paths))
    gone = [path for path in wholes if not os.path.lexists(path)]
    return {path if prefix.startswith("/") else os.path.relpath(path): "gone" for path in gone}


_pins = _asks(_pins_found)
_gone = _asks(_paths_found)
_commits = _asks(_commits_found)


def _paths(prefix: str, **more: Any) -> Found:
    there = dict.fromkeys(FilesCompleter()(prefix), "")
    return {**there, **_gone(prefix=prefix, **more)}


def _commits_or_paths(prefix: str, **more: Any) -> Found:
    behind = " -- " in os.environ["COMP_LINE"]  # stet diff COMMIT -- PATH
    return (_paths if behind else _commits)(prefix=prefix, **more)


#: What completes the value of an option or argument, by its metavar, else by its name.
_BY_METAVAR: Mapping[str, Callable[..., Any]] = {
    "COMMIT": _commits_or_paths,
    "PATH": _paths,
    "P": _paths,
    "path": _paths,
    "S": _asks(lambda s, _: dict.fromkeys((each.session for each in _log(s)), "")),
    "A": _asks(lambda s, _: dict.fromkeys((each.agent for each in _log(s)), "")),
    "SESSION": _asks(
        lambda s, _: {
            each.session: each.agent or ""
            for each in s.session_list(workspace=s.workspace).sessions
        }
    ),
    "REQUEST": _asks(
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
