"""Who may write: modes of sessions and workspaces, and requests for write access."""

from __future__ import annotations

import math
import shlex
from contextlib import suppress

from stet.wire.failures import Kind, refuse
from stet.wire.results import ModeResult, UpgradeInfo, UpgradeList, UpgradeResult
from stetd import parameters
from stetd.methods.caller import Caller, Wait, wait_within
from stetd.parameters import ModeSetting, invalid, not_permitted
from stetd.session import upgrades
from stetd.session.modes import (
    MODES,
    RESTRICTED,
    UNRESTRICTED,
    Standing,
    grant_end,
    mode_at,
    with_grant,
)
from stetd.session.sessions import Session
from stetd.session.upgrades import APPROVED, DENIED, PENDING, SHORTEST_PREFIX, UpgradeRequest
from stetd.state.state import time_text
from stetd.state.workspace import Workspace

_STATUS_MESSAGES = {
    PENDING: "The person has been asked and has not decided yet. Reading works meanwhile; ask "
    "again with wait (seconds) to wait for the decision.",
    APPROVED: "This session may write.",
    DENIED: "The person said no: do not try to write by other means. Ask again only if "
    "something has changed.",
}
#: Seconds that a restriction by the person waits for calls that have changed nothing yet.
_RESTRICT_TIMEOUT_S = 5.0


def mode_get(caller: Caller, _: parameters.NoParams) -> ModeResult:
    """Return the mode that holds for this session."""
    session = caller.current_session()
    return caller.state.modes(session, caller.open_workspace().name)


async def mode_set(caller: Caller, setting: ModeSetting) -> ModeResult:
    """Set the mode of a session or a workspace."""
    if setting.mode not in MODES:
        raise invalid(f"mode_set: mode {setting.mode!r} is none of {', '.join(MODES)}.")
    if setting.scope not in (None, "session", "workspace"):
        raise invalid("mode_set: scope is 'session' (the default) or 'workspace'.")
    if setting.scope == "workspace" and setting.session is not None:
        raise invalid(
            "mode_set: session names the one whose mode is set, scope 'workspace' sets that of "
            "all. Leave one of them out."
        )
    own = setting.session in (None, caller.session) and setting.workspace is None
    restricts = setting.mode == RESTRICTED
    if not caller.control and not (restricts and own and setting.scope != "workspace"):
        raise not_permitted(
            "an agent may only set its own session to restricted. Use request_mode_upgrade "
            "to ask for write access; the person decides."
        )
    if setting.for_ is not None and restricts:
        raise invalid(
            "mode_set: for goes with mode 'unrestricted': a grant ends by itself, a restriction "
            "stays until it is lifted. Leave for out."
        )
    # A change of mode waits for all calls in flight. A restriction does not wait for calls that
    # take long to plan: those that have changed nothing by then are refused.
    within = _RESTRICT_TIMEOUT_S if caller.control and restricts else math.inf
    return await caller.on_writer(lambda: _set_mode(caller, setting), after_all=True, within=within)


def _set_mode(caller: Caller, setting: ModeSetting) -> ModeResult:
    workspace = caller.workspace_at(setting.workspace)
    state, writer = caller.state, caller.shared.writer
    if setting.scope == "workspace":
        now = state.known[workspace.name].standing
        writer.modes.set(workspace, None, _new_standing(caller, setting, now, "workspace"))
        changed = caller.current_session() if workspace.name == caller.workspace else None
    else:
        session = _session(caller, setting, workspace)
        standing = _new_standing(caller, setting, session.standing, "session")
        writer.sessions.keep(session)
        writer.modes.set(workspace, session, standing)
        changed = state.sessions[workspace.name, session.name]
    writer.refuse_held()
    return state.modes(changed, workspace.name)


def _session(caller: Caller, setting: ModeSetting, workspace: Workspace) -> Session:
    name = setting.session or caller.session
    if (workspace.name, name) == (caller.workspace, caller.session):
        session = caller.current_session()
    else:
        session = caller.state.sessions.get((workspace.name, name)) if name else None
    if session is None:
        raise invalid(
            f"mode_set: there is no session {repr(name) if name else 'of this connection'} in this "
            "workspace. Name one with session, or use scope: 'workspace' for all of them."
        )
    return session


def _new_standing(caller: Caller, setting: ModeSetting, now: Standing, what: str) -> Standing:
    if setting.for_ is None:
        return Standing(setting.mode)
    if now.mode == UNRESTRICTED:
        raise invalid(
            f"mode_set: the {what} is unrestricted already, and without an end; when a grant "
            "ends, the mode before it returns, so nothing would end. Set mode 'restricted' first."
        )
    return with_grant(now, setting.for_, caller.state.now())


