"""The methods of CONTRACT.md 3: one module a subject, one row a method.

A method is a function of the caller and the request's parameters. Its row says who may call
it; the rights are checked before the function runs, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping

from stetd.methods import (
    clipboards,
    editing,
    events,
    exporting,
    greeting,
    history,
    modes,
    observing,
    pins,
    running,
    sessions,
    upgrades,
    upkeep,
    verifying,
    workspaces,
)
from stetd.methods.caller import Method

#: Every method there is, by its name.
METHODS: Mapping[str, Method] = {
    **greeting.METHODS,
    **editing.METHODS,
    **observing.METHODS,
    **history.METHODS,
    **exporting.METHODS,
    **clipboards.METHODS,
    **modes.METHODS,
    **upgrades.METHODS,
    **sessions.METHODS,
    **pins.METHODS,
    **workspaces.METHODS,
    **running.METHODS,
    **events.METHODS,
    **verifying.METHODS,
    **upkeep.METHODS,
}
