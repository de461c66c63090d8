"""The caller of a method: its connection's workspace, session and rights. Also the shared objects.

Calls that change anything are queued with the writer before the first ``await``, so the writing
calls of a connection keep their order. Questions about the history go to the historian.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

import msgspec

from stet.wire.failures import Kind, Refused, refuse
from stet.wire.results import EditResult, LoggedError, Peer
from stetd.config.settings import Reloading
from stetd.engine.fair_queue import Lane
from stetd.engine.writer import Writer
from stetd.methods.workspaces import Workspaces, check_root, not_allowed
from stetd.observing.watched_tools import WatchedTools
from stetd.parameters import Common, check_label, convert, invalid
from stetd.planning.world import OBSERVE, EditCall
from stetd.refusals import no_longer_allowed
from stetd.server.connection import ClientConnection
from stetd.server.desktop_notices import Notice, Notices
from stetd.server.subscribers import Feed, Subscriber
from stetd.session.sessions import Entrant, Session
from stetd.session.upgrades import UpgradeRequest
from stetd.state.state import State
from stetd.state.workspace import Workspace
from stetd.transaction.drafts import Requester
from stetd.upkeep.schedule import Upkeep

PROTOCOL = 1

T = TypeVar("T")
Params = dict[str, Any]
_GONE = refuse(Kind.OVERLOADED, "The connection was lost before this was looked up.")


async def wait_within(seconds: float | None, awaited: Awaitable[T]) -> T:
    """What ``awaited`` gives. Raises TimeoutError after ``seconds``, and cancels it.

    The first step of a call runs outside of a task (:class:`ClientConnection`). There
    ``asyncio.timeout`` fails, and ``asyncio.wait_for``, too, from Python 3.12 on.
    """
    future = asyncio.ensure_future(awaited)
    try:
        done, _ = await asyncio.wait([future], timeout=seconds)
        if not done:
            raise TimeoutError
        return future.result()
    finally:
        future.cancel()


def message_of(method: str, given: str | None) -> str:
    """A call's message, "" if none was given. Raises Refused."""
    if given is not None and "\0" in given:
        raise invalid(f"{method}: message can't contain NUL characters.")
    return given or ""


class Shared:
    """The objects that all connections share."""

    def __init__(self, writer: Writer, workspaces: Workspaces, upkeep: Upkeep) -> None:
        self.writer = writer
        self.workspaces = workspaces
        self.upkeep = upkeep
        self.started = time.monotonic()
        #: cli.py sets the next three. ``on_shutdown`` stops the daemon.
        self.on_shutdown: Callable[[], None] = lambda: None
        self.reloading: Reloading | None = None
        #: Returns the newest error in the log.
        self.last_error: Callable[[], LoggedError | None] = lambda: None
        self.feed = Feed(writer.events, writer.historian)
        #: The daemon is stopping: no call may wait for a decision of the person any more.
        self.stopping = False
        #: Uses of agents' own tools, by the workspace's name.
        self.watched: dict[str, WatchedTools] = {}
        self.notices = Notices(lambda: writer.state.settings.notify)
        #: All connections.
        self.callers: set[Caller] = set()
        writer.modes.on_asked = self._notify
        writer.modes.on_decided = self._decided
        writer.sessions.connected = lambda: [(c.workspace, c.session) for c in self.callers]

    def _notify(self, request: UpgradeRequest) -> None:
        who = "/".join(name for name in (request.agent, request.session) if name)
        where = self.writer.state.known[request.workspace].root
        self.notices.post(Notice(who, where, request.reason, f"stet approve {request.id}"))

    def _decided(self, request: UpgradeRequest) -> None:
        for caller in list(self.callers):
            if caller.wait is not None and caller.wait.request == request.id:
                caller.end_wait(request)

    def end_waits(self) -> None:
        """Answer all calls that wait for a decision: the daemon is stopping."""
        self.stopping = True
        for caller in list(self.callers):
            caller.end_wait()


class Wait(NamedTuple):
    """A call that waits for the decision of a request. None comes if there is none in time: the
    client is gone, asks again, or the daemon is stopping.
    """

    request: str
    decision: asyncio.Future[UpgradeRequest | None]


