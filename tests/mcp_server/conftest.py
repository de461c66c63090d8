"""Fixtures: one daemon a module, a workspace a test, MCP servers that end with the test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.conftest import shared_daemon, site
from mcp_server.raw_client import RawClient, Starting

__all__ = ["shared_daemon", "site", "starting"]


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
