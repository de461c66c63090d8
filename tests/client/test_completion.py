"""Completion at TAB: what can stand at the cursor, in real shells, with and without a daemon."""

from __future__ import annotations

import os
import pty
import re
import select
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from client.live import Installation, installation
from stet.cli import candidates, completion, usage
from stet.cli.candidates import Candidate, for_bash, place_in, split
from stet.cli.parser import Parser

TABLE = completion.table_of(Parser())

PAGE = {
    "commits": [
        {
            "commit": "abcd" * 10, "kind": "edit", "agent": "bot", "session": "conv 1",
            "message": "patch a.py: 1 edit\n\nwhy", "reverted_by": "1" * 40,
            "files": [{"path": "src/a.py"}, {"path": "src/\x1b[31m"}],
        },
        {
            "commit": "abce" * 10, "kind": "outside", "agent": None, "session": None,
            "message": "first seen: b", "reverted_by": None, "files": [{"path": "b"}],
        },
    ]
}  # fmt: skip


def asked(calls: Sequence[tuple[str, dict[str, Any]]]) -> list[Any]:
    answers: dict[str, Any] = {
        "log": PAGE, "pin_list": {"pins": [{"name": "good", "commit": "f" * 40}]}
    }  # fmt: skip
    return [*(answers[method] for method, _ in calls), "/no/such/root"]


def words(line: str) -> tuple[str, list[str]]:
    directive, found = candidates.complete(split(line), TABLE, "/no/such/root/src", asked)
    return directive, [each.word for each in found]


@pytest.mark.parametrize(
    ("expected", "line"),
    [
        (["stet", ""], "stet "),
        (["stet", "a b", "c"], "stet 'a b' c"),
        (["stet", "a b"], r"stet a\ b"),
        (["stet", 'say "x', ""], r'stet "say \"x" '),
        (["stet", "unfinished q"], "stet 'unfinished q"),
        (["stet", "", "x"], "stet '' x"),
        ([""], ""),
    ],
)
def test_an_unfinished_line_is_split_as_a_shell_does(expected: list[str], line: str) -> None:
    assert expected == split(line)


@pytest.mark.parametrize(
    ("expected", "line"),
    [
        ("commits", "stet show "),
        ("commits", "stet undo abcd "),
        ("commits", "stet restore a.py --at "),
        ("paths", "stet restore "),
        ("paths", "stet log "),
        ("paths", "stet log --session s "),
        ("paths", "stet diff HEAD -- "),
        ("commits", "stet diff HEAD "),
        ("sessions", "stet log --session "),
        ("agents", "stet log x --agent "),
        ("directories", "stet log -C "),
        ("files", "stet patch "),
        ("paths", "stet patch --path "),
        ("text", "stet log --limit "),
        ("text", "stet oops "),
        ("text", "stet clip show "),
        ("pins", "stet pin "),
        ("commits", "stet pin good "),
        ("pins", "stet pin --delete "),
        ("text", "stet nonsense "),
    ],
)
def test_what_stands_at_the_cursor(expected: str, line: str) -> None:
    if line == "stet nonsense ":
        assert place_in(split(line), TABLE).kind == "words"
    else:
        assert place_in(split(line), TABLE).kind == expected


def test_commands_options_and_choices() -> None:
    assert words("stet wat") == ("-", ["watch"])
    assert words("stet clip s") == ("-", ["show", "set"])
    assert words("stet log --ses") == ("-", ["--session"])
    assert words("stet mode re") == ("-", ["restricted"])
    assert words("stet tools --style o") == ("-", ["openai"])
    assert words("stet tools --style=o") == ("-", ["--style=openai"])
    assert words("stet completion ") == ("-", ["bash", "zsh", "fish"])
    assert "log" in words("stet ")[1]
    every = {name for name in TABLE["commands"] if not TABLE["commands"][name]["help"]}
    assert every == set()