class Caller(msgspec.Struct, eq=False):
    """One connected client, with the workspace and the session that its hello chose."""

    shared: Shared
    control: bool
    peer: Peer
    #: When the peer's process started (stetd.server.peer.start_of); 0: it had ended already.
    peer_start: int
    #: The connection, for events and replies.
    client: ClientConnection
    #: The workspace's name in the state; None before hello, and on control.sock without one.
    workspace: str | None = None
    #: The session's directory, relative to the workspace's root.
    directory: str = ""
    session: str | None = None
    agent: str | None = None
    #: The secret of hello. If the session is ended, the next call opens it again with this secret.
    secret: str | None = None
    greeted: bool = False
    subscription: Subscriber | None = None
    #: The client has disconnected.
    gone: bool = False
    #: The call that waits for a decision. A session has one request, so one is enough.
    wait: Wait | None = None
    #: This connection's queue in the writer.
    lane: Lane = msgspec.field(default_factory=Lane)
    _reading: asyncio.Lock = msgspec.field(default_factory=asyncio.Lock)

    def __repr__(self) -> str:
        return f"<Caller {self.session}>"  # without the secret

    @property
    def state(self) -> State:
        """The writer's state."""
        return self.shared.writer.state

    def labels(self) -> dict[str, str | None]:
        """Agent and session, for the log."""
        return {"agent": self.agent, "session": self.session}

    def requester(self, method: str, why: str, request: str | None = None) -> Requester:
        """The client as the author of a commit."""
        return Requester(self.agent, self.session, self.peer, method, request, why)

    def disconnected(self) -> None:
        """Note that the client has disconnected. Its calls go on without anybody to answer; what it
        only wanted to know is not looked up any more (:meth:`ask`).
        """
        self.gone = True
        self.shared.callers.discard(self)
        self.shared.writer.abandon(self.lane)
        self.unsubscribe()
        self.end_wait()

    async def on_writer(
        self, run: Callable[[], T], *, after_all: bool = False, within: float = math.inf
    ) -> T:
        """Run a function between batches, after the earlier calls of this client.

        ``after_all``: after all calls that are queued now, but at the latest ``within`` seconds.
        """
        if not after_all and not self.lane.waiting:
            return run()
        return await self.shared.writer.submit(run, self.lane, after_all=after_all, within=within)

    def begin_wait(self, request: str) -> Wait | None:
        """Wait for the decision of a request; None if nobody can be answered any more."""
        if self.gone or self.shared.stopping:
            return None
        self.wait = Wait(request, asyncio.get_running_loop().create_future())
        return self.wait

    def end_wait(self, request: UpgradeRequest | None = None) -> None:
        """Answer the call that waits for a decision, if one does."""
        if self.wait is not None and not self.wait.decision.done():
            self.wait.decision.set_result(request)
        self.wait = None

    def unsubscribe(self) -> None:
        """End the subscription, if there is one."""
        if self.subscription is not None:
            self.shared.feed.remove(self.subscription)
            self.subscription = None

    def open_workspace(self, *, present: bool = False) -> Workspace:
        """The connection's workspace. Raises Refused; ``present``: also if its root is missing."""
        workspace = self.state.open.get(self.workspace or "")
        if workspace is None:
            raise no_longer_allowed()
        if present:
            workspace.check_present()
        return workspace

    def current_session(self) -> Session | None:
        """The connection's session, or a new one if it has ended; None if hello named none."""
        if self.session is None or self.workspace is None:
            return None
        who = Entrant(self.workspace, self.session, self.agent, self.secret, self.control)
        return self.shared.writer.sessions.find(who)

    def require_session(self) -> Session:
        """As current_session, but Refused for None. ``sessions.keep`` it before changing it."""
        self.open_workspace()
        session = self.current_session()
        if session is None:
            raise invalid("this needs a session: name one in hello, e.g. session: 'conv-1'")
        return session

    async def submit(
        self,
        method: str,
        own: Params,
        given: Params,
        *,
        planned: Params | None = None,
        note: str | None = None,
    ) -> EditResult:
        """Queue a call that may write files with the writer, and return its result.

        ``own`` and ``given`` are the call's own and its common parameters; a retry must have the
        same. ``planned``: parameters to plan the call from instead of ``own``. ``note``: the id
        under which the call is recorded; unlike a request id, the same note may be sent again.
        """
        common = convert(Common, method, given)
        check_label("request_id", common.request_id)
        why = message_of(method, common.message)
        kept = {key: value for key, value in given.items() if key != "request_id"}
        # From another directory a relative path is another file: that is another call.
        parts = [method, own, kept, *([self.directory] if self.directory else [])]
        canonical = msgspec.msgpack.encode(parts, order="deterministic")
        call = EditCall(
            workspace=self.workspace or "",
            method=method,
            params=own if planned is None else planned,
            session=self.session,
            directory=self.directory,
            agent=self.agent,
            peer=self.peer,
            control=self.control,
            request=note or common.request_id or f"{random.getrandbits(128):032x}",
            once=note is None and common.request_id is not None and not common.preview,
            digest=hashlib.sha256(canonical).digest(),
            why=why,
            if_match=common.if_match,
            preview=bool(common.preview),
            size=len(canonical),
            secret=self.secret,
        )
        result = await self.shared.writer.submit_edit(call, self.lane)
        if result.replayed and result.commit is not None and not result.diff and method != OBSERVE:
            with suppress(Refused):  # the call was applied; the diff is an extra
                diff = await self.ask("diff of a reply", result, str)
                result = msgspec.structs.replace(result, diff=diff)
        return result

    async def ask(
        self,
        question: str,
        params: object,
        result: type[T],
        *,
        of_history: bool = True,
        goes_on: bool = False,
    ) -> T:
        """Ask the historian about this client's workspace; ``result`` is the type of the answer.

        One question at a time, and only after the client has read its earlier replies, so that
        long replies do not pile up. ``of_history``: Git must have the whole history first.
        ``goes_on``: ask also for a client that is gone, because the answer is not only for it.
        """
        view = await self.on_writer(
            lambda: self.shared.writer.view(self.open_workspace(present=True), self.directory)
        )
        if not of_history:
            view = msgspec.structs.replace(view, number=0)
        async with self._reading:
            await self.client.wait_writable()
            if self.gone and not goes_on:
                raise _GONE.copy()
            return await self.shared.writer.historian.ask(question, params, result, view)

    def workspace_at(self, root: str | None) -> Workspace:
        """The workspace with exactly this root; None: the connection's own. Raises Refused."""
        if root is None:
            return self.open_workspace()
        check_root(root)
        found = self.state.open.get(self.state.name_at(root))
        if found is None:
            raise not_allowed(
                f"{root} is not an allowed workspace. `workspace_list` lists those that are."
            )
        return found
