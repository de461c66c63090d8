"""The listening sockets: made, put in place of a dead daemon's, and taken away again.

To be called with the instance lock held (:mod:`stetd.config.directories`): only then is a socket
file that is already there certainly a dead daemon's.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat

import msgspec

#: Connections that may wait for accept(2); the kernel caps it at net.core.somaxconn.
BACKLOG = 1024

#: Shorter than the sockets' own names: a socket address holds 107 bytes.
_TEMPORARY_NAME = ".new"


class SocketInTheWay(Exception):
    """Something that is no socket has the name of one; the message has the command to mend it."""


class Listener(msgspec.Struct, frozen=True):
    """One listening socket. ``path`` is None when it belongs to systemd, not to the daemon."""

    socket: socket.socket
    control: bool
    path: str | None

    def remove(self) -> None:
        """Remove the socket's file, if the daemon made it and it is still there.

        New clients then find no daemon, and start one, while this one finishes its work.
        """
        if self.path is not None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.path)


def listen(path: str, *, control: bool) -> Listener:
    """Listen on ``path``, mode 0600, replacing the socket of a dead daemon.

    The file appears under its name only once it can be connected to. Raises SocketInTheWay
    or OSError.
    """
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            raise SocketInTheWay(f"{path} is not a socket. Remove it: rm -r '{path}'")
    temporary = os.path.join(os.path.dirname(path), _TEMPORARY_NAME)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(temporary)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        listening.setblocking(False)
        listening.bind(temporary)
        os.chmod(temporary, 0o600)
        listening.listen(BACKLOG)
        os.rename(temporary, path)
    except BaseException:
        listening.close()
        raise
    return Listener(listening, control, path)