def test_commits_sessions_agents_paths_and_pins() -> None:
    assert words("stet show ") == ("-", ["good", "abcdabcd", "abceabce"])
    assert words("stet show abcd") == ("-", ["abcdabcd"])
    assert words("stet show abcdabcda") == ("-", ["abcd" * 10])
    assert words("stet undo --session ") == ("-", ["conv 1"])
    assert words("stet undo --agent b") == ("-", ["bot"])
    assert words("stet log ") == ("files", ["a.py", "../b"])
    assert words("stet log /no") == ("files", ["/no/such/root/src/a.py", "/no/such/root/b"])
    assert words("stet pin --delete ") == ("-", ["good"])


def test_what_a_terminal_would_obey_is_not_offered() -> None:
    assert not [word for word in words("stet log ")[1] if "\x1b" in word]


def test_bash_gets_what_the_candidates_are_where_it_shows_several() -> None:
    two = [Candidate("abcd", "one"), Candidate("abce", "two")]
    assert [each.word for each in for_bash("ab", two)] == ["abcd  (one)", "abce  (two)"]
    assert for_bash("abcd", two[:1]) == [Candidate("abcd")]
    assert for_bash("", [Candidate("conv 1")]) == [Candidate("conv\\ 1")]
    assert for_bash("a:b", [Candidate("a:bc")]) == [Candidate("bc")]
    assert for_bash("--style=o", [Candidate("--style=openai")]) == [Candidate("openai")]


@pytest.fixture(scope="module")
def ws() -> Iterator[Installation]:
    with installation() as found:
        assert found.stet("init").returncode == 0
        found.write("src/a.py", "one\n")
        found.patch("src/a.py", "one", "two", STET_SESSION="conv-1", STET_AGENT="bot")
        found.write("src/gone.py", "one\n")
        found.patch("src/gone.py", "one", "two", STET_SESSION="conv-1", STET_AGENT="bot")
        os.unlink(os.path.join(found.workspace, "src/gone.py"))
        for shell in usage.SHELLS:
            found.write(f"completion.{shell}", found.stet("completion", shell).stdout)
        yield found


