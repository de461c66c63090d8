"""The two protocols that systemd speaks with a service, as far as the daemon needs them.

- Socket activation (sd_listen_fds(3)): LISTEN_PID, LISTEN_FDS and LISTEN_FDNAMES say which
  descriptors, from 3 on, are listening sockets that were opened for this very process. A
  descriptor is told by its name, ``agent`` or ``control``; one with another name by the file
  name of its address, because all sockets of one .socket unit carry the same name.
- Readiness (sd_notify(3)): datagrams of ``KEY=value`` lines to $NOTIFY_SOCKET.

Without those variables both do nothing.
"""

from __future__ import annotations

import os
import socket
from collections.abc import MutableMapping

from stet.service.socket_path import AGENT_SOCKET, CONTROL_SOCKET

_FIRST_DESCRIPTOR = 3
#: A manager with a full queue must not hold the event loop up; all but READY=1 comes again.
_PATIENCE_S = 0.2
_VARIABLES = ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES")
_BY_FILE_NAME = {AGENT_SOCKET: "agent", CONTROL_SOCKET: "control"}


class ActivationError(Exception):
    """systemd handed over sockets that are not the daemon's two; the message says which."""


def inherited_sockets(environ: MutableMapping[str, str] = os.environ) -> dict[str, socket.socket]:
    """The listening sockets that systemd opened, by name: ``agent``, ``control``, or neither.

    Takes the variables out of ``environ``, so that no child believes they are meant for it.
    Raises ActivationError for a descriptor that is no listening Unix socket, is neither of
    the two, or is there twice; nothing is left open then.
    """
    pid, count, names = (environ.pop(name, "") for name in _VARIABLES)
    if pid != str(os.getpid()) or not count.isascii() or not count.isdigit():
        return {}
    labels = names.split(":") if names else []
    labels += [""] * (int(count) - len(labels))
    found: dict[str, socket.socket] = {}
    try:
        for offset in range(int(count)):
            _take(_FIRST_DESCRIPTOR + offset, labels[offset], found)
    except BaseException:
        for taken in found.values():
            taken.close()
        raise
    return found


def _take(descriptor: int, label: str, found: dict[str, socket.socket]) -> None:
    try:
        os.set_inheritable(descriptor, False)
        listening = socket.socket(fileno=descriptor)
    except OSError as error:
        raise ActivationError(f"descriptor {descriptor} ({label}) is not a socket") from error
    try:
        name = _name_of(listening, label)
        if name in found:
            raise ActivationError(f"systemd passed two sockets for {name}")
    except BaseException:
        listening.close()
        raise
    found[name] = listening


def _name_of(listening: socket.socket, label: str) -> str:
    kind = (listening.family, listening.type)
    accepts = listening.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    if kind != (socket.AF_UNIX, socket.SOCK_STREAM) or not accepts:
        raise ActivationError(f"the socket {label!r} that systemd passed is no listening Unix one")
    address = listening.getsockname()
    file_name = os.path.basename(os.fsdecode(address))
    name = label if label in _BY_FILE_NAME.values() else _BY_FILE_NAME.get(file_name)
    if name is None:
        raise ActivationError(
            f"systemd passed a socket named {label!r} at {address!r}; name it agent or control "
            "(FileDescriptorName=), or its file agent.sock or control.sock"
        )
    return name


def notify(*states: str, address: str | None = None, patience_s: float = _PATIENCE_S) -> bool:
    """Tell systemd: ``READY=1``, ``STOPPING=1``, ``STATUS=text``, ``WATCHDOG=1``.

    ``address`` is $NOTIFY_SOCKET unless given. Returns whether it was sent; a manager that
    does not listen, or not within ``patience_s`` seconds, is no reason for the daemon to fail.
    """
    target = address or os.environ.get("NOTIFY_SOCKET")
    if not target:
        return False
    if target.startswith("@"):
        target = "\0" + target[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as datagram:
            datagram.settimeout(patience_s)
            datagram.sendto("\n".join(states).encode(), target)
    except OSError:
        return False
    return True
