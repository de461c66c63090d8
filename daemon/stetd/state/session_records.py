"""Sessions: opened, entered, ended, and let go when they hold nothing any more.

Opening and ending are records that are durable before they count. A connection may outlive its
session, which the person has ended: then its name means a new one, which is recorded with the
first call that has something to keep.

Idle sessions are let go when a checkpoint is begun, from memory and from its snapshot at once,
without a record: a daemon that is killed before that checkpoint is durable has them again, and
lets them go at its next one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

import msgspec

from stet.wire.results import EndedSession
from stetd.session.modes import mode_at, stricter
from stetd.session.sessions import (
    Entrant,
    Session,
    expired,
    hash_secret,
    is_idle,
    secret_matches,
)
from stetd.session.upgrades import PENDING, decide, latest_of
from stetd.state.mode_records import Modes
from stetd.state.state import State
from stetd.state.workspace import Workspace
from stetd.storage.journal_format import SessionEnded, SessionOpened
from stetd.transaction.parameters import invalid, not_permitted

_ENDED = (
    "The person has ended this session: its clipboards and what it was allowed are gone. "
    "What comes now is a new session under its name."
)


class Sessions:
    """Opens and ends sessions. ``record`` makes records durable, or raises Refused."""

    def __init__(
        self, state: State, modes: Modes, record: Callable[..., None], default_mode: str
    ) -> None:
        self._state = state
        self._modes = modes
        self._record = record
        #: Of new sessions.
        self.default_mode = default_mode
        #: The (workspace, session) of every connection there is.
        self.connected: Callable[[], Iterable[tuple[str | None, str | None]]] = lambda: ()

    def find(self, who: Entrant, known: Session | None = None) -> Session:
        """The session of this name; nothing is recorded of one that is not there.

        ``known``: as it will be after calls that are planned already. Refused (not_permitted)
        where it was opened with another secret.
        """
        known = known or self._state.sessions.get((who.workspace, who.session))
        if known is None:
            return self._fresh(who)
        if not who.control and not secret_matches(known, who.secret):
            raise not_permitted(
                f"session {who.session!r} was opened with a secret; "
                "give the same one in hello, or choose another session name."
            )
        return known

    def enter(self, who: Entrant) -> Session:
        """The same, for a hello: it is recorded if it is new, or has another agent.

        A session that the person looks into stays its agent's.
        """
        session = self.find(who)
        if not who.control and who.agent not in (None, session.agent):
            session = msgspec.structs.replace(session, agent=who.agent)
        if self._state.sessions.get((who.workspace, who.session)) is not session:
            self._open(session)
        return session

    def keep(self, session: Session) -> None:
        """Record a session that :meth:`find` has made up. Raises Refused."""
        if (session.workspace, session.name) not in self._state.sessions:
            self._open(session)

    def end(self, workspace: Workspace, name: str) -> EndedSession:
        """Forget what a session holds, and deny what it has asked for. Raises Refused."""
        session = self._state.sessions.get((workspace.name, name))
        if session is None:
            raise invalid(
                f"session_end: there is no session {name!r} in {workspace.root}. "
                "`session_list` lists those that are there.",
            )
        request = latest_of(self._state.upgrades.values(), workspace.name, name)
        if request is not None:
            pending = request.status == PENDING
            time = int(self._state.now().wall)
            request = decide(request, False, time=time, note=_ENDED) if pending else None
        ended = SessionEnded(workspace.name, name, request)
        self._record(ended)
        self._state.apply(ended)
        fresh = self._fresh(Entrant(workspace.name, name, session.agent, None, False))
        self._modes.session_ended(session, fresh, request)
        return EndedSession(
            session=name,
            workspace=workspace.root,
            clipboards=len(session.clipboards),
            request=request.id if request else None,
            next_mode=self._state.effective_mode(fresh, workspace),
        )

    def drop_idle(self) -> None:
        """Forget idle sessions that need not be kept; a checkpoint is about to be made."""
        state = self._state
        used = set(self.connected())
        used |= {(r.workspace, r.session) for r in state.upgrades.values() if r.status == PENDING}
        begins = {name: self._mode_of_new(name) for name in state.known}
        idle = [
            session
            for key, session in state.sessions.items()
            if key not in used and is_idle(session, begins.get(session.workspace, ""))
        ]
        for session in expired(idle, state.now().wall):
            del state.sessions[session.workspace, session.name]

    def _open(self, session: Session) -> None:
        opened = SessionOpened(session)
        self._record(opened)
        self._state.apply(opened)

    def _fresh(self, who: Entrant) -> Session:
        now = int(self._state.now().wall)
        return Session(
            workspace=who.workspace,
            name=who.session,
            mode=self._mode_of_new(who.workspace),
            created=now,
            last_seen=now,
            agent=who.agent,
            secret=hash_secret(who.secret, os.urandom(16)) if who.secret is not None else None,
            chosen=False,
        )

    def _mode_of_new(self, workspace: str) -> str:
        ceiling = self._state.standing_of(workspace, None)
        assert ceiling is not None, "BUG: a session of no workspace"
        return stricter(self.default_mode, mode_at(ceiling, self._state.now()))
