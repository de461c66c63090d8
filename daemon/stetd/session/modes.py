"""Who may write: the two modes, grants that end by themselves, and what holds at an instant.

A session and a workspace each have a *standing*: a mode, and perhaps a grant, which makes it
unrestricted until it ends; then the mode holds again. So the end of a grant needs no record.

Two clocks say when. The wall clock may be set; the running clock (CLOCK_BOOTTIME) may not, and
is zero at each boot. In the boot in which it was given a grant holds while both are before its
end; in another one while the wall clock is, and not before the time when it was given. So no
setting of clocks prolongs a grant within one boot.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

RESTRICTED = "restricted"
UNRESTRICTED = "unrestricted"
MODES = (RESTRICTED, UNRESTRICTED)


class Instant(NamedTuple):
    """A moment, in seconds: since the epoch, since the boot; and which boot that is."""

    wall: float
    running: float
    boot: str


class Grant(msgspec.Struct, frozen=True, array_like=True):
    """Unrestricted until ``until`` (wall clock). Part of the journal's format.

    ``given``: when, by the wall clock; ``runs_out``: its end by the running clock of ``boot``.
    """

    until: float
    given: float
    boot: str
    runs_out: float


class Standing(NamedTuple):
    """A mode, and the grant on top of it if there is one."""

    mode: str
    grant: Grant | None = None


class NothingToEnd(Exception):
    """A grant on what is unrestricted anyway: nothing would end when it ends."""


def remaining(grant: Grant, now: Instant) -> float:
    """Seconds for which a grant still holds; 0 or less: it has ended."""
    left = grant.until - now.wall
    if grant.boot == now.boot:
        return min(left, grant.runs_out - now.running)
    return left if now.wall >= grant.given else 0.0


def mode_at(standing: Standing, now: Instant) -> str:
    """The mode that a standing comes to."""
    if standing.grant is not None and remaining(standing.grant, now) > 0:
        return UNRESTRICTED
    return standing.mode


def until(standing: Standing, now: Instant) -> float | None:
    """When the grant ends, by the wall clock; None: no grant makes a difference."""
    grant = standing.grant
    if grant is None or standing.mode == UNRESTRICTED:
        return None
    left = remaining(grant, now)
    return now.wall + left if left > 0 else None


def granted(standing: Standing, seconds: float, now: Instant) -> Standing:
    """Unrestricted for so long, then what it was; a grant that holds already is replaced.

    Raises NothingToEnd where it is unrestricted without an end.
    """
    if standing.mode == UNRESTRICTED:
        raise NothingToEnd
    return Standing(
        standing.mode, Grant(now.wall + seconds, now.wall, now.boot, now.running + seconds)
    )


def stricter(*modes: str | None) -> str:
    """The mode that holds when several apply: restricted wins."""
    return RESTRICTED if RESTRICTED in modes else UNRESTRICTED
