"""Who may write: the mode of a session and of a workspace."""

from __future__ import annotations

import math

from stet.wire.results import ModeResult
from stetd.history.commits import rfc3339
from stetd.methods.caller import Caller
from stetd.session.modes import (
    MODES,
    RESTRICTED,
    NothingToEnd,
    Standing,
    granted,
    mode_at,
    stricter,
    until,
)
from stetd.session.sessions import Session
from stetd.state.workspace import Workspace
from stetd.transaction.parameters import ModeSetting, NoParams, invalid, not_permitted

#: Seconds for which a person's restriction waits for calls that have changed nothing yet.
_RESTRICTS_WITHIN_S = 5.0


def mode_get(caller: Caller, _: NoParams) -> ModeResult:
    """Give the mode that holds for this session."""
    return _result(caller, caller.own_session(), caller.open_workspace())


async def mode_set(caller: Caller, setting: ModeSetting) -> ModeResult:
    """Set the mode of a session or a workspace."""
    if setting.mode not in MODES:
        raise invalid(f"mode_set: mode {setting.mode!r} is none of {', '.join(MODES)}.")
    if setting.scope not in (None, "session", "workspace"):
        raise invalid("mode_set: scope is 'session' (the default) or 'workspace'.")
    if not caller.control:
        _check_agent_may_set(caller, setting)
    if setting.for_ is not None and setting.mode == RESTRICTED:
        raise invalid(
            "mode_set: for goes with mode 'unrestricted': a grant ends by itself, a restriction "
            "stays until it is lifted. Leave for out."
        )
    # A change waits for all calls in flight. Those that take long to plan do not put off a
    # restriction: they are refused if they have changed nothing by then.
    restricts = caller.control and setting.mode == RESTRICTED
    within = _RESTRICTS_WITHIN_S if restricts else math.inf
    return await caller.on_writer(lambda: _set_mode(caller, setting), after_all=True, within=within)


def _check_agent_may_set(caller: Caller, setting: ModeSetting) -> None:
    own = setting.session in (None, caller.session) and setting.workspace is None
    if setting.mode != RESTRICTED or setting.scope == "workspace" or not own:
        raise not_permitted(
            "an agent may only set its own session to restricted. Use request_mode_upgrade "
            "to ask for write access; the person decides."
        )


def _set_mode(caller: Caller, setting: ModeSetting) -> ModeResult:
    workspace = caller.named_workspace(setting.workspace)
    modes = caller.shared.writer.modes
    if setting.scope == "workspace":
        modes.set(workspace, None, _standing(caller, setting, workspace.standing, "workspace"))
        changed = caller.own_session()
    else:
        session = _session(caller, setting, workspace)
        standing = _standing(caller, setting, session.standing, "session")
        caller.shared.writer.sessions.keep(session)
        modes.set(workspace, session, standing)
        changed = caller.state.sessions[workspace.name, session.name]
    caller.shared.writer.refuse_held()
    return _result(caller, changed, workspace)


def _session(caller: Caller, setting: ModeSetting, workspace: Workspace) -> Session:
    name = setting.session or caller.session
    if (workspace.name, name) == (caller.workspace, caller.session):
        session = caller.own_session()
    else:
        session = caller.state.sessions.get((workspace.name, name)) if name else None
    if session is None:
        raise invalid(
            f"mode_set: there is no session {name!r} in this workspace. "
            "Name one with session, or use scope: 'workspace' for all of them."
        )
    return session


def _standing(caller: Caller, setting: ModeSetting, now: Standing, what: str) -> Standing:
    """What the setting makes of a standing. Raises Refused."""
    if setting.for_ is None:
        return Standing(setting.mode)
    try:
        return granted(now, setting.for_, caller.state.now())
    except NothingToEnd:
        raise invalid(
            f"mode_set: the {what} is unrestricted already, and without an end; when a grant "
            "ends, the mode before it returns, so nothing would end. Set mode 'restricted' first."
        ) from None


def _result(caller: Caller, session: Session | None, workspace: Workspace) -> ModeResult:
    """The mode that holds, and those it is made of."""
    now = caller.state.now()
    own = mode_at(session.standing, now) if session else None
    ceiling = mode_at(workspace.standing, now)
    ends = {
        "session_until": until(session.standing, now) if session else None,
        "workspace_until": until(workspace.standing, now),
    }
    mode = stricter(own, ceiling)
    if mode != RESTRICTED:
        ends["until"] = min((end for end in ends.values() if end is not None), default=None)
    told = {name: rfc3339(int(end)) for name, end in ends.items() if end is not None}
    return ModeResult(mode=mode, session_mode=own, workspace_mode=ceiling, **told)
