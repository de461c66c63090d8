"""Methods that write files: the edit dialects, ``transaction``, and taking edits back."""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from stet.wire.results import EditResult
from stetd import parameters as takes
from stetd.methods.caller import Caller, Params
from stetd.parameters import invalid, not_permitted


def edit(
    name: str,
    kind: type[takes.Params] | None = None,
    check: Callable[[Caller, Any], None] = lambda _caller, _params: None,
) -> Callable[[Caller, Params], Awaitable[EditResult]]:
    """The function of a method. ``kind``: the type of its own parameters; None: its dialect's."""

    async def run(caller: Caller, params: Params) -> EditResult:
        common, own = takes.split_common(params)
        if kind is not None:
            wanted = takes.convert(kind, name, own, common=True)
            check(caller, wanted)
            own = msgspec.to_builtins(wanted)
        return await caller.submit(name, own, common)

    return run


def check_undo(caller: Caller, undo: takes.Undo) -> None:
    """Refuse contradictory parameters, and an agent that names another session."""
    given, filters = (
        [f"`{name}`" for name in names if getattr(undo, name) is not None]
        for names in (("commits", "last", "request"), ("session", "agent", "paths"))
    )
    if len(given) > 1:
        raise invalid(f"undo: give one of `commits`, `last`, `request`; not {' and '.join(given)}.")
    if given == ["`request`"] and "`session`" in filters:
        filters.remove("`session`")  # request ids are scoped to sessions
    if filters and given not in ([], ["`last`"]):
        raise invalid(
            f"undo: {given[0]} says already what to take back. Leave out {' and '.join(filters)}: "
            "such a choice goes with `last` only."
        )
    _check_own_session(caller, undo.session, "stet undo")


def check_rollback(caller: Caller, rollback: takes.Rollback) -> None:
    """Refuse an agent that would take back edits of others."""
    command = f"stet rollback {shlex.quote(rollback.to)}"
    _check_own_session(caller, rollback.session, command)
    if rollback.include_outside and not caller.control:
        raise not_permitted(
            "include_outside takes back what a person has written, and is the person's: leave it "
            f"out, or ask for: {command} --include-outside"
        )


def _check_own_session(caller: Caller, session: str | None, command: str) -> None:
    if not caller.control and session is not None and session != caller.session:
        raise not_permitted(
            "an agent may take back its own edits only, those of its own session. "
            f"A person can take back others: {command} --session {shlex.quote(session)}"
        )
