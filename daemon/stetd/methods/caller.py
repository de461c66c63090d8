"""Who asks: one connection's workspace, session and rights; and what all connections share.

What changes anything is handed to the writer before the first ``await``, so the writing calls of
a connection keep their order; what reads the history is asked of the historian.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import os
import random
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from stet.wire.failures import Refused
from stet.wire.results import EditResult, LoggedError, Peer
from stetd.config.settings import Reloading, Settings
from stetd.engine.fair_queue import Lane
from stetd.engine.writer import Writer
from stetd.methods.workspaces import Workspaces, check_root, not_allowed
from stetd.observing.watched_tools import WatchedTools
from stetd.planning.world import OBSERVE, EditCall
from stetd.server.connection import ClientConnection
from stetd.server.desktop_notices import Notice, Notices
from stetd.server.subscribers import Feed, Subscriber
from stetd.session.sessions import Entrant, Session
from stetd.session.upgrades import UpgradeRequest
from stetd.state.decisions import Wait, Waits, end
from stetd.state.reading_place import Place
from stetd.state.state import State
from stetd.state.workspace import Workspace
from stetd.transaction.drafts import Requester
from stetd.transaction.parameters import Common, check_label, convert, invalid
from stetd.transaction.refusals import no_longer_allowed
from stetd.upkeep.schedule import Upkeep

PROTOCOL = 1

T = TypeVar("T")
Params = dict[str, Any]


def message_of(method: str, given: str | None) -> str:
    """A call's message. Raises Refused."""
    if given is not None and "\0" in given:
        raise invalid(f"{method}: message can't contain NUL characters.")
    return given or ""


@dataclass(slots=True)
class Shared:
    """What all connections share."""

    writer: Writer
    workspaces: Workspaces
    settings: Settings
    upkeep: Upkeep
    started: float = field(default_factory=time.monotonic)
    #: The next three are set by cli.py. It ends the daemon when a person asks for that.
    on_shutdown: Callable[[], None] = lambda: None
    reloading: Reloading | None = None
    #: The newest error in the log.
    last_error: Callable[[], LoggedError | None] = lambda: None
    feed: Feed = field(init=False)
    #: Calls that wait for the person to decide.
    waits: Waits = field(default_factory=Waits)
    #: What agents' own tools are doing, by the workspace's name.
    watched: dict[str, WatchedTools] = field(default_factory=dict)
    notices: Notices = field(init=False)
    #: Whoever is connected.
    callers: set[Caller] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.feed = Feed(self.writer.events, self.writer.historian)
        self.notices = Notices(lambda: self.settings.notify)
        self.writer.modes.on_asked = self._notify
        self.writer.modes.on_decided = self.waits.decided
        self.writer.sessions.connected = lambda: [(c.workspace, c.session) for c in self.callers]

    def _notify(self, request: UpgradeRequest) -> None:
        who = "/".join(name for name in (request.agent, request.session) if name)
        where = self.writer.state.known[request.workspace].root
        self.notices.post(Notice(who, where, request.reason, f"stet approve {request.id}"))


