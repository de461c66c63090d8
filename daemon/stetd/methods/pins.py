"""Pins: names that the person gives to commits. The references are the truth about them."""

from __future__ import annotations

import asyncio
from functools import partial

from stet.wire.failures import Kind, refuse
from stet.wire.results import PinInfo
from stetd.methods.caller import Caller
from stetd.methods.workspaces import writing
from stetd.repository.references import delete_pin, named, pin_names, set_pin, why_no_pin_name
from stetd.repository.rewritten import read_pending
from stetd.repository.shallow import read_shallow
from stetd.state.workspace import Workspace
from stetd.storage.journal_format import Cut
from stetd.transaction.parameters import PinName, PinSetting, invalid

#: So often, and so many seconds apart, a commit is looked at while the history is being cut.
_ATTEMPTS, _PAUSE_S = 50, 0.2


async def pin_set(caller: Caller, setting: PinSetting) -> PinInfo:
    """Give a commit a name."""
    reason = why_no_pin_name(setting.name)
    if reason is not None:
        raise invalid(f"pin_set: {setting.name[:100]!r} can't be used: {reason}.")

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
    with writing(caller.shared.writer):
        set_pin(workspace.shadow, info.name, info.commit, caller.state.disk)
    return True


def _is_settled(caller: Caller, workspace: Workspace, commit: str | None, cut: Cut | None) -> bool:
    """Whether a commit that was found in the history will stay in it under its id.

    One that is about to be dropped, or to be called otherwise, is still found a moment before.
    """
    known = caller.state.known[workspace.name]
    if known.cut != cut or (cut is not None and read_shallow(workspace.shadow) != {cut.oldest}):
        return False
    return known.forgetting is None or commit not in read_pending(workspace.shadow)


def pin_delete(caller: Caller, wanted: PinName) -> PinInfo:
    """Take a name away."""
    workspace, name = caller.open_workspace(), wanted.name
    known = None if why_no_pin_name(name) else named(workspace.shadow, name)
    if known is None:
        names = ", ".join(pin_names(workspace.shadow)[:20])
        raise refuse(
            Kind.UNKNOWN_COMMIT,
            f"no pin is called {name[:100]!r}." + (f" There are: {names}." if names else ""),
        )
    with writing(caller.shared.writer):
        delete_pin(workspace.shadow, name, caller.state.disk)
    return PinInfo(name, known or None)
