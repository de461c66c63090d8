"""From a request to the method that carries it out, if the caller may call it."""

from __future__ import annotations

import difflib

from stet.wire.failures import Kind, Refused, refuse
from stet.wire.results import Peer
from stetd.methods import METHODS, Needs
from stetd.methods.caller import Caller, Params, Shared
from stetd.server.connection import ClientConnection
from stetd.server.peer import PeerProcess
from stetd.transaction.parameters import convert, not_permitted


class Connection(Caller):
    """One client's requests."""

    async def call(self, name: str, params: Params) -> object:
        """Carry out a request. Raises Refused."""
        method = METHODS.get(name)
        if method is None:
            raise _unknown(name)
        if method.control and not self.control:
            raise not_permitted(
                f"{name} is for the person at the machine: it works on control.sock only."
            )
        says_workspace = self.control and params.get("workspace") is not None
        if method.needs is Needs.WORKSPACE and not says_workspace:
            self.check_greeted(name)
        wanted = params if method.takes is None else convert(method.takes, name, params)
        if method.needs is Needs.HELLO and not (self.greeted or says_workspace):
            self.check_greeted(name)
        return await method.run(self, wanted)

    def labels(self) -> dict[str, str | None]:
        """Who is asking, for the log."""
        return {"agent": self.agent, "session": self.session}

    def disconnected(self) -> None:
        """The client is gone. What it asked for goes on, but nobody is told any more."""
        self.gone = True
        self.shared.callers.pop(id(self), None)
        self.shared.writer.forsake(self.lane)
        self.unsubscribe()
        self.wait_with(None)


class Handlers(Shared):
    """What a server serves."""

    def connect(
        self, *, control: bool, peer: PeerProcess, client: ClientConnection | None = None
    ) -> Connection:
        """A new connection from this process."""
        caller = Connection(self, control, Peer(peer.pid, peer.command), peer.start, client)
        self.callers[id(caller)] = caller
        return caller


def _unknown(name: str) -> Refused:
    near = difflib.get_close_matches(name, METHODS, 1)
    hint = f" Did you mean {near[0]}?" if near else ""
    return refuse(
        Kind.UNKNOWN_METHOD,
        f"there is no method {name!r}.{hint} The methods are: {', '.join(sorted(METHODS))}.",
    )