@dataclass(slots=True, eq=False)
class Caller:
    """One client: who it is, and which workspace and session it has said hello to."""

    shared: Shared
    control: bool
    peer: Peer
    #: When the peer's process began (stetd.server.peer.start_of); 0: it had ended already.
    peer_start: int
    #: Where events go, and replies; None in tests without sockets.
    client: ClientConnection | None = None
    #: The workspace's name in the state; None before hello, and on control.sock without one.
    workspace: str | None = None
    #: The session's directory, relative to the workspace's root.
    directory: str = ""
    session: str | None = None
    agent: str | None = None
    #: What hello said; needed again where the session is ended and the connection goes on.
    secret: str | None = field(default=None, repr=False)
    greeted: bool = False
    subscription: Subscriber | None = None
    #: The connection is over.
    gone: bool = False
    #: Its call that waits for a decision. A session has one request, so one is enough.
    wait: Wait | None = None
    #: Its place in the writer's queue.
    lane: Lane = field(default_factory=Lane)
    _reading: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def state(self) -> State:
        """The writer's state."""
        return self.shared.writer.state

    def labels(self) -> dict[str, str | None]:
        """Who is asking, for the log."""
        return {"agent": self.agent, "session": self.session}

    def who(self, method: str, why: str, request: str | None = None) -> Requester:
        """Who is asking, for a commit."""
        return Requester(self.agent, self.session, self.peer, method, request, why)

    def disconnected(self) -> None:
        """The client is gone. What it asked for goes on, but nobody gets the answer any more."""
        self.gone = True
        self.shared.callers.discard(self)
        self.shared.writer.abandon(self.lane)
        self.unsubscribe()
        self.wait_with(None)

    async def on_writer(
        self, run: Callable[[], T], *, after_all: bool = False, within: float = math.inf
    ) -> T:
        """Run something between batches, after what this client has asked for before.

        ``after_all``: after all calls that wait by now, but ``within`` so many seconds.
        """
        writer = self.shared.writer
        if not after_all and writer.can_run_now(self.lane):
            return run()
        return await writer.submit(run, self.lane, after_all=after_all, within=within)

    def wait_with(self, wait: Wait | None) -> None:
        """Note that the client waits; a call that waited before is answered now."""
        if self.wait is not None:
            end(self.wait)
        self.wait = wait

    def unsubscribe(self) -> None:
        """Send no more events."""
        if self.subscription is not None:
            self.shared.feed.remove(self.subscription)
            self.subscription = None

    def open_workspace(self, *, present: bool = False) -> Workspace:
        """Give this connection's workspace, ``present``: if its directory is there."""
        workspace = self.state.open.get(self.workspace or "")
        if workspace is None:
            raise no_longer_allowed()
        if present:
            workspace.check_present()
        return workspace

    def own_session(self) -> Session | None:
        """The session as it is now, or as it would begin now."""
        if self.session is None or self.workspace is None:
            return None
        who = Entrant(self.workspace, self.session, self.agent, self.secret, self.control)
        return self.shared.writer.sessions.find(who)

    def needs_session(self) -> Session:
        """The same, refused where there is none. Keep it before anything of it is recorded."""
        self.open_workspace()
        session = self.own_session()
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
        """Hand a call that may write files to the writer; ``given`` are the common parameters.

        ``planned``: what it is planned from, if not from ``own``. ``note``: record it under this
        id; with the same again it is another call.
        """
        common = convert(Common, method, given)
        check_label("request_id", common.request_id)
        why = message_of(method, common.message)
        kept = {key: value for key, value in given.items() if key != "request_id"}
        canonical = msgspec.msgpack.encode([method, own, kept], order="deterministic")
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
            retryable=note is None and common.request_id is not None,
            digest=hashlib.sha256(canonical).digest(),
            why=why,
            if_match=common.if_match,
            preview=bool(common.preview),
            size=len(canonical),
            secret=self.secret,
        )
        result = await self.shared.writer.submit_edit(call, self.lane)
        if result.replayed and result.commit is not None and not result.diff and method != OBSERVE:
            with suppress(Refused):  # the call was applied, and that is the answer
                diff = await self.ask("diff of a reply", result, str)
                result = msgspec.structs.replace(result, diff=diff)
        return result

    async def ask(
        self, question: str, params: object, result: type[T], *, of_history: bool = True
    ) -> T:
        """Ask the historian about this client's workspace; the answer, of this type.

        One question at a time, and only once the client has taken the replies before, so that no
        long replies gather. ``of_history``: Git must have all of it; else only files are read.
        """
        place = await self.on_writer(
            lambda: self.shared.writer.place(self.open_workspace(present=True), self.directory)
        )
        if not of_history:
            place = msgspec.structs.replace(place, number=0)
        async with self._reading:
            if self.client is not None:
                await self.client.taken()
            return await self.shared.writer.historian.ask(question, params, result, place)

    def place(self) -> Place:
        """Where this client reads now. Raises Refused."""
        workspace = self.open_workspace(present=True)
        return Place(
            workspace.worktree,
            workspace.shadow,
            workspace.head.commit,
            self.directory,
            self.shared.settings.max_file_bytes,
        )

    def named_workspace(self, root: str | None) -> Workspace:
        """The workspace with exactly this root, by default the connection's own."""
        if root is None:
            return self.open_workspace()
        check_root(root)
        found = self.state.find_workspace(os.path.realpath(root))
        # A directory inside is not enough: to forget one would forget all around it.
        if found is None or found[1]:
            raise not_allowed(
                f"{root} is not an allowed workspace. `workspace_list` lists those that are."
            )
        return found[0]
