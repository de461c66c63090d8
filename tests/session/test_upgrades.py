"""Requests for write access as values."""

from __future__ import annotations

import pytest

from stetd.session.upgrades import (
    APPROVED,
    DENIED,
    MOST_DECIDED,
    PENDING,
    UpgradeRequest,
    decide,
    latest_of,
    matching,
    pending_in,
    without_old,
)


def request(name: str, *, session: str = "s", workspace: str = "w") -> UpgradeRequest:
    return UpgradeRequest(id=name, workspace=workspace, session=session, time=1)


def by_id(*requests: UpgradeRequest) -> dict[str, UpgradeRequest]:
    return {each.id: each for each in requests}


def test_a_decision_says_when_why_and_until_when() -> None:
    approved = decide(request("a"), True, time=9, note="go", until=99.5)
    assert (APPROVED, 9, "go", 99.5) == (
        approved.status, approved.decided, approved.note, approved.until
    )  # fmt: skip
    assert decide(request("a"), False, time=9, note="").status == DENIED


def test_a_request_is_decided_once() -> None:
    with pytest.raises(AssertionError):
        decide(decide(request("a"), True, time=1, note=""), False, time=2, note="")


def test_pending_ones_are_those_of_the_workspace_that_nobody_has_decided() -> None:
    denied = decide(request("b"), False, time=2, note="")
    found = [request("a"), denied, request("c", workspace="other"), request("d", session="t")]
    assert [each.id for each in pending_in(found, "w")] == ["a", "d"]


def test_the_latest_of_a_session_is_the_one_that_it_asked_last() -> None:
    found = [request("a"), request("b"), request("c", session="t"), request("d", workspace="v")]
    assert latest_of(found, "w", "s") == request("b")
    assert latest_of(found, "w", "nobody") is None


def test_all_pending_and_the_last_decided_ones_are_kept_in_their_order() -> None:
    decided = [
        decide(request(f"d{n:03}"), bool(n % 2), time=n, note="") for n in range(MOST_DECIDED + 5)
    ]
    waiting = request("waiting")
    remaining = without_old(by_id(waiting, *decided))
    assert list(remaining) == ["waiting", *(each.id for each in decided[5:])]
    assert remaining["waiting"].status == PENDING


def test_those_decided_longest_ago_go_first_whenever_they_were_asked() -> None:
    early = decide(request("early"), True, time=10_000, note="")
    others = [decide(request(f"d{n:03}"), True, time=n, note="") for n in range(MOST_DECIDED)]
    remaining = without_old(by_id(early, *others))
    assert "early" in remaining
    assert "d000" not in remaining


@pytest.mark.parametrize(
    ("expected", "prefix"),
    [
        (["abcd11"], "abcd11"),
        (["abcd11"], "abcd1"),
        (["abcd11", "abcd22"], "abcd"),
        ([], "abc"),
        ([], ""),
        ([], "ffff"),
        # A whole id is meant, also where it is the beginning of another.
        (["abcd"], "abcd"),
    ],
)
def test_an_id_or_a_beginning_of_four_digits_tells_which_is_meant(
    expected: list[str], prefix: str
) -> None:
    requests = by_id(request("abcd11"), request("abcd22"))
    if expected == ["abcd"]:
        requests |= by_id(request("abcd"))
    assert expected == [each.id for each in matching(requests, prefix)]
