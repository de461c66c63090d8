"""Methods that write files: the edit dialects, ``transaction``, and taking edits back."""

from __future__ import annotations

import os

import msgspec

from stet.wire.failures import Kind, refuse
from stet.wire.results import EditResult
from stetd.call_planning import EDIT_METHODS
from stetd.caller import Caller, Method, Params
from stetd.params import Undo, convert, not_permitted, split_common


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
    if not caller.control and undo.session not in (None, caller.session):
        raise not_permitted(
            "an agent may take back its own edits only, those of its own session. "
            f"A person can undo others: stet undo --session {undo.session}"
        )
    own = msgspec.to_builtins(undo)
    if undo.paths:
        own["paths"] = [_below(caller.directory, path) for path in undo.paths]
    return await caller.submit("undo", own, common)


def _below(directory: str, path: str) -> str:
    return path if path.startswith("/") else os.path.normpath(os.path.join(directory, path))


def _edit(method: str) -> Method:
    async def run(caller: Caller, params: Params) -> EditResult:
        common, own = split_common(params)
        return await caller.submit(method, own, common)

    return Method(run)


METHODS = {method: _edit(method) for method in sorted(EDIT_METHODS)} | {"undo": Method(_undo)}
