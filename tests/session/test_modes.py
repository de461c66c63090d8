"""Modes and grants as values: what holds at an instant, whatever is done to the clocks."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from stetd.session.modes import (
    RESTRICTED,
    UNRESTRICTED,
    Grant,
    Instant,
    Standing,
    grant_end,
    mode_at,
    remaining,
    with_grant,
)
from stetd.session.sessions import Session, with_standing
from stetd.state.state import State
from stetd.storage.disk import Disk

GIVEN = Instant(wall=1000.0, running=50.0, boot="first")
HOUR = with_grant(Standing(RESTRICTED), 3600, GIVEN)


def test_a_grant_says_when_it_was_given_and_when_it_ends_by_both_clocks() -> None:
    assert HOUR == Standing(RESTRICTED, Grant(4600.0, 1000.0, "first", 3650.0))


@pytest.mark.parametrize(
    ("expected", "wall", "running", "boot"),
    [
        (UNRESTRICTED, 1000.0, 50.0, "first"),
        (UNRESTRICTED, 4599.9, 3649.9, "first"),
        (RESTRICTED, 4600.0, 3650.0, "first"),
        # The clock was set: forward, it has ended; back, the other clock still says when.
        (RESTRICTED, 9000.0, 60.0, "first"),
        (UNRESTRICTED, 10.0, 60.0, "first"),
        (RESTRICTED, 10.0, 3650.0, "first"),
        # Another boot: the running clock has begun anew.
        (UNRESTRICTED, 2000.0, 3.0, "second"),
        (UNRESTRICTED, 2000.0, 99999.0, "second"),
        (RESTRICTED, 4600.0, 3.0, "second"),
        (UNRESTRICTED, 1000.0, 3.0, "second"),
        (RESTRICTED, 999.9, 3.0, "second"),
    ],
)
def test_a_grant_holds_while_both_clocks_say_so(
    expected: str, wall: float, running: float, boot: str
) -> None:
    assert expected == mode_at(Instant(wall, running, boot), HOUR)


def test_the_end_that_is_told_is_the_one_that_comes_first() -> None:
    assert grant_end(GIVEN, HOUR) == 4600.0
    assert grant_end(Instant(900.0, 3640.0, "first"), HOUR) == 910.0
    assert grant_end(Instant(4600.0, 3650.0, "first"), HOUR) is None
    assert grant_end(GIVEN, Standing(RESTRICTED)) is None
    assert grant_end(GIVEN, Standing(UNRESTRICTED)) is None


def test_a_new_grant_takes_the_place_of_the_one_before() -> None:
    later = Instant(1010.0, 60.0, "first")
    shorter = with_grant(HOUR, 5, later)
    assert shorter.grant is not None
    assert (remaining(shorter.grant, later), shorter.mode) == (5.0, RESTRICTED)


@pytest.mark.parametrize(
    ("expected", "modes"),
    [
        (RESTRICTED, (RESTRICTED, UNRESTRICTED)),
        (RESTRICTED, (UNRESTRICTED, RESTRICTED)),
        (RESTRICTED, (RESTRICTED,)),
        (UNRESTRICTED, (UNRESTRICTED, UNRESTRICTED)),
        (UNRESTRICTED, (UNRESTRICTED,)),
    ],
)
def test_the_stricter_holds(expected: str, modes: tuple[str, ...]) -> None:
    assert expected == mode_at(GIVEN, *map(Standing, modes))


def test_of_two_grants_the_one_that_ends_first_is_told_and_none_beside_a_restriction() -> None:
    shorter = with_grant(Standing(RESTRICTED), 60, GIVEN)
    assert grant_end(GIVEN, HOUR, shorter) == grant_end(GIVEN, shorter, HOUR) == 1060.0
    assert grant_end(GIVEN, HOUR, Standing(UNRESTRICTED)) == 4600.0
    assert grant_end(GIVEN, HOUR, Standing(RESTRICTED)) is None


@pytest.mark.parametrize(("expected", "seconds"), [(UNRESTRICTED, 60.0), (RESTRICTED, -0.001)])
def test_whoever_asks_for_a_mode_looks_at_the_clocks(expected: str, seconds: float) -> None:
    """Nobody has noticed the end, or done anything about it."""
    state = State("/nowhere", Disk(), boot="this")
    standing = with_grant(Standing(RESTRICTED), seconds, state.now())
    session = with_standing(
        Session(workspace="w", name="s", mode=RESTRICTED, created=0, last_seen=0), standing
    )
    assert expected == mode_at(state.now(), session.standing)


class Clocks(RuleBasedStateMachine):
    """A standing under everything that persons, time and clocks do to it.

    The model does not look at the clocks but at what truly passed: how long since the grant was
    given, how long in this boot, and whether anybody has set the clock.
    """

    def __init__(self) -> None:
        super().__init__()
        self.wall, self.running, self.boot = 1_000_000, 100, 0
        self.standing = Standing(UNRESTRICTED)
        self.base = UNRESTRICTED
        self.seconds: int | None = None
        self.passed = self.passed_in_boot = 0
        self.same_boot = self.clock_never_set = self.clock_not_set_in_boot = True

    @property
    def now(self) -> Instant:
        return Instant(float(self.wall), float(self.running), str(self.boot))

    @rule(seconds=st.integers(0, 40))
    def time_passes(self, seconds: int) -> None:
        self.wall += seconds
        self.running += seconds
        self.passed += seconds
        self.passed_in_boot += seconds
        self.note_the_end()

    @rule(by=st.integers(-200, 200))
    def somebody_sets_the_clock(self, by: int) -> None:
        self.wall += by
        self.clock_never_set = self.clock_not_set_in_boot = False

    @rule(off=st.integers(0, 40), by=st.sampled_from([0, 0, 0, -50, 50]))
    def the_machine_boots(self, off: int, by: int) -> None:
        """``by``: what the clock was set meanwhile."""
        self.wall += off + by
        self.passed += off
        self.clock_never_set = self.clock_never_set and not by
        self.running, self.boot = 0, self.boot + 1
        self.passed_in_boot, self.same_boot, self.clock_not_set_in_boot = 0, False, True
        self.note_the_end()

    @rule()
    def restrict(self) -> None:
        self.standing, self.base, self.seconds = Standing(RESTRICTED), RESTRICTED, None

    @rule()
    def lift(self) -> None:
        self.standing, self.base, self.seconds = Standing(UNRESTRICTED), UNRESTRICTED, None

    @precondition(lambda self: self.base == RESTRICTED)
    @rule(seconds=st.integers(1, 100))
    def grant(self, seconds: int) -> None:
        self.standing = with_grant(self.standing, seconds, self.now)
        self.seconds = seconds
        self.passed = self.passed_in_boot = 0
        self.same_boot = self.clock_never_set = self.clock_not_set_in_boot = True

    def note_the_end(self) -> None:
        """What the daemon does (Modes.end): a clock that is set back brings no grant back."""
        if mode_at(self.now, self.standing) == RESTRICTED:
            self.standing = Standing(RESTRICTED)

    @invariant()
    def without_a_grant_the_mode_holds(self) -> None:
        if self.seconds is None:
            assert mode_at(self.now, self.standing) == self.base

    @invariant()
    def nothing_prolongs_a_grant_within_a_boot(self) -> None:
        if self.seconds is not None and self.same_boot and self.passed >= self.seconds:
            assert mode_at(self.now, self.standing) == RESTRICTED

    @invariant()
    def after_a_boot_it_lasts_no_longer_than_it_was_given_for(self) -> None:
        over = self.seconds is not None and self.passed_in_boot >= self.seconds
        if over and self.clock_not_set_in_boot:
            assert mode_at(self.now, self.standing) == RESTRICTED

    @invariant()
    def with_an_honest_clock_it_lasts_as_long_as_it_was_given_for(self) -> None:
        if self.seconds is not None and self.clock_never_set:
            expected = UNRESTRICTED if self.passed < self.seconds else RESTRICTED
            assert mode_at(self.now, self.standing) == expected

    @invariant()
    def the_end_is_told_exactly_while_a_grant_makes_the_difference(self) -> None:
        end = grant_end(self.now, self.standing)
        by_grant = self.base == RESTRICTED and mode_at(self.now, self.standing) == UNRESTRICTED
        assert (end is not None) == by_grant
        assert end is None or end > self.wall


TestClocks = Clocks.TestCase
TestClocks.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)
