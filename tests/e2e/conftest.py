"""Fixtures of the end-to-end tests: one daemon a module, a fresh workspace a test."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from e2e.running_daemon import DaemonProcess, Site, faultless, running

_numbers = count(1)


@pytest.fixture(scope="module")
def shared_daemon() -> Iterator[DaemonProcess]:
    """A daemon for the tests of a module that neither end nor configure it."""
    with faultless() as daemon:
        yield daemon


@pytest.fixture
def site(shared_daemon: DaemonProcess) -> Site:
    """A workspace of its own on the shared daemon, with a session."""
    return shared_daemon.site(f"w{next(_numbers)}")


@pytest.fixture
def own_daemon() -> Iterator[DaemonProcess]:
    """A daemon for one test, which may end it."""
    with running() as daemon:
        yield daemon


@pytest.fixture
def own_site(own_daemon: DaemonProcess) -> Site:
    """A workspace on a daemon of its own."""
    return own_daemon.site("w")