async def request_mode_upgrade(caller: Caller, asking: parameters.UpgradeAsking) -> UpgradeResult:
    """Ask for write access; with ``wait`` also wait for the decision."""

    def ask() -> tuple[UpgradeResult, Wait | None]:
        if asking.wait:
            caller.end_wait()
        answer = _ask(caller, asking)
        waits = asking.wait and answer.status == PENDING
        # In the same step of the loop, so that no decision is missed.
        return answer, caller.begin_wait(answer.request or "") if waits else None

    answer, wait = await caller.on_writer(ask)
    if wait is None:
        return answer
    decided = None
    with suppress(TimeoutError):
        decided = await wait_within(asking.wait, wait.decision)
    if decided is None:
        return answer
    await caller.on_writer(lambda: caller.shared.writer.modes.note_denial_seen(decided))
    return _upgrade_result(decided)


def _ask(caller: Caller, asking: parameters.UpgradeAsking) -> UpgradeResult:
    session, workspace = caller.require_session(), caller.open_workspace()
    state = caller.state
    now, standings = state.now(), state.standings(session, workspace.name)
    if mode_at(now, *standings) != RESTRICTED:
        known = upgrades.latest_of(state.upgrades.values(), workspace.name, session.name)
        if known and (known.status != APPROVED or known.time < session.created):
            known = None  # older than this session: an earlier one of the same name asked
        return UpgradeResult(
            known.id if known else None,
            APPROVED,
            note=known.note if known else "",
            until=time_text(grant_end(now, *standings)),
            message="This session may write already; there is nothing to ask for.",
        )
    caller.shared.writer.sessions.keep(session)
    request = caller.shared.writer.modes.ask(workspace, session, asking.reason)
    return _upgrade_result(request)


def _upgrade_result(request: UpgradeRequest) -> UpgradeResult:
    return UpgradeResult(
        request.id,
        request.status,
        note=request.note,
        until=time_text(request.until),
        message=_STATUS_MESSAGES[request.status],
    )


def upgrade_list(caller: Caller, wanted: parameters.UpgradeListing) -> UpgradeList:
    """List requests for write access."""
    root = wanted.workspace
    only = None if root is None else caller.workspace_at(root).name
    return UpgradeList(
        [
            caller.shared.writer.modes.info(request)
            for request in caller.state.upgrades.values()
            if only in (None, request.workspace) and wanted.status in (None, request.status)
        ]
    )


def upgrade_decide(caller: Caller, deciding: parameters.UpgradeDeciding) -> UpgradeInfo:
    """Approve or deny a request for write access."""
    if deciding.for_ is not None and not deciding.approve:
        raise invalid("upgrade_decide: for is how long an approval holds; leave it out to deny.")
    request = _find_request(caller, deciding)
    if request.status != PENDING:
        when = f" at {time_text(request.decided)}" if request.decided else ""
        root = caller.state.known[request.workspace].root
        raise invalid(
            f"upgrade_decide: request {request.id} was {request.status} already{when}. The mode of "
            "its session is set with mode_set; on the command line: stet mode restricted|"
            f"unrestricted --session {shlex.quote(request.session)} -C {shlex.quote(root)}"
        )
    modes, note = caller.shared.writer.modes, deciding.note or ""
    if deciding.approve:
        decided = modes.approve(request, note=note, seconds=deciding.for_)
    else:
        decided = modes.deny(request, note=note)
    return modes.info(decided)


def _find_request(caller: Caller, deciding: parameters.UpgradeDeciding) -> UpgradeRequest:
    """The request with this id, or with this unique prefix of an id. Raises Refused."""
    prefix = deciding.request
    found = upgrades.matching(caller.state.upgrades, prefix)
    if deciding.workspace is not None:
        name = caller.workspace_at(deciding.workspace).name
        found = [each for each in found if each.workspace == name]
    if len(found) == 1:
        return found[0]
    what = f"there is no request {prefix!r}"
    if found:
        what = f"{prefix!r} may mean any of {', '.join(each.id for each in found[:10])}"
    raise refuse(
        Kind.UNKNOWN_REQUEST,
        f"upgrade_decide: {what}. Send an id, or a unique beginning of at least "
        f"{SHORTEST_PREFIX} digits; upgrade_list lists them.",
    )
