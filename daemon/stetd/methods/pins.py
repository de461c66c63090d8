"""Pins: names that the person gives to commits. The references are the truth about them."""

from __future__ import annotations

import asyncio
from functools import partial

from stet.wire.failures import Kind, Refused, refuse
from stet.wire.results import PinInfo, PinList
from stetd.methods.caller import Caller, Method, Params
from stetd.repository.references import delete_pin, named, pin_names, set_pin, why_no_pin_name
from stetd.repository.rewritten import read_pending
from stetd.repository.shallow import read_shallow
from stetd.state.workspace import Workspace
from stetd.storage.disk import SyncFailed
from stetd.storage.journal_format import Cut
from stetd.transaction.parameters import NoParams, PinName, PinSetting, convert
from stetd.transaction.refusals import io_failure, read_only

#: So often, and so many seconds apart, a commit is looked at while the history is being cut.
_ATTEMPTS, _PAUSE_S = 50, 0.2


async def _pin_set(caller: Caller, params: Params) -> PinInfo:
    setting = convert(PinSetting, "pin_set", params)
    reason = why_no_pin_name(setting.name)
    if reason is not None:
        raise refuse(
            Kind.INVALID_PARAMS, f"pin_set: {setting.name[:100]!r} can't be used: {reason}."
        )

    for _ in range(_ATTEMPTS):
        cut = await caller.on_writer(lambda: caller.place().cut)
        info = await caller.ask("pin", [setting.name, setting.commit], PinInfo)
        if await caller.on_writer(partial(_set, caller, info, cut, move=setting.move)):
            return info
        await asyncio.sleep(_PAUSE_S)
    raise refuse(
        Kind.CONTENDED,
        "pin_set: the oldest commits of the history are being dropped, or a path is being "
        "forgotten; send the call again when that is done (stet status shows it).",
    )


def _set(caller: Caller, info: PinInfo, cut: Cut | None, *, move: bool) -> bool:
    """Set a pin. False: the history is another one than was looked at."""
    workspace = caller.open_workspace()
    if not _is_settled(caller, workspace, info.commit, cut):
        return False
    known = named(workspace.shadow, info.name)
    if known == info.commit:
        return True
    if known is not None and not move:
        raise refuse(
            Kind.ALREADY_EXISTS,
            f"pin {info.name} names {known or 'no commit'} already. Send move: true to let it name "
            "another commit, or choose another name.",
        )
    assert info.commit is not None, "BUG: a pin to be set on no commit"
    try:
        _check_writable(caller)
        set_pin(workspace.shadow, info.name, info.commit, caller.state.disk)
    except OSError as error:
        raise _failed(caller, error) from error
    return True


def _is_settled(caller: Caller, workspace: Workspace, commit: str | None, cut: Cut | None) -> bool:
    """Whether a commit that was found in the history will stay in it under its id.

    One that is about to be dropped, or to be called otherwise, is still found a moment before.
    """
    known = caller.state.known[workspace.name]
    if known.cut != cut or (cut is not None and read_shallow(workspace.shadow) != {cut.oldest}):
        return False
    return known.forgetting is None or commit not in read_pending(workspace.shadow)


async def _pin_delete(caller: Caller, params: Params) -> PinInfo:
    name = convert(PinName, "pin_delete", params).name
    return await caller.on_writer(lambda: _delete(caller, name))


def _delete(caller: Caller, name: str) -> PinInfo:
    workspace = caller.open_workspace()
    known = None if why_no_pin_name(name) else named(workspace.shadow, name)
    if known is None:
        names = ", ".join(pin_names(workspace.shadow)[:20])
        raise refuse(
            Kind.UNKNOWN_COMMIT,
            f"no pin is called {name[:100]!r}." + (f" There are: {names}." if names else ""),
        )
    try:
        _check_writable(caller)
        delete_pin(workspace.shadow, name, caller.state.disk)
    except OSError as error:
        raise _failed(caller, error) from error
    return PinInfo(name, known or None)


async def _pin_list(caller: Caller, params: Params) -> PinList:
    convert(NoParams, "pin_list", params)

    return await caller.ask("pins", None, PinList)


def _check_writable(caller: Caller) -> None:
    reason = caller.shared.writer.read_only
    if reason is not None:
        raise read_only(reason)


def _failed(caller: Caller, error: OSError) -> Refused:
    if isinstance(error, SyncFailed):
        caller.shared.writer.become_read_only(f"a sync failed: {error.strerror}")
    return io_failure(error)


METHODS = {
    "pin_set": Method(_pin_set, control=True),
    "pin_delete": Method(_pin_delete, control=True),
    "pin_list": Method(_pin_list),
}
