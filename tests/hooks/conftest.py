"""The fixtures of the end-to-end tests: a daemon a module, a fresh workspace a test."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from e2e.conftest import own_daemon, own_site, shared_daemon, site
from e2e.running_daemon import DaemonProcess

__all__ = ["own_daemon", "own_site", "pipe", "shared_daemon", "site", "unstarted"]


@pytest.fixture
def unstarted() -> Iterator[DaemonProcess]:
    """The directories of a daemon that nobody has started."""
    daemon = DaemonProcess()
    yield daemon
    daemon.close()


class Pipe(NamedTuple):
    """Two descriptors."""

    reading: int
    writing: int


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    """A pipe of which nobody ever closes an end, writes or reads unless the test does."""
    opened = Pipe(*os.pipe())
    yield opened
    for end in opened:
        os.close(end)
