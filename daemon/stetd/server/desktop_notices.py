"""Notices on the desktop: an agent asks for write access.

``notify-send``, else systemd's ``busctl``, calls org.freedesktop.Notifications on the session bus.
The program is looked for in the system's directories only, started without a shell and with three
variables, and ended after PATIENCE_S seconds. Nothing is started where there is no session bus, or
with ``notify = false``.

What an agent wrote is shown as text: bounded, without control characters, markup escaped. There is
at most one notice every GAP_S seconds; what comes meanwhile is shown together. One that fails is
logged and forgotten: ``stet requests`` has them all.
"""

from __future__ import annotations

import asyncio
import html
import logging
import os
import shutil
import stat
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import msgspec

#: Seconds that the program may take.
PATIENCE_S = 5.0
#: Seconds between two notices.
GAP_S = 5.0
#: Characters of a title, and of a text.
MOST_TITLE = 80
MOST_TEXT = 300
#: Where programs of the system are.
_PROGRAMS = "/usr/bin:/bin:/usr/local/bin:/run/current-system/sw/bin"
#: Characters that could do something else than be seen: control, format, lone, private.
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})

_log = logging.getLogger(__name__)


class Notice(msgspec.Struct, frozen=True):
    """Somebody asks for something: who, where, why, and the command that grants it."""

    who: str
    where: str
    why: str
    command: str


def plain(text: str, most: int) -> str:
    """The text in one line of visible characters, at most so many."""
    seen = "".join(" " if unicodedata.category(c) in _UNSEEN else c for c in text)
    line = " ".join(seen.split())
    return line if len(line) <= most else line[: most - 1] + "…"


def title_and_body(notices: Sequence[Notice]) -> tuple[str, str]:
    """What to show. The body's markup characters are escaped, the title has no markup."""
    if len(notices) > 1:
        return f"stet: {len(notices)} requests for write access", "To see them: stet requests"
    [notice] = notices
    title = plain(f"stet: {notice.who} asks for write access", MOST_TITLE)
    lines = [plain(notice.where, MOST_TEXT), plain(notice.why, MOST_TEXT), notice.command]
    return title, "\n".join(html.escape(line, quote=False) for line in lines if line)


def session_bus(environ: Mapping[str, str]) -> str | None:
    """The address of the session bus, if there is one."""
    address = environ.get("DBUS_SESSION_BUS_ADDRESS")
    if address:
        return address
    path = os.path.join(environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}", "bus")
    with suppress(OSError):
        info = os.stat(path)
        if stat.S_ISSOCK(info.st_mode) and info.st_uid == os.getuid():
            return f"unix:path={path}"
    return None


def command(title: str, body: str) -> list[str] | None:
    """The program and its arguments; None where the system has neither."""
    if program := shutil.which("notify-send", path=_PROGRAMS):
        return [program, "--app-name=stet", "--", title, body]
    if program := shutil.which("busctl", path=_PROGRAMS):
        target = "org.freedesktop.Notifications"
        call = [target, "/org/freedesktop/Notifications", target, "Notify"]
        # Name, id of the notice to replace, icon, title, body, actions, hints, time to live.
        values = ["susssasa{sv}i", "stet", "0", "", title, body, "0", "0", "0"]
        return [program, "--user", f"--timeout={PATIENCE_S:g}", "--", "call", *call, *values]
    return None


class Notices:
    """Shows notices. ``wanted``: whether the person wants any, asked each time."""

    def __init__(self, wanted: Callable[[], bool]) -> None:
        self._wanted = wanted
        self._waiting: list[Notice] = []
        self._telling: asyncio.Task[None] | None = None

    def post(self, notice: Notice) -> None:
        """Queue a notice, to be shown soon."""
        if self._wanted():
            self._waiting.append(notice)
            if self._telling is None or self._telling.done():
                self._telling = asyncio.get_running_loop().create_task(self._tell())

    async def close(self) -> None:
        """Show no more; end the program that runs."""
        self._wanted = lambda: False
        if self._telling is not None:
            self._telling.cancel()
            await asyncio.wait({self._telling})

    async def _tell(self) -> None:
        while self._waiting:
            notices, self._waiting = self._waiting, []
            try:
                await _show(*title_and_body(notices))
            except (OSError, ValueError) as error:
                _log.warning("no notice on the desktop: %s", error)
            await asyncio.sleep(GAP_S)


async def _show(title: str, body: str) -> None:
    address, arguments = session_bus(os.environ), command(title, body)
    if address is None or arguments is None:
        return
    environment = {"DBUS_SESSION_BUS_ADDRESS": address, "LC_ALL": "C.UTF-8"}
    if "XDG_RUNTIME_DIR" in os.environ:
        environment["XDG_RUNTIME_DIR"] = os.environ["XDG_RUNTIME_DIR"]
    nothing = asyncio.subprocess.DEVNULL
    child = await asyncio.create_subprocess_exec(
        *arguments, env=environment, cwd="/", stdin=nothing, stdout=nothing, stderr=nothing
    )
    try:
        with suppress(TimeoutError):
            await asyncio.wait_for(child.wait(), PATIENCE_S)
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    if child.returncode:
        _log.warning("no notice on the desktop: the program ended with %d", child.returncode)
