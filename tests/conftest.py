"""What all tests share: the rigs' findings at the end of the run, and that CI skips nothing."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator
from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import settings

from rigs import findings

# A deadline for one example is a bet on how busy the machine is. What hangs ends with the test.
settings.register_profile("stet", deadline=None)
settings.load_profile("stet")

# See scripts/environment.sh; for those who run pytest by hand.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Who runs the tests in the background may have SIGINT ignored, which every process that they start
# would inherit; `stet watch` is ended by it.
signal.signal(signal.SIGINT, signal.default_int_handler)

#: Under this name a worker process of pytest-xdist hands its tallies to the one that reports.
_OUTPUT = "findings"


#: Directories of tests of which many take minutes.
_LONGEST = ("rigs", "recovery", "service", "mcp_server", "packaging", "scripts", "e2e")

#: What a reason to skip has to name in CI: the variable that asks for the long forms.
_LONG = "STET_TEST_ALL"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest, or one process would be left alone with them."""
    items.sort(key=lambda item: item.path.parent.name not in _LONGEST)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """In CI, which installs what tests need, what can't be tried has failed."""
    report = yield
    if os.environ.get("CI") and report.skipped and isinstance(report.longrepr, tuple):
        *_, reason = report.longrepr
        if _LONG not in reason:
            report.outcome = "failed"
            report.longrepr = f"skipped, which nothing is in CI: {reason}"
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    """In a worker, hand over what its rigs found."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output[_OUTPUT] = [asdict(tally) for tally in findings.ALL]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Where the workers report, take over what the rigs of one found."""
    for tally in getattr(node, "workeroutput", {}).get(_OUTPUT, []):
        findings.ALL.append(findings.Findings(**tally))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show what each rig tried and found."""
    if findings.ALL:
        terminalreporter.section("rigs")
        for tally in findings.ALL:
            terminalreporter.line(tally.line())
