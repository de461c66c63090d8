"""Telling the person on the desktop that an agent asks for write access.

Through the interface that desktops have for this, org.freedesktop.Notifications on the session
bus, by one of two programs of the system: ``notify-send``, else systemd's ``busctl``. They are
looked for in the system's directories only, never through PATH, started without a shell, with
an environment of three variables, and ended after PATIENCE_S seconds. Nothing else is ever
executed by the daemon, nothing at all where there is no session bus, or with ``notify = false``.

What an agent wrote is shown as text: without control and formatting characters, bounded, and
with what notifications take for markup escaped. A thread of its own does all of it, one notice
at a time and at most one every GAP_S seconds; what comes meanwhile is told together. A notice
that fails is logged and forgotten: ``stet requests`` and ``stet watch`` have them all.
"""

from __future__ import annotations

import html
import logging
import os
import stat
import subprocess
import threading
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

#: Seconds that the program may take.
PATIENCE_S = 5.0
#: Seconds between two notices.
GAP_S = 5.0
#: Characters of a title, and of what is told.
MOST_TITLE = 80
MOST_TEXT = 300

#: Where programs of the system are.
_PROGRAMS = ("/usr/bin", "/bin", "/usr/local/bin", "/run/current-system/sw/bin")
#: Characters that could do something else than be seen: control, format, lone, private.
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Notice:
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
    try:
        info = os.stat(path)
    except OSError:
        return None
    own = stat.S_ISSOCK(info.st_mode) and info.st_uid == os.getuid()
    return f"unix:path={path}" if own else None


def command(title: str, body: str) -> list[str] | None:
    """The program and its arguments; None where the system has neither."""
    if program := _program("notify-send"):
        return [program, "--app-name=stet", "--", title, body]
    if program := _program("busctl"):
        target = "org.freedesktop.Notifications"
        call = [target, "/org/freedesktop/Notifications", target, "Notify"]
        # Name, id of the notice to replace, icon, title, body, actions, hints, time to live.
        values = ["susssasa{sv}i", "stet", "0", "", title, body, "0", "0", "0"]
        return [program, "--user", f"--timeout={PATIENCE_S:g}", "--", "call", *call, *values]
    return None


def _program(name: str) -> str | None:
    paths = (os.path.join(directory, name) for directory in _PROGRAMS)
    return next((path for path in paths if os.access(path, os.X_OK)), None)


class Notices:
    """Tells them. ``wanted``: whether the person wants any, asked each time."""

    def __init__(self, wanted: Callable[[], bool]) -> None:
        self._wanted = wanted
        self._changed = threading.Condition()
        self._waiting: list[Notice] = []
        self._thread: threading.Thread | None = None
        self._child: subprocess.Popen[bytes] | None = None
        self._closed = False

    def tell(self, notice: Notice) -> None:
        """Have it told soon; returns at once. Any thread."""
        if not self._wanted():
            return
        with self._changed:
            if self._closed:
                return
            self._waiting.append(notice)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="stet-notices", daemon=True)
                self._thread.start()
            self._changed.notify()

    def close(self) -> None:
        """Tell no more; end the program that runs."""
        with self._changed:
            self._closed = True
            self._changed.notify()
            if self._child is not None:
                self._child.kill()
            thread = self._thread
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                if self._closed:
                    return
                notices, self._waiting = self._waiting, []
            try:
                self._show(*title_and_body(notices))
            except (OSError, ValueError, subprocess.SubprocessError) as error:
                _log.warning("no notice on the desktop: %s", error)
            with self._changed:
                self._changed.wait_for(lambda: self._closed, GAP_S)

    def _show(self, title: str, body: str) -> None:
        address, arguments = session_bus(os.environ), command(title, body)
        if address is None or arguments is None:
            return
        environment = {"DBUS_SESSION_BUS_ADDRESS": address, "LC_ALL": "C.UTF-8"}
        if "XDG_RUNTIME_DIR" in os.environ:
            environment["XDG_RUNTIME_DIR"] = os.environ["XDG_RUNTIME_DIR"]
        with self._changed:
            if self._closed:
                return
            self._child = subprocess.Popen(
                arguments,
                env=environment,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        status = _end_of(self._child)
        with self._changed:
            self._child = None
        if status:
            _log.warning("no notice on the desktop: %s ended with %d", arguments[0], status)


def _end_of(child: subprocess.Popen[bytes]) -> int:
    """Wait for its end, and bring it about when it takes too long; the exit status."""
    try:
        return child.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        child.kill()
        return child.wait()
