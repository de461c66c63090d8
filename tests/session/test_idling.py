"""Which sessions hold nothing, and how many of those are kept."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stetd.session.modes import RESTRICTED, UNRESTRICTED, Grant, Standing
from stetd.session.sessions import (
    LONGEST_IDLE_S,
    MOST_IDLE,
    Session,
    expired,
    is_idle,
    with_standing,
)

NOW = 2_000_000_000
GRANT = Grant(NOW + 60.0, float(NOW), "boot", 60.0)


def session(name: str = "s", **more: Any) -> Session:
    plain = Session(
        workspace="w",
        name=name,
        mode=UNRESTRICTED,
        created=NOW,
        last_seen=NOW,
        agent="a",
        chosen=False,
    )
    return msgspec.structs.replace(plain, **more)


@pytest.mark.parametrize(
    ("expected", "begins_in", "more"),
    [
        (True, UNRESTRICTED, {}),
        (True, UNRESTRICTED, {"commits": 3}),
        (True, UNRESTRICTED, {"secret": b"s"}),
        (False, UNRESTRICTED, {"secret": b"s", "commits": 1}),
        (False, UNRESTRICTED, {"clipboards": {"c": ""}}),
        (False, UNRESTRICTED, {"grant": GRANT}),
        (False, UNRESTRICTED, {"chosen": True}),
        (False, UNRESTRICTED, {"mode": RESTRICTED}),
        (False, RESTRICTED, {}),
        (True, RESTRICTED, {"mode": RESTRICTED}),
        (False, RESTRICTED, {"mode": RESTRICTED, "chosen": True}),
        (True, UNRESTRICTED, {"chosen": None}),
        (False, RESTRICTED, {"mode": RESTRICTED, "chosen": None}),
    ],
)
def test_only_what_a_new_session_would_be_as_well_is_idle(
    expected: bool, begins_in: str, more: dict[str, Any]
) -> None:
    assert is_idle(session(**more), begins_in) is expected


def test_a_mode_that_was_set_is_worth_keeping_also_if_it_is_the_usual_one() -> None:
    assert not is_idle(with_standing(session(), Standing(UNRESTRICTED)), UNRESTRICTED)


def test_those_seen_last_are_kept() -> None:
    idle = [session(f"s{n}", last_seen=NOW - n) for n in range(MOST_IDLE + 2)]
    assert {f"s{MOST_IDLE}", f"s{MOST_IDLE + 1}"} == {each.name for each in expired(idle, NOW)}
    assert expired(idle[:MOST_IDLE], NOW) == []


def test_none_is_kept_that_was_not_seen_for_a_month() -> None:
    edge = session("edge", last_seen=NOW - LONGEST_IDLE_S)
    old = session("old", last_seen=NOW - LONGEST_IDLE_S - 1)
    assert expired([old, edge], NOW) == [old]
