"""Requests for write access: made by a session, decided by the person.

A session has at most one pending request: asking again returns it. Asking again after a denial
returns the denied request once; after that, it makes a new one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

PENDING = "pending"
APPROVED = "approved"
DENIED = "denied"
#: Requests of one workspace that may wait for the person at a time.
MOST_PENDING = 100
#: Decided requests that are kept, of all workspaces together; the oldest go first.
MOST_DECIDED = 200
#: Digits of an id that are needed, at least, to name a request.
SHORTEST_PREFIX = 4


class UpgradeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request. Times are in seconds since the epoch. Part of the journal's format.

    ``note`` is the person's; ``until``: the end of the access that was approved; ``told``: the
    session has learned that it was denied, so asking again makes a new request.
    """

    id: str
    workspace: str
    session: str
    time: int
    agent: str | None = None
    reason: str = ""
    status: str = PENDING
    note: str = ""
    decided: int | None = None
    until: float | None = None
    told: bool = False


def pending_in(requests: Iterable[UpgradeRequest], workspace: str) -> list[UpgradeRequest]:
    """The pending requests of a workspace, oldest first."""
    return [each for each in requests if each.workspace == workspace and each.status == PENDING]


def latest_of(
    requests: Iterable[UpgradeRequest], workspace: str, session: str
) -> UpgradeRequest | None:
    """The newest request of a session."""
    own = [each for each in requests if (each.workspace, each.session) == (workspace, session)]
    return own[-1] if own else None


def decide(
    request: UpgradeRequest, approve: bool, *, time: int, note: str, until: float | None = None
) -> UpgradeRequest:
    """The request with the person's decision."""
    assert request.status == PENDING, "BUG: a request is decided once"
    status = APPROVED if approve else DENIED
    return msgspec.structs.replace(request, status=status, note=note, decided=time, until=until)


def without_old(requests: Mapping[str, UpgradeRequest]) -> dict[str, UpgradeRequest]:
    """The requests by id, oldest first, without decided ones above MOST_DECIDED."""
    decided = [each for each in requests.values() if each.status != PENDING]
    decided.sort(key=lambda each: each.decided or 0)
    gone = {each.id for each in decided[:-MOST_DECIDED]}
    return {name: each for name, each in requests.items() if name not in gone}


def matching(requests: Mapping[str, UpgradeRequest], prefix: str) -> list[UpgradeRequest]:
    """The requests whose id this is, or begins with."""
    if prefix in requests:
        return [requests[prefix]]
    if len(prefix) < SHORTEST_PREFIX:
        return []
    return [each for name, each in requests.items() if name.startswith(prefix)]
