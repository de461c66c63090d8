"""The daemon itself: how it is, and ending it."""

from __future__ import annotations

import os
import time

import msgspec

from stet.wire.messages import MAX_DEPTH, MAX_VALUES
from stet.wire.results import ReloadResult, StatusResult, WorkInfo
from stetd import __version__
from stetd.editing.tokens import MAX_TOKENS
from stetd.editing.tools.inputs import MAX_ELEMENTS
from stetd.methods.caller import PROTOCOL, Caller, Method, Params
from stetd.planning.calls import MAX_CALLS
from stetd.transaction.parameters import NoParams, convert

#: Limits that are no options.
_FIXED_LIMITS = {
    "max_tokens": MAX_TOKENS,
    "max_edits": MAX_ELEMENTS,
    "max_transaction_calls": MAX_CALLS,
    "max_values": MAX_VALUES,
    "max_depth": MAX_DEPTH,
}


async def _status(caller: Caller, params: Params) -> StatusResult:
    convert(NoParams, "status", params)
    if not caller.control and not caller.greeted:
        return StatusResult(version=__version__, protocol=PROTOCOL)
    partial = await caller.on_writer(lambda: _counts(caller))
    if caller.control:  # it may be about another workspace
        reloading = caller.shared.reloading
        partial = msgspec.structs.replace(
            partial,
            config_error=reloading.error if reloading else None,
            last_error=caller.shared.last_error(),
        )
    shadows = await caller.on_writer(
        lambda: [workspace.shadow for workspace in caller.state.open.values()]
    )
    sizes = await caller.shared.historian.ask("sizes", shadows, int)
    return msgspec.structs.replace(partial, shadow_bytes=sizes)


def _counts(caller: Caller) -> StatusResult:
    state, settings = caller.state, caller.shared.settings
    writer = caller.shared.writer
    limited = (
        "max_frame",
        "max_connections",
        "max_pipelined",
        "max_held_bytes",
        "max_file_bytes",
        "max_call_files",
        "max_call_bytes",
        "max_clipboard_bytes",
        "frame_timeout_s",
    )
    return StatusResult(
        version=__version__,
        protocol=PROTOCOL,
        pid=os.getpid(),
        uptime_s=round(time.monotonic() - caller.shared.started, 3),
        durability=settings.durability,
        read_only=writer.read_only,
        trouble=caller.shared.historian.trouble,
        workspaces=len(state.open),
        sessions=len(state.sessions),
        commits=sum(workspace.head.commits for workspace in state.open.values()),
        journal_bytes=writer.journal.bytes,
        limits={name: int(getattr(settings, name)) for name in limited} | _FIXED_LIMITS,
        unavailable={w.root: state.troubles.get(w.name, "") for w in state.unopened()} or None,
        replacement={w.root: w.worktree.replacement for w in state.open.values()},
        work=[
            WorkInfo(job.what, job.root, job.progress.phase, job.progress.done, job.progress.total)
            for job in caller.shared.upkeep.work
        ]
        or None,
    )


async def _reload(caller: Caller, params: Params) -> ReloadResult:
    convert(NoParams, "reload", params)
    reloading = caller.shared.reloading
    assert reloading is not None, "BUG: a daemon that serves without a configuration"
    return await reloading.reload()


async def _shutdown(caller: Caller, params: Params) -> dict[str, bool]:
    convert(NoParams, "shutdown", params)
    caller.shared.on_shutdown()
    return {"stopping": True}


METHODS = {
    "reload": Method(_reload, before_hello=True, control=True),
    "status": Method(_status, before_hello=True),
    "shutdown": Method(_shutdown, before_hello=True, control=True),
}
