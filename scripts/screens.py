"""Pictures of what ``stet`` prints on terminals of several widths, for looking at.

    python scripts/screens.py DIRECTORY [--width 80 --width 160] [COMMAND ..]

A private daemon gets a small history made by three agents and a person. Each command runs on
a pseudo-terminal of each width; what it printed becomes DIRECTORY/<command>-<width>.svg, and
a .png beside it where there is a Chromium.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import fcntl
import io
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

import stet
from private_daemon import PrivateDaemon
from stet import calls
from stet.service.spawn import Endpoint

THEME = TerminalTheme(
    (22, 24, 29), (208, 211, 218),
    [(40, 44, 52), (224, 108, 117), (152, 195, 121), (229, 192, 123),
     (97, 150, 239), (198, 120, 221), (86, 182, 194), (171, 178, 191)],
    [(92, 99, 112), (240, 113, 120), (170, 215, 140), (240, 205, 140),
     (120, 170, 250), (215, 145, 240), (110, 205, 215), (230, 232, 238)],
)  # fmt: skip

COMMANDS: Mapping[str, Sequence[str]] = {
    "stet": (),
    "help": ("help",),
    "log": ("log",),
    "log-one-path": ("log", "src/server.py", "--dates", "iso"),
    "show": ("show", "HEAD~4"),
    "show-undo": ("show", "HEAD~1"),
    "diff": ("diff", "HEAD~12", "HEAD"),
    "blame": ("blame", "src/server.py"),
    "status": ("status",),
    "workspaces": ("workspaces",),
    "watch": ("watch",),
}

SERVER = '''\
"""A small server."""

import asyncio

PORT = 8080


class Server:
    def __init__(self, port=PORT):
        self.port = port
        self.clients = set()

    async def serve(self):
        server = await asyncio.start_server(self.handle, port=self.port)
        async with server:
            await server.serve_forever()

    async def handle(self, reader, writer):
        # every client is remembered until it leaves
        self.clients.add(writer)
        while line := await reader.readline():
            writer.write(line.upper())
            await writer.drain()
        self.clients.discard(writer)
'''

LEAVE = '''
    def leave(self, writer):
        """Forget a client, and hang up."""
        self.clients.discard(writer)
        writer.close()
'''


def main() -> int:
    """Make the pictures; 0."""
    parser = argparse.ArgumentParser(description="Pictures of what stet prints.")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--width", type=int, action="append")
    parser.add_argument("commands", nargs="*", metavar="COMMAND", help=", ".join(COMMANDS))
    given = parser.parse_intermixed_args()
    given.directory = given.directory.resolve()  # commands run elsewhere
    given.directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="stet-") as base, PrivateDaemon(base) as daemon:
        daemon.start()
        workspace = Path(base) / "webapp"
        make_history(daemon, workspace)
        for name in given.commands or [*COMMANDS, "ui", "report"]:
            if name == "ui":
                for size in ((80, 24), (160, 50)):
                    asyncio.run(interactive(daemon, workspace, size, given.directory))
                continue
            if name == "report":
                page = given.directory / "report.html"
                run(("report", "-o", str(page)), daemon, workspace, 80)
                shoot(page, given.directory / "report.png", 1200, 1000)
                continue
            for width in given.width or [80, 160]:
                said = run(COMMANDS[name], daemon, workspace, width)
                picture(said, width, given.directory / f"{name}-{width}")
    return 0


def make_history(daemon: PrivateDaemon, workspace: Path) -> None:
    """Three agents, a person with an editor, and some of it taken back."""
    (workspace / "src").mkdir(parents=True)
    (workspace / "src/server.py").write_text(SERVER)
    (workspace / "README.md").write_text("# webapp\n\nShouts back what it hears.\n")
    control = Endpoint(daemon.runtime, daemon.state, control=True)
    with stet.connect(None, control=True, endpoint=control) as person:
        person.workspace_allow(str(workspace))

    def agent(name: str, session: str) -> stet.Session:
        endpoint = Endpoint(daemon.runtime, daemon.state, control=False)
        return stet.connect(str(workspace), session, name, endpoint=endpoint)

    path = "src/server.py"
    with (
        agent("claude", "fix-drain") as one,
        agent("codex", "docs") as two,
        agent("设计助手", "文档") as three,
    ):
        one.patch(
            path,
            stet.replace("line.upper()", 'line.strip().upper() + b"\\n"'),
            message="clients that end lines with CRLF got the CR back in the middle",
        )
        two.patch(
            "README.md", stet.append_eof("\n## Running\n\n    python -m webapp --port 8080\n")
        )
        port = one.patch(
            path, stet.replace("PORT = 8080", 'PORT = int(os.environ.get("PORT", "8080"))')
        )
        one.patch(path, stet.replace("import asyncio\n", "import asyncio\nimport os\n"))
        text = (workspace / path).read_text()
        (workspace / path).write_text(
            text.replace("every client is remembered", "each client is kept")
        )
        two.transaction(
            [
                calls.patch(
                    "docs/guide.md", stet.overwrite("# Guide\n\nSend a line, get it back.\n")
                ),
                calls.patch(
                    "docs/api/endpoints/v2/reference-of-everything.md",
                    stet.overwrite("# Reference\n"),
                ),
                calls.patch("README.md", stet.replace("Shouts back", "Shouts back, in capitals,")),
            ],
            message="the documentation is split into a guide and a reference",
        )
        three.patch(
            "docs/介绍.md",
            stet.overwrite("# 介绍\n\n这个服务器把收到的每一行变成大写。\n"),
            message="中文说明,供团队阅读",
        )
        one.patch(
            path,
            [
                stet.replace(
                    "        self.clients.discard(writer)\n", "        self.leave(writer)\n"
                ),
                stet.append_eof(LEAVE),
            ],
        )
        two.patch(
            "notes.txt",
            stet.overwrite("bell \a, red \x1b[31mtext\x1b[0m and \u202eolleh\n"),
            message="a \x1b]0;title\a in a message",
        )
        with stet.connect(str(workspace), control=True, agent="person", endpoint=control) as person:
            person.undo([port.commit or ""])
            person.undo(last=2, session="docs")
        two.patch("README.md", stet.append_eof("\nTested with Python 3.11.\n"))


def run(command: Sequence[str], daemon: PrivateDaemon, workspace: Path, width: int) -> str:
    """What a command prints on a terminal of this width."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(workspace)
        environ = daemon.environ | {
            "TERM": "xterm-256color",
            "COLORTERM": "truecolor",
            "PAGER": "cat",
        }
        environ.pop("NO_COLOR", None)
        os.execve(sys.executable, [sys.executable, "-m", "stet.cli", *command], environ)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    if "watch" in command:
        happen(daemon, workspace)
        os.kill(pid, signal.SIGINT)
    said = b""
    with contextlib.suppress(OSError):
        while data := os.read(terminal, 65536):
            said += data
    os.close(terminal)
    os.waitpid(pid, 0)
    return said.decode().replace("\r\n", "\n")


