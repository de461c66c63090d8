"""The session's clipboards. They are in the journal, and outlive the daemon."""

from __future__ import annotations

from stet.wire.failures import Kind, refuse
from stet.wire.results import ClipboardInfo, ClipboardList, ClipboardName, ClipboardText
from stetd.methods.caller import Caller, Method, Params
from stetd.session.sessions import clipboard_bytes, with_clipboards
from stetd.storage.journal_format import ClipboardSet
from stetd.transaction.parameters import (
    ClipboardKey,
    ClipboardSetting,
    NoParams,
    check_label,
    convert,
)


async def _clipboard_list(caller: Caller, params: Params) -> ClipboardList:
    convert(NoParams, "clipboard_list", params)
    clipboards = await caller.on_writer(lambda: caller.needs_session().clipboards)
    return ClipboardList(
        [
            ClipboardInfo(name, len(text.encode()), _count_lines(text))
            for name, text in sorted(clipboards.items())
        ]
    )


async def _clipboard_get(caller: Caller, params: Params) -> ClipboardText:
    name = convert(ClipboardKey, "clipboard_get", params).name
    text = await caller.on_writer(lambda: _clipboard(caller, name))
    return ClipboardText(name, text)


def _clipboard(caller: Caller, name: str) -> str:
    clipboards = caller.needs_session().clipboards
    if name not in clipboards:
        known = ", ".join(sorted(clipboards)) or "none"
        raise refuse(
            Kind.MISSING_CLIPBOARD,
            f"there is no clipboard {name!r} in this session. Clipboards that exist: {known}.",
        )
    return clipboards[name]


async def _clipboard_set(caller: Caller, params: Params) -> ClipboardName:
    setting = convert(ClipboardSetting, "clipboard_set", params)
    check_label("the clipboard name", setting.name)
    await caller.on_writer(lambda: _set_clipboard(caller, setting.name, setting.text))
    return ClipboardName(setting.name)


async def _clipboard_delete(caller: Caller, params: Params) -> ClipboardName:
    name = convert(ClipboardKey, "clipboard_delete", params).name

    def delete() -> None:
        _clipboard(caller, name)
        _set_clipboard(caller, name, None)

    await caller.on_writer(delete)
    return ClipboardName(name)


def _set_clipboard(caller: Caller, name: str, text: str | None) -> None:
    session = caller.needs_session()
    changed = with_clipboards(session, {name: text})
    size, limit = clipboard_bytes(changed.clipboards), caller.shared.settings.max_clipboard_bytes
    if size > limit:
        raise refuse(
            Kind.INPUT_TOO_LARGE,
            f"the session's clipboards would hold {size:,} bytes, {limit:,} is the most "
            "(max_clipboard_bytes in the configuration); delete some first.",
        )
    caller.shared.writer.sessions.keep(session)
    caller.shared.writer.record(ClipboardSet(session.workspace, session.name, name, text))
    caller.state.sessions[session.workspace, session.name] = changed


def _count_lines(text: str) -> int:
    return text.count("\n") + (not text.endswith("\n")) if text else 0


METHODS = {
    "clipboard_list": Method(_clipboard_list),
    "clipboard_get": Method(_clipboard_get),
    "clipboard_set": Method(_clipboard_set),
    "clipboard_delete": Method(_clipboard_delete),
}
