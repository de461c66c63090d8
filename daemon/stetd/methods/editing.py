"""Methods that write files: the edit dialects, ``transaction``, and taking edits back."""

from __future__ import annotations

import msgspec

from stet.wire.failures import Kind, refuse
from stet.wire.results import EditResult
from stetd.methods.caller import Caller, Method, Params, Writes
from stetd.planning.calls import EDIT_METHODS
from stetd.transaction.parameters import (
    Redo,
    Restore,
    Rollback,
    Undo,
    convert,
    not_permitted,
    split_common,
)


async def _undo(caller: Caller, params: Params) -> EditResult:
    common, own = split_common(params)
    undo = convert(Undo, "undo", own)
    given = [name for name in ("commits", "last", "request") if own.get(name) is not None]
    if len(given) > 1:
        raise refuse(
            Kind.INVALID_PARAMS,
            f"undo: give one of commits, last, request; not {' and '.join(given)}.",
        )
    filters = [name for name in ("session", "agent", "paths") if own.get(name) is not None]
    if given == ["request"] and "session" in filters:
        filters.remove("session")  # request ids are scoped to sessions
    if filters and given not in ([], ["last"]):
        raise refuse(
            Kind.INVALID_PARAMS,
            f"undo: {', '.join(filters)} choose among the newest edits and go with last only; "
            f"{given[0]} says already what to take back. Leave one of them out.",
        )
    _check_own_session(caller, undo.session, f"stet undo --session {undo.session}")
    return await caller.submit("undo", msgspec.to_builtins(undo), common)


async def _redo(caller: Caller, params: Params) -> EditResult:
    common, own = split_common(params)
    return await caller.submit("redo", msgspec.to_builtins(convert(Redo, "redo", own)), common)


async def _rollback(caller: Caller, params: Params) -> EditResult:
    common, own = split_common(params)
    rollback = convert(Rollback, "rollback", own)
    command = f"stet rollback {rollback.to} --session {rollback.session}"
    _check_own_session(caller, rollback.session, command)
    if rollback.include_outside and not caller.control:
        raise not_permitted(
            "include_outside takes back what a person has written, and is the person's: leave it "
            "out, or ask for: stet rollback --include-outside"
        )
    return await caller.submit("rollback", msgspec.to_builtins(rollback), common)


async def _restore(caller: Caller, params: Params) -> EditResult:
    common, own = split_common(params)
    restore = convert(Restore, "restore", own)
    return await caller.submit("restore", msgspec.to_builtins(restore), common)


def _check_own_session(caller: Caller, session: str | None, command: str) -> None:
    if not caller.control and session not in (None, caller.session):
        raise not_permitted(
            "an agent may take back its own edits only, those of its own session. "
            f"A person can take back others: {command}"
        )


def _edit(method: str) -> Method:
    async def run(caller: Caller, params: Params) -> EditResult:
        common, own = split_common(params)
        return await caller.submit(method, own, common)

    return Method(run, writes=Writes.EDITS)


METHODS = {method: _edit(method) for method in sorted(EDIT_METHODS)} | {
    "undo": Method(_undo, writes=Writes.TAKES_BACK),
    "redo": Method(_redo, writes=Writes.TAKES_BACK),
    "rollback": Method(_rollback, writes=Writes.TAKES_BACK),
    "restore": Method(_restore, writes=Writes.TAKES_BACK),
}