async def interactive(
    daemon: PrivateDaemon, workspace: Path, size: tuple[int, int], directory: Path
) -> None:
    """``stet ui`` with the third edit under the cursor."""
    from stet.ui.app import HistoryApp

    app = HistoryApp(str(workspace), Endpoint(daemon.runtime, daemon.state, control=True))
    async with app.run_test(size=size) as pilot:
        await pilot.pause(1)
        await pilot.press("down", "down")
        await pilot.pause(0.5)
        path = directory / f"ui-{size[0]}x{size[1]}.svg"
        svg = drawn(app.export_screenshot(title="stet ui"))
    path.write_text(svg)
    shoot(path, path.with_suffix(".png"), int(size[0] * 12.2) + 40, int(size[1] * 24.6) + 80)


def happen(daemon: PrivateDaemon, workspace: Path) -> None:
    """Something to be watched."""
    time.sleep(1.5)
    endpoint = Endpoint(daemon.runtime, daemon.state, control=False)
    with stet.connect(str(workspace), "fix-drain", "claude", endpoint=endpoint) as one:
        done = one.patch(
            "src/server.py",
            stet.replace("port=PORT", 'port=PORT, host="localhost"'),
            message="listen on one interface only",
        )
        limits = one.patch(
            "src/limits.py", stet.overwrite("".join(f"LIMIT_{n} = {n}\n" for n in range(40)))
        )
        one.mode_set("restricted")
    control = Endpoint(daemon.runtime, daemon.state, control=True)
    with stet.connect(str(workspace), control=True, agent="person", endpoint=control) as person:
        person.undo([done.commit or "", limits.commit or ""])
        person.mode_set("unrestricted", session="fix-drain")
    time.sleep(1.5)


def picture(said: str, width: int, path: Path) -> None:
    """Write an SVG of a terminal with this text, and a PNG if Chromium is there."""
    console = Console(record=True, width=width, file=io.StringIO(), force_terminal=True)
    for line in said.split("\n"):
        console.print(
            Text.from_ansi(line, no_wrap=True),
            crop=False,
            soft_wrap=False,
            overflow="fold",
            no_wrap=False,
        )
    svg = path.with_suffix(".svg")
    console.save_svg(str(svg), title=f"{path.name}", theme=THEME)
    svg.write_text(drawn(svg.read_text()))
    lines = said.count("\n") + 5
    shoot(svg, path.with_suffix(".png"), int(width * 12.2) + 40, int(lines * 24.6) + 60)


def drawn(svg: str) -> str:
    """With a font that is there; a text with wide characters is as long as they are."""
    svg = svg.replace("Fira Code", "DejaVu Sans Mono")
    return re.sub(r' textLength="[\d.]+"(?=[^>]*>[^<]*[\u2e80-\uffff])', "", svg)


def shoot(page: Path, png: Path, width: int, height: int) -> None:
    """A PNG of a page, if Chromium is there."""
    chromium = shutil.which("chromium")
    if chromium is None:
        return
    with tempfile.TemporaryDirectory() as profile:
        subprocess.run(
            [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
             f"--user-data-dir={profile}", f"--window-size={width},{height}",
             f"--screenshot={png.resolve()}", page.resolve().as_uri()],
            check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=120,
        )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
