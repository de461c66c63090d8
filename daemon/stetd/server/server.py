"""The server: listens on both sockets, admits connections, stops in good order.

Stopping: no new connections; requests that still come in are answered ``shutting_down``; calls in
work are waited for and answered; then every connection is flushed and closed.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import stat
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec

from stet.wire.failures import Kind, Refused, refuse
from stetd.config.settings import Settings
from stetd.server.connection import PARTING_S, ClientConnection, Handlers
from stetd.server.peer import Credentials
from stetd.server.shared_limits import Crowd

#: Seconds that calls in work may take to end when the daemon stops. systemd kills after 90.
DRAIN_S = 30.0
#: Connections beyond the limit that may wait for their refusal; further ones are just closed.
_TURNED_AWAY_LIMIT = 64
#: From Python 3.13 on asyncio would remove the file of a socket, also of one that is systemd's.
_KEEP_THE_FILE: dict[str, Any] = {"cleanup_socket": False} if sys.version_info >= (3, 13) else {}
#: Connections that are accepted in one turn of the event loop, on each socket.
_ACCEPTED_AT_ONCE = 4
#: Connections that may wait for accept(2); the kernel caps it at net.core.somaxconn.
_BACKLOG = 1024
#: Shorter than the sockets' own names: a socket address holds 107 bytes.
_TEMPORARY_NAME = ".new"

log = logging.getLogger("stetd.server")


class SocketInTheWay(Exception):
    """A path for a socket holds something else; the message has the command to mend it."""


class Listener(msgspec.Struct, frozen=True):
    """One listening socket. ``path`` is None when it belongs to systemd, not to the daemon."""

    socket: socket.socket
    control: bool
    path: str | None

    def remove(self) -> None:
        """Remove the daemon's own socket: new clients find no daemon, and start one."""
        if self.path is not None:
            with suppress(FileNotFoundError):
                os.unlink(self.path)


def listen(path: str, *, control: bool) -> Listener:
    """Listen on ``path``, mode 0600. Raises SocketInTheWay or OSError.

    The caller holds the instance lock, so a socket that is there is a dead daemon's, and replaced.
    The file appears under its name only once it can be connected to.
    """
    with suppress(FileNotFoundError):
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            raise SocketInTheWay(f"{path} is not a socket. Remove it: rm -r '{path}'")
    temporary = os.path.join(os.path.dirname(path), _TEMPORARY_NAME)
    with suppress(FileNotFoundError):
        os.unlink(temporary)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    listening.setblocking(False)
    listening.bind(temporary)
    os.chmod(temporary, 0o600)
    listening.listen(_BACKLOG)
    os.rename(temporary, path)
    return Listener(listening, control, path)


class Server:
    """Serves on listening sockets. ``idle`` is called when nobody came for ``idle_exit_s``."""

    def __init__(
        self,
        settings: Settings,
        handlers: Handlers,
        listeners: Sequence[Listener],
        *,
        idle: Callable[[], None] | None = None,
    ) -> None:
        self.settings = settings
        self.handlers = handlers
        self._listeners = listeners
        self._idle = idle
        self._idle_timer: asyncio.TimerHandle | None = None
        self._serving: list[asyncio.Server] = []
        self._admitted: set[ClientConnection] = set()
        self._turned_away: set[ClientConnection] = set()
        self.crowd = Crowd(settings.max_held_bytes, lambda: self._admitted)
        self._all_left = asyncio.Event()
        self._all_left.set()

    async def start(self) -> None:
        """Accept connections from now on."""
        loop = asyncio.get_running_loop()
        for listener in self._listeners:
            self._serving.append(
                await loop.create_unix_server(
                    partial(ClientConnection, self, control=listener.control),
                    sock=listener.socket,
                    backlog=_ACCEPTED_AT_ONCE,
                    **_KEEP_THE_FILE,
                )
            )
            listener.socket.listen(_BACKLOG)  # asyncio has made the queue as short as its turns
        self._watch_idleness()

    def reconfigure(self, settings: Settings) -> None:
        """Go by other settings from now on; max_frame is for new connections only."""
        self.settings = settings
        self.crowd.limit = settings.max_held_bytes
        for connection in list(self._admitted):
            connection.advance()
        self._watch_idleness()

    @property
    def calls_in_work(self) -> int:
        """How many requests are being carried out."""
        return sum(len(connection.tasks) for connection in self._admitted)

    async def stop(self, drain_s: float = DRAIN_S) -> None:
        """Stop in good order; a call that does not end in time is answered ``outcome_unknown``."""
        self._idle = None
        self._watch_idleness()
        for listener, server in zip(self._listeners, self._serving, strict=False):
            listener.remove()
            server.close()
        for connection in list(self._admitted):
            connection.drain()
        tasks = {task for connection in self._admitted for task in connection.tasks}
        _, unfinished = await asyncio.wait(tasks, timeout=drain_s) if tasks else ((), ())
        for task in unfinished:
            task.cancel()
        if unfinished:
            log.warning("%d calls did not end within %g s", len(unfinished), drain_s)
            await asyncio.wait(unfinished, timeout=PARTING_S)
        for connection in [*self._admitted, *self._turned_away]:
            connection.close(PARTING_S)
        await self._all_left.wait()

    def admit(self, connection: ClientConnection, whose: Credentials) -> Refused | None:
        """Count a connection in; the reason if it is turned away."""
        refused = self._reason_against(connection, whose)
        if refused is None:
            self._admitted.add(connection)
        else:
            self._turned_away.add(connection)
            log.warning("pid %d turned away: %s", whose.pid, refused.kind)
            if len(self._turned_away) > _TURNED_AWAY_LIMIT:
                connection.abort()
        self._all_left.clear()
        self._watch_idleness()
        return refused

    def _reason_against(self, connection: ClientConnection, whose: Credentials) -> Refused | None:
        if whose.uid != os.geteuid():
            return refuse(
                Kind.NOT_PERMITTED,
                f"This daemon serves user id {os.geteuid()} only, and you are {whose.uid}. Use "
                "your own user's daemon.",
            )
        alike = sum(other.control == connection.control for other in self._admitted)
        if alike >= self.settings.max_connections:
            return refuse(
                Kind.OVERLOADED,
                f"The daemon has {alike} open connections, which is its limit. Close some that "
                "are not in use, or try again in a moment. (max_connections in the configuration)",
            )
        return None

    def left(self, connection: ClientConnection) -> None:
        """Forget a connection that is over."""
        self._admitted.discard(connection)
        self._turned_away.discard(connection)
        if not self._admitted and not self._turned_away:
            self._all_left.set()
        self._watch_idleness()

    def _watch_idleness(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None
        if self._idle is not None and self.settings.idle_exit_s and not self._admitted:
            loop = asyncio.get_running_loop()
            self._idle_timer = loop.call_later(self.settings.idle_exit_s, self._idle)
