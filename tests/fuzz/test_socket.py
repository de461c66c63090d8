"""A bounded part of the fuzzing of the socket, in every run of the tests."""

from __future__ import annotations

import os

import pytest

from fuzz.socket_fuzz import fuzz
from rigs import findings

SECONDS = 120 if os.environ.get("STET_TEST_ALL") else 20
SEED = 20_261_122


@pytest.mark.timeout(600)
def test_spoilt_requests_are_answered_or_closed_and_harm_nothing() -> None:
    tally = findings.begin("socket fuzz")
    found = fuzz(SECONDS, SEED)
    tally.points = found.rounds
    tally.notes.append(found.line())
    assert found.problems == []
    assert found.rounds > 20
    # It is no test if nothing gets past the first look at a message.
    assert found.kinds["ok"] > 20
    assert len(found.kinds) > 8
