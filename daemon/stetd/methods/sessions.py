"""Which sessions there are, and ending one; for the person."""

from __future__ import annotations

from stet.wire.results import EndedSession, SessionInfo, SessionList
from stetd.history.commits import rfc3339
from stetd.methods.caller import Caller, Method, Params
from stetd.session.modes import Instant, until
from stetd.session.sessions import Session
from stetd.transaction.parameters import SessionEnding, SessionListing, convert


async def _session_list(caller: Caller, params: Params) -> SessionList:
    wanted = convert(SessionListing, "session_list", params)
    if not caller.greeted and wanted.workspace is None:  # sessions are of all workspaces
        caller.check_greeted("session_list")
    return await caller.on_writer(lambda: _list(caller, wanted.workspace))


def _list(caller: Caller, root: str | None) -> SessionList:
    """Sessions of workspaces that are not open now are left out."""
    state = caller.state
    only = None if root is None else caller.named_workspace(root).name
    infos = []
    for session in state.sessions.values():
        workspace = state.open.get(session.workspace)
        if workspace is None or only not in (None, workspace.name):
            continue
        infos.append(
            SessionInfo(
                session=session.name,
                workspace=workspace.root,
                agent=session.agent,
                mode=state.effective_mode(session, workspace),
                created=rfc3339(session.created),
                last_seen=rfc3339(session.last_seen),
                commits=session.commits,
                until=_ends(session, state.now()),
            )
        )
    return SessionList(sorted(infos, key=lambda each: (each.workspace, each.created, each.session)))


def _ends(session: Session, now: Instant) -> str | None:
    end = until(session.standing, now)
    return rfc3339(int(end)) if end is not None else None


async def _session_end(caller: Caller, params: Params) -> EndedSession:
    wanted = convert(SessionEnding, "session_end", params)
    # After all: what was sent before the end was sent in the session that ends.
    return await caller.on_writer(lambda: _end(caller, wanted), after_all=True)


def _end(caller: Caller, wanted: SessionEnding) -> EndedSession:
    workspace = caller.named_workspace(wanted.workspace)
    ended = caller.shared.writer.sessions.end(workspace, wanted.session)
    return EndedSession(
        session=wanted.session,
        workspace=workspace.root,
        clipboards=len(ended.session.clipboards),
        request=ended.request.id if ended.request else None,
        next_mode=caller.state.effective_mode(ended.fresh, workspace),
    )


METHODS = {
    "session_list": Method(_session_list, control=True, before_hello=True),
    "session_end": Method(_session_end, control=True),
}
