"""``subscribe``: being told what happens."""

from __future__ import annotations

import asyncio

from stet.wire.events import EVENTS, Subscribed
from stet.wire.failures import Kind, refuse
from stetd.methods.caller import Caller, Method, Params
from stetd.server.subscribers import Subscriber
from stetd.transaction.parameters import Subscribe, convert


async def _subscribe(caller: Caller, params: Params) -> Subscribed:
    """Begin, or change what is wanted: a connection has one subscription."""
    wanted = convert(Subscribe, "subscribe", params).events
    events = list(EVENTS if wanted is None else dict.fromkeys(wanted))
    unknown = [name for name in events if name not in EVENTS]
    if unknown:
        raise refuse(
            Kind.INVALID_PARAMS,
            f"subscribe: there is no event {unknown[0]!r}; events are: {', '.join(EVENTS)}. "
            "Leave events out for all of them; an empty list ends the subscription.",
        )
    if caller.notify is None:
        raise refuse(Kind.INVALID_PARAMS, "subscribe: this connection can't be sent events.")
    if not caller.greeted:
        caller.check_greeted("subscribe")
    subscriber = Subscriber(
        caller.notify,
        events,
        workspace=caller.workspace,
        session=None if caller.control else caller.session,
    )
    answer = await caller.on_writer(lambda: _enrol(caller, subscriber))
    if caller.gone:
        caller.unsubscribe()
    # After this turn of the loop, in which the answer is sent.
    asyncio.get_running_loop().call_soon(subscriber.begin)
    return answer


def _enrol(caller: Caller, subscriber: Subscriber) -> Subscribed:
    """In one step: between the heads and the first event nothing can happen."""
    own = caller.open_workspace() if caller.workspace is not None else None
    caller.unsubscribe()
    if subscriber.events:
        caller.subscription = subscriber
        caller.shared.feed.add(subscriber)
    told = [own] if own is not None else list(caller.state.open.values())
    return Subscribed(
        events=list(subscriber.events),
        head=own.head.commit if own is not None else None,
        heads={workspace.root: workspace.head.commit for workspace in told},
    )


METHODS = {"subscribe": Method(_subscribe, before_hello=True)}
