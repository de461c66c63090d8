"""Methods for clipboards and sessions: ``clipboard_*``, ``session_list``, ``session_end``."""

from __future__ import annotations

from stet.wire.failures import Kind, refuse
from stet.wire.results import (
    ClipboardInfo,
    ClipboardList,
    ClipboardName,
    ClipboardText,
    EndedSession,
    SessionInfo,
    SessionList,
)
from stetd.history.commits import rfc3339
from stetd.methods.caller import Caller
from stetd.parameters import (
    ClipboardKey,
    ClipboardSetting,
    NoParams,
    OneWorkspace,
    SessionEnding,
    check_label,
)
from stetd.session.sessions import check_clipboards
from stetd.storage.journal_format import ClipboardSet


def clipboard_list(caller: Caller, _: NoParams) -> ClipboardList:
    """List this session's clipboards."""
    return ClipboardList(
        [
            ClipboardInfo(name, len(text.encode()), _count_lines(text))
            for name, text in sorted(caller.require_session().clipboards.items())
        ]
    )


def clipboard_get(caller: Caller, wanted: ClipboardKey) -> ClipboardText:
    """Return the text of a clipboard."""
    clipboards = caller.require_session().clipboards
    if wanted.name not in clipboards:
        known = ", ".join(sorted(clipboards)) or "none"
        raise refuse(
            Kind.MISSING_CLIPBOARD,
            f"there is no clipboard {wanted.name!r} in this session. "
            f"Clipboards that exist: {known}.",
        )
    return ClipboardText(wanted.name, clipboards[wanted.name])


def clipboard_set(caller: Caller, setting: ClipboardSetting) -> ClipboardName:
    """Set a clipboard's text."""
    check_label("the clipboard name", setting.name)
    return _set_clipboard(caller, setting.name, setting.text)


def clipboard_delete(caller: Caller, wanted: ClipboardKey) -> ClipboardName:
    """Remove a clipboard."""
    clipboard_get(caller, wanted)
    return _set_clipboard(caller, wanted.name, None)


def _set_clipboard(caller: Caller, name: str, text: str | None) -> ClipboardName:
    session = caller.require_session()
    if text is not None:  # removing works also above a limit that was lowered since
        check_clipboards(session, {name: text}, caller.state.settings.max_clipboard_bytes)
    caller.shared.writer.sessions.keep(session)
    caller.shared.writer.change(ClipboardSet(session.workspace, session.name, name, text))
    return ClipboardName(name)


def _count_lines(text: str) -> int:
    return text.count("\n") + (not text.endswith("\n")) if text else 0


def session_list(caller: Caller, wanted: OneWorkspace) -> SessionList:
    """List the sessions of open workspaces."""
    state, root = caller.state, wanted.workspace
    only = None if root is None else caller.workspace_at(root).name
    infos = []
    for session in state.sessions.values():
        workspace = state.open.get(session.workspace)
        if workspace is None or only not in (None, workspace.name):
            continue
        modes = state.modes(session, workspace.name)
        infos.append(
            SessionInfo(
                session=session.name,
                workspace=workspace.root,
                agent=session.agent,
                mode=modes.mode,
                created=rfc3339(session.created),
                last_seen=rfc3339(session.last_seen),
                commits=session.commits,
                until=modes.until,
            )
        )
    return SessionList(sorted(infos, key=lambda each: (each.workspace, each.created, each.session)))


def session_end(caller: Caller, wanted: SessionEnding) -> EndedSession:
    """End a session."""
    workspace = caller.workspace_at(wanted.workspace)
    return caller.shared.writer.sessions.end(workspace, wanted.session)
