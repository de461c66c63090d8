"""This process as the client of a daemon in it, without sockets."""

from __future__ import annotations

import os

from stetd.server.peer import PeerProcess, start_of


def own_peer(command: str) -> PeerProcess:
    """What the daemon would be told of this process, under another name."""
    return PeerProcess(os.getpid(), command, start_of(os.getpid()))
