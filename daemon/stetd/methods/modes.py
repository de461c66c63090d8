"""Who may write: the mode of a session and of a workspace."""

from __future__ import annotations

import msgspec

from stet.wire.events import ModeEvent
from stet.wire.failures import Kind, refuse
from stet.wire.results import ModeResult
from stetd.caller import Caller, Method, Params
from stetd.events import ModeChanged
from stetd.params import ModeSetting, NoParams, convert, not_permitted
from stetd.session.sessions import MODES, RESTRICTED, Session
from stetd.storage.journal_format import ModeSet
from stetd.workspace import Workspace


async def _mode_get(caller: Caller, params: Params) -> ModeResult:
    convert(NoParams, "mode_get", params)
    return await caller.on_writer(
        lambda: _result(caller, caller.own_session(), caller.open_workspace())
    )


async def _mode_set(caller: Caller, params: Params) -> ModeResult:
    setting = convert(ModeSetting, "mode_set", params)
    if setting.mode not in MODES:
        raise refuse(
            Kind.INVALID_PARAMS,
            f"mode_set: mode {setting.mode!r} is none of {', '.join(MODES)}.",
        )
    if setting.scope not in (None, "session", "workspace"):
        raise refuse(
            Kind.INVALID_PARAMS, "mode_set: scope is 'session' (the default) or 'workspace'."
        )
    if not caller.control:
        _check_agent_may_set(caller, setting)
    return await caller.on_writer(lambda: _set_mode(caller, setting), after_all=True)


def _check_agent_may_set(caller: Caller, setting: ModeSetting) -> None:
    own = setting.session in (None, caller.session) and setting.workspace is None
    if setting.mode != RESTRICTED or setting.scope == "workspace" or not own:
        raise not_permitted(
            "an agent may only set its own session to restricted. Use request_mode_upgrade "
            "to ask for write access; the person decides."
        )


def _set_mode(caller: Caller, setting: ModeSetting) -> ModeResult:
    state = caller.state
    workspace = caller.named_workspace(setting.workspace)
    if setting.scope == "workspace":
        caller.shared.writer.record(ModeSet(workspace.name, None, setting.mode))
        workspace.mode = setting.mode
        _tell(caller, workspace, None)
        return _result(caller, caller.own_session(), workspace)
    name = setting.session or caller.session
    session = state.sessions.get((workspace.name, name)) if name else None
    if session is None:
        raise refuse(
            Kind.INVALID_PARAMS,
            f"mode_set: there is no session {name!r} in this workspace. "
            "Name one with session, or use scope: 'workspace' for all of them.",
        )
    caller.shared.writer.record(ModeSet(workspace.name, session.name, setting.mode))
    session = msgspec.structs.replace(session, mode=setting.mode)
    state.sessions[workspace.name, session.name] = session
    _tell(caller, workspace, session)
    return _result(caller, session, workspace)


def _tell(caller: Caller, workspace: Workspace, session: Session | None) -> None:
    """Let subscribers know that a mode was set; on the writer thread."""
    event = ModeEvent(
        workspace=workspace.root,
        session=session.name if session else None,
        mode=caller.state.effective_mode(session, workspace),
        session_mode=session.mode if session else None,
        workspace_mode=workspace.mode,
    )
    caller.shared.writer.events.tell(ModeChanged(workspace.name, event))


def _result(caller: Caller, session: Session | None, workspace: Workspace) -> ModeResult:
    """The mode that holds, and those it is made of; on the writer thread."""
    return ModeResult(
        mode=caller.state.effective_mode(session, workspace),
        session_mode=session.mode if session else None,
        workspace_mode=workspace.mode,
    )


METHODS = {
    "mode_get": Method(_mode_get),
    "mode_set": Method(_mode_set),
}
