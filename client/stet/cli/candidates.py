"""What can stand at the cursor of a ``stet`` command line: a program that shells run at each TAB.

    python -I -S candidates.py SHELL WORD..      the last word is the one to be completed
    python -I -S candidates.py bash LINE         bash: the line up to the cursor

It is run as a file by its path, with the standard library alone: to import this package takes
longer than anyone wants to wait for a TAB. What commands and options there are, comes as JSON
in $STET_COMPLETION, from the shell script that :mod:`stet.cli.completion` has made:

    TABLE = {"help": TEXT, "options": {NAME: [HELP, VALUE]}, "words": [VALUE..],
             "more": VALUE, "after"?: VALUE, "commands"?: {NAME: TABLE}}

``words`` are what the arguments are, ``more`` what further ones are, ``after`` what comes
after ``--``. A VALUE is null (there is none), a list of words, or one of ``commits``,
``sessions`` (of the log), ``open_sessions``, ``agents``, ``requests``, ``paths``, ``pins``,
``files``, ``directories``, ``text``.

The first line of the output is ``files`` or ``directories`` where the shell shall add its own,
else ``-``; each further line is a candidate, a tab, and what it is.

The daemon is asked on control.sock, if one runs; none is started, and it has DEADLINE_S. What
could harm a terminal is not offered.
"""

from __future__ import annotations

import json
import os
import re
import socket
import sys
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

#: Seconds that the daemon has for its answers.
DEADLINE_S = 0.5
#: Commits of the log that are scanned.
_COMMITS = 200
_SHORT = 8
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
#: Where bash begins a new word though nobody else does.
_BREAKS = ":="

Table = dict[str, Any]
Ask = Callable[[Sequence[tuple[str, dict[str, Any]]]], list[Any]]


class Candidate(NamedTuple):
    """A word, and what it is."""

    word: str
    what: str = ""


class Place(NamedTuple):
    """What is to be completed: a kind of value, and which words those are if it says so."""

    kind: str
    words: Sequence[Candidate] = ()


def main(argv: Sequence[str]) -> int:
    """Print the candidates; 0, whatever happens: a TAB must not make a mess."""
    shell, *words = argv
    if shell == "bash":
        words = split(words[0] if words else "")
    try:
        table = json.loads(os.environ.get("STET_COMPLETION", "{}"))
        at = [word for before, word in pairwise(words[:-1]) if before == "-C"]
        directory = os.path.abspath(os.path.expanduser(at[0]) if at else ".")
        directive, found = complete(words, table, directory, lambda calls: ask(directory, calls))
    except (OSError, ValueError, KeyError, TypeError):
        return 0
    if shell == "bash":
        found = for_bash(words[-1], found)
    lines = [directive, *(f"{each.word}\t{each.what}" for each in found)]
    sys.stdout.buffer.write("".join(line + "\n" for line in lines).encode("utf-8", "replace"))
    return 0


# -- the command line


def split(line: str) -> list[str]:
    """The words of an unfinished line, as a shell reads them; the last may be empty."""
    words, word, quote, begun = [], "", "", False
    characters = iter(line)
    for character in characters:
        if quote:
            if character == quote:
                quote = ""
            elif character == "\\" and quote == '"':
                word += next(characters, "")
            else:
                word += character
        elif character in "'\"":
            quote, begun = character, True
        elif character == "\\":
            word, begun = word + next(characters, ""), True
        elif character.isspace():
            if begun:
                words.append(word)
            word, begun = "", False
        else:
            word, begun = word + character, True
    return [*words, word]


def place_in(words: Sequence[str], table: Table) -> Place:
    """The place that these words lead to; the first one is the program."""
    *before, current = words[1:]
    at, given, only_words = table, 0, False
    value: Any = None
    for word in before:
        if value is not None:
            value = None
        elif word == "--" and not only_words:
            only_words = True
        elif word.startswith("-") and not only_words:
            value = at["options"].get(word, ["", None])[1]
        elif word in at.get("commands", {}):
            at, given = at["commands"][word], 0
        else:
            given += 1
    if value is not None:
        return _place(value)
    if current.startswith("-") and not only_words:
        name, sign, _ = current.partition("=")
        if sign and name in at["options"]:
            return _place(at["options"][name][1])
        return Place("words", [Candidate(n, each[0]) for n, each in at["options"].items()])
    if at.get("commands"):
        return Place("words", [Candidate(n, each["help"]) for n, each in at["commands"].items()])
    if only_words and at.get("after") is not None:
        return _place(at["after"])
    kinds = at.get("words", [])
    return _place(kinds[given] if given < len(kinds) else at.get("more"))


def _place(value: Any) -> Place:
    if isinstance(value, list):
        return Place("words", [Candidate(word) for word in value])
    return Place(value or "text")


# -- candidates


def complete(
    words: Sequence[str], table: Table, directory: str, ask: Ask
) -> tuple[str, list[Candidate]]:
    """What the shell shall add of its own, and the candidates for the last word."""
    place = place_in(words, table)
    current = words[-1]
    before, sign, rest = current.partition("=")
    in_option = bool(sign) and current.startswith("--")
    if in_option:
        current = rest
    found = place.words if place.kind == "words" else _asked(place.kind, current, directory, ask)
    kept = [
        Candidate(f"{before}={each.word}" if in_option else each.word, _line(each.what))
        for each in found
        if each.word.startswith(current) and each.word and not _UNPRINTABLE.search(each.word)
    ]
    own = {"paths": "files", "files": "files", "directories": "directories"}
    return own.get(place.kind, "-"), kept


