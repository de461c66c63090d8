"""Methods about the daemon itself: ``status``, ``subscribe``, ``reload``, ``shutdown``."""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import suppress

import msgspec

from stet.wire.events import EVENTS, Subscribed
from stet.wire.failures import Refused
from stet.wire.messages import MAX_DEPTH, MAX_VALUES
from stet.wire.results import ReloadResult, StatusResult, WorkInfo
from stetd import __version__
from stetd.config.settings import OPTIONS
from stetd.editing.tokens import MAX_TOKENS
from stetd.editing.tools.inputs import MAX_ELEMENTS
from stetd.methods.caller import PROTOCOL, Caller, wait_within
from stetd.parameters import NoParams, Subscribe, invalid
from stetd.planning.calls import MAX_CALLS
from stetd.server.subscribers import Subscriber

#: Seconds to wait for the historian to answer with the sizes; then they are left out.
_SIZES_TIMEOUT_S = 3.0
#: Limits that are options, and limits that are fixed.
_LIMITS = (*(name for name in OPTIONS if name.startswith("max_")), "frame_timeout_s")
_FIXED_LIMITS = {
    "max_tokens": MAX_TOKENS,
    "max_edits": MAX_ELEMENTS,
    "max_transaction_calls": MAX_CALLS,
    "max_values": MAX_VALUES,
    "max_depth": MAX_DEPTH,
}


async def status(caller: Caller, _: NoParams) -> StatusResult:
    """The state of the daemon; before hello, agent.sock gets version and protocol only."""
    if not caller.control and not caller.greeted:
        return StatusResult(version=__version__, protocol=PROTOCOL)
    result, shadows = await caller.on_writer(lambda: _engine_status(caller))
    with suppress(TimeoutError, Refused):
        answer = caller.shared.writer.historian.ask("sizes", shadows, int)
        sizes = await wait_within(_SIZES_TIMEOUT_S, answer)
        result = msgspec.structs.replace(result, shadow_bytes=sizes)
    return result


def _engine_status(caller: Caller) -> tuple[StatusResult, list[str]]:
    """The part of the status that the engine knows, and the paths of the shadow repositories."""
    state, shared = caller.state, caller.shared
    settings, writer, reloading = state.settings, shared.writer, shared.reloading
    result = StatusResult(
        version=__version__,
        protocol=PROTOCOL,
        pid=os.getpid(),
        uptime_s=round(time.monotonic() - shared.started, 3),
        durability=settings.durability,
        read_only=writer.state.read_only,
        trouble=writer.historian.trouble,
        workspaces=len(state.open),
        sessions=len(state.sessions),
        commits=sum(workspace.head.commits for workspace in state.open.values()),
        journal_bytes=writer.journal.bytes,
        limits={name: int(getattr(settings, name)) for name in _LIMITS} | _FIXED_LIMITS,
        unavailable={w.root: state.troubles.get(w.name, "") for w in state.unopened()} or None,
        replacement={w.root: w.worktree.replacement for w in state.open.values()},
        work=[
            WorkInfo(job.what, job.root, job.progress.phase, job.progress.done, job.progress.total)
            for job in shared.upkeep.jobs
        ]
        or None,
        # Not for agents: an error may be about another workspace.
        config_error=reloading.error if caller.control and reloading else None,
        last_error=shared.last_error() if caller.control else None,
    )
    return result, [workspace.shadow for workspace in state.open.values()]


async def subscribe(caller: Caller, wanted: Subscribe) -> Subscribed:
    """Start or replace the subscription of this connection, which has at most one."""
    events = list(EVENTS if wanted.events is None else dict.fromkeys(wanted.events))
    unknown = [name for name in events if name not in EVENTS]
    if unknown:
        raise invalid(
            f"subscribe: there is no event {unknown[0]!r}; events are: {', '.join(EVENTS)}. "
            "Leave events out for all of them; an empty list ends the subscription."
        )
    subscriber = Subscriber(
        caller.client.notify,
        events,
        workspace=caller.state.known[caller.workspace].root if caller.workspace else None,
        session=None if caller.control else caller.session,
    )
    answer = await caller.on_writer(lambda: _add_subscriber(caller, subscriber))
    if caller.gone:
        caller.unsubscribe()
    # In the next turn of the loop: the answer is sent in this one.
    asyncio.get_running_loop().call_soon(subscriber.begin)
    return answer


def _add_subscriber(caller: Caller, subscriber: Subscriber) -> Subscribed:
    """Subscribe and read the heads in one step, so that no commit falls in between."""
    own = caller.open_workspace() if caller.workspace is not None else None
    caller.unsubscribe()
    if subscriber.events:
        caller.subscription = subscriber
        caller.shared.feed.add(subscriber)
    followed = [own] if own is not None else list(caller.state.open.values())
    return Subscribed(
        events=list(subscriber.events),
        head=own.head.commit if own is not None else None,
        heads={workspace.root: workspace.head.commit for workspace in followed},
    )


async def reload(caller: Caller, _: NoParams) -> ReloadResult:
    """Read the configuration again."""
    reloading = caller.shared.reloading
    assert reloading is not None, "BUG: a daemon that serves without a configuration"
    return await reloading.reload()


async def shutdown(caller: Caller, _: NoParams) -> dict[str, bool]:
    """Stop the daemon in good order."""
    caller.shared.on_shutdown()
    return {"stopping": True}
