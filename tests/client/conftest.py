"""Fixtures of the client's tests: one daemon a module, a fresh workspace a test."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from client.live import Installation, installation

_numbers = count(1)


@pytest.fixture(scope="module")
def shared() -> Iterator[Installation]:
    """One daemon for the tests of a module that do not stop it."""
    with installation() as found:
        yield found


@pytest.fixture
def ws(shared: Installation) -> Installation:
    """A workspace of the test's own, allowed, on the shared daemon."""
    return shared.another(f"ws-{next(_numbers)}")