def _line(text: str) -> str:
    return _UNPRINTABLE.sub("?", text.split("\n")[0])


#: By kind: the method that is asked, its parameters, and what of its result are the candidates.
_ASKED: dict[str, tuple[str, dict[str, Any], str]] = {
    "commits": ("log", {"limit": _COMMITS}, "commits"),
    "sessions": ("log", {"limit": _COMMITS}, "commits"),
    "agents": ("log", {"limit": _COMMITS}, "commits"),
    "paths": ("log", {"limit": _COMMITS}, "commits"),
    "pins": ("pin_list", {}, "pins"),
    "requests": ("upgrade_list", {"status": "pending"}, "requests"),
    "open_sessions": ("session_list", {}, "sessions"),
}


def _asked(kind: str, current: str, directory: str, ask: Ask) -> list[Candidate]:
    if kind not in _ASKED:
        return []
    kinds = ["pins", kind] if kind == "commits" else [kind]
    *answers, root = ask([_ASKED[each][:2] for each in kinds])
    lists = [
        list(answer.get(_ASKED[each][2], [])) if isinstance(answer, dict) else []
        for each, answer in zip(kinds, answers, strict=True)
    ]
    found = lists[-1]
    if kind == "pins":
        return _pins(found)
    if kind == "commits":
        digits = _SHORT if len(current) <= _SHORT else 40
        return [*_pins(lists[0]), *(Candidate(c["commit"][:digits], _described(c)) for c in found)]
    if kind == "requests":
        return [Candidate(r["request"], f"{_named(r)}: {_line(r['reason'])}") for r in found]
    if kind == "open_sessions":
        own = [each for each in found if each["workspace"] == root]
        return [Candidate(each["session"], each.get("agent") or "") for each in own]
    if kind == "paths":
        paths = dict.fromkeys(file["path"] for commit in found for file in commit["files"])
        wholes = [os.path.join(root, path) for path in paths]
        # The shell finds by itself what is there. The others are written as one would type them.
        gone = [path for path in wholes if not os.path.lexists(path)]
        whole = current.startswith("/")
        return [Candidate(path if whole else os.path.relpath(path, directory)) for path in gone]
    names = [commit.get(kind.removesuffix("s")) for commit in found]
    return [Candidate(name) for name in dict.fromkeys(names) if name]


def _pins(pins: Sequence[Any]) -> list[Candidate]:
    return [Candidate(pin["name"], f"pin of {str(pin['commit'])[:_SHORT]}") for pin in pins]


def _named(each: Any) -> str:
    return "/".join(name for name in (each.get("agent"), each.get("session")) if name)


def _described(commit: Any) -> str:
    undone = ", undone" if commit.get("reverted_by") else ""
    return f"{_named(commit) or commit['kind']}{undone}: {_line(commit['message'])}"


# -- the daemon


def ask(directory: str, calls: Sequence[tuple[str, dict[str, Any]]]) -> list[Any]:
    """The results of these calls (None where refused), and last the workspace's root.

    Raises OSError where no daemon answers in time.
    """
    until = time.monotonic() + DEADLINE_S
    hello = ("hello", {"protocol": 1, "workspace": directory, "agent": "completion"})
    requests = [
        {"id": number, "method": method, "params": params}
        for number, (method, params) in enumerate([hello, *calls])
    ]
    answers: dict[int, Any] = {}
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(DEADLINE_S)
        connection.connect(_socket_path())
        connection.sendall("".join(json.dumps(each) + "\n" for each in requests).encode())
        data = b""
        while len(answers) < len(requests):
            connection.settimeout(max(0.001, until - time.monotonic()))
            received = connection.recv(1 << 16)
            if not received:
                raise ConnectionError
            *lines, data = (data + received).split(b"\n")
            for line in lines:
                answer = json.loads(line)
                answers[answer["id"]] = answer.get("result")
    if answers[0] is None:
        raise ConnectionError
    return [
        *(answers[number] for number in range(1, len(requests))),
        answers[0]["workspace"]["root"],
    ]


def _socket_path() -> str:
    """As :mod:`stet.service.socket_path` has it, which is loaded without the package around it."""
    import importlib.util

    file = os.path.join(
        os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "service", "socket_path.py"
    )
    spec = importlib.util.spec_from_file_location("stet_socket_path", file)
    assert spec is not None, "BUG: no module at a path"
    assert spec.loader is not None, "BUG: a file without a loader"
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    runtime: str = module.runtime_directory()
    try:
        module.check_private(runtime)
    except module.UnsafeDirectory as error:
        raise OSError from error
    path: str = module.socket_path(runtime, control=True)
    return path


# -- bash


def for_bash(current: str, found: Sequence[Candidate]) -> list[Candidate]:
    """Quoted, and without what bash takes for words of their own.

    Bash shows candidates and nothing else; where it has a choice to show, what they are stands
    behind them. It then inserts what they have in common, which ends before that.
    """
    start = max(current.rfind(sign) for sign in _BREAKS) + 1
    # Up to the break all candidates begin as the word does.
    words = [re.sub(r"([^\w@%+,./:=~-])", r"\\\1", each.word[start:]) for each in found]
    width = max(map(len, words), default=0)
    shown = len({each.word for each in found}) > 1
    return [
        Candidate(f"{word:<{width}}  ({each.what[:60]})" if shown and each.what else word)
        for word, each in zip(words, found, strict=True)
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
