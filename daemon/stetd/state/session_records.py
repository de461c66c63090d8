"""Opening, entering, ending and dropping sessions.

Opening and ending are records that are durable before they are in force. A connection may outlive
its session, if the person ends it: then the name means a new session, which is recorded with the
first call that has something to record.

Idle sessions are dropped when a checkpoint begins, from memory and so from its snapshot, without a
record: a daemon that is killed before that checkpoint is durable has them again, and drops them at
its next one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

import msgspec

from stet.wire.results import EndedSession
from stetd.parameters import invalid, not_permitted
from stetd.session.modes import Standing, mode_at
from stetd.session.sessions import Entrant, Session, expired, hash_secret, is_idle, secret_matches
from stetd.session.upgrades import PENDING, decide, latest_of
from stetd.state.mode_records import Modes
from stetd.state.state import State
from stetd.state.workspace import Workspace
from stetd.storage.journal_format import SessionEnded, SessionOpened

_ENDED = (
    "The person has ended this session: its clipboards and what it was allowed are gone. "
    "What comes now is a new session under its name."
)


class Sessions(msgspec.Struct):
    """Opens and ends sessions."""

    state: State
    modes: Modes
    #: Gives the (workspace, session) of every connection.
    connected: Callable[[], Iterable[tuple[str | None, str | None]]] = lambda: ()

    def find(self, who: Entrant, known: Session | None = None) -> Session:
        """The session of this name, or a new one that is not recorded yet.

        ``known``: the session as calls that are planned already leave it. Raises Refused
        (not_permitted) if it was opened with another secret.
        """
        known = known or self.state.sessions.get((who.workspace, who.session))
        if known is None:
            return self._new_session(who)
        if not who.control and not secret_matches(known, who.secret):
            raise not_permitted(
                f"session {who.session!r} was opened with a secret; "
                "give the same one in hello, or choose another session name."
            )
        return known

    def enter(self, who: Entrant) -> Session:
        """As :meth:`find`, for a hello: the session is recorded if it is new or has another agent.

        If the person enters a session, its agent stays the same.
        """
        session = self.find(who)
        if not who.control and who.agent not in (None, session.agent):
            session = msgspec.structs.replace(session, agent=who.agent)
        if self.state.sessions.get((who.workspace, who.session)) is not session:
            self.modes.change(SessionOpened(session))
        return session

    def keep(self, session: Session) -> None:
        """Record a session if it is new. Raises Refused."""
        if (session.workspace, session.name) not in self.state.sessions:
            self.modes.change(SessionOpened(session))

    def end(self, workspace: Workspace, name: str) -> EndedSession:
        """End a session: drop all that it holds, deny its pending request. Raises Refused."""
        session = self.state.sessions.get((workspace.name, name))
        if session is None:
            raise invalid(
                f"session_end: there is no session {name!r} in {workspace.root}. "
                "`session_list` lists those that are there.",
            )
        request = None
        asked = latest_of(self.state.upgrades.values(), workspace.name, name)
        if asked is not None and asked.status == PENDING:
            request = decide(asked, False, time=int(self.state.now().wall), note=_ENDED)
        self.modes.change(SessionEnded(workspace.name, name, request))
        fresh = self._new_session(Entrant(workspace.name, name, session.agent, None, False))
        self.modes.session_ended(session, fresh, request)
        return EndedSession(
            session=name,
            workspace=workspace.root,
            clipboards=len(session.clipboards),
            request=request.id if request else None,
            next_mode=self.state.effective_mode(fresh, workspace),
        )

    def drop_idle(self) -> None:
        """Drop idle sessions that need not be kept; called before a checkpoint's snapshot."""
        state = self.state
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

    def _new_session(self, who: Entrant) -> Session:
        now = int(self.state.now().wall)
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
        ceiling = self.state.known[workspace].standing
        return mode_at(self.state.now(), Standing(self.state.settings.default_mode), ceiling)
