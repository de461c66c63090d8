"""Modes and requests for write access: journalled first, then in force, then reported.

Every change is a record that is durable before it is in force; the rules are pure functions
(:mod:`stetd.session.modes`, :mod:`stetd.session.upgrades`). The writer's queue orders the changes
among the calls. The end of a grant needs no change: each call compares it with the clock
(:meth:`stetd.state.state.State.effective_mode`); :meth:`Modes.end_grants` records and reports it.
"""

from __future__ import annotations

import contextlib
import logging
import shlex
import uuid
from collections.abc import Callable

import msgspec

from stet.wire.events import ModeEvent, UpgradeRequestEvent
from stet.wire.failures import Kind, Refused, refuse
from stet.wire.results import UpgradeInfo
from stetd.history.commits import rfc3339
from stetd.parameters import invalid
from stetd.session.modes import (
    RESTRICTED,
    UNRESTRICTED,
    Standing,
    grant_end,
    mode_at,
    remaining,
    with_grant,
)
from stetd.session.sessions import Session
from stetd.session.upgrades import (
    DENIED,
    MOST_PENDING,
    PENDING,
    UpgradeRequest,
    decide,
    latest_of,
    pending_in,
)
from stetd.state.events import Events
from stetd.state.state import SessionRecord, State, time_text
from stetd.state.workspace import Workspace
from stetd.storage.journal_format import ModeSet, UpgradeSet

_log = logging.getLogger(__name__)


