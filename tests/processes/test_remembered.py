"""Answered request ids: none is missed, and hardly any other id is taken for one of them."""

from __future__ import annotations

import pytest

from stetd.processes.remembered import IdFilter, Key

#: More than one Bloom filter has room for.
MANY = 50_000


def key(number: int, session: str = "s") -> Key:
    return "workspace", session, f"request-{number}"


@pytest.fixture(scope="module")
def full() -> IdFilter:
    return IdFilter.of(key(number) for number in range(MANY))


def test_what_was_added_is_found_however_much_it_is(full: IdFilter) -> None:
    assert all(key(number) in full for number in range(MANY))


def test_hardly_another_id_is_taken_for_one_of_them_however_many_there_are(full: IdFilter) -> None:
    """Each would make an edit wait for the historian: 1 of 100 calls, once."""
    taken = sum(key(number, "other") in full for number in range(MANY))
    assert taken <= 10


def test_what_the_historian_sends_is_the_same_and_grows_on(full: IdFilter) -> None:
    sent = IdFilter(bytes(full))
    sent.add(key(1, "new"))

    assert all(key(number) in sent for number in range(0, MANY, 100))
    assert key(1, "new") in sent
    assert key(2, "new") not in sent


def test_an_empty_filter_has_nothing() -> None:
    assert key(1) not in IdFilter(b"")
