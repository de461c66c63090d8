"""Answered request ids: none is missed, and hardly any other id is taken for one of them."""

from __future__ import annotations

import pytest

from stetd.processes.remembered import Key, Remembered, fingerprints
from stetd.storage.request_record import RequestRecord

MANY = 50_000


def key(number: int, session: str = "s") -> Key:
    return "workspace", session, f"request-{number}"


def record(key: Key) -> RequestRecord:
    return RequestRecord(*key, digest=b"", reply=b"", time=0, seq=0)


@pytest.fixture(scope="module")
def full() -> Remembered:
    remembered = Remembered()
    remembered.begin(fingerprints(key(number) for number in range(MANY)))
    return remembered


def test_what_the_historian_has_is_found_however_much_it_is(full: Remembered) -> None:
    assert all(full.may_be_old(key(number)) for number in range(MANY))


def test_hardly_another_id_is_taken_for_one_of_them_however_many_there_are(
    full: Remembered,
) -> None:
    """Each would make an edit wait for the historian."""
    assert not any(full.may_be_old(key(number, "other")) for number in range(MANY))


def test_what_is_answered_before_and_after_the_historian_has_sent_its_ids_is_found() -> None:
    remembered = Remembered()
    assert remembered.may_be_old(key(1))  # nobody knows yet
    remembered.add(record(key(1)))
    remembered.begin(fingerprints([key(2)]))
    remembered.add(record(key(3)))
    remembered.begin(b"")  # of a second historian

    assert [remembered.may_be_old(key(number)) for number in range(5)] == [
        False, True, True, True, False,
    ]  # fmt: skip
