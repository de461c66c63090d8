"""From a request to the method that carries it out, if the caller may call it."""

from __future__ import annotations

import difflib
from collections.abc import Awaitable, Callable

from stet.wire.failures import Kind, Refused, refuse
from stet.wire.results import Peer
from stetd.methods import METHODS
from stetd.methods.caller import Caller, Params, Shared
from stetd.server.peer import PeerProcess
from stetd.transaction.parameters import not_permitted


class Handlers(Shared):
    """What a server serves."""

    def connect(self, *, control: bool, peer: PeerProcess) -> Connection:
        """A new connection from this process."""
        caller = Caller(self, control, Peer(peer.pid, peer.command), peer.start)
        self.callers[id(caller)] = caller
        return Connection(caller)


class Connection:
    """One client's requests."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def call(self, name: str, params: Params) -> object:
        """Carry out a request. Raises Refused."""
        method = METHODS.get(name)
        if method is None:
            raise _unknown(name)
        if method.control and not self._caller.control:
            raise not_permitted(
                f"{name} is for the person at the machine: it works on control.sock only."
            )
        says_workspace = self._caller.control and params.get("workspace") is not None
        if not method.before_hello and not says_workspace:
            self._caller.check_greeted(name)
        return await method.run(self._caller, params)

    def notify_with(self, notify: Callable[[object], None]) -> None:
        """Take the function that sends this client an event."""
        self._caller.notify = notify

    def labels(self) -> dict[str, str | None]:
        """Who is asking, for the log."""
        return {"agent": self._caller.agent, "session": self._caller.session}

    def pace_with(self, taken: Callable[[], Awaitable[None]]) -> None:
        """Take the function that waits until this client has taken its replies, or is gone."""
        self._caller.taken = taken

    def disconnected(self) -> None:
        """The client is gone. What it asked for goes on, but nobody is told any more."""
        self._caller.gone = True
        self._caller.shared.callers.pop(id(self._caller), None)
        self._caller.shared.writer.forsake(self._caller.lane)
        self._caller.unsubscribe()
        self._caller.wait_with(None)


def _unknown(name: str) -> Refused:
    near = difflib.get_close_matches(name, METHODS, 1)
    hint = f" Did you mean {near[0]}?" if near else ""
    return refuse(
        Kind.UNKNOWN_METHOD,
        f"there is no method {name!r}.{hint} The methods are: {', '.join(sorted(METHODS))}.",
    )
