"""Desktop notifications that an agent asks for write access.

``notify-send``, or else systemd's ``busctl``, calls org.freedesktop.Notifications on the session
bus. The program is searched in system directories only, started without a shell and with three
environment variables, and killed after TIMEOUT_S seconds. Without a session bus, or with
``notify = false``, nothing is started.

Text from an agent is shown as plain text: cut to a length, without control characters, markup
escaped. At most one notice is shown every INTERVAL_S seconds; requests in between share the next
one. A failure is only logged, as ``stet requests`` lists all requests.
"""

from __future__ import annotations

import asyncio
import html
import logging
import os
import shutil
import unicodedata
from collections.abc import Callable, Sequence

import msgspec

#: Seconds that the program may take.
TIMEOUT_S = 5.0
#: Seconds between two notices.
INTERVAL_S = 5.0
#: Characters of a title, and of each line of the body, at most.
MAX_TITLE = 80
MAX_TEXT = 300
#: Directories of system programs.
_PROGRAM_PATH = "/usr/bin:/bin:/usr/local/bin:/run/current-system/sw/bin"
#: Unicode categories without a visible form: control, format, surrogates, private use, separators.
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})

_log = logging.getLogger(__name__)


class Notice(msgspec.Struct, frozen=True):
    """A request for write access: who asks, workspace, reason, and the command that approves it."""

    who: str
    where: str
    why: str
    command: str


def plain(text: str, max_length: int) -> str:
    """The text as one line of visible characters, cut to ``max_length``."""
    seen = "".join(" " if unicodedata.category(c) in _INVISIBLE else c for c in text)
    line = " ".join(seen.split())
    return line if len(line) <= max_length else line[: max_length - 1] + "…"


def title_and_body(notices: Sequence[Notice]) -> tuple[str, str]:
    """Title and body to show. The body is escaped for markup; titles are never parsed as markup."""
    if len(notices) > 1:
        return f"stet: {len(notices)} requests for write access", "To see them: stet requests"
    [notice] = notices
    title = plain(f"stet: {notice.who} asks for write access", MAX_TITLE)
    lines = [plain(notice.where, MAX_TEXT), plain(notice.why, MAX_TEXT), notice.command]
    return title, "\n".join(html.escape(line, quote=False) for line in lines if line)


def session_bus() -> str | None:
    """The address of the session bus, if there is one."""
    address = os.environ.get("DBUS_SESSION_BUS_ADDRESS")
    if address:
        return address
    path = os.path.join(os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}", "bus")
    return f"unix:path={path}" if os.path.exists(path) else None


def command(title: str, body: str) -> list[str] | None:
    """The program to run and its arguments; None if neither program is installed."""
    if program := shutil.which("notify-send", path=_PROGRAM_PATH):
        return [program, "--app-name=stet", "--", title, body]
    if program := shutil.which("busctl", path=_PROGRAM_PATH):
        target = "org.freedesktop.Notifications"
        call = [target, "/org/freedesktop/Notifications", target, "Notify"]
        # Name, id of the notice to replace, icon, title, body, actions, hints, time to live.
        values = ["susssasa{sv}i", "stet", "0", "", title, body, "0", "0", "0"]
        return [program, "--user", f"--timeout={TIMEOUT_S:g}", "--", "call", *call, *values]
    return None


class Notices:
    """Shows notices while ``enabled()``, which is called each time."""

    def __init__(self, enabled: Callable[[], bool]) -> None:
        self._enabled = enabled
        self._waiting: list[Notice] = []
        self._showing: asyncio.Task[None] | None = None

    def post(self, notice: Notice) -> None:
        """Queue a notice; it is shown soon."""
        if self._enabled():
            self._waiting.append(notice)
            if self._showing is None or self._showing.done():
                self._showing = asyncio.get_running_loop().create_task(self._show_all())

    async def close(self) -> None:
        """Show no more notices, and kill the program that runs."""
        self._enabled = lambda: False
        if self._showing is not None:
            self._showing.cancel()
            await asyncio.wait({self._showing})

    async def _show_all(self) -> None:
        while self._waiting:
            notices, self._waiting = self._waiting, []
            try:
                await _show(*title_and_body(notices))
            except (OSError, ValueError) as error:
                _log.warning("no notice on the desktop: %r", error)
            await asyncio.sleep(INTERVAL_S)


async def _show(title: str, body: str) -> None:
    address, arguments = session_bus(), command(title, body)
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
        async with asyncio.timeout(TIMEOUT_S):
            await child.wait()
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    if child.returncode:
        _log.warning("no notice on the desktop: the program ended with %d", child.returncode)
