"""Completion at TAB: what can stand at the cursor, in real shells, with and without a daemon."""

from __future__ import annotations

import os
import pty
import select
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence

import pytest

import stet
from client.live import Installation, installation
from stet.cli import usage
from stet.cli.arguments import COMMANDS

PATH = f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"


@pytest.fixture(scope="module")
def ws() -> Iterator[Installation]:
    with installation() as found:
        assert found.stet("init").returncode == 0
        found.write("src/a.py", "one\n")
        found.patch("src/a.py", "one", "two", STET_SESSION="conv-1", STET_AGENT="bot")
        found.write("src/gone.py", "one\n")
        found.patch("src/gone.py", "one", "two", STET_SESSION="conv-1", STET_AGENT="bot")
        os.unlink(os.path.join(found.workspace, "src/gone.py"))
        found.write("src/\x1b[31m", "one\n")
        found.stet("pin", "good")
        for shell in usage.SHELLS:
            found.write(f"completion.{shell}", found.stet("completion", shell).stdout)
        yield found


def asked(ws: Installation, line: str, shell: str = "fish", **environ: str) -> dict[str, str]:
    """What stet offers at the end of a line, and what each is."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "stet.cli"],
        env=ws.environ
        | {
            "_ARGCOMPLETE": "1", "_ARGCOMPLETE_DFS": "\t", "_ARGCOMPLETE_IFS": "\n",
            "_ARGCOMPLETE_SUPPRESS_SPACE": "1", "_ARGCOMPLETE_SHELL": shell,
            "_ARGCOMPLETE_STDOUT_FILENAME": os.path.join(ws.base, "offered"),
            "COMP_LINE": line, "COMP_POINT": str(len(line)),
        } | environ,
        cwd=ws.workspace,
        capture_output=True,
        check=True,
        timeout=60,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == (b"", b"")
    with open(os.path.join(ws.base, "offered"), encoding="utf-8") as file:
        pairs = [line.partition("\t") for line in file.read().split("\n") if line]
    return {word: what for word, _, what in pairs}


@pytest.mark.parametrize(
    ("expected", "line"),
    [
        ({"watch"}, "stet wat"),
        ({"watch"}, "stet -C .. wat"),
        ({"show", "set"}, "stet clip s"),
        ({"--session"}, "stet log --ses"),
        ({"restricted"}, "stet mode re"),
        ({"openai"}, "stet tools --style o"),
        ({"--style=openai"}, "stet tools --style=o"),
        ({"bash", "zsh", "fish"}, "stet completion "),
        ({"show", "service", "snapshot", "sessions", "status", "stop"}, "stet help s"),
        ({"list", "show", "set", "rm"}, "stet help clip "),
        (set(), "stet help undo "),
        ({"outside"}, "stet log --kind ou"),
        ({"forget"}, "stet log --kind f"),
        ({"retention"}, "stet log --method ret"),
        ({"conv-1"}, "stet undo --session "),
        ({"bot"}, "stet log x --agent b"),
        ({"good"}, "stet pin g"),
        ({"good"}, "stet pin --delete "),
        ({"good"}, "stet undo HEAD go"),
        ({"src/a.py", "src/gone.py"}, "stet log src/"),
        ({"src/gone.py"}, "stet diff HEAD -- src/g"),
        ({"src/gone.py"}, "stet patch --path src/g"),
        ({"src/"}, "stet log -C s"),
        ({"src/a.py"}, "stet patch src/"),
        ({"src/a.py", "src/gone.py"}, "stet export HEAD~1.. src/"),
        (set(), "stet verify --expect "),
        (set(), "stet log --limit "),
        (set(), "stet oops "),
        (set(), "stet clip show "),
    ],
)
def test_what_can_stand_at_the_cursor(ws: Installation, expected: set[str], line: str) -> None:
    assert set(asked(ws, line)) == expected


def test_every_command_is_offered_with_what_it_does(ws: Installation) -> None:
    offered = asked(ws, "stet ")
    own = {name for name in COMMANDS if " " not in name}
    assert own - {"overview"} == set(offered)
    assert offered["show"] == "print one commit with its diff"
    assert asked(ws, "stet help ") == offered


def test_a_value_is_not_described_by_the_list_of_all_values(ws: Installation) -> None:
    assert asked(ws, "stet connect c") == dict.fromkeys(("claude-code", "codex", "cursor"), "")


def test_commits_are_offered_with_who_made_them(ws: Installation) -> None:
    ids = [each["commit"] for each in ws.json("log")["commits"]]
    said = "bot/conv-1: patch src/gone.py: 1 edit"
    assert asked(ws, "stet show ")[ids[0][:8]] == said
    assert asked(ws, f"stet show {ids[0][:4]}") == {ids[0][:8]: said}
    assert asked(ws, f"stet show {ids[0][:12]}") == {ids[0]: said}


def test_bash_gets_what_the_candidates_are_where_it_shows_several(ws: Installation) -> None:
    several = asked(ws, "stet show ", "bash", _ARGCOMPLETE_DFS="")
    assert any(word.endswith("  (bot/conv-1: patch src/gone.py: 1 edit)") for word in several)
    assert set(asked(ws, "stet show go", "bash", _ARGCOMPLETE_DFS="")) == {"good"}


def test_requests_and_open_sessions_are_offered(ws: Installation) -> None:
    endpoint = ws.endpoint()
    with stet.connect(ws.workspace, session="conv-2", agent="bot", endpoint=endpoint) as agent:
        agent.mode_set("restricted")
        request = agent.request_mode_upgrade("why\nnot").request
    for command in ("approve", "deny"):
        assert asked(ws, f"stet {command} ") == {request: "bot/conv-2: why"}
    assert asked(ws, "stet sessions --end c") == {"conv-1": "bot", "conv-2": "bot"}


def test_what_a_terminal_would_obey_is_not_offered(ws: Installation) -> None:
    assert not [word for word in asked(ws, "stet log src/") if "\x1b" in word]


def test_without_a_daemon_none_is_started_and_nothing_is_said() -> None:
    with installation() as nobody:
        assert asked(nobody, "stet show ") == {}
        assert asked(nobody, "stet sho") == {"show": "print one commit with its diff"}
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
                "HOME": ws.base, "PATH": PATH,
            }  # fmt: skip
            os.execvpe(command[0], list(command), environ)
        self.read_until(prompt)

    def type(self, keys: str) -> None:
        os.write(self._terminal, keys.encode())

    def read_until(self, *texts: str, seconds: float = 60) -> str:
        said = ""
        deadline = time.monotonic() + seconds
        poll = select.poll()
        poll.register(self._terminal, select.POLLIN)
        while not all(text in said for text in texts):
            left = deadline - time.monotonic()
            assert left > 0, f"{texts!r} are not in {said!r}"
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
        shell.read_until("(bot/conv-1: patch src/gone.py: 1 edit)", "first seen: src/a.py)")
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
        shell.read_until("bot/conv-1: patch src/gone.py: 1 edit", "first seen: src/a.py")
    finally:
        shell.type("\x03\x15exit\n")
        shell.close()


@pytest.mark.skipif(shutil.which("fish") is None, reason="no fish here")
@pytest.mark.parametrize(
    ("expected", "line"),
    [
        ("watch\tfollow edits as they happen, until Ctrl-C", "stet wat"),
        ("conv-1", "stet watch --session con"),
        ("src/gone.py\tgone", "stet blame src/go"),
        ("src/a.py", "stet blame src/a"),
    ],
)
def test_fish_completes(ws: Installation, expected: str, line: str) -> None:
    done = subprocess.run(
        ["fish", "--no-config", "-c", f"source completion.fish; complete -C {shlex.quote(line)}"],
        env=ws.environ | {"HOME": ws.base, "TERM": "dumb", "PATH": PATH},
        cwd=ws.workspace,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.stdout.splitlines(), done.stderr) == ([expected], "")


def test_another_shell_is_wrong_usage(ws: Installation) -> None:
    assert ws.stet("completion", "tcsh").returncode == 2
