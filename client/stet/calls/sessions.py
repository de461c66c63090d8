"""Calls about a session: its clipboards, its mode, and asking for another one."""

from __future__ import annotations

from typing import Literal

from stet.calls.call import Call, given
from stet.wire.results import (
    ClipboardList,
    ClipboardName,
    ClipboardText,
    EndedSession,
    ModeResult,
    SessionList,
    UpgradeInfo,
    UpgradeList,
    UpgradeResult,
)


def session_list(*, workspace: str | None = None) -> Call[SessionList]:
    """Sessions of all workspaces, or of the one with this root (control)."""
    return Call("session_list", given(workspace=workspace), SessionList)


def session_end(session: str, *, workspace: str | None = None) -> Call[EndedSession]:
    """End a session: its clipboards, mode, grants, secret and pending request go (control).

    Its commits stay. ``workspace``: its root, by default the connection's own.
    """
    # Not repeatable: the second arrival might end one that was opened meanwhile.
    params = given(session=session, workspace=workspace)
    return Call("session_end", params, EndedSession, repeatable=False)


def clipboard_list() -> Call[ClipboardList]:
    """The session's clipboards: names and sizes."""
    return Call("clipboard_list", {}, ClipboardList)


def clipboard_get(name: str) -> Call[ClipboardText]:
    """A clipboard's text. Raises MissingClipboard."""
    return Call("clipboard_get", {"name": name}, ClipboardText)


def clipboard_set(name: str, text: str) -> Call[ClipboardName]:
    """Put text into a clipboard, which is created if it is missing."""
    return Call("clipboard_set", {"name": name, "text": text}, ClipboardName)


def clipboard_delete(name: str) -> Call[ClipboardName]:
    """Remove a clipboard. Raises MissingClipboard."""
    # Not repeatable: the second arrival would be refused as missing.
    return Call("clipboard_delete", {"name": name}, ClipboardName, repeatable=False)


def mode_get() -> Call[ModeResult]:
    """The mode of the session, of its workspace, and the stricter of both."""
    return Call("mode_get", {}, ModeResult)


def mode_set(
    mode: Literal["restricted", "unrestricted"],
    *,
    session: str | None = None,
    scope: Literal["workspace"] | None = None,
    workspace: str | None = None,
    for_: float | None = None,
) -> Call[ModeResult]:
    """Set a session's mode, or with ``scope="workspace"`` the ceiling of all sessions.

    An agent may only restrict its own session. ``for_`` is the length in seconds of a
    grant that ends by itself: then the mode before returns. Answers once calls in flight have
    finished.
    """
    params = given(mode=mode, session=session, scope=scope, workspace=workspace)
    return Call("mode_set", params | ({} if for_ is None else {"for": for_}), ModeResult)


def request_mode_upgrade(
    reason: str | None = None, *, wait: float | None = None
) -> Call[UpgradeResult]:
    """Ask the person for write access, in Restricted mode; says whether they have decided.

    ``reason``: what for, as the person reads it. ``wait``: so many seconds for the decision, at
    most. Asked again while the request is pending, it is the same one. ``status`` of the result is
    pending, approved or denied, and ``message`` the text for a model.
    """
    params = given(reason=reason, wait=wait)
    return Call("request_mode_upgrade", params, UpgradeResult, wait=wait or 0.0)


def upgrade_list(
    *,
    workspace: str | None = None,
    status: Literal["pending", "approved", "denied"] | None = None,
) -> Call[UpgradeList]:
    """Requests for write access, of all workspaces or one, oldest first (control)."""
    return Call("upgrade_list", given(workspace=workspace, status=status), UpgradeList)


def upgrade_decide(
    request: str,
    approve: bool,
    *,
    note: str | None = None,
    for_: float | None = None,
    workspace: str | None = None,
) -> Call[UpgradeInfo]:
    """Approve or deny a request for write access, by its id or a unique beginning (control).

    ``note`` is told to the agent. ``for_``: the seconds after which an approval ends.
    ``workspace``: its root, where the request's id alone would not be unique.
    """
    params = given(request=request, approve=approve, note=note, workspace=workspace)
    params |= {} if for_ is None else {"for": for_}
    return Call("upgrade_decide", params, UpgradeInfo, repeatable=False)
