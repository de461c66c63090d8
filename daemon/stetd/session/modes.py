"""Who may write: the two modes, grants with an end, and the mode in force at an instant.

A session and a workspace each have a *standing*: a mode, and perhaps a grant. A grant makes them
unrestricted until it ends; then the mode holds again. So the end of a grant needs no record.

Two clocks decide. The wall clock can be set; the running clock (CLOCK_BOOTTIME) can't, and begins
at zero at each boot. In the boot in which a grant was given, it holds while both clocks are before
its end. In another boot it holds while the wall clock is before its end, and not before the time
when it was given. So setting the clock can't prolong a grant within one boot.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

RESTRICTED = "restricted"
UNRESTRICTED = "unrestricted"
MODES = (RESTRICTED, UNRESTRICTED)


class Instant(NamedTuple):
    """A moment: seconds since the epoch, seconds since the boot, and the boot's id."""

    wall: float
    running: float
    boot: str


class Grant(msgspec.Struct, frozen=True, array_like=True):
    """Unrestricted until ``until`` (wall clock). Part of the journal's format.

    ``given``: its beginning by the wall clock; ``runs_out``: its end by ``boot``'s running clock.
    """

    until: float
    given: float
    boot: str
    runs_out: float


class Standing(NamedTuple):
    """A mode, and a grant if there is one."""

    mode: str
    grant: Grant | None = None


def remaining(grant: Grant, now: Instant) -> float:
    """Seconds until a grant ends; 0 or less: it has ended."""
    left = grant.until - now.wall
    if grant.boot == now.boot:
        return min(left, grant.runs_out - now.running)
    return left if now.wall >= grant.given else 0.0


def mode_at(now: Instant, *standings: Standing) -> str:
    """The mode in force; if several standings apply, the stricter: restricted wins."""
    for mode, grant in standings:
        if mode == RESTRICTED and (grant is None or remaining(grant, now) <= 0):
            return RESTRICTED
    return UNRESTRICTED


def grant_end(now: Instant, *standings: Standing) -> float | None:
    """When the first grant ends, by the wall clock, and :func:`mode_at` is restricted again.

    None: it is restricted now, or unrestricted without an end.
    """
    if mode_at(now, *standings) == RESTRICTED:
        return None
    grants = [grant for mode, grant in standings if mode == RESTRICTED and grant is not None]
    return min((now.wall + remaining(grant, now) for grant in grants), default=None)


def with_grant(standing: Standing, seconds: float, now: Instant) -> Standing:
    """The standing with a grant of so many seconds, which replaces an earlier one."""
    grant = Grant(now.wall + seconds, now.wall, now.boot, now.running + seconds)
    return Standing(standing.mode, grant)
