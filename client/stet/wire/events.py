"""Events as typed values: the ``params`` of the notifications that ``subscribe`` asks for.

Commit events come in the order of the history, each with its parent, so that a reader notices a
missing one. A ``lost`` event stands in place of events that were dropped because the subscriber did
not read them in time. Readers must ignore unknown events.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from stet.wire.first_use import known_to_msgspec
from stet.wire.results import CommitInfo, UpgradeInfo

#: The events that can be subscribed to.
EVENTS = ("commit", "mode", "upgrade_request")


class CommitEvent(msgspec.Struct, frozen=True, tag_field="event", tag="commit", omit_defaults=True):
    """A commit was made in the workspace with this root. ``files_left_out``: how many of its files
    are not listed, because there are too many; ``show`` lists them all.
    """

    workspace: str
    commit: CommitInfo
    files_left_out: int = 0


class ModeEvent(msgspec.Struct, frozen=True, tag_field="event", tag="mode", omit_defaults=True):
    """The mode of a session, or of a workspace (``session`` None), was set, or a grant ended.
    ``mode`` is the mode that holds: the stricter of the other two. ``until``: when a grant ends
    and ``mode`` is restricted again.
    """

    workspace: str
    session: str | None
    mode: str
    session_mode: str | None
    workspace_mode: str
    until: str | None = None


class UpgradeRequestEvent(
    UpgradeInfo, frozen=True, tag_field="event", tag="upgrade_request", omit_defaults=True
):
    """A session asks for write access, or its request was decided."""


class LostEvent(msgspec.Struct, frozen=True, tag_field="event", tag="lost"):
    """``count`` events are missing here; None: an unknown number."""

    count: int | None


AnyEvent = CommitEvent | ModeEvent | UpgradeRequestEvent | LostEvent


class Subscribed(msgspec.Struct, frozen=True):
    """The answer to ``subscribe``. ``heads`` has the newest commit of each workspace, by its root;
    every later commit will come as an event. ``head`` is that of the connection's own workspace.
    """

    events: list[str]
    head: str | None
    heads: dict[str, str | None]


def read_event(params: Mapping[str, Any]) -> AnyEvent | None:
    """A notification's params as a typed value; None for an event that this version does not know.
    Raises msgspec.ValidationError for a known event of another shape.
    """
    if params.get("event") not in (*EVENTS, "lost"):
        return None
    event: AnyEvent = msgspec.convert(params, known_to_msgspec(AnyEvent))
    return event