def ask_program(ws: Installation, *arguments: str) -> list[str]:
    script = ws.text("completion.bash")
    program = re.search(r"^ +(\S.*) bash \"\$", script, re.MULTILINE)
    table = re.search(r"STET_COMPLETION=('.*') \\$", script, re.MULTILINE)
    assert program is not None
    assert table is not None
    [encoded] = shlex.split(table[1])
    done = subprocess.run(
        [*shlex.split(program[1]), *arguments],
        env=ws.environ | {"STET_COMPLETION": encoded},
        cwd=ws.workspace,
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_the_program_asks_the_daemon(ws: Installation) -> None:
    head = ws.json("log")["commits"][0]["commit"][:8]
    directive, *lines = ask_program(ws, "zsh", "stet", "show", head[:4])
    assert (directive, lines) == ("-", [f"{head}\tbot/conv-1: patch src/gone.py: 1 edit"])
    assert ask_program(ws, "zsh", "stet", "blame", "src/") == ["files", "src/gone.py\t"]


def test_it_takes_less_time_than_anyone_notices(ws: Installation) -> None:
    """Processor time, for this machine may be busy: 0.1 s is what a person notices."""
    before = os.times()
    for _ in range(5):
        ask_program(ws, "zsh", "stet", "log", "--session", "")
    after = os.times()
    spent = after.children_user + after.children_system
    assert (spent - before.children_user - before.children_system) / 5 < 0.1


def test_without_a_daemon_none_is_started_and_nothing_is_said() -> None:
    with installation() as nobody:
        nobody.write("completion.bash", nobody.stet("completion", "bash").stdout)
        assert ask_program(nobody, "zsh", "stet", "show", "") == []
        assert ask_program(nobody, "zsh", "stet", "sho") == [
            "-",
            "show\tprint one commit with its diff",
        ]
        assert nobody.pid() is None
        assert not os.path.exists(os.path.join(nobody.base, "run"))


# -- real shells


class Terminal:
    """An interactive shell on a pseudo-terminal."""

    def __init__(self, ws: Installation, command: Sequence[str], prompt: str) -> None:
        self._prompt = prompt
        self._pid, self._terminal = pty.fork()
        if self._pid == 0:
            os.chdir(ws.workspace)
            environ = ws.environ | {
                "TERM": "dumb", "PS1": prompt, "PROMPT": prompt, "COLUMNS": "200",
                "HOME": ws.base, "PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}",
            }  # fmt: skip
            os.execvpe(command[0], list(command), environ)
        self.read_until(prompt)

    def type(self, keys: str) -> None:
        os.write(self._terminal, keys.encode())

    def read_until(self, text: str, seconds: float = 20) -> str:
        said = ""
        deadline = time.monotonic() + seconds
        poll = select.poll()
        poll.register(self._terminal, select.POLLIN)
        while text not in said:
            left = deadline - time.monotonic()
            assert left > 0, f"{text!r} is not in {said!r}"
            if poll.poll(left * 1000):
                said += os.read(self._terminal, 65536).decode(errors="replace")
        return said

    def close(self) -> None:
        os.close(self._terminal)
        os.waitpid(self._pid, 0)


def test_bash_completes_at_a_tab(ws: Installation) -> None:
    shell = Terminal(ws, ["bash", "--norc", "--noprofile", "-i"], "READY> ")
    try:
        shell.type("source ./completion.bash; bind 'set enable-bracketed-paste off'\n")
        shell.read_until("READY> ")
        shell.type("stet wat\t")
        shell.read_until("watch ")
        shell.type("--ses\t")
        shell.read_until("--session ")
        shell.type("con\t")
        shell.read_until("conv-1 ")
        shell.type("\x15stet show HEA\t")  # what it doesn't know stays
        shell.type("\x15stet show \t\t")
        listed = shell.read_until("first seen: src/a.py")
        assert "(bot/conv-1: patch src/gone.py: 1 edit)" in listed
        shell.type("\x15stet blame src/go\t")
        shell.read_until("src/gone.py")
        shell.type("\x15stet blame src/a\t")
        shell.read_until("src/a.py")
    finally:
        shell.type("\x15exit\n")
        shell.close()


@pytest.mark.skipif(shutil.which("zsh") is None, reason="no zsh here")
def test_zsh_completes_at_a_tab(ws: Installation) -> None:
    shell = Terminal(ws, ["zsh", "-f", "-i"], "READY> ")
    try:
        shell.type(
            "autoload -U compinit && compinit -u -D; source ./completion.zsh; print LOADED\n"
        )
        shell.read_until("LOADED\r\n")
        shell.type("stet wat\t")
        shell.read_until("watch ")
        shell.type("--session con\t")
        shell.read_until("conv-1 ")
        shell.type("\x15stet blame src/go\t")
        shell.read_until("ne.py")
        shell.type("\x15stet show \t")
        assert "bot/conv-1: patch src/gone.py: 1 edit" in shell.read_until("first seen: src/a.py")
    finally:
        shell.type("\x03\x15exit\n")
        shell.close()


@pytest.mark.skipif(shutil.which("fish") is None, reason="no fish here")
@pytest.mark.parametrize(
    ("expected", "line"),
    [
        ("watch\tfollow edits as they happen, until Ctrl-C", "stet wat"),
        ("conv-1", "stet watch --session con"),
        ("src/gone.py", "stet blame src/go"),
        ("src/a.py", "stet blame src/a"),
    ],
)
def test_fish_completes(ws: Installation, expected: str, line: str) -> None:
    done = subprocess.run(
        ["fish", "--no-config", "-c", f"source completion.fish; complete -C {shlex.quote(line)}"],
        env=ws.environ | {"HOME": ws.base, "TERM": "dumb"},
        cwd=ws.workspace,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.stdout.splitlines(), done.stderr) == ([expected], "")


def test_another_shell_is_wrong_usage(ws: Installation) -> None:
    assert ws.stet("completion", "tcsh").returncode == 2
