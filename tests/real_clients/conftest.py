"""The clients that are tried, and the table of what came of it.

Usually those that most people have, where they are installed (``.ci/run`` does that); all of them
with STET_TEST_CLIENTS=all, which ``scripts/test --clients`` sets after it has installed them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from real_clients.clients import CLIENTS, RealClient, installed
from real_clients.world import World, world_of

USUAL = ("claude-code", "codex", "gemini")

_OF_ONE = {
    "TestClaudeCode": "claude-code",
    "TestCodex": "codex",
    "TestGemini": "gemini",
    "TestOpencode": "opencode",
}

_outcomes: dict[tuple[str, str], str] = {}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every check with every client."""
    if "client" in metafunc.fixturenames:
        every = os.environ.get("STET_TEST_CLIENTS") == "all"
        names = [name for name in CLIENTS if every or name in USUAL]
        metafunc.parametrize("client", names, indirect=True, scope="module")


@pytest.fixture(scope="module")
def client(request: pytest.FixtureRequest) -> RealClient:
    """One of the clients."""
    found = CLIENTS[request.param]
    if installed(found) is None:
        pytest.skip(f"{found.package} is not installed: scripts/test --clients installs it")
    return found


@pytest.fixture
def world(client: RealClient) -> Iterator[World]:
    """A machine with this client, and stet connected to it."""
    with world_of(client) as made:
        made.connect()
        yield made


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keep what came of a check with a client."""
    if "real_clients" in report.nodeid and (report.when == "call" or not report.passed):
        *_, group, test = report.nodeid.split("::")
        name, _, parameter = test.removesuffix("]").partition("[")
        # TestCodex has what only Codex is asked; the other checks have the client as parameter.
        client = _OF_ONE.get(group, parameter)
        outcome = "ok" if report.passed else report.outcome
        key = name.removeprefix("test_"), client
        if _outcomes.get(key, "ok") == "ok":
            _outcomes[key] = outcome


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the table."""
    clients = list(dict.fromkeys(client for _, client in _outcomes))
    checks = list(dict.fromkeys(check for check, _ in _outcomes))
    if not clients:
        return
    terminalreporter.section("real clients")
    width = max(map(len, checks))
    terminalreporter.line(" " * width + "".join(f"  {client:>12}" for client in clients))
    for check in checks:
        cells = "".join(f"  {_outcomes.get((check, client), '-'):>12}" for client in clients)
        terminalreporter.line(f"{check.replace('_', ' '):{width}}{cells}")
