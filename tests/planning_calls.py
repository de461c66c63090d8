"""Calls for a planner, in a workspace that a test has made."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stetd.planning.planner import Planning
from stetd.planning.world import CallLimits, EditCall

LIMITS = CallLimits(file_bytes=256 << 20, files=100, bytes=1 << 30)


def planning(
    root: Path, method: str, params: Mapping[str, Any], clipboards: Mapping[str, str] | None = None
) -> Planning:
    """What a planner is asked to plan: one call of a session in the workspace's root."""
    call = EditCall(
        workspace="w",
        method=method,
        params=dict(params),
        session="conv-1",
        directory="",
        agent=None,
        peer=None,
        control=False,
        request="r",
        once=False,
        digest=b"",
    )
    return Planning(root=str(root), call=call, clipboards=dict(clipboards or {}), limits=LIMITS)
