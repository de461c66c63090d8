"""Calls about the daemon and its workspaces, and what fits nowhere else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from stet.calls.call import Call, given
from stet.wire.events import Subscribed
from stet.wire.results import (
    ReloadResult,
    ShutdownResult,
    StatusResult,
    Tools,
    WorkspaceInfo,
    WorkspaceList,
)


def status() -> Call[StatusResult]:
    """Version, health and counts of the daemon."""
    return Call("status", {}, StatusResult)


def reload() -> Call[ReloadResult]:
    """Let the daemon read its configuration again (control). A wrong file changes nothing."""
    return Call("reload", {}, ReloadResult)


def shutdown() -> Call[ShutdownResult]:
    """Let the daemon end in good order (control). The next call with ``start`` starts another.

    Calls in flight are answered first; later ones are refused (ShuttingDown).
    """
    # Not repeatable: the second arrival would end the daemon that came after.
    return Call("shutdown", {}, ShutdownResult, repeatable=False)


def tools(
    style: Literal["mcp", "openai", "anthropic"] = "mcp",
    *,
    api: Literal["chat", "responses"] | None = None,
    custom: bool = False,
) -> Call[Tools]:
    """The tool definitions for a model, in one vendor's shape.

    With ``style="openai"``: ``api`` chooses the shape of chat completions (if not given) or
    of responses; ``custom`` makes ``apply_patch`` a custom tool with a grammar instead of a
    function.
    """
    return Call("tools", {"style": style} | given(api=api, custom=custom or None), Tools)


def workspace_allow(root: str) -> Call[WorkspaceInfo]:
    """Allow edits below a directory (control). Allowing it again changes nothing."""
    return Call("workspace_allow", {"root": root}, WorkspaceInfo)


def workspace_forget(root: str) -> Call[WorkspaceInfo]:
    """Allow no more edits below a directory (control). Its history is kept."""
    return Call("workspace_forget", {"root": root}, WorkspaceInfo, repeatable=False)


def workspace_list() -> Call[WorkspaceList]:
    """All allowed workspaces (control)."""
    return Call("workspace_list", {}, WorkspaceList)


def subscribe(events: Sequence[str] | None = None) -> Call[Subscribed]:
    """Let the connection be told what happens; ``session.events()`` is what you want."""
    return Call("subscribe", given(events=events), Subscribed)


def request(method: str, params: Mapping[str, Any] | None = None) -> Call[Any]:
    """Any method with params as they go over the wire; the result as plain values.

    Sent again after a lost connection only if the params carry a ``request_id``.
    """
    plain = dict(params or {})
    return Call(method, plain, object, repeatable="request_id" in plain)
