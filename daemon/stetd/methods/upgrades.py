"""Asking for write access, and deciding about it."""

from __future__ import annotations

from stet.wire.failures import Kind, refuse
from stet.wire.results import UpgradeInfo, UpgradeList, UpgradeResult
from stetd.history.commits import rfc3339
from stetd.methods.caller import Caller
from stetd.session.modes import RESTRICTED, until
from stetd.session.upgrades import (
    APPROVED,
    DENIED,
    PENDING,
    SHORTEST_PREFIX,
    UpgradeRequest,
    latest_of,
    matching,
)
from stetd.state.decisions import Wait
from stetd.transaction.parameters import UpgradeAsking, UpgradeDeciding, UpgradeListing, invalid

_SAID = {
    PENDING: "The person has been asked and has not decided yet. Reading works meanwhile; ask "
    "again with wait (seconds) to wait for the decision.",
    APPROVED: "This session may write.",
    DENIED: "The person said no: do not try to write by other means. Ask again only if "
    "something has changed.",
}


async def request_mode_upgrade(caller: Caller, asking: UpgradeAsking) -> UpgradeResult:
    """Ask for write access, and wait for the decision if that is wanted."""
    wait = Wait() if asking.wait else None
    if wait is not None:
        caller.wait_with(wait)
    answer = await caller.on_writer(lambda: _ask(caller, asking, wait))
    if wait is None or answer.status != PENDING or caller.shared.waits.stopping:
        return answer
    assert answer.request is not None, "BUG: a pending request without an id"
    try:
        decided = await wait.result(asking.wait or 0)
    finally:
        caller.shared.waits.discard(answer.request, wait)
    if decided is None:
        return answer
    await caller.on_writer(lambda: caller.shared.writer.modes.told(decided))
    return _answer(decided)


def _ask(caller: Caller, asking: UpgradeAsking, wait: Wait | None) -> UpgradeResult:
    session, workspace = caller.needs_session(), caller.open_workspace()
    state = caller.state
    if state.effective_mode(session, workspace) != RESTRICTED:
        ends = [until(each.standing, state.now()) for each in (session, workspace)]
        known = latest_of(state.upgrades.values(), workspace.name, session.name)
        if known and (known.status != APPROVED or known.time < session.created):
            known = None  # or it was another session of this name that asked
        return UpgradeResult(
            known.id if known else None,
            APPROVED,
            note=known.note if known else "",
            until=_time(min((each for each in ends if each is not None), default=None)),
            message="This session may write already; there is nothing to ask for.",
        )
    caller.shared.writer.sessions.keep(session)
    request = caller.shared.writer.modes.ask(workspace, session, asking.reason)
    if wait is not None:
        caller.shared.waits.add(request.id, wait)
    return _answer(request)


def _answer(request: UpgradeRequest) -> UpgradeResult:
    return UpgradeResult(
        request.id,
        request.status,
        note=request.note,
        until=_time(request.until),
        message=_SAID[request.status],
    )


def upgrade_list(caller: Caller, wanted: UpgradeListing) -> UpgradeList:
    """List requests."""
    only = None
    if wanted.workspace is not None:
        only = caller.named_workspace(wanted.workspace).name
    return UpgradeList(
        [
            _info(caller, request)
            for request in caller.state.upgrades.values()
            if only in (None, request.workspace) and wanted.status in (None, request.status)
        ]
    )


def upgrade_decide(caller: Caller, deciding: UpgradeDeciding) -> UpgradeInfo:
    """Approve or deny a request."""
    if deciding.for_ is not None and not deciding.approve:
        raise invalid("upgrade_decide: for is how long an approval holds; leave it out to deny.")
    request = _meant(caller, deciding)
    if request.status != PENDING:
        when = f" at {_time(request.decided)}" if request.decided else ""
        raise invalid(
            f"upgrade_decide: request {request.id} was {request.status} already{when}. The mode of "
            "its session is set with mode_set; on the command line: stet mode restricted|"
            "unrestricted --session NAME."
        )
    modes, note = caller.shared.writer.modes, deciding.note or ""
    if deciding.approve:
        decided = modes.approve(request, note=note, seconds=deciding.for_)
    else:
        decided = modes.deny(request, note=note)
    return _info(caller, decided)


def _meant(caller: Caller, deciding: UpgradeDeciding) -> UpgradeRequest:
    """The request that an id, or the unique beginning of one, names. Raises Refused."""
    prefix = deciding.request
    found = matching(caller.state.upgrades, prefix)
    if deciding.workspace is not None:
        name = caller.named_workspace(deciding.workspace).name
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


def _info(caller: Caller, request: UpgradeRequest) -> UpgradeInfo:
    return UpgradeInfo(
        request=request.id,
        workspace=caller.state.known[request.workspace].root,
        session=request.session,
        agent=request.agent,
        reason=request.reason,
        time=rfc3339(request.time),
        status=request.status,
        note=request.note,
        decided=_time(request.decided),
        until=_time(request.until),
    )


def _time(seconds: float | None) -> str | None:
    return None if seconds is None else rfc3339(int(seconds))
