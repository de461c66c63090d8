"""``stet completion SHELL``: a script that lets bash, zsh or fish complete ``stet``.

    eval "$(stet completion bash)"        in ~/.bashrc; zsh: in ~/.zshrc after compinit
    stet completion fish | source         in ~/.config/fish/config.fish

The script has the commands and options in it, as they are now, and runs
:mod:`stet.cli.candidates` at each TAB.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from collections.abc import Mapping
from typing import Any

from stet.cli import candidates
from stet.cli.output import Output
from stet.cli.usage import Arguments

#: What the value of an option or argument is, by its metavar, else by its name.
_KINDS: Mapping[str, Any] = {
    "COMMIT": "commits",
    "PATH": "paths",
    "P": "paths",
    "S": "sessions",
    "A": "agents",
    "REQUEST": "requests",
    "SESSION": "open_sessions",
    "DIR": "directories",
    "FILE": "files",
    "file": "files",
    "path": "paths",
    "K": ["edit", "outside", "undo", "redo", "rollback", "restore", "snapshot", "observed"],
    "M": ["patch", "patch_file", "patch_block", "apply_patch", "transaction", "restore"],
}

_BASH = """\
_stet() {
    local IFS=$'\\n' line
    local -a lines
    mapfile -t lines < <(STET_COMPLETION=@TABLE@ \\
        @PROGRAM@ bash "${COMP_LINE:0:COMP_POINT}" 2>/dev/null)
    COMPREPLY=()
    for line in "${lines[@]:1}"; do
        COMPREPLY+=("${line%%$'\\t'*}")
    done
    case "${lines[0]}" in
        files) compopt -o filenames
            COMPREPLY+=($(compgen -f -- "${COMP_WORDS[COMP_CWORD]}")) ;;
        directories) compopt -o filenames
            COMPREPLY+=($(compgen -d -- "${COMP_WORDS[COMP_CWORD]}")) ;;
    esac
}
complete -o nosort -F _stet stet
"""

_ZSH = """\
#compdef stet
_stet() {
    local line
    local -a lines values shown
    lines=("${(@f)$(STET_COMPLETION=@TABLE@ \\
        @PROGRAM@ zsh "${(@Q)words[1,CURRENT]}" 2>/dev/null)}")
    for line in "${(@)lines[2,-1]}"; do
        [[ -n $line ]] || continue
        values+=("${line%%$'\\t'*}")
        if [[ -n ${line#*$'\\t'} ]]; then
            shown+=("${line%%$'\\t'*}  -- ${line#*$'\\t'}")
        else
            shown+=("${line%%$'\\t'*}")
        fi
    done
    (( $#values )) && compadd -V stet -l -d shown -a values
    case $lines[1] in
        files) _files ;;
        directories) _files -/ ;;
    esac
}
(( $+functions[compdef] )) && compdef _stet stet
"""

_FISH = """\
function __stet_complete
    set -lx STET_COMPLETION @TABLE@
    set -l current (commandline -ct)
    set -l lines (@PROGRAM@ fish (commandline -opc) "$current" 2>/dev/null)
    test (count $lines) -gt 0; or return
    printf '%s\\n' $lines[2..-1]
    switch $lines[1]
        case files
            __fish_complete_path "$current"
        case directories
            __fish_complete_directories "$current"
    end
end
complete -c stet -f -k -a '(__stet_complete)'
"""

_SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def completion(arguments: Arguments, _output: Output) -> None:
    """Print the script for a shell."""
    from stet.cli.parser import Parser  # which knows this command, too

    sys.stdout.write(script(arguments.shell, table_of(Parser())))


def script(shell: str, table: Mapping[str, Any]) -> str:
    """The script for a shell that completes by a table."""
    quote = _fish_quoted if shell == "fish" else shlex.quote
    encoded = json.dumps(table, separators=(",", ":"), ensure_ascii=False)
    program = [sys.executable, "-I", "-S", "-X", "utf8", os.path.abspath(candidates.__file__)]
    text = _SCRIPTS[shell].replace("@TABLE@", quote(encoded))
    return text.replace("@PROGRAM@", " ".join(map(quote, program)))


def _fish_quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def table_of(parser: argparse.ArgumentParser) -> dict[str, Any]:
    """The commands, options and arguments of a parser, as candidates.py wants them."""
    table: dict[str, Any] = {"help": "", "options": {}, "words": [], "more": None}
    for action in parser._actions:  # there is no other way to ask argparse
        if isinstance(action, argparse._SubParsersAction):
            helps = {each.dest: each.help for each in action._choices_actions}
            table["commands"] = {
                name: table_of(inner) | {"help": helps.get(name) or ""}
                for name, inner in action.choices.items()
            }
        elif action.option_strings:
            value = None if action.nargs == 0 else _kind(action, parser.prog)
            for name in action.option_strings:
                table["options"][name] = [action.help or "", value]
        elif action.nargs == "*":
            table["more"] = _kind(action, parser.prog)
        else:
            table["words"].append(_kind(action, parser.prog))
    if parser.prog.endswith(" diff"):
        table["after"] = "paths"
    return table


def _kind(action: argparse.Action, prog: str) -> Any:
    if action.choices is not None:
        return [str(choice) for choice in action.choices]
    metavar = action.metavar if isinstance(action.metavar, str) else action.dest
    if metavar == "NAME" and prog.endswith(" pin"):
        return "pins"
    return _KINDS.get(metavar, _KINDS.get(action.dest, "text"))
