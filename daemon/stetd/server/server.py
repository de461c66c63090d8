"""The server: listens on both sockets, admits connections, stops in good order.

At a stop it accepts no more connections, answers new requests with ``shutting_down``, waits for the
calls in progress and answers them, then flushes and closes every connection.
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

from stet.service.socket_path import quoted
from stet.wire.failures import Kind, Refused, refuse
from stetd.config.logs import Fields
from stetd.config.settings import Settings
from stetd.refusals import shutting_down
from stetd.server.connection import LINGER_S, ClientConnection, Handlers
from stetd.server.shared_limits import SharedLimits

#: Seconds that calls in progress may take when the daemon stops. systemd kills it after 90.
_DRAIN_S = 30.0
#: Connections beyond the limit that may wait for their refusal; more are closed without one.
_MAX_TURNED_AWAY = 64
#: From Python 3.13 on asyncio would remove the socket's file, even if it belongs to systemd.
_KEEP_SOCKET_FILE: dict[str, Any] = {"cleanup_socket": False} if sys.version_info >= (3, 13) else {}
#: Connections accepted in one turn of the event loop, on each socket.
_ACCEPTS_PER_TURN = 4
#: Connections that may wait for accept(2); the kernel caps it at net.core.somaxconn.
_BACKLOG = 1024
#: Not longer than the sockets' own names, as a socket address holds only 107 bytes.
_TEMPORARY_NAME = ".new"

log = logging.getLogger("stetd.server")


class SocketInTheWay(Exception):
    """The path of a socket is in use by another kind of file; the message says how to remove it."""


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

    The caller holds the instance lock, so an existing socket belongs to a dead daemon and is
    replaced. The new one is renamed to ``path`` only when clients can connect to it.
    """
    with suppress(FileNotFoundError):
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            raise SocketInTheWay(f"{path} is not a socket. Remove it: rm -r {quoted(path)}")
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
    """Serves the listening sockets. Calls ``on_idle`` after ``idle_exit_s`` without connections."""

    def __init__(
        self,
        settings: Settings,
        handlers: Handlers,
        listeners: Sequence[Listener],
        *,
        on_idle: Callable[[], None] | None = None,
        log_call: Callable[[Fields, Fields], None] = lambda *_: None,
    ) -> None:
        self.settings = settings
        self.log_call = log_call
        self.handlers = handlers
        self._listeners = listeners
        self._on_idle = on_idle
        self._idle_timer: asyncio.TimerHandle | None = None
        self._servers: list[asyncio.Server] = []
        self._admitted: set[ClientConnection] = set()
        self._turned_away: set[ClientConnection] = set()
        self.stopping = False
        self.shared_limits = SharedLimits(settings.max_held_bytes, lambda: self._admitted)
        self._all_closed = asyncio.Event()
        self._all_closed.set()

    async def start(self) -> None:
        """Accept connections from now on."""
        loop = asyncio.get_running_loop()
        for listener in self._listeners:
            self._servers.append(
                await loop.create_unix_server(
                    partial(ClientConnection, self, control=listener.control),
                    sock=listener.socket,
                    backlog=_ACCEPTS_PER_TURN,
                    **_KEEP_SOCKET_FILE,
                )
            )
            listener.socket.listen(_BACKLOG)  # asyncio has set it to _ACCEPTS_PER_TURN
        self._reset_idle_timer()

    def reconfigure(self, settings: Settings) -> None:
        """Apply new settings; max_frame applies to new connections only."""
        self.settings = settings
        self.shared_limits.limit = settings.max_held_bytes
        self._reset_idle_timer()

    @property
    def calls_in_work(self) -> int:
        """The number of requests in progress."""
        return sum(len(connection.tasks) for connection in self._admitted)

    async def stop(self) -> None:
        """Stop; calls that do not end within _DRAIN_S are answered ``outcome_unknown``."""
        self.stopping = True
        self._on_idle = None
        self._reset_idle_timer()
        for listener, server in zip(self._listeners, self._servers, strict=False):
            listener.remove()
            server.close()
        for connection in list(self._admitted):
            connection.drain()
        tasks = {task for connection in self._admitted for task in connection.tasks}
        _, unfinished = await asyncio.wait(tasks, timeout=_DRAIN_S) if tasks else ((), ())
        for task in unfinished:
            task.cancel()
        if unfinished:
            log.warning("%d calls did not end within %g s", len(unfinished), _DRAIN_S)
            await asyncio.wait(unfinished, timeout=LINGER_S)
        for connection in [*self._admitted, *self._turned_away]:
            connection.close(LINGER_S)
        await self._all_closed.wait()

    def admit(self, connection: ClientConnection, uid: int, pid: int) -> Refused | None:
        """Count a new connection. Returns the refusal if it is turned away."""
        refused = self._refusal_of(connection, uid)
        if refused is None:
            self._admitted.add(connection)
        else:
            self._turned_away.add(connection)
            if not self.stopping:
                log.warning("pid %d turned away: %s", pid, refused.kind)
            if len(self._turned_away) > _MAX_TURNED_AWAY:
                connection.abort()
        self._all_closed.clear()
        self._reset_idle_timer()
        return refused

    def _refusal_of(self, connection: ClientConnection, uid: int) -> Refused | None:
        if uid != os.geteuid():
            return refuse(
                Kind.NOT_PERMITTED,
                f"This daemon serves user id {os.geteuid()} only, and you are {uid}. Use "
                "your own user's daemon.",
            )
        if self.stopping:  # it was accepted just before
            return shutting_down()
        count = sum(other.control == connection.control for other in self._admitted)
        if count >= self.settings.max_connections:
            return refuse(
                Kind.OVERLOADED,
                f"The daemon has {count} open connections, which is its limit. Close some that "
                "are not in use, or try again in a moment. (max_connections in the configuration)",
            )
        return None

    def forget(self, connection: ClientConnection) -> None:
        """Drop a connection that was closed."""
        self._admitted.discard(connection)
        self._turned_away.discard(connection)
        if not self._admitted and not self._turned_away:
            self._all_closed.set()
        self._reset_idle_timer()

    def _reset_idle_timer(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None
        if self._on_idle is not None and self.settings.idle_exit_s and not self._admitted:
            loop = asyncio.get_running_loop()
            self._idle_timer = loop.call_later(self.settings.idle_exit_s, self._on_idle)
