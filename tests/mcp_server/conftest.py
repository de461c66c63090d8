"""Fixtures: one daemon a module, a workspace a test, MCP servers that end with the test."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from e2e.running_daemon import DaemonProcess, Site
from mcp_server.raw_client import RawClient, Starting

_numbers = count(1)


@pytest.fixture(scope="module")
def shared_daemon() -> Iterator[DaemonProcess]:
    """A daemon for the tests of a module that neither end nor configure it."""
    daemon = DaemonProcess()
    try:
        daemon.start()
        yield daemon
        assert daemon.stop() == 0, daemon.log()
    finally:
        daemon.close()


@pytest.fixture
def site(shared_daemon: DaemonProcess) -> Site:
    """A workspace of its own, with a person and an agent beside the MCP server."""
    return shared_daemon.site(f"w{next(_numbers)}")


@pytest.fixture
def starting() -> Iterator[Starting]:
    """Starts MCP servers; ends those that are left."""
    started: list[RawClient] = []

    def start(*arguments: str, **environment: str) -> RawClient:
        client = RawClient(list(arguments), environment)
        started.append(client)
        return client

    try:
        yield start
    finally:
        for client in started:
            client.kill()
