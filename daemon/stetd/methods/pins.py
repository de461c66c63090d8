"""Pins: names that the person gives to commits. The references are the truth about them."""

from __future__ import annotations

from stet.wire.failures import Kind, Refused, refuse
from stet.wire.results import PinInfo, PinList
from stetd.caller import Caller, Method, Params
from stetd.history.commits import rfc3339
from stetd.params import NoParams, PinName, PinSetting, convert
from stetd.past import Past
from stetd.reading import Place, looking_back
from stetd.refusing import io_failure, read_only
from stetd.storage.disk import SyncFailed
from stetd.storage.references import (
    DamagedReference,
    delete_pin,
    pin_names,
    pinned,
    set_pin,
    why_no_pin_name,
)
from stetd.storage.shadow_repo import MissingObject


async def _pin_set(caller: Caller, params: Params) -> PinInfo:
    setting = convert(PinSetting, "pin_set", params)
    reason = why_no_pin_name(setting.name)
    if reason is not None:
        raise refuse(
            Kind.INVALID_PARAMS, f"pin_set: {setting.name[:100]!r} can't be used: {reason}."
        )

    def find(place: Place) -> PinInfo:
        def look(past: Past) -> PinInfo:
            oid = past.resolve(setting.commit)
            past.find([oid])  # what git holds besides the history is none of it
            return _described(past, setting.name, oid)

        return looking_back(place, look)

    info = await caller.reading(find)
    await caller.on_writer(lambda: _set(caller, info, move=setting.move))
    return info


def _set(caller: Caller, info: PinInfo, *, move: bool) -> None:
    workspace = caller.open_workspace()
    known = _named(workspace.shadow, info.name)
    if known == info.commit:
        return
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


async def _pin_delete(caller: Caller, params: Params) -> PinInfo:
    name = convert(PinName, "pin_delete", params).name
    return await caller.on_writer(lambda: _delete(caller, name))


def _delete(caller: Caller, name: str) -> PinInfo:
    workspace = caller.open_workspace()
    known = None if why_no_pin_name(name) else _named(workspace.shadow, name)
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

    def look(place: Place) -> PinList:
        return looking_back(
            place,
            lambda past: PinList(
                [
                    _described(past, name, _named(place.shadow, name) or None)
                    for name in pin_names(place.shadow)
                ]
            ),
        )

    return await caller.reading(look)


def _described(past: Past, name: str, oid: str | None) -> PinInfo:
    if oid is None:
        return PinInfo(name, None)
    try:
        meta = past.repository.commit(oid).meta
    except (MissingObject, KeyError, ValueError):  # pinned with plain git, or damaged
        return PinInfo(name, oid)
    return PinInfo(name, oid, rfc3339(meta.time), meta.message)


def _named(shadow: str, name: str) -> str | None:
    """What a pin names; "" if its reference is damaged, None if there is none."""
    try:
        return pinned(shadow, name)
    except DamagedReference:
        return ""


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
