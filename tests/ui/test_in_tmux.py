"""``stet ui`` as it is started, in a terminal of 80 columns and 24 lines, against a real daemon."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

import stet
from client.live import Installation, installation

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
PATIENCE_S = 60.0


class Terminal:
    """A tmux of its own with one program in it."""

    def __init__(self, ws: Installation, *command: str) -> None:
        self._socket = os.path.join(ws.base, "tmux")
        self._tmux(
            *("-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", "-s", "ui"),
            *("-c", ws.workspace, *command),
            environ=ws.environ | {"LC_ALL": "C.UTF-8", "TERM": "xterm-256color"},
        )

    def _tmux(self, *words: str, environ: dict[str, str] | None = None) -> str:
        done = subprocess.run(
            ["tmux", "-S", self._socket, *words],
            capture_output=True,
            text=True,
            check=True,
            env=environ,
            timeout=PATIENCE_S,
        )
        return done.stdout

    def press(self, *keys: str) -> None:
        self._tmux("send-keys", "-t", "ui", *keys)

    def screen(self) -> str:
        return self._tmux("capture-pane", "-p", "-t", "ui")

    def wait_for(self, *texts: str, without: str | None = None) -> list[str]:
        """The lines of the screen, once all of this stands there."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            said = self.screen()
            if all(text in said for text in texts) and (without is None or without not in said):
                return said.splitlines()
            assert time.monotonic() < deadline, f"{texts}, without {without!r}:\n{said}"
            time.sleep(0.05)

    def wait_for_end(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while os.path.exists(self._socket) and not self._is_over():
            assert time.monotonic() < deadline, self.screen()
            time.sleep(0.05)

    def _is_over(self) -> bool:
        try:
            self._tmux("has-session", "-t", "ui")
        except subprocess.CalledProcessError:
            return True
        return False

    def close(self) -> None:
        with contextlib.suppress(subprocess.CalledProcessError):
            self._tmux("kill-server")


@pytest.fixture
def ws() -> Iterator[Installation]:
    with installation() as own:
        own.stet("init")
        with stet.connect(own.workspace, session="c", agent="bot", endpoint=own.endpoint()) as s:
            s.patch("a.txt", [stet.overwrite("one\ntwo\n")])
            s.patch("a.txt", [stet.replace("one", "first")])
            s.patch("b.txt", [stet.overwrite("something else\n")])
        yield own


@pytest.fixture
def terminal(ws: Installation) -> Iterator[Terminal]:
    found = Terminal(ws, sys.executable, "-m", "stet.cli", "ui")
    yield found
    found.close()


def test_look_undo_search_and_leave(ws: Installation, terminal: Terminal) -> None:
    newest, edit, _ = [each["commit"][:8] for each in ws.json("log")["commits"]]
    lines = terminal.wait_for(ws.workspace, "bot/c  3 edits", newest, "+something else", "undo")
    assert len(lines) == 24
    assert ws.workspace in lines[0]
    assert "unrestricted" in lines[0]
    assert max(map(len, lines)) <= 80

    terminal.press("Down")
    terminal.wait_for("-one", "+first", without="+something else")

    terminal.press("u")
    terminal.wait_for(f"Undo {edit}?", "+one", "Enter:")
    terminal.press("Escape")
    terminal.wait_for("-one", without=f"Undo {edit}?")
    assert ws.text("a.txt") == "first\ntwo\n"
    terminal.press("u")
    terminal.wait_for(f"Undo {edit}?")
    terminal.press("Enter")
    terminal.wait_for("person", without=f"Undo {edit}?")
    assert ws.text("a.txt") == "one\ntwo\n"

    terminal.press("/")
    terminal.press("something", "Enter")
    terminal.wait_for("search text:something", newest, without=edit)
    terminal.press("Escape")
    terminal.wait_for(edit, without="search text:")

    terminal.press("?")
    terminal.wait_for("roll back to here")
    terminal.press("Escape")
    terminal.wait_for(edit, without="roll back to here")
    terminal.press("q")
    terminal.wait_for_end()


def test_what_happens_meanwhile_is_seen(ws: Installation, terminal: Terminal) -> None:
    terminal.wait_for("bot/c  3 edits")
    ws.patch("a.txt", "two", "2")
    terminal.wait_for("cli/cli  1 edit")
    ws.stet("mode", "restricted")
    terminal.wait_for("restricted", without="unrestricted")


def test_it_does_without_colours(ws: Installation) -> None:
    terminal = Terminal(ws, "env", "NO_COLOR=1", sys.executable, "-m", "stet.cli", "ui")
    try:
        terminal.wait_for("bot/c  3 edits", "+something else", "q quit")
        terminal.press("Down", "u")
        terminal.wait_for("Undo ", "Enter: do it")
    finally:
        terminal.close()


def test_a_terminal_is_usable_after_its_ui_was_ended(ws: Installation) -> None:
    own = 'stty -g >before; sh -c \'echo $$ >pid; exec "$0" -m stet.cli ui\' "$0"; echo "ended: $?"'
    script = f"{own}; stty -g >after; read -r line"
    terminal = Terminal(ws, "sh", "-c", script, sys.executable)
    try:
        terminal.wait_for("bot/c  3 edits")
        os.kill(int(ws.text("pid")), signal.SIGTERM)
        terminal.wait_for("ended: 143", without="bot/c")
        terminal.press("Enter")
        terminal.wait_for_end()
        assert ws.text("after") == ws.text("before")
    finally:
        terminal.close()