class Modes(msgspec.Struct):
    """Modes and requests. ``change`` makes a record durable, then in force, or raises Refused."""

    state: State
    events: Events
    change: Callable[[SessionRecord], None]
    #: Called with a new request, and with a decided one.
    on_asked: Callable[[UpgradeRequest], None] = lambda _: None
    on_decided: Callable[[UpgradeRequest], None] = lambda _: None

    # -- modes

    def set(self, workspace: Workspace, session: Session | None, standing: Standing) -> None:
        """Set the mode of a session, or (None) of the workspace. Raises Refused.

        Pending requests of sessions that may write now are approved.
        """
        name = session.name if session else None
        self.change(ModeSet(workspace.name, name, *standing))
        self._publish_mode(workspace.name, name)
        self._approve_satisfied_requests(workspace)

    def due_in(self) -> float | None:
        """Seconds until the first grant ends; None if there is no grant."""
        now = self.state.now()
        left = [max(0.0, remaining(grant, now)) for _, grant in self.state.granted.values()]
        return min(left, default=None)

    def end_grants(self) -> None:
        """Record and report the ends of grants. A clock that is set back can't revive them then."""
        if not self.state.granted:
            return
        now = self.state.now()
        for (name, session), (mode, grant) in list(self.state.granted.items()):
            if remaining(grant, now) > 0:
                continue
            ended = ModeSet(name, session, mode)
            try:
                self.change(ended)
            except Refused as error:
                # It has ended anyway; the next start finds that, too.
                _log.warning("the end of a grant was not recorded: %s", error.message)
                self.state.apply(ended)
            if mode == RESTRICTED:
                self._publish_mode(name, session)

    def session_ended(self, ended: Session, fresh: Session, denied: UpgradeRequest | None) -> None:
        """Report that a session was ended. ``fresh``: a new one of its name."""
        if denied is not None:
            self._decided(denied)
        if mode_at(self.state.now(), ended.standing) != fresh.mode:
            self._publish_mode(ended.workspace, ended.name, fresh)

    # -- requests

    def ask(self, workspace: Workspace, session: Session, reason: str | None) -> UpgradeRequest:
        """The session's request: the pending one, a denied one that it has not seen, or a new one.

        Raises Refused: overloaded, or an error of ``change``.
        """
        requests = self.state.upgrades.values()
        known = latest_of(requests, workspace.name, session.name)
        if known is not None and known.status == PENDING:
            if reason in (None, known.reason):
                return known
            return self._asked(msgspec.structs.replace(known, reason=reason))
        if known is not None and known.status == DENIED and not known.told:
            self.note_denial_seen(known)
            return known
        if len(pending_in(requests, workspace.name)) >= MOST_PENDING:
            raise refuse(
                Kind.OVERLOADED,
                f"{MOST_PENDING} requests of this workspace wait for the person already. "
                "Ask again when some of them are decided.",
            )
        request = UpgradeRequest(
            id=uuid.uuid4().hex[:12],
            workspace=workspace.name,
            session=session.name,
            agent=session.agent,
            time=int(self.state.now().wall),
            reason=reason or "",
        )
        self._asked(request)
        self.on_asked(request)
        return request

    def note_denial_seen(self, request: UpgradeRequest) -> None:
        """Record that the session has learned of a denial."""
        if request.status == DENIED:
            with contextlib.suppress(Refused):  # not recorded, it is returned again
                self.change(UpgradeSet(msgspec.structs.replace(request, told=True)))

    def approve(
        self, request: UpgradeRequest, *, note: str, seconds: float | None
    ) -> UpgradeRequest:
        """Approve a request, for ``seconds`` or (None) without an end. Raises Refused."""
        now = self.state.now()
        workspace = self.state.open.get(request.workspace)
        session = self.state.sessions.get((request.workspace, request.session))
        if workspace is None or session is None:
            gone = "workspace" if workspace is None else "session"
            raise invalid(
                f"the {gone} of request {request.id} is not there any more; deny it instead.",
            )
        ceiling = self.state.known[workspace.name].standing
        if mode_at(now, ceiling) == RESTRICTED:
            raise refuse(
                Kind.NOT_PERMITTED,
                f"request {request.id} can't be approved: the workspace {workspace.root} itself is "
                "restricted, and the stricter mode holds. Lift that first: stet mode unrestricted "
                f"-C {shlex.quote(workspace.root)}; the request stays pending.",
            )
        standing = Standing(UNRESTRICTED)
        if seconds is not None and session.mode == RESTRICTED:
            standing = with_grant(session.standing, seconds, now)
        end = grant_end(now, ceiling, standing)
        return self._decide(request, True, note=note, until=end, standing=standing)

    def deny(self, request: UpgradeRequest, *, note: str) -> UpgradeRequest:
        """Deny a request; the mode stays. Raises Refused."""
        return self._decide(request, False, note=note)

    def _approve_satisfied_requests(self, workspace: Workspace) -> None:
        """Approve the requests of sessions that may write since a mode was set."""
        now = self.state.now()
        for request in pending_in(self.state.upgrades.values(), workspace.name):
            session = self.state.sessions.get((workspace.name, request.session))
            standings = self.state.standings(session, workspace.name)
            if session is not None and mode_at(now, *standings) != RESTRICTED:
                self._decide(request, True, until=grant_end(now, *standings))

    def _decide(
        self,
        request: UpgradeRequest,
        approve: bool,
        *,
        note: str = "",
        until: float | None = None,
        standing: Standing | None = None,
    ) -> UpgradeRequest:
        """Record and report a decision; ``standing``: the session's new one. Raises Refused."""
        now = int(self.state.now().wall)
        decided = decide(request, approve, time=now, note=note, until=until)
        self.change(UpgradeSet(decided, *standing) if standing else UpgradeSet(decided))
        if standing is not None:
            self._publish_mode(request.workspace, request.session)
        return self._decided(decided)

    # -- reported

    def _asked(self, request: UpgradeRequest) -> UpgradeRequest:
        self.change(UpgradeSet(request))
        self._publish_request(request)
        return request

    def _decided(self, request: UpgradeRequest) -> UpgradeRequest:
        self._publish_request(request)
        self.on_decided(request)
        return request

    def _publish_mode(
        self, name: str, session_name: str | None, session: Session | None = None
    ) -> None:
        workspace = self.state.open.get(name)
        if workspace is None:
            return
        if session is None and session_name is not None:
            session = self.state.sessions.get((name, session_name))
        found = self.state.modes(session, name)
        event = ModeEvent(
            workspace=workspace.root,
            session=session_name,
            mode=found.mode,
            session_mode=found.session_mode,
            workspace_mode=found.workspace_mode,
            until=found.until,
        )
        self.events.publish(event)

    def _publish_request(self, request: UpgradeRequest) -> None:
        info = msgspec.structs.asdict(self.info(request))
        self.events.publish(UpgradeRequestEvent(**info))

    def info(self, request: UpgradeRequest) -> UpgradeInfo:
        """A request as callers see it."""
        return UpgradeInfo(
            request=request.id,
            workspace=self.state.known[request.workspace].root,
            session=request.session,
            agent=request.agent,
            reason=request.reason,
            time=rfc3339(request.time),
            status=request.status,
            note=request.note,
            decided=time_text(request.decided),
            until=time_text(request.until),
        )
