"""Requests for write access: asked by a session, decided by the person.

A session has at most one request that is pending; asked again, it is the same one. Asked again
after a denial, it learns that once; after that, asking makes a new request.
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
#: Least number of digits by which an id names a request.
SHORTEST_PREFIX = 4


class UpgradeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request, with times in seconds since the epoch. Part of the journal's format.

    ``note`` is the person's; ``until``: the end of what was approved; ``told``: the session knows
    that it was denied, so it may ask again.
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
    """The requests of a workspace that wait for a decision, oldest first."""
    return [each for each in requests if each.workspace == workspace and each.status == PENDING]


def latest_of(
    requests: Iterable[UpgradeRequest], workspace: str, session: str
) -> UpgradeRequest | None:
    """What a session has asked last."""
    own = [each for each in requests if (each.workspace, each.session) == (workspace, session)]
    return own[-1] if own else None


def decide(
    request: UpgradeRequest, approve: bool, *, time: int, note: str, until: float | None = None
) -> UpgradeRequest:
    """The request as it is once the person has decided."""
    assert request.status == PENDING, "BUG: a request is decided once"
    status = APPROVED if approve else DENIED
    return msgspec.structs.replace(request, status=status, note=note, decided=time, until=until)


def kept(requests: Mapping[str, UpgradeRequest]) -> dict[str, UpgradeRequest]:
    """The requests that are kept, by their id and oldest first."""
    decided = [each for each in requests.values() if each.status != PENDING]
    decided.sort(key=lambda each: each.decided or 0)
    gone = {each.id for each in decided[:-MOST_DECIDED]}
    return {name: each for name, each in requests.items() if name not in gone}


def matching(requests: Mapping[str, UpgradeRequest], prefix: str) -> list[UpgradeRequest]:
    """The requests that an id or the beginning of one may mean."""
    if prefix in requests:
        return [requests[prefix]]
    if len(prefix) < SHORTEST_PREFIX:
        return []
    return [each for name, each in requests.items() if name.startswith(prefix)]
